"""What there is to say of a ledger and its data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.words import number, up_to
from pufferdp.ledger.segments import day_text, place_text, segment_text
from pufferdp.models.units import Unit
from pufferdp.report.charts import Axis, Chart, Layer, Line, Rule
from pufferdp.report.page import Block, Page, Table, Words
from pufferdp.report.pages.common import rows_left_out, single_page

if TYPE_CHECKING:
    from pufferdp.ledger.balance import DataSet
    from pufferdp.ledger.verify import LedgerCheck

_MOST = 10
"""Segments that fit on a terminal."""
_DAY = 86_400 * 10**9
_SECRETS = {
    "orbit": "which chain of the orbit made the data",
    "record": "single records",
    "joint": "which chain of the orbit made the data, and about single records",
}


def dataset_page(dataset: DataSet) -> Page:
    """One data set: what was spent and what is left."""
    content = dataset.to_dict()
    if "spent_tau" in content:
        return _flows_page(content)
    knows = Adversary(content["adversary"]).knows
    rows: tuple[tuple[str, ...], ...] = (
        ("budget", up_to(content["budget"], down=True), ""),
        ("leaked at most", up_to(content["leakage"]), up_to(content["spent_dp"])),
        ("left", up_to(content["left"], down=True), up_to(content["left_dp"], down=True)),
    )
    about = f" about {Unit(**content['period']).words}" if "period" in content else ""
    title = f"Data set {content['dataset']}: {_count(content, 'release')}{about}, for an adversary who knows {knows}"
    head: tuple[str, ...] = ("", "leakage", "DP loss")
    if "delta_budget" in content:
        columns = (
            (up_to(content["delta_budget"], down=True), ""),
            (up_to(content["delta"]), up_to(content["spent_delta"])),
            ("", up_to(content["left_delta"], down=True)),
        )
        rows = tuple((*row, *more) for row, more in zip(rows, columns, strict=True))
        head = (*head, "delta", "DP delta")
    table = Table(caption="The budget", head=head, rows=rows, least=8)
    zone = Unit(**content["period"]).zone if "period" in content else None
    words = " ".join(filter(None, [_total(content), *_others(content), zone]))
    return _page(title, content, words, table, *_segments(dataset))


def _segments(dataset: DataSet) -> tuple[Block, ...]:
    """What was charged where; nothing where every charge was on every record."""
    calendar = dataset.calendar
    if calendar is None:
        return ()
    blocks: list[Block] = []
    shown = sorted(calendar.segments, key=lambda segment: -segment.dp_loss)[:_MOST]
    if shown:
        ordered = [segment for segment in calendar.segments if segment in shown][:_MOST]
        rows = []
        for segment in ordered:
            raw = segment.to_dict(calendar.unit)
            ends = tuple("-" if raw[end] is None else place_text(raw[end], end == "to") for end in ("from", "to"))
            rows.append((*ends, *((_who(raw),) if calendar.by is not None else ()), up_to(segment.dp_loss)))
        more = calendar.count - len(ordered)
        blocks.append(
            Table(
                caption="The largest sums of any record",
                head=("from", "to", *((calendar.by,) if calendar.by is not None else ()), "DP loss"),
                rows=tuple(rows),
                left=3 if calendar.by is not None else 2,
                below=rows_left_out(more, thing="segment"),
            )
        )
    words = []
    if calendar.everywhere and calendar.order is not None:
        words.append(f"A DP loss of {up_to(calendar.everywhere)} was charged on every record.")
    asked = dataset.to_dict().get("asked")
    if asked is not None:
        where = segment_text(asked["from"], asked["to"])
        whose = "" if asked["by"] is None else " of " + ", ".join(asked["by"])
        words.append(
            f"Records {where or 'at any time'}{whose} were charged at most {up_to(asked['dp_loss'])}; for them "
            f"{up_to(asked['left'], down=True)} is left, in DP loss {up_to(asked['left_dp'], down=True)}."
        )
    if calendar.order is not None or calendar.by is not None:
        known = _known_by({"order": calendar.order, "by": calendar.by})
        words.append(f"A record is known by {known}, and must have the same there in every file that is charged.")
    if calendar.zone is not None:
        words.append(calendar.zone)
    return (*blocks, Words(tuple(words)))


def _known_by(content: Mapping[str, Any]) -> str:
    """The columns by which a data set knows its records."""
    return " and ".join(repr(content[name]) for name in ("order", "by") if content[name] is not None)


def _who(raw: dict[str, Any]) -> str:
    if raw["by"] is None:
        return "everybody"
    names = ", ".join(raw["by"][:2])
    rest = raw["people"] - len(raw["by"][:2])
    return f"{names} and {rest:,} more" if rest else names


def _flows_page(content: dict[str, Any]) -> Page:
    budget = content["budget"]
    rows = (("budget", budget["tau"]), ("spent", content["spent_tau"]), ("left", content["left_tau"]))
    table = Table(
        caption="The budget",
        head=("", "total variation"),
        rows=tuple((name, up_to(value, down=name != "spent")) for name, value in rows),
    )
    words = (
        f"The guarantee is about {_SECRETS[budget['privacy']]}, in total variation, with an orbit of radius "
        f"{budget['eta']:g}. The taus of all flows are added up; they never mix with an epsilon."
    )
    return _page(f"Data set {content['dataset']}: {_count(content, 'flow')}", content, words, table)


def _page(title: str, content: dict[str, Any], words: str, *blocks: Block) -> Page:
    said = Words((words, f"Head: {content['head']}"))
    return single_page(title, "The budget", *blocks, said, data=content, kind="dataset", opening=True)


def _count(content: dict[str, Any], what: str) -> str:
    return f"{content['releases']:,} {what}{'s' * (content['releases'] != 1)}"


def _total(content: dict[str, Any]) -> str:
    if not content["releases"] and "others" not in content:
        return "Nothing was released yet."
    if content["spent_dp"] is None and content["private"] is not None:
        return (
            f"The total is about {content['private']}, and what was redacted depends on values: nothing else can be "
            "released from this data set. A later release needs the tilted model of that redaction."
        )
    if content["spent_dp"] is None:
        return "Its release gave an answer that no DP loss bounds: the data set is used up."
    if content["private"] is not None and content["curve"] == "own":
        return f"The total is about {content['private']}: what its redaction leaks. Other releases add to it."
    if content["private"] is not None:
        return (
            f"The total is about {content['private']}: what redactions leak about it, and the {content['curve']} "
            f"curve at {_sum(content)} for an adversary who knows the records that were released."
        )
    if content["curve"] == "own":
        return (
            f"The total is the guarantee of {'the' if 'others' in content else 'its'} only release. With a second one "
            "it becomes the leakage curve at the sum of both DP losses."
        )
    return f"The total is the {content['curve']} curve at {_sum(content)}."


def _others(content: dict[str, Any]) -> list[str]:
    """Which other data sets count, where any do."""
    if "others" not in content:
        return []
    others = content["others"]
    named = ", ".join(repr(name) for name in others["names"][:2])
    more = others["datasets"] - len(others["names"][:2])
    named += f" and {more:,} more" if more else ""
    return [
        f"{_count(others, 'release')} of {named} {'counts' if others['releases'] == 1 else 'count'} too: by "
        f"{'its name it has' if others['datasets'] == 1 else 'their names they have'} the same records."
    ]


def _sum(content: dict[str, Any]) -> str:
    """What the curve is read at."""
    if "period" in content:
        unit = Unit(**content["period"])
        return f"the largest sum of DP losses of any record, {unit.records:,} times for the records of one {unit.noun}"
    if not content["ranges"]:
        return "the sum of all DP losses"
    endless = ", for a series without end" if content["longest"] == MOST_RECORDS else ""
    return f"the largest sum of DP losses of any record{endless}"


def balance_words(dataset: DataSet) -> Words:
    """Where a data set stands after a release, in one sentence or two."""
    content = dataset.to_dict()
    if "spent_tau" in content:
        return Words(
            (
                f"All flows from data set {content['dataset']!r} together keep a total variation of "
                f"{up_to(content['spent_tau'])} of {up_to(content['budget']['tau'], down=True)}; "
                f"{up_to(content['left_tau'], down=True)} is left.",
            )
        )
    leaked = f"All releases from data set {content['dataset']!r} leak at most {up_to(content['leakage'])} of "
    leaked += f"{up_to(content['budget'], down=True)};"
    left = f"a DP loss of {up_to(content['left_dp'], down=True)} is left."
    if content["ranges"]:
        same = f"A record is assumed to have the same {_known_by(content)} in all of them."
        return Words((f"{leaked} where most was charged {left} {same}",))
    return Words((f"{leaked} {left}" + ("" if content["left_dp"] else " Nothing more can be released from it."),))


def datasets_page(datasets: Sequence[DataSet]) -> Page:
    """All data sets of a ledger, a line each."""
    contents = [dataset.to_dict() for dataset in datasets]
    table = Table(
        caption="All data sets",
        head=("data set", "adversary", "releases", "leaked at most", "budget", "DP loss spent", "left"),
        rows=tuple(map(_line, contents)),
        left=2,
    )
    return single_page("A ledger", "All data sets", table, data={"datasets": contents}, kind="ledger")


def _line(content: dict[str, Any]) -> tuple[str, ...]:
    releases = f"{content['releases']:,}"
    if "spent_tau" in content:
        spent, budget, left = content["spent_tau"], content["budget"]["tau"], content["left_tau"]
        taus = (f"tau {up_to(value, down=n > 0)}" for n, value in enumerate((spent, budget, left)))
        leaked, most, rest = taus
        return content["dataset"], "flows", releases, leaked, most, "-", rest
    leaked, most = up_to(content["leakage"]), up_to(content["budget"], down=True)
    spent, left = up_to(content["spent_dp"]), up_to(content["left_dp"], down=True)
    return content["dataset"], content["adversary"], releases, leaked, most, spent, left


def check_page(check: LedgerCheck) -> Page:
    """Whether every row of a ledger holds."""
    content = check.to_dict()
    verdict = f"valid: {_count(content, 'release')}, {check.recomputed} distinct" if check.valid else "NOT valid"
    words = (verdict, *(f"- {p}" for p in check.problems), *(f"Not recomputed: {text}." for text in check.unchecked))
    return single_page("A ledger, recomputed", "What was found", Words(words), data=content, kind="check")


def budget_calendar(dataset: DataSet) -> Chart:
    """The budget as a calendar: along the order column the largest DP loss of any record, and what is allowed."""
    calendar = dataset.calendar
    assert calendar is not None
    steps = calendar.steps()
    origin, unit, name = 0.0, 1.0, str(calendar.order or "all records")
    if calendar.unit != "number" and steps:
        unit = float(_DAY)
        origin = float(steps[0][0] // _DAY * _DAY)
        name = f"days since {day_text(origin)}"
    x, y = [], []
    for first, last, loss in steps:
        x += [(first - origin) / unit] * 2 + [(last - origin) / unit] * 2
        y += [calendar.everywhere, loss, loss, calendar.everywhere]
    layers: list[Layer] = []
    if x:
        layers.append(Line(x=tuple(x), y=tuple(y), label="largest DP loss of any record", series=0, bold=True))
    allowed = None if dataset.left_dp is None else dataset.spent_dp + dataset.left_dp
    if allowed is not None:
        layers.append(Rule(at=allowed, label=f"allowed, {up_to(allowed, down=True)}", series=3))
    title = f"data set {dataset.name}: {dataset.releases:,} release{'s' * (dataset.releases != 1)}"
    return Chart(
        title=title,
        x=Axis(name=name),
        y=Axis(name="DP loss", low=0.0, high=1.3 * max(allowed or 0.0, *y, 1e-9)),
        layers=tuple(layers),
        alt=f"Calendar of {title}. The largest sum of any record is {up_to(dataset.spent_dp)}"
        + ("." if allowed is None else f" of {up_to(allowed, down=True)}."),
        legend="upper left",
    )


def budget_over_time(dataset: dict[str, Any], releases: list[dict[str, Any]]) -> Chart:
    """What a data set leaked after each release beside its budget, and the DP losses alone. Of flows, total variation.

    ``dataset`` is what ``ledger show --json`` prints for it, ``releases`` its history.
    """
    flows = "spent_tau" in dataset
    budget = dataset["budget"]["tau"] if flows else dataset["budget"]
    if flows:
        lines = [("spent_tau", "total variation of all flows", 0)]
    else:
        lines = [("leakage", "leaked at most, by all releases", 0), ("spent_dp", "DP losses alone, added up", 1)]
    layers: list[Layer] = []
    for key, label, series in lines:
        known = [(r["release"], r[key]) for r in releases if r[key] is not None]
        if known:
            x, y = (tuple(float(pair[n]) for pair in known) for n in (0, 1))
            layers.append(Line(x=x, y=y, label=label, series=series, bold=series == 0, marked=len(known) <= 40))
    layers.append(Rule(at=budget, label=f"budget, {number(budget)}", series=3))
    spent = dataset["spent_tau"] if flows else dataset["leakage"]
    since = f", {releases[0]['charged'][:10]} to {releases[-1]['charged'][:10]}" if releases else ""
    title = f"data set {dataset['dataset']}: {_count(dataset, 'release')}{since}"
    return Chart(
        title=title,
        x=Axis(name="releases, in order", low=0.5, high=max(dataset["releases"], 1) + 0.5, whole=True),
        y=Axis(name="total variation" if flows else "leakage about one record", low=0.0, high=1.3 * budget),
        layers=tuple(layers),
        alt=f"Budget of {title}. Leaked at most {up_to(spent)} of {up_to(budget, down=True)}.",
        legend="upper left",
    )
