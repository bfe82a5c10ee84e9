"""Wrong model files that are not chains: exit 2, one sentence that names the mistake, and nothing left behind."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Run, write
from tests.apps.cli.records import ANY, BIF, GROUPS, JOINT, NETWORK, joint
from tests.apps.cli.test_bad_input import Case, check_refusal, check_sentence

PLAN = "plan model.json --query histogram --epsilon 1 --json"


def model(name: str, content: Any, *words: str, **files: Any) -> Case:
    """A wrong model file, met by plan."""
    return Case(name, PLAN.split(), ("model.json", *words), 2, {"model.json": content, **files})


def node(at: int, **keys: Any) -> dict[str, Any]:
    """The usual network with one node changed; a key with the value ``...`` is removed."""
    changed = copy.deepcopy(NETWORK)
    changed["nodes"][at] = {k: v for k, v in {**changed["nodes"][at], **keys}.items() if v is not ...}
    return changed


def bif(name: str, old: str, new: str, *words: str) -> Case:
    """The usual BIF file with one thing changed."""
    assert BIF.count(old) == 1, name
    content = {"type": "bayesian_network", "bif": "a.bif"}
    return model(f"BIF {name}", content, "a.bif", *words, **{"a.bif": BIF.replace(old, new)})


def file(name: str, path: Any, *words: str, **files: Any) -> Case:
    """A network in a file that cannot be had."""
    return model(f"BIF file {name}", {"type": "bayesian_network", "bif": path}, *words, **files)


def distribution(*first: float) -> dict[str, Any]:
    """The usual groups with another distribution of the first."""
    return {**GROUPS, "positives": [list(first), GROUPS["positives"][1]]}


NETWORKS = [
    model("cycle", node(0, parents=["street"], table=[[0.6, 0.4]] * 2), "season -> rain -> street -> season"),
    model("own parent", node(0, parents=["season"], table=[[0.6, 0.4]] * 2), "'season'", "own parent"),
    model("row sums to 0.9", node(1, table=[[0.9, 0.1], [0.4, 0.5]]), "season = wet", "'rain'", "0.9", "sum to 1"),
    model("root sums to 1.1", node(0, table=[0.6, 0.5]), "'season'", "1.1", "sum to 1"),
    model("negative", node(1, table=[[1.9, -0.9], [0.4, 0.6]]), "season = dry", "'rain'", "-0.9", "between 0 and 1"),
    model("unknown parent", node(1, parents=["sun"]), "'rain'", "'sun'", "season, rain, sprinkler"),
    model("parent twice", node(1, parents=["season"] * 2), "'rain'", "'season' twice", "once"),
    model("table too flat", node(1, table=[0.9, 0.1]), "'rain'", "2×2", "2 states of 'season'"),
    model("table of another shape", node(3, table=[[0.5, 0.5]] * 2), "'grass'", "2×2;", "2×2×2"),
    model("table too wide", node(0, table=[0.5, 0.25, 0.25]), "'season'", "list of 3", "own 2 states"),
    model("ragged table", node(1, table=[[0.9, 0.1], [1]]), "'rain'", "same length"),
    model("text in a table", node(1, table=[[0.9, 0.1], [0.4, "most"]]), "'rain'", "number"),
    model("table is text", node(1, table="uniform"), "nodes.1.table", "uniform", "a list"),
    model("NaN in a table", node(0, table=[float("nan"), 1]), "'season'", "nan", "between 0 and 1"),
    model("no table", node(1, table=...), "nodes.1.table", "missing"),
    model("no name", node(1, name=...), "nodes.1.name", "missing"),
    model("empty name", node(1, name=""), "name is ''", "not empty"),
    model("no states", node(1, states=...), "nodes.1.states", "missing"),
    model("empty states", node(1, states=[]), "'rain'", "list of names"),
    model("state twice", node(1, states=["no", "no"]), "'rain'", "'no'", "twice"),
    model("name twice", node(2, name="rain"), "'rain'", "twice", "own name"),
    model("unknown key of a node", node(1, tabel=[1]), "nodes.1.tabel", "not a key"),
    model("unknown key", {**NETWORK, "edges": []}, "edges", "not a key", "bayesian_network"),
    model("no nodes", {**NETWORK, "nodes": []}, "nodes is empty", "at least one"),
    model("neither nodes nor a file", {"type": "bayesian_network"}, "neither nodes nor bif", "BIF file"),
    model("nodes and a file", {**NETWORK, "bif": "a.bif"}, "nodes and bif", "both"),
    model("node is a number", {**NETWORK, "nodes": [3]}, "nodes.0 is 3", "braces"),
    model("values for some", {**NETWORK, "values": {"yes": 1}}, "values", "dry, wet, no, yes"),
    model("values in a list", {**NETWORK, "values": [1, 2]}, "values is [1, 2]", "braces"),
    model("value is text", {**NETWORK, "values": {"yes": "one"}}, "values.yes", "one", "a number"),
]

BIFS = [
    file("missing", "no.bif", "'no.bif'", "does not exist"),
    file("in a missing folder", "no/a.bif", "'no/a.bif'", "does not exist"),
    file("is a folder", "nets", "'nets'", "folder", nets=None),
    file("empty", "a.bif", "a.bif", "no variable", **{"a.bif": ""}),
    file("binary", "a.bif", "'a.bif'", "not text", **{"a.bif": b"\x89PNG\xff\xfe\x00"}),
    file("named by a number", 3, "bif is 3", "text"),
    bif("row sums to 0.9", "0.4, 0.6;", "0.4, 0.5;", "line 7", "'rain'", "0.9", "expected 1"),
    bif("row is missing", "  (wet) 0.4, 0.6;\n", "", "line 5", "(wet)", "default row"),
    bif("row twice", "(wet)", "(dry)", "line 7", "(dry)", "twice", "line 6"),
    bif("row of an unknown state", "(wet)", "(damp)", "line 7", "'damp'", "dry, wet"),
    bif("row too long", "0.4, 0.6;", "0.4, 0.3, 0.3;", "line 7", "3 numbers", "expected 2"),
    bif("word for a number", "0.4, 0.6;", "0.4, lots;", "line 7", "'lots'", "expected a number"),
    bif("above 1", "0.9, 0.1", "1.9, -0.9", "line 6", "'1.9'", "between 0 and 1"),
    bif("unknown parent", "rain | season", "rain | sun", "line 5", "'sun'", "declare it"),
    bif("cycle", "( season ) { table 0.6, 0.4; }", "( season | rain ) { default 0.6, 0.4; }", "season -> rain"),
    bif("wrong number of states", "[ 2 ] { no", "[ 3 ] { no", "line 3", "'rain'", "[3]", "names 2"),
    bif("continuous", "discrete [ 2 ] { dry", "continuous [ 2 ] { dry", "line 2", "'continuous'", "discrete"),
    bif("no probabilities", "probability ( season ) { table 0.6, 0.4; }\n", "", "line 2", "'season'", "give it one"),
    bif("variable twice", "variable rain", "variable season", "line 3", "'season'", "twice", "line 2"),
    bif("two blocks", "( season )", "( rain )", "line 5", "'rain'", "two probability blocks", "line 4"),
    bif("block of nobody", "( season )", "( seasn )", "line 4", "'seasn'", "declare it"),
    bif("breaks off", "0.4, 0.6;\n}\n", "0.4, 0.6;\n", "end of the file", "'}'"),
    bif("no semicolon", "0.4, 0.6;", "0.4, 0.6", "line 8", "'}'", "';'"),
    bif("comment not closed", "network rain", "/* network rain", "line 1", "comment", "close it"),
    bif("of another kind", "network rain", "<BIF> rain", "line 1", "'<BIF>'", "network, variable or probability"),
]

TABLES = [
    model("outcomes sum to 0.9", joint(([0, 0], 0.5), ([1, 1], 0.4)), "probabilities", "0.9", "sum to 1"),
    model("outcome twice", joint(([0, 1], 0.5), ([0, 1.0], 0.5)), "outcome 2", "outcome 1", "0, 1", "once"),
    model("outcome too short", joint(([0, 1, 1], 0.5), ([0, 1], 0.5)), "outcome 2 has 2", "outcome 1 has 3"),
    model("outcome of an unknown value", joint(([0, 1], 0.5), ([0, 2], 0.5)), "outcome 2", "'2'", "0, 1"),
    model("outcome negative", joint(([0, 0], 1.5), ([1, 1], -0.5)), "entry 2", "-0.5", "between 0 and 1"),
    model("outcome empty", joint(([], 1.0)), "outcome 1", "one for each record"),
    model("no outcomes", joint(), "outcomes is empty", "every outcome"),
    model("outcome is a list", {**JOINT, "outcomes": [[0, 1]]}, "outcomes.0 is [0, 1]", "braces"),
    model("probability is text", joint(([0], "all")), "outcomes.0.probability", "all", "a number"),
    model("no values", {**JOINT, "values": []}, "values is []", "may take"),
    model("value twice", {**JOINT, "values": [0, 1, 1.0]}, "value 1", "twice", "once"),
    model("too few names", {**JOINT, "records": ["ann"]}, "records has 1", "3 records"),
    model("record twice", {**JOINT, "records": ["ann", "bob", "ann"]}, "'ann'", "twice", "own name"),
    model("unknown key of a table", {**JOINT, "states": [0, 1]}, "states", "not a key", "joint"),
    model("unknown key of an outcome", {**JOINT, "outcomes": [{"row": [0]}]}, "outcomes.0.records", "missing"),
]

GROUPED = [
    model("one distribution too few", {**GROUPS, "positives": GROUPS["positives"][:1]}, "1 distributions", "2 groups"),
    model("distribution too short", distribution(0.5, 0.5), "distribution 1", "2 entries", "group of 4 needs 5"),
    model("distribution sums to 1.1", distribution(0.1, 0.15, 0.5, 0.15, 0.2), "distribution 1", "1.1", "sum to 1"),
    model("distribution negative", distribution(1.1, -0.1, 0, 0, 0), "distribution 1", "-0.1", "between 0 and 1"),
    model("group of none", {**GROUPS, "sizes": [4, 0]}, "group 2 is 0", "1 or more"),
    model("group of -2", {**GROUPS, "sizes": [4, -2]}, "group 2 is -2", "1 or more"),
    model("group of 2.5", {**GROUPS, "sizes": [4, 2.5]}, "sizes.1 is 2.5", "whole number"),
    model("no groups", {**GROUPS, "sizes": [], "positives": []}, "sizes is []", "each group"),
    model("three states", {**GROUPS, "states": ["a", "b", "c"]}, "3 names", "two states"),
    model("value for one state", {**GROUPS, "values": {"ill": 1}}, "values", "well, ill"),
    model("largest and sizes", {**GROUPS, "largest": 4}, "largest alone", "sizes and positives"),
    model("neither largest nor sizes", {"type": "groups"}, "largest alone", "sizes and positives"),
    model("largest 0", {**ANY, "largest": 0}, "largest is 0", "1 or more"),
    model("largest 2.5", {**ANY, "largest": 2.5}, "largest is 2.5", "whole number"),
    model("largest is text", {**ANY, "largest": "four"}, "largest", "four", "whole number"),
    model("unknown key of groups", {**ANY, "bins": [0, 1, 2]}, "bins", "not a key", "groups"),
]


def several(*models: dict[str, Any]) -> dict[str, Any]:
    return {"type": "class", "models": list(models)}


CLASSES = [
    model("empty class", several(), "models is empty", "at least one"),
    model("class without models", {"type": "class"}, "models", "missing"),
    model("class of other records", several(JOINT, NETWORK), "model 2", "different records", "agree"),
    model(
        "class of other states", several(JOINT, {**JOINT, "values": [0, 1, 2]}), "model 2", "different states", "agree"
    ),
    model("class of other values", several(GROUPS, {**GROUPS, "values": {"well": 0, "ill": 2}}), "model 2", "values"),
    model("class with a chain", several(JOINT, CHAIN), "models.1.type", "markov_chain", "joint"),
    model("class in a class", several(several(JOINT)), "models.0.type", '"class"', "joint"),
    model("class without records", several(ANY), "model 1", "sizes and positives"),
    model("class with a bad row", several(NETWORK, node(0, table=[0.5, 0.4])), "model 2", "'season'", "0.9"),
    model("class with a missing file", several({"type": "bayesian_network", "bif": "no.bif"}), "model 1", "'no.bif'"),
]


def query(name: str, content: Any, asked: str, *words: str) -> Case:
    """A query that does not fit the model."""
    args = [*PLAN.replace("histogram", asked.split()[0]).split(), *asked.split()[1:]]
    return Case(name, args, words, 2, {"model.json": content})


WORDS = {"type": "joint", "values": ["a", "b"], "outcomes": [{"records": ["a", "b"], "probability": 1}]}
QUERIES = [
    query("count of a state nobody has", NETWORK, "count:maybe", "'maybe'", "dry, wet, no, yes"),
    query("count in groups", ANY, "count:dead", "'dead'", "well, ill"),
    query("sum of names", NETWORK, "sum", "sum needs numbers", "a value for each state"),
    query("mean of names", WORDS, "mean", "mean needs numbers", "a value for each state"),
    query("count that never moves", joint(([0, 0], 1), values=[0]), "count:0", "count:0", "no record"),
    query("sum that never moves", {**GROUPS, "values": {"well": 2, "ill": 2}}, "sum", "2", "tells nothing"),
    query("frequency of any number", ANY, "frequency", "frequency", "number of records", "--length"),
    query("mean of any number", ANY, "mean", "mean", "number of records", "--length"),
    query("length of a network", NETWORK, "histogram --length 7", "7", "5 records"),
    query("lengths of a network", NETWORK, "histogram --lengths 2,3", "2", "5 records"),
    query("length of a class", several(JOINT), "sum --length 4", "4", "3 records"),
    query("a chain without a length", CHAIN, "histogram", "--length", "--lengths"),
]

CASES = [*NETWORKS, *BIFS, *TABLES, *GROUPED, *CLASSES, *QUERIES]


@pytest.mark.parametrize("wrong", [pytest.param(c, id=c.name) for c in CASES])
def test_a_wrong_model_is_refused_with_one_sentence(wrong: Case, run: Run, folder: Path) -> None:
    write(folder, wrong.files)
    check_refusal(wrong, run, folder)


def test_case_names_are_unique() -> None:
    assert len({c.name for c in CASES}) == len(CASES)


def test_clip_gives_no_numbers_to_named_records(run: Run, folder: Path) -> None:
    write(folder, {"model.json": NETWORK})
    result = run("plan", "model.json", "--query", "sum", "--clip", "0", "1", "--epsilon", "1")
    assert result.code == 2
    check_sentence(result, ("sum needs numbers", "a value for each state"))
    assert "--clip" not in result.err  # it was given, and does not help
