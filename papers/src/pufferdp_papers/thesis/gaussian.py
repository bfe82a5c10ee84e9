"""Lange 2024, section 6: sums of jointly normal records, by the paper's factor, the class factor and the exact one."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DataError
from pufferdp.basics.words import number
from pufferdp.bounds.additive.gaussian import class_factor, shift_factor, thesis_factor
from pufferdp.models.gaussian import Gaussian
from pufferdp.models.simulate import sample_normal
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.thesis import GALTON
from pufferdp_papers.thesis.data import EPSILONS, squared_error
from pufferdp_papers.thesis.density import largest_log_ratio, percentile

SEED: Final = 2024
SIZES: Final = (3, 5, 7)
LOW, HIGH = 60.0, 80.0
"""Where heights are clipped, in inches."""
WIDTH: Final = 10.0
"""In the simulation records are clipped to 0..10."""

Floats = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def correlations(n: int) -> list[float]:
    """Ten limits of the correlation, below 1/(n−2) where the paper's bound ends."""
    return [step / 11 / (n - 2) for step in range(1, 11)]


def limited(n: int, rho: float) -> float:
    """What we prove for all matrices with correlations of at most rho; clipping makes n times the loss enough."""
    return min(class_factor(n, rho), thesis_factor(n, rho), float(n))


def figure_8(setting: Setting) -> ExperimentResult:
    """The factor of a 1-DP clipped sum by the largest correlation."""
    rows = [
        {
            "records": float(n),
            "rho": rho,
            "general": float(n),
            "paper": thesis_factor(n, rho),
            "ours": limited(n, rho),
        }
        for n in SIZES
        for rho in correlations(n)
    ]
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "records": "records",
            "rho": "correlation up to",
            "general": "general",
            "paper": "paper's bound",
            "ours": "ours, class",
        },
        notes=(
            "Leakage of a clipped sum with Laplace noise that spends 1 of DP, over jointly normal records of equal "
            "variance. paper: n^2/(4(1/rho-n+2)) + 1, its formula.",
            "ours: 1+(n-1) rho where rho is at most 1/(n-1), which some matrices reach; above it the least of all that "
            "holds.",
        ),
        drawing=Drawing(
            x="rho",
            y="leakage of 1 of DP",
            by="records",
            lines={"general": "general bound", "paper": "paper: Gaussian bound", "ours": "class factor"},
            log_y=True,
        ),
    )


def figure_9(
    setting: Setting, *, sizes: Sequence[int] = SIZES, adversaries: int = 60, draws: int = 40_000
) -> ExperimentResult:
    """Simulated leakage over random matrices, beside bounds for all of them and exact factors for each."""
    generator = np.random.default_rng(SEED)
    rows = []
    for n in sizes:
        setting.progress(f"drawing outputs for {n} records")
        for rho in correlations(n):
            matrices = [random_matrix(n, rho, generator) for _ in range(adversaries)]
            factors = [shift_factor(matrix, Adversary.BDP).upper for matrix in matrices]
            estimate = percentile([_one_adversary(matrix, draws, generator) for matrix in matrices])
            bounds = {"paper": min(thesis_factor(n, rho), float(n)), "ours": limited(n, rho)}
            rows.append({"records": float(n), "rho": rho, **bounds, "exact": max(factors), "estimate": estimate})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "records": "records",
            "rho": "correlation up to",
            "paper": "paper's bound",
            "ours": "ours, class",
            "exact": "exact, these matrices",
            "estimate": "estimate",
        },
        notes=(
            "Leakage of a sum clipped to 0..10 with Laplace noise that spends 1 of DP. paper: the smaller of its "
            "Gaussian bound and the general one (its formulas). ours: the class factor, for every matrix with these "
            "correlations. exact: the largest exact factor among the matrices drawn.",
            f"estimate: the paper's simulation, repeated with {adversaries:,} matrices and adversaries (paper: "
            f"1,000), {draws:,} draws each (paper: 100,000) and the density estimate of fastKDE. The target is 0 "
            "or 10; half of the matrices have correlations of +rho and -rho only; standard deviations are 1, means and "
            f"known records in 0..10; seed {SEED}. It is not a bound; it is too high where tails are thin.",
        ),
        drawing=Drawing(
            x="rho",
            y="leakage of 1 of DP",
            by="records",
            lines={
                "paper": "paper: Gaussian or general",
                "ours": "class factor",
                "exact": "exact factor, these matrices",
                "estimate": "simulation",
            },
        ),
    )


def random_matrix(n: int, rho: float, generator: np.random.Generator) -> Floats:
    """Correlations of at most rho, positive definite; every second one has them all at the limit."""
    while True:
        size = rho if generator.random() < 0.5 else rho * generator.random((n, n))
        upper = np.triu(size * generator.choice([-1.0, 1.0], (n, n)), 1)
        matrix = np.asarray(upper + upper.T + np.eye(n))
        if np.linalg.eigvalsh(matrix).min() > 1e-6:
            return matrix


def _one_adversary(matrix: Floats, draws: int, generator: np.random.Generator) -> float:
    """A random target and a random set of known records; the outputs when the target is 0 and when it is 10."""
    n = len(matrix)
    order = generator.permutation(n)
    given = [int(j) for j in order[: int(generator.integers(n)) + 1]]  # the target is the first
    model = Gaussian(mean=WIDTH * generator.random(n), covariance=matrix)
    known = dict(zip(given, WIDTH * generator.random(len(given)), strict=True))
    samples = []
    for target in generator.permutation([0.0, WIDTH]):
        records = sample_normal(model, draws, generator, {**known, given[0]: target})
        samples.append(np.clip(records, 0, WIDTH).sum(axis=1) + generator.laplace(scale=WIDTH, size=draws))
    return largest_log_ratio(samples[0], samples[1], generator)


def figure_18(setting: Setting, *, epsilons: Sequence[float] = EPSILONS) -> ExperimentResult:
    """Sum of the heights of father, mother and child."""
    triples = _heights(setting.file(GALTON))
    covariance = np.cov(triples.T)
    pearson = np.asarray(np.corrcoef(triples.T))
    spreads = np.sqrt(np.diag(covariance))
    rho = round(float(np.abs(pearson[np.triu_indices(3, 1)]).max()), 3)  # as the paper prints it
    factors = {
        "general": 3.0,
        "paper": thesis_factor(3, rho),
        "class": class_factor(3, rho),
        "ours": shift_factor(covariance, Adversary.BDP).upper,
    }
    rows = [
        {"epsilon": e, **{name: squared_error(e / factor, HIGH - LOW) for name, factor in factors.items()}}
        for e in epsilons
    ]
    uneven = class_factor(3, rho, spread=float(spreads.max() / spreads.min()))
    listed = ", ".join(f"{name} {factor:.4f}" for name, factor in factors.items())
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "general": "general",
            "paper": "paper's bound",
            "class": "class, equal variances",
            "ours": "ours, exact",
        },
        notes=(
            f"Mean squared error of the sum of three heights, clipped to {LOW:g}..{HIGH:g}, with Laplace noise: twice "
            f"the squared scale, which is factor * {HIGH - LOW:g}/epsilon. Factors: {listed}. paper: its formula at "
            f"its correlation of {rho}.",
            f"From {len(triples)} rows (paper: 897): correlations of child and father {pearson[0, 2]:.3f}, child and "
            f"mother {pearson[1, 2]:.3f}, father and mother {pearson[0, 1]:.3f}; over rows of children, so parents of "
            "many count often.",
            "The paper's bound and the class factor need equal variances, and these standard deviations are "
            f"{', '.join(number(round(float(s), 2)) for s in spreads)}: the class factor for them is {uneven:.3f}. "
            "ours is exact for the real covariance matrix.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="mean squared error",
            lines={
                "general": "general bound",
                "paper": "paper: Gaussian bound",
                "class": "class factor",
                "ours": "exact",
            },
            log_y=True,
        ),
    )


def _heights(path: Path) -> Floats:
    """Father, mother and child, one row a child."""
    columns, problem = ("father", "mother", "height"), "too few rows"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [[float(row[name]) for name in columns] for row in csv.DictReader(file)]
    except (KeyError, ValueError, TypeError) as error:
        rows, problem = [], str(error)
    if len(rows) <= len(columns):
        raise DataError(f"{str(path)!r} must have numbers in {', '.join(columns)}; found {problem}", value=path)
    return np.array(rows)
