"""What there is to say of a ledger and its data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, up_to
from pufferdp.report.charts import Axis, Chart, Layer, Line, Rule
from pufferdp.report.page import Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.ledger.balance import DataSet
    from pufferdp.ledger.verify import LedgerCheck

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
    rows = (
        ("budget", up_to(content["budget"], down=True), ""),
        ("leaked at most", up_to(content["leakage"]), up_to(content["spent_dp"])),
        ("left", up_to(content["left"], down=True), up_to(content["left_dp"], down=True)),
    )
    title = f"Data set {content['dataset']}: {_count(content, 'release')}, for an adversary who knows {knows}"
    table = Table(caption="The budget", head=("", "leakage", "DP loss"), rows=rows, least=8)
    return _page(title, table, _total(content), content)


def _flows_page(content: dict[str, Any]) -> Page:
    budget = content["budget"]
    rows = (("budget", budget["tau"]), ("spent", content["spent_tau"]), ("left", content["left_tau"]))
    table = Table(
        caption="The budget",
        head=("", "total variation"),
        rows=tuple((name, up_to(value, down=name != "spent")) for name, value in rows),
    )
    words = (
        f"The promise is about {_SECRETS[budget['privacy']]}, in total variation, with an orbit of radius "
        f"{budget['eta']:g}. The taus of all flows are added up; they never mix with an epsilon."
    )
    return _page(f"Data set {content['dataset']}: {_count(content, 'flow')}", table, words, content)


def _page(title: str, table: Table, words: str, content: dict[str, Any]) -> Page:
    return Page(
        title=title,
        opening=(title,),
        sections=(Section(title="The budget", blocks=(table, Words((words, f"Head: {content['head']}")))),),
        data=content,
        kind="dataset",
    )


def _count(content: dict[str, Any], what: str) -> str:
    return f"{content['releases']:,} {what}{'s' * (content['releases'] != 1)}"


def _total(content: dict[str, Any]) -> str:
    if content["model_sha256"] is None:
        return "It has no model yet: what leaks cannot be said before fit --dp-epsilon has given it one."
    if not content["releases"]:
        return "Nothing was released yet."
    if content["spent_dp"] is None and content["private"] is not None:
        return (
            f"The total is about {content['private']}, and what was redacted depends on values: nothing else can be "
            "released from this data set. A later release needs the model that redact --tilted writes."
        )
    if content["spent_dp"] is None:
        return "Its release gave an answer that no DP loss bounds: the data set is used up."
    if content["private"] is not None and content["curve"] == "own":
        return f"The total is about {content['private']}: what its redaction leaks. Other releases add to it."
    if content["private"] is not None:
        return (
            f"The total is about {content['private']}: what redactions leak about it, and the {content['curve']} "
            "curve at the sum of all DP losses for somebody who knows the records that were released."
        )
    if content["curve"] == "own":
        return (
            "The total is the promise of its only release. With a second one it becomes the leakage curve at the sum "
            "of both DP losses."
        )
    return f"The total is the {content['curve']} curve at the sum of all DP losses."


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
    words = (
        f"All releases from data set {content['dataset']!r} leak at most {up_to(content['leakage'])} of "
        f"{up_to(content['budget'], down=True)}; a DP loss of {up_to(content['left_dp'], down=True)} is left."
    )
    return Words((words if content["left_dp"] else f"{words} Nothing more can be released from it.",))


def datasets_page(datasets: Sequence[DataSet]) -> Page:
    """All data sets of a ledger, a line each."""
    contents = [dataset.to_dict() for dataset in datasets]
    table = Table(
        caption="All data sets",
        head=("data set", "adversary", "releases", "leaked at most", "budget", "DP loss spent", "left"),
        rows=tuple(map(_line, contents)),
        left=2,
    )
    return Page(
        title="A ledger",
        sections=(Section(title="All data sets", blocks=(table,)),),
        data={"datasets": contents},
        kind="ledger",
    )


def _line(content: dict[str, Any]) -> tuple[str, ...]:
    if "spent_tau" in content:
        return (
            content["dataset"],
            "flows",
            f"{content['releases']:,}",
            f"tau {up_to(content['spent_tau'])}",
            f"tau {up_to(content['budget']['tau'], down=True)}",
            "-",
            f"tau {up_to(content['left_tau'], down=True)}",
        )
    return (
        content["dataset"],
        content["adversary"],
        f"{content['releases']:,}",
        up_to(content["leakage"]),
        up_to(content["budget"], down=True),
        up_to(content["spent_dp"]),
        up_to(content["left_dp"], down=True),
    )


def check_page(check: LedgerCheck) -> Page:
    """Whether a ledger holds."""
    content = check.to_dict()
    verdict = f"valid: {_count(content, 'release')}, {check.recomputed} distinct" if check.valid else "NOT valid"
    words = (verdict, *(f"- {p}" for p in check.problems), *(f"Not recomputed: {text}." for text in check.unchecked))
    return Page(
        title="A ledger, recomputed",
        sections=(Section(title="What was found", blocks=(Words(words),)),),
        data=content,
        kind="check",
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
    count = f"{dataset['releases']:,} release{'s' * (dataset['releases'] != 1)}"
    title = f"data set {dataset['dataset']}: {count}{since}"
    return Chart(
        title=title,
        x=Axis(name="releases, in order", low=0.5, high=max(dataset["releases"], 1) + 0.5, whole=True),
        y=Axis(name="total variation" if flows else "leakage about one record", low=0.0, high=1.3 * budget),
        layers=tuple(layers),
        alt=f"Budget of {title}. Leaked at most {up_to(spent)} of {up_to(budget, down=True)}.",
        legend="upper left",
    )
