"""Maßny et al. 2024 (3R): table I and figures 2, 3 and 4, with our design added."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.redaction.design import RedactionProblem
from pufferdp.bounds.redaction.methods import numerical, pointwise, regions, window
from pufferdp.bounds.redaction.optimal import optimal
from pufferdp.bounds.redaction.sides import RedactionSide, log_ratios
from pufferdp.models.chain import MarkovChain
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.redaction.independent import independent_bound
from pufferdp_papers.redaction.relaxed import relaxed

ALPHA, BETA, LENGTH = 0.01, 0.8, 10
"""Figures 3 and 4: the private record is the first of ten."""
Row = Mapping[str, float | str | None]

EPSILONS: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)


def binary(alpha: float, beta: float) -> MarkovChain:
    """The paper's chain of two states: alpha leads from 0 to 1, beta from 1 to 0."""
    return MarkovChain(transition=np.array([[1 - alpha, alpha], [beta, 1 - beta]]))


def first_of(alpha: float, beta: float, length: int, epsilon: float) -> RedactionProblem:
    """The first record of a binary chain is private; the paper's adversary knows no record."""
    return RedactionProblem(
        chain=binary(alpha, beta), length=length, private=(1,), epsilon=epsilon, adversary=Adversary.PUFFERFISH
    )


def table_1(setting: Setting) -> ExperimentResult:
    """Likelihood ratios of two records with alpha .25 and beta .5."""
    printed = {(0, 0): 3 / 2, (0, 1): 1 / 2, (1, 0): 2 / 3, (1, 1): 2.0}
    ratios = np.exp(log_ratios(binary(0.25, 0.5).transition))
    design = optimal(first_of(0.25, 0.5, 2, 0.5))
    rows: list[Row] = [
        {
            "x1": str(x),
            "x2": str(v),
            "paper": paper,
            "ours": float(ratios[x, 1 - x, v]),
            "redact": float(design.of(2)[v]),
        }
        for (x, v), paper in printed.items()
    ]
    return ExperimentResult(
        rows=tuple(rows),
        columns={"x1": "X1", "x2": "X2", "paper": "paper: ratio", "ours": "ours", "redact": "redacted with"},
        notes=(
            "P(X2 | X1 = x)/P(X2 | X1 = 1 - x), alpha .25, beta .5. The last column is our design for epsilon .5, the "
            f"first record private: it leaks {design.leakage:.4g} and releases {design.utility:.4f} of the records. "
            "The paper redacts X2 = 0 with probability 1/8 and releases 7/24 = .2917; no window releases anything.",
        ),
        drawing=Drawing(x="x2", y="likelihood ratio", by="x1", lines={"paper": "paper", "ours": "ours"}),
    )


def figure_2(setting: Setting, *, distances: int = 8, epsilon: float = 1.0) -> ExperimentResult:
    """Influence by distance for alpha .25 and beta .5: the paper's formula, and the transition matrix."""
    alpha, beta = 0.25, 0.5
    side = RedactionSide(binary(alpha, beta).transition, distances)
    influence, zone = pointwise(side, distances), regions(side, epsilon / 2)
    turn = 1 - alpha - beta
    rows: list[Row] = []
    for d in range(1, distances + 1):
        for v, c in ((0, alpha / beta), (1, beta / alpha)):
            where = "S" if d >= zone.small else "M" if zone.allowed[d - 1].any() else "L"
            formula = abs(math.log((1 + c * turn**d) / (1 - turn**d)))
            rows.append(
                {"value": str(v), "distance": d, "paper": formula, "ours": float(influence[d - 1, v]), "region": where}
            )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "value": "value",
            "distance": "distance",
            "paper": "paper: formula",
            "ours": "ours: matrix",
            "region": "region",
        },
        notes=(
            f"Influence of the private record on each value, alpha .25, beta .5; regions for epsilon {epsilon:g} "
            "shared by two sides. paper: its closed form. ours: powers of the transition matrix, which also serve "
            "chains with more states.",
        ),
        drawing=Drawing(
            x="distance", y="influence", by="value", lines={"paper": "paper: formula", "ours": "ours: matrix"}
        ),
    )


def figure_3(setting: Setting, *, epsilons: Sequence[float] = EPSILONS) -> ExperimentResult:
    """Share of records released by epsilon."""
    rows = []
    for epsilon in epsilons:
        setting.progress(f"designing for epsilon {epsilon:g}")
        hiding = first_of(ALPHA, BETA, LENGTH, epsilon)
        rows.append(
            {
                "epsilon": epsilon,
                "bound": independent_bound(hiding.chain, LENGTH, 1, epsilon),
                "window": window(hiding).utility,
                "relaxed": relaxed(hiding).utility,
                "paper": numerical(hiding).utility,
                "ours": optimal(hiding).utility,
            }
        )
    lines = {
        "bound": "data-independent, at most",
        "relaxed": "3R, relaxed",
        "paper": "3R, one probability",
        "ours": "ours",
    }
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "bound": "bound",
            "window": "window",
            "relaxed": "3R relaxed",
            "paper": "paper: 3R numerical",
            "ours": "ours",
        },
        notes=(
            "Expected share of ten records released, the first private, alpha .01, beta .8. bound: no data-independent "
            "design releases more (corrected). 3R relaxed: the paper's closed form. paper: its constant probability, "
            "the smallest that the exact leakage allows; the paper searches a grid. No number is read off the plot.",
            "ours: a probability for each record, and the regions chosen with them.",
        ),
        drawing=Drawing(x="epsilon", y="share of records released", lines=lines),
    )


def figure_4(setting: Setting, *, epsilon: float = 1.0) -> ExperimentResult:
    """Redaction probabilities of the common value, record by record."""
    hiding = first_of(ALPHA, BETA, LENGTH, epsilon)
    designs = {
        "window": window(hiding),
        "relaxed": relaxed(hiding),
        "paper": numerical(hiding),
        "ours": optimal(hiding),
    }
    rows = [
        {"record": t, **{name: float(design.of(t)[0]) for name, design in designs.items()}}
        for t in range(1, LENGTH + 1)
    ]
    released = ", ".join(f"{name} {design.utility:.4f}" for name, design in designs.items())
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "record": "record",
            "window": "window",
            "relaxed": "3R relaxed",
            "paper": "paper: 3R numerical",
            "ours": "ours",
        },
        notes=(
            f"Probability of redacting a record that holds 0, epsilon {epsilon:g}, alpha .01, beta .8, the first of "
            f"ten private. Shares released: {released}.",
            "A record that holds 1 is redacted wherever the number is not 0.",
        ),
        drawing=Drawing(
            x="record",
            y="redaction probability",
            lines={"window": "window", "relaxed": "3R, relaxed", "paper": "3R, one probability", "ours": "ours"},
        ),
    )
