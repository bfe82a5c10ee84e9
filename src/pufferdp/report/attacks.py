"""The figure of an attack: how often each attacker is right, with what the promises allow."""

from __future__ import annotations

from typing import Any

from pufferdp.report.blocks import Block, Shown, Table
from pufferdp.report.charts import Axis, Bars, Chart, Layer, Range, Rule, Text
from pufferdp.report.text import number


def attack_success(report: dict[str, Any]) -> Chart:
    """A bar for each attacker with its interval; what the record's own output and the series allow, across."""
    attacks, bounds = report["attacks"], report["bounds"]
    places = tuple(float(n) for n in range(len(attacks)))
    layers: list[Layer] = [Bars(at=places, values=tuple(a["success"] for a in attacks), kind="pale", width=0.55)]
    if attacks[0]["low"] is not None:
        # An interval at an effective number of records need not hold the rate to the last digit.
        low, high = (tuple(pick(a["success"], a[end]) for a in attacks) for pick, end in ((min, "low"), (max, "high")))
        layers.append(Range(at=places, low=low, high=high))
    for place, attack in zip(places, attacks, strict=True):
        if attack["charged"] is not None:
            layers.append(Text(x=place, y=0.0, words=f"charges {number(attack['charged'])}", up=9))
    layers.append(Rule(at=bounds["dp"], series=1, label="bound from the record's own output (DP)"))
    layers.append(Rule(at=bounds["pufferfish"], label="bound from the whole series"))
    said = "; ".join(f"{a['attacker']} {number(a['success'])}" for a in attacks)
    title = f"{report['runs']:,} series of {report['length']:,} records"
    return Chart(
        title=title,
        x=Axis(scale="names", names=tuple(a["attacker"] for a in attacks)),
        y=Axis(name="right, share of records", low=0.0, high=1.25),
        layers=tuple(layers),
        alt=f"How often attackers are right on {title}: {said}. A record's own output allows {number(bounds['dp'])}, "
        f"the whole series {number(bounds['pufferfish'])}.",
        legend="upper left",
    )


def attack_blocks(report: dict[str, Any]) -> list[Block]:
    """The same as a table and as bars, for a notebook."""
    sure = f"{100 * report['confidence']:g} % between"
    rows = tuple(
        (a["attacker"], *(number(a[key]) for key in ("success", "low", "high", "charged"))) for a in report["attacks"]
    )
    table = Table(
        caption="Share of records guessed right", head=("attacker", "right", sure, "and", "charges"), rows=rows
    )
    return [table, Shown(chart=attack_success(report), caption="")]
