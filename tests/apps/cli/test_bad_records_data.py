"""Wrong data, options and secrets for models that are not chains: exit 2 or 3, one sentence, nothing left behind."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Run, listing, series, write
from tests.apps.cli.records import ANY, GROUPS, ILL, JOINT, NETWORK, WEATHER, YES_NO, csv
from tests.apps.cli.test_bad_input import Case, check_refusal, check_sentence

RELEASE = "release data.csv --model model.json --column state --query histogram --epsilon 1 --json --out r.json"
SECRETS: dict[str, Any] = {
    "secrets": {"flood": {"street": "yes"}, "none": {"street": "no"}},
    "pairs": [["flood", "none"]],
}


def weather(name: str, options: str, *words: str, data: str = WEATHER, code: int = 2, **files: Any) -> Case:
    """A release from the network."""
    usual = RELEASE.replace("--query histogram ", "") if "--query" in options else RELEASE
    return Case(name, [*usual.split(), *options.split()], words, code, {"data.csv": data, **files})


def data(name: str, old: str, new: str, *words: str) -> Case:
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
    weather("id unknown", "--id whom", "'whom'", "who, state"),
    weather("id is the column", "--id state", "'state'", "differ"),
    Case("id empty", [*RELEASE.split(), "--id", ""], ("id is ''", "name of a column"), 2, {"data.csv": WEATHER}),
    data("record twice", "street,no", "grass,no", "'grass'", "'who'", "more than once", "drop"),
    data("record without a row", "street,no\n", "", "1 of the 5", "'street'", "add the rows"),
    data("record unknown", "street", "stret", "'stret'", "'who'", "season, rain", "correct"),
    data("row too many", "street,no\n", "street,no\nstreet,no\n", "6 rows", "5 records", "drop"),
    data("state of another record", "season,wet", "season,yes", "'yes'", "'season'", "dry, wet", "correct"),
    data("state in capitals", "season,wet", "season,Wet", "'Wet'", "dry, wet"),
    data("state missing", "season,wet", "season,", "'state' is missing", "'season'", "fill it in"),
    data("id missing in a row", "season,wet", ",wet", "'who' is missing", "1 row;", "fill it in"),
    weather("header only", "--id who", "no rows", "5 records", data="who,state\n"),
    weather("file empty", "--id who", "data.csv", "empty", data=""),
    weather("column unknown", "--id who --column stat", "stat", "who, state"),
    other(
        "fewer rows than records", JOINT | {"records": ["1", "2", "3"]}, csv("state", "0", "1"), "", "2 rows", "--id"
    ),
    other("more rows than records", GROUPS, csv("state", *["ill"] * 7), "", "7 rows", "6 records"),
    other(
        "records counted from 0", GROUPS, csv("n,state", "0,ill", *(f"{n},ill" for n in range(1, 6))), "--id n", "'0'"
    ),
]

OPTIONS = [
    weather("order", "--id who --order who", "order is 'who'", "series", "--id"),
    weather("by", "--id who --by who", "by is 'who'", "series", "--id"),
    weather("restart", "--id who --restart 10min", "restart is '10min'", "no order column", "--order"),
    weather("bins", "--id who --bins 0,1,2", "bins is '0,1,2'", "series"),
    weather("missing kept", "--id who --missing keep", "missing is 'keep'", "every record", "fill it in"),
    weather("missing unknown", "--id who --missing drop", "missing is 'drop'", "refuse"),
    weather("clip without numbers", "--id who --query sum --clip 0 1", "sum needs numbers", "value for each state"),
    weather("id and no model file", "--id who --model no.json", "'no.json'", "does not exist"),
    other("id with a chain", CHAIN, series(), "--id person --column activity", "id is 'person'", "--order"),
    other("id with groups of any kind", ANY, ILL, "--id house", "id is 'house'", "--by"),
    other("bins with groups", ANY, ILL, "--bins 0,1,2", "bins is '0,1,2'", "series"),
    other(
        "group too large", {**ANY, "largest": 2}, ILL, "--by house", "'house'", "3 records", "at most 2", "largest to 3"
    ),
    other("by unknown", ANY, ILL, "--by home", "'home'", "house, state"),
    other("state unknown to groups", ANY, csv("state", "ill", "dead"), "", "'dead'", "row 2", "well, ill"),
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
    secrets("a list", [1], "s.json", "[1]", '"pairs"'),
    secrets("no pairs", {"secrets": {}}, "s.json", "keys are secrets", '"pairs"'),
    secrets("unknown key", {**SECRETS, "epsilon": 1}, "s.json", "epsilon", '"pairs"'),
    secrets("names in a list", {**SECRETS, "secrets": ["flood"]}, "s.json", '["flood"]', "an object"),
    secrets("empty pairs", {**SECRETS, "pairs": []}, "s.json", "no pair", "in pairs"),
    secrets("pairs are text", {**SECRETS, "pairs": "all"}, "s.json", '"all"', "a list"),
    secrets("pair of three", {**SECRETS, "pairs": [["a", "b", "c"]]}, "s.json", '["a", "b", "c"]', "two names"),
    secrets("pair of unknown names", {**SECRETS, "pairs": [["flood", "fire"]]}, "s.json", "'fire'", "flood, none"),
    secrets(
        "pair with itself", {**SECRETS, "pairs": [["flood", "flood"]]}, "s.json", "'flood'", "itself", "two secrets"
    ),
    secrets("unknown record", when({"strt": "yes"}), "'flood'", "'strt'", "season, rain"),
    secrets("unknown state", when({"street": "soaked"}), "'flood'", "'street'", "'soaked'", "no, yes"),
    secrets("condition is text", when("yes"), "'flood'", '"yes"', "name records"),
    secrets("condition is empty", when({}), "'flood'", "{}", "name records"),
    secrets("no condition", when([]), "'flood'", "no condition", "say when"),
    secrets("state is null", when({"street": None}), "'flood'", "'street' is null", "list of states"),
    secrets("state is true", when({"street": True}), "'flood'", "'street' is true", "list of states"),
    secrets("state is a number", when({"street": 1}), "'flood'", "'street'", "'1'", "no, yes"),
    secrets("state of none", when({"street": []}), "'flood'", "'street' is []", "list of states"),
    secrets("state in braces", when({"street": {"yes": 1}}), "'flood'", '{"yes": 1}', "list of states"),
    secrets("name is empty", {**SECRETS, "secrets": {"": {"street": "yes"}}}, "named ''", "not empty"),
    secrets(
        "probability zero",
        when({"street": "yes"}),
        "'flood'",
        "probability 0",
        model={**NETWORK, "nodes": [*NETWORK["nodes"][:4], {**NETWORK["nodes"][4], "table": [[1, 0], [1, 0]]}]},
    ),
    secrets("bdp", SECRETS, "adversary is bdp", "knows no record", "pufferfish", options=""),
    secrets("dp", SECRETS, "adversary is dp", "knows no record", "pufferfish", options="--adversary dp"),
    secrets(
        "groups of any kind",
        SECRETS,
        "name records",
        "groups",
        model={"type": "groups", "largest": 3, "states": YES_NO},
    ),
    secrets(
        "position beyond a series",
        SECRETS,
        "'street'",
        "1 to 5",
        options="--adversary pufferfish --length 5",
        model={**CHAIN, "states": YES_NO},
    ),
    secrets(
        "several chains",
        SECRETS,
        "one chain",
        options="--adversary pufferfish --lengths 5,5",
        model={**CHAIN, "states": YES_NO},
    ),
    weather("release with bdp", "--id who --secrets s.json", "adversary is bdp", "pufferfish", **{"s.json": SECRETS}),
    weather(
        "release of an unknown record",
        "--id who --adversary pufferfish --secrets s.json",
        "'flood'",
        "'strt'",
        **{"s.json": when({"strt": "yes"})},
    ),
]

REFUSED = [
    *(
        weather(
            f"{name} under {who}", f"--id who --adversary {who} --mechanism {name}", name, "knows no record", code=3
        )
        for name in ("wasserstein", "quilt-exact", "gk16")
        for who in ("bdp", "dp")
    ),
    weather("per-record-dp", "--id who --mechanism per-record-dp", "per-record-dp", "correlated", code=3),
    weather("gk16", "--id who --adversary pufferfish --mechanism gk16", "gk16", "not a chain", code=3),
    weather("quilt-approx", "--id who --mechanism quilt-approx", "quilt-approx", "not a chain", code=3),
    other("quilts in groups", ANY, ILL, "--mechanism quilt-exact", "quilt-exact", "inside a group", code=3),
    other(
        "distributions in groups", ANY, ILL, "--adversary pufferfish --mechanism wasserstein", "inside a group", code=3
    ),
    other(
        "quilts in a table",
        JOINT,
        csv("who,state", "ann,0", "bob,0", "cem,0"),
        "--id who --adversary pufferfish --mechanism quilt-exact",
        "quilt-exact",
        "graph",
        code=3,
    ),
    weather("mechanism unknown", "--id who --mechanism magic", "magic", "wasserstein"),
]

CASES = [*DATA, *OPTIONS, *FRAMEWORKS, *REFUSED]


@pytest.mark.parametrize("wrong", [pytest.param(c, id=c.name) for c in CASES])
def test_wrong_input_is_refused_with_one_sentence(wrong: Case, run: Run, folder: Path) -> None:
    write(folder, {"model.json": NETWORK, **wrong.files})
    check_refusal(wrong, run, folder)


def test_case_names_are_unique() -> None:
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.slow
def test_a_network_too_large_for_exact_inference(run: Run, folder: Path) -> None:
    """Every two of 24 causes share an effect, so that all causes must be looked at together."""
    causes = [f"cause {letter}" for letter in "abcdefghijklmnopqrstuvwx"]
    both = [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.2, 0.8]]]
    nodes: list[dict[str, Any]] = [{"name": name, "states": YES_NO, "table": [0.6, 0.4]} for name in causes]
    for a, b in itertools.combinations(causes, 2):
        nodes.append({"name": f"{a} and {b}", "states": YES_NO, "parents": [a, b], "table": both})
    rows = csv("who,state", *(f"{node['name']},no" for node in nodes))
    write(folder, {"model.json": {"type": "bayesian_network", "nodes": nodes}, "data.csv": rows})
    before = listing(folder)
    asked = ["--query", "count:yes", "--adversary", "pufferfish"]
    planned = run("plan", "model.json", *asked, "--epsilon", "1", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["best"] == "group"
    assert planned.json["candidates"][0]["scale"] == len(nodes)
    why = {c["mechanism"]: c["reason"] for c in planned.json["candidates"]}
    for mechanism in ("quilt-exact", "wasserstein"):
        assert "'cause " in why[mechanism]
        assert "8,388,608" in why[mechanism]
        usual = RELEASE.replace("--query histogram ", "").split()
        refused = run(*usual, "--id", "who", *asked, "--mechanism", mechanism)
        assert refused.code == 3
        check_sentence(refused, (mechanism, "'cause ", "8,388,608", "--mechanism"))
        assert refused.out == ""
    assert listing(folder) == before
