"""Wrong models that are not chains, wrong data for them: exit 2 or 3, one sentence, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Run, series, write
from tests.apps.cli.records import ANY, BIF, ILL, JOINT, NETWORK, WEATHER, csv
from tests.apps.cli.test_bad_input import Case, check_refusal, check_sentence

PLAN = "plan model.json --query histogram --epsilon 1 --json"


def model(name: str, content: Any, *words: str, **files: Any) -> Case:
    """A wrong model file, met by plan."""
    return Case(name, PLAN.split(), ("model.json", *words), 2, {"model.json": content, **files})


MODELS = [
    model("BIF file missing", {"type": "bayesian_network", "bif": "no.bif"}, "'no.bif'", "does not exist"),
    model(
        "BIF row sums to 0.9",
        {"type": "bayesian_network", "bif": "a.bif"},
        *("a.bif", "line 7", "'rain'", "0.9", "expected 1"),
        **{"a.bif": BIF.replace("0.4, 0.6;", "0.4, 0.5;")},
    ),
    model(
        "class of other records",
        {"type": "class", "models": [JOINT, NETWORK]},
        *("model 2", "different records", "agree"),
    ),
]


def query(name: str, content: Any, asked: str, *words: str) -> Case:
    """A query that does not fit the model."""
    args = [*PLAN.replace("histogram", asked.split()[0]).split(), *asked.split()[1:]]
    return Case(name, args, words, 2, {"model.json": content})


QUERIES = [
    query("count in groups", ANY, "count:dead", "'dead'", "well, ill"),
    query("sum of names", NETWORK, "sum", "sum needs numbers", "a value for each state"),
    query("frequency of any number", ANY, "frequency", "frequency", "number of records", "--length"),
    query("length of a network", NETWORK, "histogram --length 7", "7", "5 records"),
    query("lengths of a network", NETWORK, "histogram --lengths 2,3", "2", "5 records"),
    query("length of a class", {"type": "class", "models": [JOINT]}, "sum --length 4", "4", "3 records"),
    query("a chain without a length", CHAIN, "histogram", "--length", "--lengths"),
]

RELEASE = "release data.csv --model model.json --column state --query histogram --epsilon 1 --json --out r.json"
SECRETS: dict[str, Any] = {
    "secrets": {"flood": {"street": "yes"}, "none": {"street": "no"}},
    "pairs": [["flood", "none"]],
}


def weather(name: str, options: str, *words: str, data: str = WEATHER, code: int = 2, **files: Any) -> Case:
    """A release from the network."""
    usual = RELEASE.replace("--query histogram ", "") if "--query" in options else RELEASE
    return Case(name, [*usual.split(), *options.split()], words, code, {"data.csv": data, **files})


def rows(name: str, old: str, new: str, *words: str) -> Case:
    """A release from data with one thing changed."""
    assert WEATHER.count(old) == 1, name
    return weather(name, "--id who", *words, data=WEATHER.replace(old, new))


def other(name: str, model: Any, content: str, options: str, *words: str, code: int = 2) -> Case:
    """A release from another model."""
    return weather(name, options, *words, data=content, code=code, **{"model.json": model})


def secrets(name: str, content: Any, *words: str, options: str = "--adversary pufferfish", model: Any = None) -> Case:
    """Secrets of one's own, met by plan."""
    args = f"plan model.json --query count:yes --epsilon 1 --json --secrets s.json {options}".split()
    files = {} if content is ... else {"s.json": content}
    return Case(f"secrets: {name}", args, words, 2, {**files, **({} if model is None else {"model.json": model})})


def when(condition: Any) -> dict[str, Any]:
    """The usual secrets, one of which holds when this does."""
    return {**SECRETS, "secrets": {**SECRETS["secrets"], "flood": condition}}


DATA = [
    weather("id missing", "", "id is missing", "season", "--id"),
    Case("id empty", [*RELEASE.split(), "--id", ""], ("id is ''", "name of a column"), 2, {"data.csv": WEATHER}),
    rows("record twice", "street,no", "grass,no", "'grass'", "'who'", "more than once", "drop"),
    rows("state of another record", "season,wet", "season,yes", "'yes'", "'season'", "dry, wet", "correct"),
    weather("file empty", "--id who", "data.csv", "empty", data=""),
]

OPTIONS = [
    weather("order", "--id who --order who", "order is 'who'", "series", "--id"),
    weather("by", "--id who --by who", "by is 'who'", "series", "--id"),
    weather("restart", "--id who --restart 10min", "restart is '10min'", "no order column", "--order"),
    weather("bins", "--id who --bins 0,1,2", "bins is '0,1,2'", "series"),
    weather("missing kept", "--id who --missing keep", "missing is 'keep'", "every record", "fill it in"),
    weather("id and no model file", "--id who --model no.json", "'no.json'", "does not exist"),
    other("id with a chain", CHAIN, series(), "--id person --column activity", "id is 'person'", "--order"),
    other("id with groups of any kind", ANY, ILL, "--id house", "id is 'house'", "--by"),
    other(
        "group too large", {**ANY, "largest": 2}, ILL, "--by house", "'house'", "3 records", "at most 2", "largest to 3"
    ),
    other(
        "gap cuts no group",
        {**ANY, "largest": 2},
        csv("t,house,state", "1,a,ill", "2,a,ill", "9,a,ill", "10,a,ill"),
        "--by house --order t --restart 3",
        "restart is 3",
        "leave it out",
    ),
    other(
        "missing cuts no group",
        {**ANY, "largest": 2},
        csv("house,state", "a,ill", "a,ill", "a,", "a,ill", "a,ill"),
        "--by house --missing keep",
        "missing is 'keep'",
        "drop those rows",
    ),
]

FRAMEWORKS = [
    secrets("file missing", ..., "'s.json'", "does not exist"),
    secrets("not JSON", "{", "'s.json'", "not JSON", "line 1"),
    secrets("unknown record", when({"strt": "yes"}), "'flood'", "'strt'", "season, rain"),
    secrets("bdp", SECRETS, "adversary is bdp", "knows no record", "pufferfish", options=""),
    weather("release with bdp", "--id who --secrets s.json", "adversary is bdp", "pufferfish", **{"s.json": SECRETS}),
]

REFUSED = [
    *(
        weather(
            f"{name} under {who}", f"--id who --adversary {who} --mechanism {name}", name, "knows no record", code=3
        )
        for name, who in (("wasserstein", "bdp"), ("quilt-exact", "dp"))
    ),
    weather("per-record-dp", "--id who --mechanism per-record-dp", "per-record-dp", "correlated", code=3),
]

CASES = [*MODELS, *QUERIES, *DATA, *OPTIONS, *FRAMEWORKS, *REFUSED]


@pytest.mark.parametrize("wrong", [pytest.param(c, id=c.name) for c in CASES])
def test_what_is_wrong_is_refused_with_one_sentence(wrong: Case, run: Run, folder: Path) -> None:
    """Models, data, options and secrets: rules have their own tests in Python, here are the exit codes."""
    write(folder, {"model.json": NETWORK, **wrong.files})
    check_refusal(wrong, run, folder)


def test_clip_gives_no_numbers_to_named_records(run: Run, folder: Path) -> None:
    write(folder, {"model.json": NETWORK})
    result = run("plan", "model.json", "--query", "sum", "--clip", "0", "1", "--epsilon", "1")
    assert result.code == 2
    check_sentence(result, ("sum needs numbers", "a value for each state"))
    assert "--clip" not in result.err  # it was given, and does not help
