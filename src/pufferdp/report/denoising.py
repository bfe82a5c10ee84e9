"""The figure of a posterior: what the model expects, the noisy answer, and what both together say."""

from __future__ import annotations

import numpy as np

from pufferdp.denoising import PROBABILITY, answer_prior, posterior, summary
from pufferdp.errors import NotApplicableError, ParameterError
from pufferdp.mechanisms import Problem
from pufferdp.report.charts import Axis, Bars, Chart, Line, Points, Range, Rule
from pufferdp.report.text import number


def denoising_chart(problem: Problem, noisy: float, scale: float) -> Chart:
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
    shown = slice(seen[0], seen[-1] + 1)
    points = prior.points[shown]
    width = float(np.diff(points).min()) if len(points) > 1 else 1.0
    at, before, after = (tuple(map(float, values)) for values in (points, prior.law.masses[shown], law[shown]))
    height = float(law.max()) * 1.08
    found = f"denoised, {number(mean)}; {100 * PROBABILITY:g} % between {number(low)} and {number(high)}"
    what = f"{problem.query.name}, {problem.records:,} records, noise of scale {number(scale)}"
    return Chart(
        title="pale: what the model alone expects",
        x=Axis(name=what),
        y=Axis(name="probability", low=0.0, high=height * 1.45),
        layers=(
            Bars(at=at, values=before, kind="pale", width=width),
            Line(x=at, y=after, step=True, label="the model and the noisy answer together"),
            Rule(at=noisy, along="x", series=1, label=f"the noisy answer, {number(noisy)}"),
            Range(at=(height,), low=(float(low),), high=(float(high),), along="x"),
            Points(x=(float(mean),), y=(height,), label=found),
        ),
        alt=f"What is believed of {what}, before and after the noisy answer {number(noisy)}: {found}.",
        legend="upper left",
    )
