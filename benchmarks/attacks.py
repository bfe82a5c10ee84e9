"""How fast attackers are: forward–backward and Viterbi over a long series, beside hmmlearn's on the same one."""

from __future__ import annotations

import importlib
import time

import numpy as np

from benchmarks.timing import Report, ratio, seconds
from pufferdp.assess.attack.attackers import Learned, torch_there
from pufferdp.leakage.chains.forward_backward import posterior
from pufferdp.leakage.chains.viterbi import best_path, path_log_probability
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import draw_moves

RECORDS = 10**6
CHAIN = MarkovChain(transition=[[0.9106, 0.0894], [0.1092, 0.8908]])
CHANNEL = np.array([[0.75, 0.25], [0.25, 0.75]])


def series(records: int) -> tuple[np.ndarray, np.ndarray]:
    """A long series without a loop over records: stays of geometric length, one state after the other."""
    generator = np.random.default_rng(0)
    stays = np.stack([generator.geometric(CHAIN.transition[x, 1 - x], records) for x in (0, 1)], axis=1).ravel()
    truth = np.repeat(np.arange(2 * records) % 2, stays)[:records]
    return truth, draw_moves(truth, CHANNEL, generator)


def run(report: Report) -> None:
    """All of it."""
    report.title(f"a hidden chain of two states, {RECORDS:,} records")
    truth, outputs = series(RECORDS)
    args = (outputs, CHAIN.stationary, CHAIN.transition, CHANNEL)
    report.row("forward-backward", seconds(lambda: posterior(*args)), "s", 0.2)
    report.row("Viterbi", seconds(lambda: best_path(*args)), "s", 0.2)
    _peer(report, args)
    if torch_there():
        report.title("the learned attacker, 26,923 records as in the paper, 10-fold")
        device = "GPU" if importlib.import_module("torch").cuda.is_available() else "CPU"
        began = time.perf_counter()
        part = slice(0, 26_923)
        right = Learned().cross_validate(outputs[part], truth[part], CHANNEL) == truth[part]
        report.row(f"learning on the {device}", time.perf_counter() - began, "s")
        report.row("right", float(right.mean()), "")
    else:
        print("the learned attacker is left out: torch is not installed")


def _peer(report: Report, args: tuple[np.ndarray, ...]) -> None:
    try:
        hmm = importlib.import_module("hmmlearn.hmm")
    except ModuleNotFoundError:
        print("the comparison is left out: hmmlearn is not installed")
        return
    outputs, start, transition, channel = args
    peer = hmm.CategoricalHMM(n_components=2)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = start, transition, channel
    column = outputs.reshape(-1, 1)
    ours, theirs = best_path(*args), peer.decode(column)[1]
    gap = path_log_probability(ours, *args) - path_log_probability(theirs, *args)
    report.row("log-probability of our best path over theirs, at least", gap, "", -1e-6, at_least=True)
    off = float(abs(posterior(*args) - peer.predict_proba(column)).max())
    report.row("largest difference of a posterior", off, "", 1e-9)
    for what, mine, other in (
        ("forward-backward, time over hmmlearn's", posterior, peer.predict_proba),
        ("Viterbi, time over hmmlearn's", best_path, peer.decode),
    ):
        report.row(what, ratio(lambda f=mine: f(*args), lambda f=other: f(column), 5), "", 1.0)
