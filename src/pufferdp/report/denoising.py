"""The figure of a posterior: what the model expects, the noisy answer, and what both together say."""

from __future__ import annotations

import os

import numpy as np

from pufferdp.denoising import PROBABILITY, answer_prior, posterior, summary
from pufferdp.errors import NotApplicableError, ParameterError
from pufferdp.mechanisms import Problem
from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number


def denoising_figure(problem: Problem, noisy: float, scale: float, path: str | os.PathLike[str]) -> None:
    """Prior and posterior of an answer of one number, as bars; the noisy answer as a line."""
    if len(problem.bound.labels) > 1:
        raise ParameterError("the answer is several numbers; a figure of a posterior needs an answer of one number")
    prior = answer_prior(problem)
    law = None if prior is None or scale == 0 else posterior(prior, np.abs(noisy - prior.points), scale)
    if prior is None or law is None:
        raise NotApplicableError("the answer has no posterior to draw: no one law, no noise, or far beyond the model")
    mean, low, high = summary(prior.points, law)
    # Only where something is to be seen.
    seen = np.flatnonzero((prior.law.masses > 1e-4 * prior.law.masses.max()) | (law > 1e-4 * law.max()))
    points = prior.points[seen[0] : seen[-1] + 1]
    width = float(np.diff(points).min()) if len(points) > 1 else 1.0
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    for masses, style, label in (
        (prior.law.masses, {"color": PALE}, "before: the model alone"),
        (law, {"facecolor": "none", "edgecolor": INK, "linewidth": 0.8}, "after: the model and the noisy answer"),
    ):
        axes.bar(points, masses[seen[0] : seen[-1] + 1], width=width, label=label, **style)
    axes.axvline(noisy, color="black", linestyle="--", label=f"the noisy answer, {number(noisy)}")
    height = float(law.max()) * 1.08
    axes.errorbar(
        [mean],
        [height],
        xerr=[[mean - low], [high - mean]],
        fmt="o",
        color=INK,
        capsize=4,
        label=f"denoised, {number(mean)}; {100 * PROBABILITY:g} % between {number(low)} and {number(high)}",
    )
    axes.set_xlabel(f"{problem.query.name}, {problem.records:,} records, noise of scale {number(scale)}")
    axes.set_ylabel("probability")
    axes.set_ylim(0, height * 1.45)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    save_figure(figure, path)
