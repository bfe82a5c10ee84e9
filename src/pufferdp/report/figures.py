"""The figures of a plan and of a release. They work from plain dictionaries: the same data as ``--json``."""

from __future__ import annotations

import math
from typing import Any

from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Range, Rule, Text
from pufferdp.report.text import number, shown_candidates


def plan_comparison(plan: dict[str, Any]) -> Chart:
    """Expected error of each mechanism as bars: the best full, striped where there is no guarantee. Flows, too."""
    shown = [c for c in shown_candidates(plan["candidates"])[0] if c["expected_l1_error"]][::-1]
    errors = [c["expected_l1_error"] for c in shown]
    low = 10.0 ** math.floor(math.log10(min(errors, default=1.0)) - 0.1)
    layers: list[Layer] = []
    said = []
    for y, (c, error) in enumerate(zip(shown, errors, strict=True)):
        best = c["mechanism"] == plan["best"]
        kind: BarKind = "full" if best else "pale" if c["applies"] else "hatched"
        note = {"full": "best", "hatched": "no guarantee"}.get(kind, "")
        layers.append(Bars(at=(y,), values=(error,), kind=kind, start=low))
        layers.append(Text(x=error, y=y, words="  ".join(filter(None, (number(error), note))), align="left", right=5))
        said.append(f"{c['mechanism']} {number(error)}" + (f" ({note})" if note else ""))
    title = plan["query"] + (f", {plan['records']:,} records" if plan["records"] else "")
    if "tau" in plan:
        title += f", tau {plan['tau']:g}, eta {plan['eta']:g}, {plan['privacy']} privacy"
    else:
        title += f", epsilon {plan['epsilon']:g}, adversary {plan['adversary']}"
    return Chart(
        title=title,
        x=Axis(
            name="expected error (sum over all numbers of the answer)",
            scale="log",
            low=low,
            # Room for the number beside the longest bar.
            high=low * (max(errors, default=10 * low) / low) ** 1.45,
        ),
        y=Axis(scale="names", names=tuple(c["mechanism"] for c in shown)),
        layers=tuple(layers),
        alt=f"Expected error of each mechanism for {title}: {'; '.join(reversed(said))}.",
        height=1.3 + 0.42 * len(shown),
    )


def release_chart(certificate: dict[str, Any]) -> Chart:
    """The released numbers with the range in which, all together, the true ones lie."""
    answer = certificate["answer"] if isinstance(certificate["answer"], list) else [certificate["answer"]]
    labels, accuracy, guarantee = certificate["labels"], certificate["accuracy"], certificate["guarantee"]
    alpha, sure = accuracy["alpha"], f"{1 - accuracy['beta']:.4g}"
    places = tuple(float(n) for n in range(len(answer)))
    said = "; ".join(f"{label} {number(value)}" for label, value in zip(labels, answer, strict=True))
    return Chart(
        title=f"epsilon {guarantee['epsilon']:g}, adversary {guarantee['adversary']}, "
        f"{certificate['mechanism']['name']}; whiskers: all true values, {sure} sure",
        x=Axis(scale="names", names=tuple(labels)),
        y=Axis(name=certificate["query"]["name"]),
        layers=(
            Bars(at=places, values=tuple(answer), kind="pale"),
            Range(at=places, low=tuple(v - alpha for v in answer), high=tuple(v + alpha for v in answer)),
            Rule(at=0.0),
        ),
        alt=f"The released {certificate['query']['name']}: {said}. With probability {sure} every number errs by less "
        f"than {number(alpha)}.",
        width=min(max(5.0, 1.6 + 0.5 * len(answer)), 11.0),
        height=4.0,
    )
