"""A ledger as text that fits a terminal and as a figure. Works from plain dictionaries: the data of ``--json``."""

from __future__ import annotations

import textwrap
from typing import Any

from pufferdp.basics.words import number, table, up_to
from pufferdp.report.charts import Axis, Chart, Layer, Line, Rule


def dataset_text(found: dict[str, Any]) -> str:
    """One data set: what was spent and what is left."""
    if "spent_tau" in found:
        return _flows_text(found)
    releases = f"{found['releases']:,} release{'s' * (found['releases'] != 1)}"
    rows = [
        ["budget", up_to(found["budget"], down=True), ""],
        ["leaked at most", up_to(found["leakage"]), up_to(found["spent_dp"])],
        ["left", up_to(found["left"], down=True), up_to(found["left_dp"], down=True)],
    ]
    who = {"bdp": "any set of other records", "pufferfish": "no record", "dp": "all other records"}
    title = f"Data set {found['dataset']}: {releases}, for an adversary who knows {who[found['adversary']]}"
    parts = [textwrap.fill(title, 96), "", table(["", "leakage", "DP loss"], rows, least=8), ""]
    parts += [textwrap.fill(said, 96) for said in _said(found)]
    return "\n".join([*parts, f"Head: {found['head']}"])


def _flows_text(found: dict[str, Any]) -> str:
    budget = found["budget"]
    rows = [["budget", budget["tau"]], ["spent", found["spent_tau"]], ["left", found["left_tau"]]]
    what = {
        "orbit": "which chain of the orbit made the data",
        "record": "single records",
        "joint": "which chain of the orbit made the data, and about single records",
    }[budget["privacy"]]
    title = f"Data set {found['dataset']}: {found['releases']:,} flow{'s' * (found['releases'] != 1)}"
    said = (
        f"The promise is about {what}, in total variation, with an orbit of radius {budget['eta']:g}. The taus of all "
        "flows are added up; they never mix with an epsilon."
    )
    shown = [[name, up_to(value, down=name != "spent")] for name, value in rows]
    return "\n".join(
        [title, "", table(["", "total variation"], shown), "", textwrap.fill(said, 96), f"Head: {found['head']}"]
    )


def _said(found: dict[str, Any]) -> list[str]:
    if found["model_sha256"] is None:
        return ["It has no model yet: what leaks cannot be said before fit --dp-epsilon has given it one."]
    if not found["releases"]:
        return ["Nothing was released yet."]
    if found["spent_dp"] is None and found["private"] is not None:
        return [
            f"The total is about {found['private']}, and what was redacted depends on values: nothing else can be "
            "released from this data set. A later release needs the model that redact --tilted writes."
        ]
    if found["spent_dp"] is None:
        return ["Its release gave an answer that no DP loss bounds: the data set is used up."]
    if found["private"] is not None and found["curve"] == "own":
        return [f"The total is about {found['private']}: what its redaction leaks. Other releases add to it."]
    if found["private"] is not None:
        return [
            f"The total is about {found['private']}: what redactions leak about it, and the {found['curve']} curve at "
            "the sum of all DP losses for somebody who knows the records that were released."
        ]
    if found["curve"] == "own":
        return [
            "The total is the promise of its only release. With a second one it becomes the leakage curve at the sum "
            "of both DP losses."
        ]
    return [f"The total is the {found['curve']} curve at the sum of all DP losses."]


def standing(found: dict[str, Any]) -> str:
    """Where a data set stands after a release, in one sentence or two."""
    if "spent_tau" in found:
        said = f"All flows from data set {found['dataset']!r} together keep a total variation of "
        said += f"{up_to(found['spent_tau'])} of {up_to(found['budget']['tau'], down=True)}; "
        return textwrap.fill(f"{said}{up_to(found['left_tau'], down=True)} is left.", 96)
    said = f"All releases from data set {found['dataset']!r} leak at most {up_to(found['leakage'])} of "
    said += f"{up_to(found['budget'], down=True)}; a DP loss of {up_to(found['left_dp'], down=True)} is left."
    if not found["left_dp"]:
        said += " Nothing more can be released from it."
    return textwrap.fill(said, 96)


def datasets_table(found: list[dict[str, Any]]) -> str:
    """All data sets of a ledger, a line each."""
    head = ["data set", "adversary", "releases", "leaked at most", "budget", "DP loss spent", "left"]
    rows = [
        [
            one["dataset"],
            "flows",
            f"{one['releases']:,}",
            f"tau {up_to(one['spent_tau'])}",
            f"tau {up_to(one['budget']['tau'], down=True)}",
            "-",
            f"tau {up_to(one['left_tau'], down=True)}",
        ]
        if "spent_tau" in one
        else [
            one["dataset"],
            one["adversary"],
            f"{one['releases']:,}",
            up_to(one["leakage"]),
            up_to(one["budget"], down=True),
            up_to(one["spent_dp"]),
            up_to(one["left_dp"], down=True),
        ]
        for one in found
    ]
    return table(head, rows, left=2)


def check_text(found: dict[str, Any]) -> str:
    """Whether a ledger holds."""
    said = f"{found['releases']:,} release{'s' * (found['releases'] != 1)}, {found['recomputed']} distinct"
    lines = [f"valid: {said}" if found["valid"] else "NOT valid", *(f"- {p}" for p in found["problems"])]
    return "\n".join([*lines, *(f"Not recomputed: {text}." for text in found["unchecked"])])


def budget_over_time(found: dict[str, Any], releases: list[dict[str, Any]]) -> Chart:
    """What a data set leaked after each release beside its budget, and the DP losses alone. Of flows, total variation.

    ``found`` is what ``ledger show --json`` prints for it, ``releases`` its history.
    """
    flows = "spent_tau" in found
    budget = found["budget"]["tau"] if flows else found["budget"]
    if flows:
        lines = [("spent_tau", "total variation of all flows", 0)]
    else:
        lines = [("leakage", "leaked at most, by all releases", 0), ("spent_dp", "DP losses alone, added up", 1)]
    layers: list[Layer] = []
    for key, label, series in lines:
        known = [(one["release"], one[key]) for one in releases if one[key] is not None]
        if known:
            x, y = (tuple(float(pair[n]) for pair in known) for n in (0, 1))
            layers.append(Line(x=x, y=y, label=label, series=series, bold=series == 0, marked=len(known) <= 40))
    layers.append(Rule(at=budget, label=f"budget, {number(budget)}", series=3))
    spent = found["spent_tau"] if flows else found["leakage"]
    since = f", {releases[0]['charged'][:10]} to {releases[-1]['charged'][:10]}" if releases else ""
    count = f"{found['releases']:,} release{'s' * (found['releases'] != 1)}"
    title = f"data set {found['dataset']}: {count}{since}"
    return Chart(
        title=title,
        x=Axis(name="releases, in order", low=0.5, high=max(found["releases"], 1) + 0.5, whole=True),
        y=Axis(name="total variation" if flows else "leakage about one record", low=0.0, high=1.3 * budget),
        layers=tuple(layers),
        alt=f"Budget of {title}. Leaked at most {up_to(spent)} of {up_to(budget, down=True)}.",
        legend="upper left",
    )
