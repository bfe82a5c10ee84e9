"""BIF files: what is read is what stands there, and whatever is wrong is named with its line."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given

from pufferdp.basics.errors import ModelError
from pufferdp.models.files import bif as reading
from pufferdp.models.files.json import load_model, model_digest, model_from_dict, model_to_dict
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork
from tests.strategies import SEEDS, examples, networks

SMALL = """network unknown {
}
variable rain {
  type discrete [ 2 ] { no, yes };
}
variable wet {
  type discrete [ 3 ] { <7.5, >=7.5, Asy/Patch };
}
probability ( rain ) {
  table 0.8, 0.2;
}
probability ( wet | rain ) {
  (no) 0.5, 0.25, 0.25;
  (yes) 0.0, 1e-1, 9e-1;
}
"""


@pytest.fixture
def read(tmp_path):
    def from_text(text):
        path = tmp_path / "net.bif"
        path.write_text(text, encoding="utf-8")
        return BayesianNetwork.from_bif(path)

    return from_text


def written(network, generator):
    """A network as BIF, with its blocks and rows in any order and comments where they may stand."""
    blocks = []
    for node in network.nodes:
        states = ", ".join(f'"{s}"' if generator.random() < 0.3 else s for s in node.states)
        kind = f"type discrete [ {len(node.states)} ] {{ {states} }};"
        blocks.append(f"variable {node.name} {{ // a variable\n property x = (1, 2) ;\n {kind} }}")
    tables = []
    for node in network.nodes:
        domains = [network.nodes[network.records.index(p)].states for p in node.parents]
        given = f"| {', '.join(node.parents)} " if node.parents else ""
        rows = []
        for row in itertools.product(*(range(len(d)) for d in domains)):
            head = f"({', '.join(d[x] for d, x in zip(domains, row, strict=True))})" if row else "table"
            rows.append(f"  {head} {', '.join(repr(float(p)) for p in node.table[row])};")
        text = "\n".join(str(r) for r in generator.permutation(rows))
        tables.append(f"probability ( {node.name} {given}) {{ /* rows\n of */\n{text}\n}}")
    blocks += [str(t) for t in generator.permutation(tables)]
    return 'network "any name" { property author = me; }\n' + "\n".join(blocks)


@given(network=networks(), seed=SEEDS)
def test_what_is_written_is_read(tmp_path_factory, network, seed):
    path = tmp_path_factory.mktemp("bif") / "net.bif"
    path.write_text(written(network, np.random.default_rng(seed)))
    again = BayesianNetwork.from_bif(path)
    assert again.records == network.records
    for one, other in zip(again.nodes, network.nodes, strict=True):
        assert (one.states, one.parents) == (other.states, other.parents)
        assert (one.table == other.table).all()


@pytest.mark.parametrize(
    ("name", "nodes", "links", "parameters"),
    [
        ("asia", 8, 8, 18),
        ("insurance", 27, 52, 1008),
        ("pigs", 441, 592, 5618),
    ],
)
def test_the_real_networks(shared_data, tmp_path, name, nodes, links, parameters):
    """Sizes as the bnlearn repository states them, and every row as a plain search through the text finds it."""
    path = shared_data / "bif" / f"{name}.bif"
    network = BayesianNetwork.from_bif(path)
    assert len(network.nodes) == nodes
    assert sum(len(node.parents) for node in network.nodes) == links
    assert sum(node.table[..., 0].size * (len(node.states) - 1) for node in network.nodes) == parameters
    text = path.read_text()
    states = dict(re.findall(r"variable (\S+) \{\s+type discrete \[ \d+ \] \{ (.*?) \};", text))
    states = {variable: tuple(names.split(", ")) for variable, names in states.items()}
    assert {node.name: node.states for node in network.nodes} == states
    found = 0
    for head, body in re.findall(r"probability \( (.*?) \) \{\n(.*?)\n\}", text, flags=re.DOTALL):
        child, *parents = re.split(r" \| |, ", head)
        node = network.nodes[network.position(child)]
        assert node.parents == tuple(parents)
        for line in body.split("\n"):
            row, numbers = re.fullmatch(r"  (?:table|\((.*)\)) (.*);", line).groups()
            place = tuple(states[p].index(s) for p, s in zip(parents, (row or "").split(", "), strict=bool(parents)))
            printed = np.array([float(p) for p in numbers.split(", ")])
            exact = abs(printed.sum() - 1) <= len(printed) * 2**-52
            assert node.table[place] == pytest.approx(printed, rel=0 if exact else 1.1e-7, abs=0)
            found += 1
    assert found == sum(node.table[..., 0].size for node in network.nodes)
    (tmp_path / "m.json").write_text(json.dumps(model_to_dict(network)))
    assert model_digest(load_model(tmp_path / "m.json")) == model_digest(network)


def test_asia_says_what_everybody_knows_of_it(shared_data):
    """The marginal distributions printed with Lauritzen & Spiegelhalter's example."""
    asia = BayesianNetwork.from_bif(shared_data / "bif" / "asia.bif")
    for record, p in [("tub", 0.0104), ("lung", 0.055), ("either", 0.064828), ("xray", 0.11029), ("dysp", 0.4359706)]:
        assert asia.distribution(record)[0] == pytest.approx(p, abs=1e-6)


def test_names_may_hold_odd_characters(read):
    network = read(SMALL)
    assert network.domains == (("no", "yes"), ("<7.5", ">=7.5", "Asy/Patch"))
    assert network.nodes[1].table.tolist() == [[0.5, 0.25, 0.25], [0.0, 0.1, 0.9]]
    quoted = read(SMALL.replace("Asy/Patch", '"two words, // and {a} brace"').replace("\n", "\r\n"))
    assert quoted.domains[1][2] == "two words, // and {a} brace"
    assert read("\ufeff" + SMALL).records == ("rain", "wet")


def test_default_rows_fill_what_is_left_out(read):
    network = read(SMALL.replace("(no) 0.5, 0.25, 0.25;", "default 0.125, 0.375, 0.5;"))
    assert network.nodes[1].table.tolist() == [[0.125, 0.375, 0.5], [0.0, 0.1, 0.9]]
    assert read(SMALL.replace("table 0.8, 0.2", "default 0.8, 0.2")).nodes[0].table.tolist() == [0.8, 0.2]


ROWS = SMALL[SMALL.index("  (no)") : SMALL.rindex("}")]


def test_a_table_with_parents_is_read_in_the_order_in_which_it_makes_sense(read):
    fastest = read(SMALL.replace(ROWS, "table 0.5, 0.25, 0.25, 0, 0.1, 0.9;"))
    slowest = read(SMALL.replace(ROWS, "table 0.5, 0, 0.25, 0.1, 0.25, 0.9;"))
    assert fastest.nodes[1].table.tolist() == slowest.nodes[1].table.tolist() == [[0.5, 0.25, 0.25], [0, 0.1, 0.9]]
    two = SMALL.replace("[ 3 ] { <7.5, >=7.5, Asy/Patch }", "[ 2 ] { a, b }")
    assert read(two.replace(ROWS, "table 0.3, 0.7, 0.7, 0.3;")).nodes[1].table.tolist() == [[0.3, 0.7], [0.7, 0.3]]
    wide = two.replace("[ 2 ] { no, yes }", "[ 4 ] { no, yes, x, y }").replace("0.8, 0.2", "0.7, 0.1, 0.1, 0.1")
    with pytest.raises(ModelError, match="sums to 1 in both orders in which programs write it; expected a row"):
        read(wide.replace(ROWS, "table 0.3, 0.7, 0.6, 0.4, 0.7, 0.3, 0.4, 0.6;"))


def test_rounding_of_printed_digits_is_forgiven_and_nothing_else(read):
    third = read(SMALL.replace("0.5, 0.25, 0.25", "0.3333333, 0.3333333, 0.3333333"))
    assert third.nodes[1].table[0] == pytest.approx([1 / 3] * 3, abs=1e-15)
    mixed = read(SMALL.replace("0.5, 0.25, 0.25", "7.682262e-05, 1.183068e-01, 8.816163e-01"))
    assert mixed.nodes[1].table[0].sum() == pytest.approx(1, abs=3e-16)
    for numbers, total in [
        ("0.333, 0.333, 0.333", "0.999"),  # three digits would explain it, but that is too much to forgive
        ("0.33333330000, 0.33333330000, 0.33333330000", "0.9999999"),  # eleven digits do not
        ("0.5, 0.25, 0.26", "1.01"),
    ]:
        with pytest.raises(ModelError, match=re.escape(f"line 13: the numbers of 'wet' sum to {total}; expected 1")):
            read(SMALL.replace("0.5, 0.25, 0.25", numbers))


def cut(what, instead=""):
    assert what in SMALL
    return SMALL.replace(what, instead, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the file declares no variable; expected variable blocks"),
        ("hello", "line 1: found 'hello'; expected network, variable or probability"),
        ("}" + SMALL, "line 1: found '}'; expected network, variable or probability"),
        (cut("network unknown {\n}", "network unknown"), "line 2: found 'variable'; expected '{'"),
        (cut("rain {", "rain"), "line 4: found 'type'; expected '{'"),
        (cut("}\nvariable wet"), "expected '}'"),
        (SMALL.rstrip()[:-1], "line 15: found the end of the file; expected table, default, a row '(' or '}'"),
        (SMALL.rstrip()[:-2].rstrip("; \n"), "line 14: found the end of the file; expected a number or ';'"),
        (cut("variable rain", "variable"), "line 3: found '{'; expected the name of a variable"),
        (cut("variable wet", "variable rain"), "line 6: variable 'rain' is declared twice; it was on line 3"),
        (cut("discrete", "continuous"), "line 4: found 'continuous'; expected discrete"),
        (cut("  type discrete [ 2 ] { no, yes };\n"), "line 3: variable 'rain' has no states"),
        (cut("[ 2 ]", "[ 3 ]"), "line 4: variable 'rain' is declared with [3] states and names 2"),
        (cut("[ 2 ]", "2"), "line 4: found '2'; expected '['"),
        (cut("{ no, yes };", "{ no, yes }"), "line 5: found '}'; expected ';'"),
        (cut("[ 2 ] { no, yes }", "[ 2 ] { no, no }"), "line 3: node 'rain': state 'no' is named twice"),
        (cut("[ 2 ] { no, yes }", "[ 0 ] { }"), "expected 0"),
        (cut("{ no, yes };", "{ no, yes }; colour red;"), "line 4: found 'colour'; expected '}'"),
        (cut("{ no, yes };", '{ no, "" };'), "line 4: found ''; expected the name of a state or '}'"),
        (cut("{ no, yes };", '{ no, "yes };'), "line 4: a quote is opened and never closed"),
        (cut("table 0.8", "/* table 0.8"), "line 10: a comment is opened and never closed"),
        (cut("table 0.8", "property table 0.8").replace("0.2;", "0.2")[:190], "a property has no end; expected ';'"),
        (cut("( rain )", "( snow )"), "line 9: a probability block for 'snow', which is not a variable"),
        (cut("( rain )", "( rain"), "line 9: found '{'; expected ')' or '|'"),
        (cut("( rain )", "( rain, wet )"), "line 9: found ','; expected ')' or '|'"),
        (cut("| rain )", "| snow )"), "line 12: 'wet' has the parent 'snow', which is not a variable"),
        (cut("| rain )", "| wet )"), "'wet' has no state 'no'"),
        (
            cut("| rain )", "| rain, rain )"),
            "line 13: row (no) of 'wet' names 1 states; expected 2, one for each parent",
        ),
        (SMALL + "probability ( rain ) { table 1, 0; }", "line 16: 'rain' has two probability blocks; the first is on"),
        (SMALL[: SMALL.index("probability ( wet")], "line 6: variable 'wet' has no probability block"),
        (
            cut("(yes) 0.0", "(maybe) 0.0"),
            "line 14: row (maybe) of 'wet': 'rain' has no state 'maybe'; expected one of no, yes",
        ),
        (cut("(yes) 0.0", "(no) 0.0"), "line 14: row (no) of 'wet' is given twice, first on line 13"),
        (
            cut("  (yes) 0.0, 1e-1, 9e-1;\n"),
            "line 12: the block of 'wet' has no row (yes); expected it, or a default row",
        ),
        (cut("  table 0.8, 0.2;\n"), "line 9: the block of 'rain' has no numbers; expected a table"),
        (cut("table 0.8", "(no) 0.8"), "line 10: row (no) of 'rain' names 1 states; expected 0"),
        (cut("0.8, 0.2", "0.8, 0.1, 0.1"), "line 10: found 3 numbers; expected 2, one for each state of 'rain'"),
        (cut("0.25, 0.25;", "0.5;"), "line 13: found 2 numbers; expected 3, one for each state of 'wet'"),
        (cut("0.8, 0.2", "0.8, x"), "line 10: found 'x'; expected a number"),
        (cut("0.8, 0.2", "0.8, 0_2"), "line 10: found '0_2'; expected a number"),
        (cut("0.8, 0.2", "nan, 0.2"), "line 10: found 'nan'; expected a number"),
        (cut("0.8, 0.2", "1.2, -0.2"), "line 10: found '1.2'; a probability lies between 0 and 1"),
        (cut("0.8, 0.2", "-0.2, 1"), "line 10: found '-0.2'; a probability lies between 0 and 1"),
        (cut("0.8, 0.2", "1e9999, 0"), "line 10: found '1e9999'; a probability lies between 0 and 1"),
        (cut("0.8, 0.2", "0.8, 0.1"), "line 10: the numbers of 'rain' sum to 0.9; expected 1"),
        (cut("0.2;", "0.2; table 0.8, 0.2;"), "line 10: table of 'rain' is given twice"),
        (cut("0.2;", "0.2; default 0.8, 0.2;"), "line 10: 'rain' has a table and other rows"),
        (cut("0.2;", "0.2; colour;"), "line 10: found 'colour'; expected table, default, a row '(' or '}'"),
        (cut("0.8, 0.2;", "0.8, 0.2"), "line 11: found '}'; expected a number or ';'"),
        (SMALL.replace(ROWS, "table 0.5, 0.5;"), "line 13: found 2 numbers; expected 6 in the table of 'wet'"),
        (SMALL.replace(ROWS, "table 1, 1, 1, 0, 0, 0;"), "the table of 'wet' has rows that do not sum to 1"),
        (
            SMALL.replace("( rain )", "( rain | wet )").replace("table 0.8, 0.2", "default 0.8, 0.2"),
            "rain -> wet -> rain",
        ),
        (cut("variable rain", "x" * 100), f"line 3: found '{'x' * 60}…'; expected network, variable or probability"),
    ],
)
def test_malformed_files_are_refused(read, text, says):
    with pytest.raises(ModelError) as refused:
        read(text)
    assert "net.bif" in str(refused.value)
    assert says in str(refused.value)


def test_damaged_files_are_refused_in_our_own_words(tmp_path):
    """Cut off anywhere, with any character left out or changed: a network, or an error of ours with a line."""
    path = tmp_path / "net.bif"
    damaged = [SMALL[:n] for n in range(len(SMALL))] + [SMALL[:n] + SMALL[n + 1 :] for n in range(len(SMALL))]
    damaged += [SMALL[:n] + mark + SMALL[n + 1 :] for n in range(len(SMALL)) for mark in '{}()[];,|"/*9']
    damaged = damaged[:: max(1, 100 // examples(25))]
    refused = 0
    for text in damaged:
        path.write_text(text)
        try:
            BayesianNetwork.from_bif(path)
        except ModelError as error:
            assert re.search(r"net\.bif(, line \d+)?: ", str(error))
            refused += 1
    assert refused > len(damaged) / 3


def many_parents(count, states):
    names = ", ".join(f"s{n}" for n in range(states))
    distribution = ", ".join(["1", *["0"] * (states - 1)])
    variables = [f"variable v{n} {{ type discrete [ {states} ] {{ {names} }}; }}" for n in range(count + 1)]
    roots = [f"probability ( v{n} ) {{ table {distribution}; }}" for n in range(1, count + 1)]
    parents = ", ".join(f"v{n}" for n in range(1, count + 1))
    return "\n".join([*variables, *roots, f"probability ( v0 | {parents} ) {{ default {distribution}; }}"])


def test_tables_that_no_memory_holds_are_refused(read):
    assert read(many_parents(10, 2)).nodes[0].table.shape == (2,) * 11
    for count, states, says in [
        (30, 2, "the table of 'v0' has 2,147,483,648 entries; at most 16,777,216 are read"),
        (60, 9, "has about 10^58 entries"),
        (64, 1, "'v0' has 64 parents; at most 63 are allowed"),
    ]:
        with pytest.raises(ModelError) as refused:
            read(many_parents(count, states))
        assert says in str(refused.value)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "latin.bif").write_bytes(b"variable gr\xfcn {")
    monkeypatch.setattr(reading, "LARGEST_FILE", 2**20)
    (tmp_path / "large.bif").write_bytes(b" " * (2**20 + 1))
    for name, says in [
        ("none.bif", "does not exist"),
        (".", "is a folder; name the file in it"),
        ("latin.bif", "is not text; it must be BIF in UTF-8"),
        ("large.bif", "is larger than 1 MB; larger files are not read"),
        ("a\0b", "cannot be read: this is not a file name"),
        ("x" * 300, "cannot be read: File name too long"),
    ]:
        with pytest.raises(ModelError) as refused:
            BayesianNetwork.from_bif(tmp_path / name)
        assert "BIF file" in str(refused.value)
        assert says in str(refused.value)


def test_a_model_file_may_name_a_bif_file_beside_it(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "net.bif").write_text(SMALL)
    raw = {"type": "bayesian_network", "bif": "net.bif", "fitted": {"records": 2}}
    values = {"no": 0, "yes": 1, "<7.5": 0, ">=7.5": 1, "Asy/Patch": 2}
    (tmp_path / "sub" / "model.json").write_text(json.dumps({**raw, "values": values}))
    (tmp_path / "sub" / "class.json").write_text(json.dumps({"type": "class", "models": [raw, raw]}))
    model = load_model(tmp_path / "sub" / "model.json")
    assert isinstance(model, BayesianNetwork)
    assert (model.values, model.fitted) == ((0, 1, 0, 1, 2), {"records": 2})
    assert "bif" not in model_to_dict(model)
    assert model_digest(model_from_dict(model_to_dict(model))) == model_digest(model)
    assert isinstance(load_model(tmp_path / "sub" / "class.json"), ModelClass)
    with pytest.raises(ModelError, match=r"'.*net\.bif' does not exist"):
        model_from_dict(raw, tmp_path)
    assert model_from_dict(raw, tmp_path / "sub").records == ("rain", "wet")
    monkeypatch.chdir(tmp_path / "sub")
    with pytest.raises(ModelError, match=r"names another file, 'net\.bif'.* by value"):
        model_from_dict(raw)
    (tmp_path / "sub" / "model.json").write_text(json.dumps({**raw, "values": {"no": 0}}))
    with pytest.raises(ModelError, match=r"model\.json: .*net\.bif: values must give a number for each of no, yes"):
        load_model(tmp_path / "sub" / "model.json")
    assert math.isclose(model.distribution("wet")[0], 0.4)
