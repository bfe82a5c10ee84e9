"""The poster's two figures, and the errors it does not show: chains K0 = (1−alpha)·U + alpha·I on four states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from pufferdp.bounds.orbits import Privacy, our_noise, poster_noise
from pufferdp.models.base import Lengths
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import sample_flows
from pufferdp.publish.flows.problem import FlowProblem, Repair, calibrate, repaired
from pufferdp_papers.base import Drawing, ExperimentResult, Setting

STATES: Final = 4
TRANSITIONS: Final = 5000
ETA: Final = 0.01
ALPHAS: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
TAUS: Final = tuple(n / 20 for n in range(1, 11))
SEED: Final = 2025

ERROR_COLUMNS: Final = {
    "paper": "poster log",
    "paper_simplex": "poster simplex",
    "ours_log": "our log",
    "ours_simplex": "our simplex",
    "ours": "our best",
    "ratio": "ratio",
}


def chain_of(alpha: float) -> MarkovChain:
    """The poster's chain with this Dobrushin coefficient."""
    kernel = (1 - alpha) / STATES * np.ones((STATES, STATES)) + alpha * np.eye(STATES)
    return MarkovChain(transition=kernel, states=tuple(str(n + 1) for n in range(STATES)))


def noise(setting: Setting, *, alphas: Sequence[float] = ALPHAS, taus: Sequence[float] = TAUS) -> ExperimentResult:
    """Sigma against tau, by the poster's formula and by ours."""
    rows = []
    for alpha in alphas:
        kernel = chain_of(alpha).transition
        for tau in taus:
            theirs = poster_noise(kernel, TRANSITIONS, eta=ETA, tau=tau, privacy=Privacy.JOINT).sigma
            ours, added = (
                our_noise(kernel, TRANSITIONS, eta=ETA, tau=tau, privacy=Privacy.JOINT, add=add, centre_only=add).sigma
                for add in (False, True)
            )
            numbers = {"paper": theirs, "added": added, "ours": ours, "ratio": theirs / ours}
            rows.append({"alpha": alpha, "tau": tau, **numbers})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "alpha": "alpha",
            "tau": "tau",
            "paper": "poster's sigma",
            "added": "ours, both parts added",
            "ours": "ours",
            "ratio": "poster/ours",
        },
        notes=(
            f"Standard deviation of the noise on each of {STATES**2} shares of a flow of {TRANSITIONS:,} transitions, "
            f"orbit radius {ETA:g}, joint privacy. poster: sqrt(2/pi)/tau times 4 eta/(1-alpha) + 4/(n(1-alpha)), by "
            "its factorisation; the line that has eta in the record part is an error of the poster.",
            "ours: the larger of sqrt(2) eta (2-alpha)/(1-alpha) and sqrt(2)(2-a)/(n(1-a)), over tau sqrt(2 pi), with "
            "a = alpha + 2 eta, so that records are safe under every chain of the orbit. added: the sum, with a = "
            "alpha in both, which is what the poster guarantees.",
        ),
        drawing=Drawing(
            x="tau",
            y="sigma",
            by="alpha",
            lines={"paper": "poster", "ours": "ours", "added": "ours, added"},
            log_y=True,
        ),
    )


def heat_maps(setting: Setting, *, alpha: float = 0.3, tau: float = 0.1) -> ExperimentResult:
    """One simulated chain: its flow, and the private flows that four ways make of it."""
    problem = FlowProblem(model=chain_of(alpha), lengths=((TRANSITIONS + 1, 1),), eta=ETA, tau=tau)
    generator = np.random.default_rng(SEED)
    exact = sample_flows(problem.model, problem.lengths, 1, generator)[0].ravel() / TRANSITIONS
    same = generator.standard_normal(STATES**2)  # one draw for all, so that they compare
    flows = {"empirical": exact}
    for name, sigma in (("paper", problem.poster), ("ours", problem.ours)):
        for repair in Repair:
            setting.progress(f"simulating {name}, {repair}")
            calibrated = calibrate(problem, sigma, repair, 0.05)
            base = exact if calibrated.kappa is None else np.log(exact + calibrated.kappa)
            flows[f"{name}_{repair}"] = repaired(base + calibrated.distribution.scale * same, calibrated.kappa)
    labels = problem.labels
    rows: list[Mapping[str, float | str | None]] = []
    for at in range(STATES**2):
        cell: dict[str, float | str | None] = {name: float(flow[at]) for name, flow in flows.items()}
        cell["paper"], cell["ours"] = cell.pop("paper_log"), cell.pop("ours_log")
        rows.append({"from": labels[at // STATES], "to": labels[at % STATES], **cell})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "from": "from",
            "to": "to",
            "empirical": "empirical",
            "paper": "poster, log",
            "paper_simplex": "poster, simplex",
            "ours": "ours, log",
            "ours_simplex": "ours, simplex",
        },
        notes=(
            f"SIMULATED DATA: one path of {TRANSITIONS:,} transitions, alpha {alpha:g}, tau {tau:g}, eta {ETA:g}, "
            f"joint privacy, seed {SEED}; the same noise, up to its width, in all four. kappa of the log repair has "
            "the least expected L1 error for each noise; the poster does not say its own.",
            "Only here is an empirical flow shown beside a private one: a release never shows it.",
        ),
        drawing=Drawing(
            x="to",
            y="from",
            lines={
                "empirical": "empirical flow (simulated)",
                "paper": "poster's noise, log",
                "paper_simplex": "poster's noise, simplex",
                "ours": "our noise, log",
                "ours_simplex": "our noise, simplex",
            },
            heat=True,
        ),
    )


def errors(
    setting: Setting,
    *,
    alphas: Sequence[float] = (0.1, 0.3, 0.5),
    etas: Sequence[float] = (0.0001, 0.001, 0.01),
    tau: float = 0.1,
) -> ExperimentResult:
    """Expected L1 errors of the released flow: two noises, two repairs."""
    rows: list[Mapping[str, float | str | None]] = []
    for alpha in alphas:
        setting.progress(f"simulating flows, alpha {alpha:g}")
        for eta in etas:
            row = error_row(chain_of(alpha), ((TRANSITIONS + 1, 1),), eta, tau, Privacy.JOINT)
            rows.append({"alpha": alpha, "eta": eta, **row})
    return ExperimentResult(
        rows=tuple(rows),
        columns={"alpha": "alpha", "eta": "eta", **ERROR_COLUMNS, "guess": "guess"},
        notes=(
            f"Expected sum of the absolute errors of {STATES**2} shares, joint privacy, tau {tau:g}, {TRANSITIONS:,} "
            "transitions, simulated under the model with a fixed seed; kappa of the log repair is the best for each "
            "noise. ratio: poster log over our best. guess: the error of publishing the model's own flow without "
            "looking at the data.",
            "Hiding a wide orbit hides what the data say beyond the model: from eta 0.001 on no release is "
            "better than the model itself.",
        ),
        drawing=Drawing(
            x="eta",
            y="expected L1 error",
            by="alpha",
            lines={
                "paper": "poster, log",
                "paper_simplex": "poster, simplex",
                "ours_log": "ours, log",
                "ours_simplex": "ours, simplex",
                "guess": "model alone, no data",
            },
            log_x=True,
            log_y=True,
        ),
    )


def error_row(
    chain: MarkovChain, lengths: Lengths, eta: float, tau: float, privacy: Privacy
) -> dict[str, float | str | None]:
    """The errors of two noises with two repairs, and how many times the poster's own errs as much as our best."""
    problem = FlowProblem(model=chain, lengths=lengths, eta=eta, tau=tau, privacy=privacy)
    by_repair = {
        f"{name}_{repair}": calibrate(problem, sigma, repair, 0.05).expected_l1_error
        for name, sigma in (("paper", problem.poster), ("ours", problem.ours))
        for repair in Repair
    }
    best = min(by_repair["ours_log"], by_repair["ours_simplex"])
    return {
        "paper": by_repair["paper_log"],
        "paper_simplex": by_repair["paper_simplex"],
        "ours_log": by_repair["ours_log"],
        "ours_simplex": by_repair["ours_simplex"],
        "ours": best,
        "ratio": by_repair["paper_log"] / best,
        "guess": problem.trial.guess,
    }
