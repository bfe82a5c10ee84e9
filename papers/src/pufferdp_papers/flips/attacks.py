"""Chakrabarti et al. 2020, figures 2 and 4: attackers on simulated series and on heart rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.assess.attack.attack import clopper_pearson, dp_success, implied_epsilon, prior_odds
from pufferdp.assess.attack.attackers import ATTACKERS, CorrelationAware, Learned, SingleBit
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DataError
from pufferdp.bounds.channels.many_states import randomised_response
from pufferdp.bounds.channels.two_states import Flips, flip_loss
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import draw_moves, sample_chain
from pufferdp.publish.flips.plan import design_flips
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.flips import HEART

SEED: Final = 2020
RECORDS: Final = 30
TARGET: Final = 15
DP_EPSILON: Final = 0.5
THETAS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


def figure_2(
    setting: Setting, *, thetas: Sequence[float] = THETAS, databases: int = 100, outputs: int = 1000
) -> ExperimentResult:
    """Success on one record against the bound of DP, and the ε that it charges."""
    generator = np.random.default_rng(SEED)
    rho, bound = 1 / (1 + math.exp(DP_EPSILON)), dp_success(DP_EPSILON)
    channel = randomised_response(2, rho)
    rows = []
    for theta in thetas:
        setting.progress(f"attacking series with theta {theta:g}")
        chain = MarkovChain(transition=randomised_response(2, theta))
        # A database and its sanitisations are drawn as in the paper: outputs of one database are correlated.
        truth = np.repeat(sample_chain(chain, RECORDS, databases, generator), outputs, axis=0)
        seen = draw_moves(truth, channel, generator)
        right = {
            attacker.name: float((attacker.guess(seen, chain, channel)[:, TARGET - 1] == truth[:, TARGET - 1]).mean())
            for attacker in (SingleBit(), CorrelationAware())
        }
        single, aware = right["single-bit"], right["correlation-aware"]
        rows.append(
            {
                "theta": theta,
                "paper": bound,
                "single": single,
                "ours": aware,
                "single_charged": implied_epsilon(single),
                "charged": implied_epsilon(aware),
                "exact": flip_loss(chain, Flips.of(rho, rho), RECORDS, Adversary.PUFFERFISH).worst,
            }
        )
    low, high = clopper_pearson(bound * databases * outputs, databases * outputs)
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "theta": "theta",
            "paper": "DP bound",
            "single": "single-bit",
            "ours": "correlation-aware",
            "single_charged": "charges",
            "charged": "aware charges",
            "exact": "exact loss",
        },
        notes=(
            f"{databases} series of {RECORDS} records for each theta, each privatised {outputs} times with "
            f"{DP_EPSILON}-DP noise: how often record {TARGET} is guessed. DP bound: e^epsilon/(1+e^epsilon), the "
            "paper's 0.622. paper: this bound, which its text says the single-bit attacker keeps.",
            "charges: the epsilon of DP that would allow this success, log p/(1-p), for either attacker. exact loss: "
            "the largest log-likelihood ratio over all outputs, for an adversary who knows no record; a charge is an "
            "average, and but for chance never above it.",
            f"The single-bit attacker's success is the bound itself; a rate between {low:.4f} and {high:.4f} is chance "
            "(95 %, Clopper-Pearson). Outputs of one series are correlated, so the other rates vary more.",
        ),
        drawing=Drawing(
            x="theta",
            y="right about the record",
            lines={"paper": "DP bound", "ours": "correlation-aware", "single": "single-bit"},
        ),
    )


def figure_4(
    setting: Setting,
    *,
    epsilons: Sequence[float] = (1.0, 2.0, 4.0, 6.0),
    folds: int = 10,
    epochs: int = 6,
    learn: bool = True,
) -> ExperimentResult:
    """Reconstruction of whole series, for both adversaries' calibration, against the corrected bound."""
    generator = np.random.default_rng(SEED)
    series = {path.stem: _above_mean(path) for path in (setting.file(needed) for needed in HEART)}
    chains = {name: _fit_chain(states) for name, states in series.items()}
    synthetic = sample_chain(chains["N10"], len(series["N10"]), 1, generator)[0]
    series, chains = {"like N10": synthetic, **series}, {"like N10": chains["N10"], **chains}
    learner = Learned(folds=folds, epochs=epochs, seed=SEED) if learn else None
    rows = []
    for name, truth in series.items():
        chain = chains[name]
        odds = prior_odds(chain, len(truth))
        for adversary in ("pufferfish", "bdp"):
            for epsilon in epsilons:
                setting.progress(f"attacking {name}, epsilon {epsilon:g} for {adversary}")
                channel = design_flips(chain, epsilon, length=len(truth), adversary=adversary).channel
                seen = draw_moves(truth, channel, generator)
                right = {a.name: float((a.guess(seen, chain, channel) == truth).mean()) for a in ATTACKERS}
                guessed = None if learner is None else learner.cross_validate(seen, truth, channel)
                rows.append(
                    {
                        "series": name,
                        "adversary": adversary,
                        "epsilon": epsilon,
                        "single": right["single-bit"],
                        "aware": right["correlation-aware"],
                        "viterbi": right["viterbi"],
                        "learned": None if guessed is None else float((guessed == truth).mean()),
                        "paper": math.exp(epsilon) / (odds + math.exp(epsilon)),
                        "ours": dp_success(epsilon, odds),
                    }
                )
    facts = "; ".join(
        f"{name}: {len(series[name]):,} records, q = {c.transition[0, 1]:.4f}, r = {c.transition[1, 0]:.4f}"
        for name, c in chains.items()
    )
    trained = (
        f"a small network that sees outputs up to a thousand records away, {folds}-fold cross-validation, {epochs} "
        "epochs. The paper: an LSTM over a window, 10-fold, drawn without numbers, about as often right as Viterbi and "
        "never above the bound"
    )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "series": "series",
            "adversary": "guarantee for",
            "epsilon": "epsilon",
            "single": "single",
            "aware": "aware",
            "viterbi": "Viterbi",
            "learned": "learned",
            "paper": "paper's bound",
            "ours": "bound",
        },
        notes=(
            f"Heart rate above or below the record's mean. {facts}. like N10: drawn from its chain. Share of records "
            "that each attacker guesses right; the flips are the cheapest that keep the guarantee.",
            f"learned: {trained}." if learner else "learned: left out.",
            "paper's bound: e^epsilon/(max(q/r, r/q) + e^epsilon), as printed. It is not a bound. bound: "
            "e^epsilon/(min(q/r, r/q) + e^epsilon), corrected. It is proved for series of the chain, and heart rates "
            "are not quite one.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="right, share of records",
            by="series",
            only=("adversary", "bdp"),
            lines={"ours": "bound, corrected", "paper": "paper's (not a bound)", "viterbi": "Viterbi"}
            | ({"learned": "learned"} if learner else {})
            | {"single": "single-bit"},
        ),
    )


def _above_mean(path: Path) -> npt.NDArray[np.intp]:
    """Whether each heart rate, the second number of a line, lies above the mean of the record."""
    try:
        rates = np.loadtxt(path, usecols=1, ndmin=1)
    except (ValueError, IndexError):
        raise DataError(f"{str(path)!r} must have two numbers a line: time and heart rate", value=str(path)) from None
    return np.asarray(rates > rates.mean(), dtype=np.intp)


def _fit_chain(states: npt.NDArray[np.intp]) -> MarkovChain:
    pairs = np.bincount(2 * states[:-1] + states[1:], minlength=4).reshape(2, 2).astype(float)
    return MarkovChain(transition=pairs / pairs.sum(axis=1, keepdims=True))
