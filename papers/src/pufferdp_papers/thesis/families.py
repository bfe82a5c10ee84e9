"""Lange 2024, figures 7 and 17: a count of BB over families, by the general bound and exactly for given families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from pufferdp.assess.dp import leakage_of
from pufferdp.basics.words import number
from pufferdp.models.pedigree import Member, Pedigree
from pufferdp.models.simulate import sample
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.thesis.data import squared_error
from pufferdp_papers.thesis.limits import least_beta

SEED: Final = 2024
PEOPLE: Final = 2504
AVERAGE: Final = 40.29
"""BB among the paper's people, on average."""
FREQUENCY: Final = math.sqrt(AVERAGE / PEOPLE)
"""Share of the allele B with which people have BB that often."""
EPSILONS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
BETAS: Final = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5)


def core_family(children: int) -> tuple[Member, ...]:
    """Two parents and their children: the family in the paper's proof."""
    return (Member("f"), Member("m"), *(Member(f"c{n}", "f", "m") for n in range(children)))


def generations() -> tuple[Member, ...]:
    """Four grandparents, their two children, one child of these."""
    grandparents = (Member("ff"), Member("fm"), Member("mf"), Member("mm"))
    return (*grandparents, Member("f", "ff", "fm"), Member("m", "mf", "mm"), Member("c", "f", "m"))


def pedigree(members: tuple[Member, ...]) -> Pedigree:
    """One family, with the paper's share of BB."""
    return Pedigree(members=members, major_allele_frequency=FREQUENCY)


FAMILIES: Final = {
    "2 parents, 1 child": pedigree(core_family(1)),
    "2 parents, 2 children": pedigree(core_family(2)),
    "2 parents, 3 children": pedigree(core_family(3)),
    "2 parents, 4 children": pedigree(core_family(4)),
    "3 generations": pedigree(generations()),
}


def least_scale(family: Pedigree, epsilon: float) -> float:
    """The least Laplace noise for the count of BB over families of this kind, for every adversary."""
    exact = leakage_of(family, target=epsilon, query="count:BB").exact
    assert exact is not None
    return 1 / exact


def figure_7(
    setting: Setting,
    *,
    epsilons: Sequence[float] = (1.0, 2.0),
    families: Sequence[str] = ("2 parents, 1 child", "2 parents, 3 children", "3 generations"),
) -> ExperimentResult:
    """The error that is exceeded with probability beta, and the error no mechanism stays below."""
    rows = []
    for epsilon in epsilons:
        for name in families:
            setting.progress(f"computing the least scale for {name}, epsilon {epsilon:g}")
            family = FAMILIES[name]
            m, scale = len(family.members), least_scale(family, epsilon)
            for beta in BETAS:
                impossible = name != "3 generations" and beta < least_beta(epsilon)
                row: dict[str, float | str | None] = {
                    "case": f"{name}, epsilon {epsilon:g}",
                    "members": float(m),
                    "beta": beta,
                    "paper": math.log(1 / beta) * m / epsilon,
                    "ours": math.log(1 / beta) * scale,
                    "least": (m - 1) / 2 if impossible else None,
                }
                rows.append(row)
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "case": "families of",
            "members": "m",
            "beta": "beta",
            "paper": "paper: Laplace",
            "ours": "ours, exact",
            "least": "no mechanism below",
        },
        notes=(
            "Error that a noisy count of BB exceeds with probability beta. paper: Laplace noise by the general bound, "
            "ln(1/beta) m/epsilon (its formula). ours: the least Laplace noise for families of this kind, B having a "
            f"share of {number(FREQUENCY)}.",
            "no mechanism below: (m-1)/2 for beta < 1/(e^epsilon + 1), from the paper's formula. It is about two "
            "parents with m-2 children; over three generations the paper hopes that less noise is enough, and it is.",
        ),
        drawing=Drawing(
            x="beta",
            y="error",
            by="case",
            lines={"paper": "paper: general bound", "ours": "exact", "least": "no mechanism below"},
            log_x=True,
        ),
    )


def figure_17(
    setting: Setting,
    *,
    epsilons: Sequence[float] = EPSILONS,
    families: Sequence[str] = tuple(FAMILIES),
    data_sets: int = 1000,
) -> ExperimentResult:
    """Mean squared error of a noisy count of BB, by the size of the largest family."""
    generator = np.random.default_rng(SEED)
    rows, averages = [], []
    for name in families:
        family = FAMILIES[name]
        m = len(family.members)
        setting.progress(f"drawing families: {name}")
        genotypes = sample(family, data_sets * round(PEOPLE / m), generator)
        averages.append(float((genotypes == 0).sum()) / data_sets)
        for epsilon in epsilons:
            setting.progress(f"computing the least scale for {name}, epsilon {epsilon:g}")
            scale = least_scale(family, epsilon)
            both = {"paper": squared_error(epsilon / m), "ours": squared_error(1 / scale)}
            rows.append({"family": name, "members": float(m), "epsilon": epsilon, **both, "factor": scale * epsilon})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "family": "families of",
            "members": "m",
            "epsilon": "epsilon",
            "paper": "paper: general bound",
            "ours": "ours, exact",
            "factor": "our scale * epsilon",
        },
        notes=(
            "Mean squared error of the count of BB with Laplace noise, for every adversary: twice the squared scale. "
            "paper: scale m/epsilon (its formula). ours: the least scale for families of this kind.",
            "The paper's genomes are not available, and its families are not known: these are simulated. "
            f"{data_sets:,} data sets of about {PEOPLE:,} people have {min(averages):.1f} to {max(averages):.1f} BB on "
            f"average by kind of family (paper: {AVERAGE}); seed {SEED}. The error does not depend on them.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="mean squared error",
            by="family",
            lines={"paper": "paper: general bound", "ours": "exact"},
            log_y=True,
        ),
    )
