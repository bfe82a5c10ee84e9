"""How fast attackers are: forward–backward and Viterbi over a long series, beside hmmlearn's on the same one."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.oracles.chains import path_log_probability

from benchmarks.literal import literal_path
from benchmarks.timing import Report, processor_ratio, ratio, seconds, sized
from pufferdp.bounds.chains.forward_backward import posterior
from pufferdp.bounds.chains.viterbi import best_path
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import draw_moves, sample_chain

RECORDS = sized(10**6, 2000)
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
    _, outputs = series(RECORDS)
    args = (outputs, CHAIN.stationary, CHAIN.transition, CHANNEL)
    report.row("forward-backward", seconds(lambda: posterior(*args)), "s", 0.5)
    report.row("Viterbi", seconds(lambda: best_path(*args)), "s", 0.2)
    _peer(report, args)
    _many_states(report)
    _learned(report)


def _learned(report: Report) -> None:
    """Held-out heart rates of the paper, flipped for somebody who knows any records; Viterbi beside it."""
    from pufferdp_papers.base import Setting
    from pufferdp_papers.flips.attacks import figure_4

    folder = os.environ.get("PUFFERDP_DATA")
    if folder is None:
        print("heart rates are left out: PUFFERDP_DATA is not set")
        return
    report.title("the learned attacker on held-out heart rates: right, and right less Viterbi's")
    began = time.process_time()
    sizes = {"epsilons": sized((1.0, 4.0), (4.0,)), "folds": sized(10, 2), "epochs": sized(6, 1)}
    for row in figure_4(Setting(Path(folder)), **sizes).rows:
        if row["adversary"] == "bdp":
            name = f"{row['series']}, epsilon {row['epsilon']:g}"
            report.row(f"{name}: learned", row["learned"], "")
            least = -0.02 if row["series"] == "like N10" else 0.0
            report.row("  less Viterbi", row["learned"] - row["viterbi"], "", least, at_least=True)
    report.row("processor time for twelve series, ten parts each", time.process_time() - began, "s", 60)


def _many_states(report: Report) -> None:
    """Beside hmmlearn, from a model and outputs to a path.

    Both take logarithms and look outputs up: hmmlearn's ``decode`` with checks of its input and a table of records and
    states, ours with whatever it prepares. Beside a compiled loop without checks as well, which stands for hmmlearn
    where it is not installed.
    """
    report.title("Viterbi: processor time over that of a compiled loop; and over hmmlearn's")
    hmm = _hmmlearn()
    if hmm is None:
        print("hmmlearn is not installed: the compiled loop stands for it")
    for states in sized((2, 3, 5, 7, 8, 9, 10, 20, 30, 50), (3, 9)):
        for name, stay, clear in (
            ("mixing", 0.3, 0.5),
            ("sticky", 0.9, 0.4),
            ("sticky, noisy", 0.9, 0.1),
            ("very sticky, clear", 0.999, 0.9),
            ("very sticky, noisy", 0.999, 0.1),
            ("stuck", 0.99999, 0.02),
        ):
            for records in (RECORDS // 40, RECORDS if states < 20 else RECORDS // 5):
                args = hidden_chain(states, stay, clear, records)
                literal_path(*(args[0][:10], *args[1:]))  # compile
                ours, theirs = best_path(*args), literal_path(*args)
                gap = path_log_probability(ours, *args) - path_log_probability(theirs, *args)
                times = processor_ratio(lambda a=args: best_path(*a), lambda a=args: literal_path(*a), 5)
                report.row(f"{states} states, {name}, {records:,} records", times, "times")
                report.row("  log-probability of our path over theirs", gap, "", -1e-6, at_least=True)
                if hmm is not None:
                    peer = hmm.CategoricalHMM(n_components=states)
                    peer.startprob_, peer.transmat_, peer.emissionprob_ = args[1:]
                    column = args[0].reshape(-1, 1)
                    times = processor_ratio(lambda a=args: best_path(*a), lambda p=peer, c=column: p.decode(c), 5)
                    report.row(
                        "  over hmmlearn's", times, "times"
                    )  # 5 at most, except for chains that hardly ever move


def hidden_chain(states: int, stay: float, clear: float, records: int) -> tuple[np.ndarray, ...]:
    """Outputs, start, transition and channel of a chain that stays, seen through a channel that is clear so often."""
    generator = np.random.default_rng(states)
    transition = stay * np.eye(states) + (1 - stay) * generator.dirichlet(np.ones(states), size=states)
    channel = clear * np.eye(states) + (1 - clear) / states
    truth = sample_chain(MarkovChain(transition=transition), records, 1, generator)[0]
    return draw_moves(truth, channel, generator), np.full(states, 1 / states), transition, channel


def _hmmlearn() -> Any:
    try:
        return importlib.import_module("hmmlearn.hmm")
    except ModuleNotFoundError:
        return None


def _peer(report: Report, args: tuple[np.ndarray, ...]) -> None:
    hmm = _hmmlearn()
    if hmm is None:
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
        report.row(what, ratio(lambda f=mine: f(*args), lambda f=other: f(column), 5), "", 5.0)
