"""Plans and releases as text that fits a terminal. Works from plain dictionaries: the same data as ``--json``."""

from __future__ import annotations

import math
import textwrap
from typing import Any, Final

from pufferdp.basics.words import number, table

HARDLY: Final = 1e-3
"""An answer less likely than this to lie so far out is hardly explained by the model."""
LEAST_SURPRISE: Final = 1e-12
"""Smaller probabilities are rounding, and are given as this."""


def fleet_table(fleet: dict[str, Any], most: int = 20) -> str:
    """The releases of a fleet, the first of them where there are many."""
    rows = []
    for one in fleet["releases"][:most]:
        certificate, answer = one["certificate"], one["answer"]
        answers = answer if isinstance(answer, list) else [answer]
        shown = ", ".join(number(a) for a in answers[:4]) + (", …" if len(answers) > 4 else "")
        rows.append(
            [one["person"], f"{certificate['data']['records']:,}", number(certificate["noise"]["scale"]), shown]
        )
    count = len(fleet["releases"])
    parts = [table(["person", "records", "noise scale", "answer"], rows)]
    if count > most:
        parts.append(f"… and {count - most:,} more")
    parts.append(f"\n{count:,} {'person' if count == 1 else 'people'}, each with the noise of their own model.")
    if fleet["absent"]:
        parts.append(f"With a model and without a record: {', '.join(fleet['absent'][:10])}.")
    return "\n".join(parts)


def plan_table(plan: dict[str, Any]) -> str:
    """The candidates of a plan."""
    beta = next((c["accuracy"]["beta"] for c in plan["candidates"] if c["accuracy"]), 0.05)
    head = ["mechanism", "applies", "noise scale", "expected error", f"error below, {1 - beta:.4g} sure"]
    rows, reasons = [], []
    shown, alike = shown_candidates(plan["candidates"])
    for c in shown:
        alpha = c["accuracy"]["alpha"] if c["accuracy"] else None
        mark = "best" if c["mechanism"] == plan["best"] else "yes" if c["applies"] else "no"
        rows.append([c["mechanism"], mark, number(c["scale"]), number(c["expected_l1_error"]), number(alpha)])
        if c["reason"]:
            reasons.append(textwrap.fill(f"{c['mechanism']}: {c['reason']}.", 96, subsequent_indent="  "))
    knows = {"bdp": "any set of other records", "pufferfish": "no record", "dp": "all other records"}
    over = f" over {plan['records']:,} records" if plan["records"] else ""
    who = f"for an adversary who knows {knows[plan['adversary']]}"
    title = f"{plan['query']}{over}, epsilon {number(plan['epsilon'])}, {who}"
    if plan["secrets"]:
        title += "; secrets: " + "; ".join(f"{a} against {b}" for a, b in plan["secrets"])
    parts = [textwrap.fill(title, 96), "", table(head, rows, left=2)]
    parts += decides(next(c for c in plan["candidates"] if c["mechanism"] == plan["best"]))
    if plan["limit"] is not None and plan["limit"]["hopeless"]:
        parts += ["", textwrap.fill(hopeless(plan["limit"]), 96)]
    if reasons:
        parts += ["", "Does not apply:", *reasons]
    return "\n".join([*parts, *_hidden(plan["candidates"], alike)])


def hopeless(limit: dict[str, Any]) -> str:
    """That no mechanism can do well, with the number, and what would help."""
    return (
        f"No mechanism can do well here: two data sets whose answers are {number(limit['apart'])} apart must look "
        f"alike, so for one of them an error of {number(limit['error'])} or more has a probability of at least "
        f"{limit['probability']:.2g}, whatever the mechanism. What would help: {limit['way_out']}."
    )


def shown_candidates(candidates: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The candidates people look at, and the curves that need as much noise as one of them."""
    shown = [c for c in candidates if not c["mechanism"].startswith("curve-")]
    alike = []
    for c in (c for c in candidates if c["mechanism"].startswith("curve-") and c["applies"]):
        if any(other["applies"] and math.isclose(c["scale"], other["scale"], rel_tol=1e-9) for other in shown):
            alike.append(c["mechanism"])
        else:
            shown.append(c)
    return [c for c in candidates if c in shown], alike


def _hidden(candidates: list[dict[str, Any]], alike: list[str]) -> list[str]:
    """The curves a table leaves out, by name."""
    absent = [c["mechanism"] for c in candidates if c["mechanism"].startswith("curve-") and not c["applies"]]
    said = f"As much noise as one above: {', '.join(alike)}. " if alike else ""
    said += f"{len(absent)} curves do not apply; --json says why." if absent else ""
    return ["", textwrap.fill(said.strip(), 96)] if said else []


def decides(candidate: dict[str, Any]) -> list[str]:
    """What the noise of a mechanism rests on, if it says so."""
    said = what_decides(candidate)
    return ["", textwrap.fill(said, 96)] if said else []


def what_decides(candidate: dict[str, Any]) -> str:
    """The same in one sentence; empty where it says nothing."""
    quilt, transport, name = candidate["quilt"], candidate["transport"], candidate["mechanism"]
    if transport is not None and transport["first"] is None:
        return f"{name}: the answer does not depend on any secret, so it needs no noise."
    if transport is not None:
        far = number(transport["distance"])
        return f"{name} rests on: {transport['first']} or {transport['second']}, answers {far} apart."
    if quilt is None:
        return ""
    ends = ", ".join(str(end) for end in quilt["ends"]) or "none"
    said = (
        f"{name} rests on: record {quilt['node']}, {number(quilt['nearby'])} nearby, ends {ends} "
        f"(influence {number(quilt['influence'])})."
    )
    if quilt["skipped"]:
        said += f" {quilt['skipped']:,} quilts were too large to compute and left out."
    return said


def plan_chart(plan: dict[str, Any], width: int = 60) -> str:
    """Expected error of each mechanism as bars, on a logarithmic scale; hatched where there is no guarantee."""
    shown = [c for c in shown_candidates(plan["candidates"])[0] if c["expected_l1_error"] is not None]
    logs = [math.log10(c["expected_l1_error"]) for c in shown if c["expected_l1_error"]]
    low, high = min(logs, default=0.0) - 0.3, max(logs, default=0.0)
    name = max(len(c["mechanism"]) for c in shown)
    lines = ["expected error (logarithmic)"]
    for c in shown:
        error = c["expected_l1_error"]
        bar = max(1, round((math.log10(error) - low) / max(high - low, 1e-9) * width)) if error else 0
        mark = ("█" if c["applies"] else "░") * bar
        note = "" if c["applies"] else "  no guarantee"
        lines.append(f"{c['mechanism'].ljust(name)}  {mark} {number(c['expected_l1_error'])}{note}")
    return "\n".join(lines)


def release_table(certificate: dict[str, Any]) -> str:
    """A released answer, coordinate by coordinate, with its estimates and its promise."""
    labels, denoised = certificate["labels"], certificate["denoised"]
    head = [certificate["query"]["name"].partition(":")[0], "released", "estimate"]
    columns = [labels, *([number(v) for v in listed(certificate[name])] for name in ("answer", "estimate"))]
    said = []
    if denoised is not None:
        head += ["denoised", f"{100 * denoised['probability']:.4g} % between", "and"]
        columns += [[number(v) for v in listed(denoised[name])] for name in ("mean", "low", "high")]
        said = [textwrap.fill(f"Warning: {words}", 96) for words in surprise(certificate)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return "\n".join([table(head, rows, least=8), "", *said, promise(certificate)])


def surprise(certificate: dict[str, Any]) -> list[str]:
    """Whether the model explains the answer. Several numbers get as many chances to look odd, so each counts less."""
    denoised, labels = certificate["denoised"], certificate["labels"]
    far = listed(denoised["surprise"]) if denoised is not None else [1.0]
    least = min(far)
    if least * len(far) >= HARDLY:
        return []
    which = f"{labels[far.index(least)]}: " if len(far) > 1 else ""
    rare = f"at most {number(least)}" if least <= LEAST_SURPRISE else number(least)
    said = f"{which}The model hardly explains this answer: one so far out has probability {rare} under it."
    return [f"{said} Mistrust the model, and the denoised numbers with it."]


def flip_design(design: dict[str, Any]) -> str:
    """A channel, and what it promises."""
    labels, rho = design["labels"], design["rho"]
    if len(labels) == 2:
        head, rows = ["state", "flips with probability"], [[n, number(p)] for n, p in zip(labels, rho, strict=True)]
    else:
        head = ["state", *(f"becomes {name}" for name in labels)]
        rows = [[name, *(number(p) for p in row)] for name, row in zip(labels, rho, strict=True)]
    long = f"up to {design['length']:,} records" if design["length"] else "any number of records"
    knows = {"bdp": "any set of other records", "pufferfish": "no record", "dp": "all other records"}
    title = f"{design['mechanism']}, {long}, epsilon {number(design['epsilon'])}, "
    title += f"for an adversary who knows {knows[design['adversary']]}"
    said = (
        f"One record leaks at most {number(design['loss'])}; {100 * design['expected_noise']:.4g} % of the records "
        f"change. DP loss of each record: {number(design['dp_loss'])}."
    )
    return "\n".join([textwrap.fill(title, 96), "", table(head, rows), "", textwrap.fill(said, 96)])


def series_promise(certificate: dict[str, Any]) -> str:
    """What the certificate of a sanitised series promises."""
    guarantee, channel = certificate["guarantee"], certificate["channel"]
    matrix = channel["matrix"]
    design = {
        "labels": certificate["labels"],
        "rho": [matrix[0][1], matrix[1][0]] if len(matrix) == 2 else matrix,
        "length": channel["length"],
        "mechanism": certificate["mechanism"]["name"],
        "epsilon": guarantee["epsilon"],
        "adversary": guarantee["adversary"],
        **{name: channel[name] for name in ("loss", "expected_noise", "dp_loss")},
    }
    once = certificate["once"]
    sentences = [guarantee["statement"], f"{once[0].upper()}{once[1:]}."]
    sentences += [f"Warning: {w}." for w in certificate["warnings"]]
    return "\n".join([flip_design(design), "", *(textwrap.fill(s, 96) for s in sentences)])


def listed(value: Any) -> list[Any]:
    """One number or several, as several."""
    return value if isinstance(value, list) else [value]


def _charged(row: dict[str, Any] | None) -> list[str]:
    """Where a release was charged."""
    if row is None:
        return []
    return [f"Charged to data set {row['dataset']!r} as row {row['position']}, {row['head'][:12]}…"]


def promise(certificate: dict[str, Any]) -> str:
    """What a certificate promises, in sentences."""
    if "query" not in certificate:
        from pufferdp.report.pages.redaction import redaction_promise

        return redaction_promise(certificate)
    accuracy, guarantee = certificate["accuracy"], certificate["guarantee"]
    sentences = [
        guarantee["statement"],
        f"Noise: {certificate['noise']['kind']}, scale {number(certificate['noise']['scale'])}, by "
        f"{certificate['mechanism']['name']}. With probability {1 - accuracy['beta']:.4g} every number errs by less "
        f"than {number(accuracy['alpha'])}.",
        *_charged(certificate.get("ledger")),
        *(f"Warning: {w}." for w in certificate["warnings"]),
    ]
    return "\n".join(textwrap.fill(s, 96) for s in sentences)
