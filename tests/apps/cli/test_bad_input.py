"""Whatever is wrong with the input: exit 2 or 3, one sentence that names it, and nothing left behind."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Result, Run, listing, series, write

PLAN = "plan model.json --query histogram --length 10 --epsilon 1 --json"
RELEASE = "release data.csv --model model.json --column activity --query histogram --epsilon 1 --order rows --json"
FIT = "fit data.csv --column activity --order rows --json"
BINNED = {"type": "markov_chain", "transition": [[0.9, 0.1], [0.4, 0.6]], "bins": [0, 50, 120]}

# Words of the libraries underneath. A person who steers data should never meet them.
JARGON = re.compile(
    r"Traceback|\b[A-Z]\w*(?:Error|Exception)\b|Errno|(?i:input should be|should be a valid|field required|value_error)"
    r"|(?:Binder|Catalog|Parser|Conversion|IO|Invalid Input|CSV) Error|(?i:pydantic|duckdb|narwhals|opendp)"
    r"|\bnp\.|numpy|NoneType|\bNone\b|<class|object at 0x|auto_detect|null_padding|sniff|VARCHAR|BIGINT"
    r"|list\[|\bdict\b|\btuple\b|Possible (?:fixes|solution)|to unpack|JSON compliant|out of range|NaN to integer"
)


@dataclass(frozen=True)
class Case:
    """One wrong input."""

    name: str
    args: list[str]
    words: tuple[str, ...]
    """What the sentence must contain."""
    code: int = 2
    files: dict[str, Any] = field(default_factory=dict)
    """Inputs that differ from the usual ones; a name with the value ``...`` is left out."""


def case(name: str, command: str | list[str], *words: str, code: int = 2, **files: Any) -> Case:
    """A case; file names are written with _ in place of the dot."""
    args = command.split() if isinstance(command, str) else command
    renamed = {re.sub(r"_(json|csv|parquet|xyz|txt)$", r".\1", key): value for key, value in files.items()}
    return Case(name, args, words, code, renamed)


def model(name: str, content: Any, *words: str) -> Case:
    """A wrong model file, met by plan."""
    return case(name, PLAN, *words, model_json=content)


def changed(**keys: Any) -> dict[str, Any]:
    """The usual chain with some keys changed, or removed where the value is ``...``."""
    return {k: v for k, v in {**CHAIN, **keys}.items() if v is not ...}


def csv(*rows: str) -> str:
    return "\n".join(rows) + "\n"


def but(command: str, **options: str | None) -> list[str]:
    """A command with options added, replaced or (None) removed."""
    args = command.split()
    for option, value in options.items():
        flag = "--" + option.replace("_", "-")
        if flag in args:
            at = args.index(flag)
            del args[at : at + 2]
        if value is not None:
            args += [flag, value]
    return args


MODELS = [
    model("broken JSON", '{"type": "markov_chain", "transition": [[', "model.json", "not JSON", "line 1"),
    model("empty file", "", "model.json", "empty", "JSON"),
    model("JSON list", [CHAIN], "model.json", "a list"),
    model("JSON number", 7, "model.json", "a number"),
    model("JSON null", "null", "model.json", "nothing"),
    model("number with 5000 digits", '{"type": ' + "1" * 5000 + "}", "model.json"),
    model("deep nesting", "[" * 100_000, "model.json", "not JSON"),
    model("unknown type", changed(type="hidden_semi_markov"), "hidden_semi_markov", "markov_chain"),
    model("no type", changed(type=...), "type", "missing"),
    model("type is a list", changed(type=["markov_chain"]), "type"),
    model("no transition", changed(transition=...), "transition", "missing"),
    model("text in matrix", changed(transition=[[0.5, "half"], [0.5, 0.5]]), "transition", "half", "number"),
    model("true in matrix", changed(transition=[[0, True], [0.5, 0.5]]), "transition", "true", "number"),
    model("null in matrix", changed(transition=[[0.5, None], [0.5, 0.5]]), "transition", "null", "number"),
    model("matrix is text", changed(transition="identity"), "transition", "identity"),
    model("huge whole number", '{"type":"markov_chain","transition":[[' + "9" * 400 + ",1],[0,1]]}", "transition"),
    model("row sums to 0.9", changed(transition=[[0.5, 0.5], [0.5, 0.4]]), "row 2", "0.9"),
    model("start with text", changed(start=["a", 1]), "start", "stationary"),
    model("states is text", changed(states="ab"), "states", "ab"),
    model("state is a list", changed(states=[["a"], "b"]), "states"),
    model("values with text", changed(values=[1, "two"]), "values", "two"),
    model("fitted is text", changed(fitted="yes"), "fitted", "yes"),
    model("empty class", {"type": "markov_class", "models": []}, "models", "empty"),
    model("class without models", {"type": "markov_class"}, "models", "missing"),
    model(
        "class inside a class",
        {"type": "markov_class", "models": [{"type": "markov_class", "models": [CHAIN]}]},
        "models.0",
        "markov_chain",
    ),
    model(
        "interval low above high",
        {"type": "markov_interval", "low": [[0.5, 0.2], [0.2, 0.2]], "high": [[0.4, 0.9], [0.9, 0.9]]},
        "0.5",
        "0.4",
        "low must not exceed high",
    ),
    model(
        "box with no chain",
        {"type": "markov_interval", "low": [[0.1, 0.1], [0.1, 0.1]], "high": [[0.4, 0.4], [0.9, 0.9]]},
        "row 1",
        "0.8",
        "no chain",
    ),
    model("interval above 1", {"type": "markov_interval", "low": [[0.5]], "high": [[1.5]]}, "high", "1.5"),
    model("binary_interval above 1", {"type": "binary_interval", "low": 0.2, "high": 1.2}, "high", "1.2"),
    model("binary_interval reversed", {"type": "binary_interval", "low": 0.8, "high": 0.2}, "0.8", "0.2"),
    model("binary_interval text", {"type": "binary_interval", "low": "0.2", "high": 0.5}, "low", "0.2", "number"),
    model("binary_interval NaN", '{"type":"binary_interval","low":NaN,"high":0.5}', "low", "nan"),
    model("model is a folder", None, "model.json", "folder"),
    model("model is binary", b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "model.json", "not text"),
    model("model does not exist", ..., "model.json", "does not exist"),
    case("model in a missing folder", PLAN.replace("model.json", "no/model.json"), "no/model.json", "does not exist"),
    case("model below a file", PLAN.replace("model.json", "data.csv/model.json"), "data.csv/model.json"),
    case("release with a broken model", RELEASE, "model.json", "not JSON", model_json="{"),
    case("answer as a workbook", f"{RELEASE} --out answer.xlsx", "answer.xlsx", ".json"),
]

QUERIES = [
    case("query unknown", but(PLAN, query="mode"), "mode", "histogram"),
    case("query empty", [*but(PLAN, query=None), "--query", ""], "query", "histogram"),
    case("count without state", but(PLAN, query="count"), "count", "count:active"),
    case("count of unknown state", but(PLAN, query="count:sleep"), "sleep", "rest, active"),
    case("function from the command line", but(PLAN, query="function"), "function"),
    case("sum on named states", but(PLAN, query="sum"), "sum", "--clip"),
    case("clip infinite", [*but(PLAN, query="sum"), "--clip", "0", "inf"], "clip", "inf"),
    case("clip wider than a double", [*but(PLAN, query="sum"), "--clip", "-1e308", "1e308"], "clip", "1e+308"),
    case("clip with text", [*but(PLAN, query="sum"), "--clip", "low", "1"], "clip", "low"),
    case("clip with one number", [*but(PLAN, query="sum"), "--clip", "1"], "--clip"),
]

NUMBERS = [
    *(
        case(f"epsilon {text}", but(PLAN, epsilon=text), "epsilon", shown, "above 0")
        for text, shown in (
            ("0", "0"),
            ("-1", "-1"),
            ("inf", "inf"),
            ("nan", "nan"),
            ("-0.0", "0"),
            ("1e400", "inf"),
            ("1e-400", "0"),
        )
    ),
    case("epsilon text", but(PLAN, epsilon="one"), "epsilon", "one", "number"),
    case("epsilon empty", [*but(PLAN, epsilon=None), "--epsilon", ""], "epsilon", "number"),
    case("epsilon so small that noise overflows", but(PLAN, epsilon="1e-310"), "epsilon", "1e-310"),
    case("release epsilon 0", but(RELEASE, epsilon="0"), "epsilon", "0"),
    *(
        case(f"length {text}", but(PLAN, length=text), "length", text)
        for text in ("0", "-1", "1.5", "ten", "inf", "nan", "1e30")
    ),
    case("length missing", but(PLAN, length=None), "--length", "--lengths"),
    case("length and lengths", but(PLAN, lengths="3,4"), "--length", "--lengths"),
    case("lengths empty", [*but(PLAN, length=None), "--lengths", ""], "lengths", "288,288"),
    case("lengths only commas", but(PLAN, length=None, lengths=",,"), "lengths", ",,"),
    case("lengths with an empty entry", but(PLAN, length=None, lengths="3,,4"), "lengths", "3,,4"),
    case("lengths with text", but(PLAN, length=None, lengths="3,x"), "length", "x"),
    case("lengths with 0", but(PLAN, length=None, lengths="3,0"), "length", "0"),
    *(case(f"beta {text}", but(PLAN, beta=text), "beta", text) for text in ("0", "1", "2", "nan", "often")),
    case("release beta 0", but(RELEASE, beta="0"), "beta", "0"),
    case("adversary unknown", but(PLAN, adversary="nsa"), "nsa", "pufferfish"),
    case("adversary in capitals", but(PLAN, adversary="BDP"), "BDP", "bdp"),
    case("release adversary unknown", but(RELEASE, adversary="nsa"), "nsa", "pufferfish"),
    case("mechanism unknown", but(RELEASE, mechanism="magic"), "magic", "group"),
    case("gk16 under bdp", but(RELEASE, mechanism="gk16"), "gk16", "knows no record", code=3),
    case("per-record-dp on a chain", but(RELEASE, mechanism="per-record-dp"), "per-record-dp", "correlated", code=3),
    *(case(f"seed {text}", but(RELEASE, seed=text), "seed", text) for text in ("abc", "1.5", "-1", "inf")),
    case("plan figure ending", but(PLAN, figure="plan.jpg"), "plan.jpg", ".png"),
    case("plan figure without ending", but(PLAN, figure="plan"), "plan", ".png"),
    case("plan figure in a missing folder", but(PLAN, figure="no/plan.png"), "no/plan.png"),
    case("plan figure below a file", but(PLAN, figure="data.csv/plan.png"), "data.csv/plan.png"),
    case("release figure ending keeps nothing", but(RELEASE, out="r.json", figure="r.bmp"), "r.bmp", ".png"),
    case("release figure in a missing folder", but(RELEASE, out="r.json", figure="no/r.svg"), "no/r.svg"),
    case("release out in a missing folder", but(RELEASE, out="no/r.json"), "no/r.json"),
    case("release out empty", [*RELEASE.split(), "--out", ""], "out", "''"),
]

DATA = [
    case("data missing", RELEASE.replace("data.csv", "week.csv"), "week.csv"),
    case("data is a folder", RELEASE.replace("data.csv", "d"), "'d'", ".parquet", d=None),
    case("data is an empty name", ["release", "", *RELEASE.split()[2:]], "path", "empty"),
    case("column unknown", but(RELEASE, column="activty"), "activty", "activity"),
    case("column empty", [*but(RELEASE, column=None), "--column", ""], "column", "''"),
    case("state unknown", RELEASE, "'asleep'", "row 2", data_csv=csv("activity", "rest", "asleep", "active")),
    case("sum of text", [*but(RELEASE, query="sum"), "--clip", "0", "9"], "rest", "row 1", "number"),
    case("missing value", RELEASE, "row 2", "--missing keep", data_csv=csv("activity,n", "rest,1", ",2", "rest,3")),
    case("missing unknown", but(RELEASE, missing="drop"), "drop", "keep"),
    case("gap without order", but(RELEASE, restart="10min"), "10min", "--order"),
    case("bins from quantiles", but(RELEASE, column="steps", bins="quantile:4"), "quantile:4", "leak"),
    case("bins falling", but(RELEASE, column="steps", bins="3,2,1"), "3,2,1", "rising"),
    case("bins auto", but(RELEASE, column="steps", bins="auto"), "auto", "leak"),
    case("bins width 0", but(RELEASE, column="steps", bins="width:0"), "width:0"),
    case("bins width text", but(RELEASE, column="steps", bins="width:wide"), "width:wide"),
    case("bins width NaN", but(RELEASE, column="steps", bins="width:nan"), "width:nan"),
    case("bins infinite", but(RELEASE, column="steps", bins="0,inf"), "0,inf"),
    case("bins other than the model's", but(RELEASE, column="steps", bins="0,60,120"), "0,60,120", model_json=BINNED),
    case("bins wrong number for the model", but(RELEASE, column="steps", bins="0,60"), "bins", "2"),
]

FITS = [
    *(
        case(f"confidence {text}", but(FIT, confidence=text), "confidence", text)
        for text in ("0", "1", "2", "nan", "sure")
    ),
    case("fit a chain that never stays", FIT, "activity", "at least one move", data_csv=csv("activity", "a", "b", "c")),
    case("fit start unknown", but(FIT, start="uniform"), "uniform", "stationary"),
    case("fit bins quantile", but(FIT, column="steps", bins="quantile:4"), "quantile:4", "leak"),
    case("fit bins too narrow", but(FIT, column="steps", bins="width:0.0001"), "width:0.0001", "10000"),
    case("fit bins miss a number", but(FIT, column="steps", bins="0,50,100"), "'110'", "0 to 100"),
    case("fit out in a missing folder", but(FIT, out="no/m.json"), "no/m.json"),
]

VERIFY = [
    case("verify missing file", "verify cert.json --json", "cert.json", "does not exist"),
    case("verify not JSON", "verify cert.json --json", "cert.json", "not JSON", cert_json="{"),
    case("verify empty", "verify cert.json --json", "cert.json", "not JSON", cert_json=""),
    case(
        "verify binary",
        "verify cert.json --json",
        "cert.json",
        "is not text; it must be JSON in UTF-8",
        cert_json=b"\xff\xfe\x00",
    ),
    case("verify a number with 5000 digits", "verify cert.json --json", "cert.json", "not JSON", cert_json="1" * 5000),
    case("verify a folder", "verify cert.json --json", "cert.json", "folder", cert_json=None),
    case("verify a model", "verify model.json --json", "model.json", "certificate"),
    case("verify a list", "verify cert.json --json", "cert.json", "certificate", cert_json=[1]),
    case("verify another schema", "verify cert.json --json", "cert.json", "v9", cert_json={"schema": "v9"}),
    case("verify data", "verify data.csv --json", "data.csv", "not JSON"),
]

WORDS = [
    case("unknown verb", "publish", "publish"),
    case("unknown verb near a known one", "realease", "realease"),
    case("unknown option", "plan model.json --query histogram --length 9 --epsilon 1 --gamma 1", "--gamma"),
    case("plan without query", but(PLAN, query=None), "--query"),
    case("plan without epsilon", but(PLAN, epsilon=None), "--epsilon"),
    case("plan without model", ["plan", *PLAN.split()[2:]], "is missing"),
    case("plan with two models", [*PLAN.split(), "other.json"], "other.json"),
    case("plan option without value", "plan model.json --epsilon", "--epsilon"),
    case("release without model", but(RELEASE, model=None), "--model"),
    case("release without column", but(RELEASE, column=None), "--column"),
    case("release without data", ["release", *RELEASE.split()[2:]], "is missing"),
    case("verify without certificate", "verify", "is missing"),
    case("fit without column", "fit data.csv", "--column"),
    case("demo out is a file", "demo --out data.csv --json", "data.csv"),
    case("demo out below a file", "demo --out data.csv/tour --json", "data.csv/tour"),
    case("demo unknown option", "demo --fast", "--fast"),
]

CASES = [*MODELS, *QUERIES, *NUMBERS, *DATA, *FITS, *VERIFY, *WORDS]


def prepare(folder: Path, files: dict[str, Any]) -> dict[str, str]:
    """Write the inputs of a case and list them."""
    usual = {"model.json": CHAIN, "data.csv": series()}
    write(folder, {name: content for name, content in {**usual, **files}.items() if content is not ...})
    return listing(folder)


def check_sentence(result: Result, words: tuple[str, ...]) -> None:
    """One line on stderr that a person can act on."""
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    line = lines[0]
    assert line.startswith("pufferdp: ")
    for word in words:
        assert word in line, line
    assert not JARGON.search(line), line
    assert len(line.split()) >= 4, line
    assert not line.endswith((":", ",", ";")), line
    assert len(line) < 500, line


def check_refusal(wrong: Case, run: Run, folder: Path) -> None:
    """The command is refused with its sentence, prints nothing else and leaves the folder as it was."""
    before = listing(folder)
    result = run(*wrong.args)
    assert result.code == wrong.code, (result.out[:500], result.err)
    check_sentence(result, wrong.words)
    assert result.out == ""
    assert listing(folder) == before


def _params(cases: list[Case]) -> list[Any]:
    return [pytest.param(c, id=c.name) for c in cases]


@pytest.mark.parametrize("wrong", _params(CASES))
def test_bad_input_is_refused_with_one_sentence(wrong: Case, run: Run, folder: Path) -> None:
    before = prepare(folder, wrong.files)
    result = run(*wrong.args)
    assert result.code == wrong.code, (result.out[:500], result.err)
    check_sentence(result, wrong.words)
    assert result.out == ""
    assert listing(folder) == before


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(c, id=c.name, marks=[pytest.mark.slow] * (c.name != "broken JSON"))  # each starts an interpreter
        for c in CASES
        if c.name in {"broken JSON", "gk16 under bdp"}
    ],
)
def test_the_installed_command_says_the_same(wrong: Case, folder: Path) -> None:
    before = prepare(folder, wrong.files)
    command = Path(sys.executable).with_name("pufferdp")
    done = subprocess.run([command, *wrong.args], capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert done.returncode == wrong.code
    check_sentence(Result(done.returncode, done.stdout, done.stderr), wrong.words)
    assert done.stdout == ""
    assert listing(folder) == before


def test_no_arguments_show_the_help(run: Run, folder: Path) -> None:
    result = run()
    assert result.code == 2
    assert "Usage: pufferdp" in result.out
    assert all(verb in result.out for verb in ("plan", "release", "verify", "fit", "demo"))
    assert result.err == ""


# ---- certificates that were touched ----


def _certificate(run: Run, folder: Path) -> dict[str, Any]:
    prepare(folder, {})
    result = run(*RELEASE.split(), "--seed", "5", "--mechanism", "quilt-exact")
    assert result.code == 0, result.err
    return dict(result.json["certificate"])


def _resealed(content: dict[str, Any]) -> dict[str, Any]:
    """What a careful forger does: change the hash as well."""
    rest = {k: v for k, v in content.items() if k != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**rest, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _set(*path: str, to: Any) -> Any:
    def change(content: dict[str, Any]) -> dict[str, Any]:
        changed = copy.deepcopy(content)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        if to is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to
        return changed

    return change


TAMPERED: list[tuple[str, Any, bool, str]] = [
    ("scale", _set("noise", "scale", to=0.5), False, "hash"),
    ("scale, resealed", _set("noise", "scale", to=0.5), True, "noise.scale is 0.5"),
    ("answer that does not add up", _set("answer", to=[1, 2]), True, "add up"),
    ("estimate, resealed", _set("estimate", to=[6.0, 6.0]), True, "estimate"),
    ("epsilon negative", _set("guarantee", "epsilon", to=-1.0), True, "epsilon is -1"),
    ("adversary unknown", _set("guarantee", "adversary", to="nsa"), True, "nsa"),
    ("removed key", _set("noise", to=...), False, "noise"),
    ("removed hash", _set("sha256", to=...), False, "sha256"),
    ("changed hash", _set("sha256", to="0" * 64), False, "hash"),
    ("mechanism that gives none", _set("mechanism", "name", to="per-record-dp"), True, "per-record-dp does not apply"),
    ("model made independent", _set("model", "transition", to=[[0.5, 0.5], [0.5, 0.5]]), True, "model_sha256"),
    ("model broken", _set("model", "transition", to=[[0.5, 0.4], [0.5, 0.5]]), True, "row 1 of transition sums to 0.9"),
    ("model of no type", _set("model", to={}), True, "type"),
    ("query unknown", _set("query", "name", to="median"), True, "median"),
    ("lengths", _set("data", "lengths", to=[[6, 2]]), True, "nothing cuts the series into more than 1"),
    ("lengths empty", _set("data", "lengths", to=[]), True, "no chain"),
    ("records", _set("data", "records", to=1000), True, "data.records is 1000"),
    ("scale not a number", _set("noise", "scale", to=float("nan")), False, "nan"),
    ("quilt removed", _set("calibration", "quilt", to=None), True, "quilt"),
]


@pytest.mark.parametrize(("change", "reseal", "word"), [t[1:] for t in TAMPERED], ids=[t[0] for t in TAMPERED])
def test_a_touched_certificate_is_not_valid(change: Any, reseal: bool, word: str, run: Run, folder: Path) -> None:
    content = change(_certificate(run, folder))
    write(folder, {"cert.json": _resealed(content) if reseal else content})
    before = listing(folder)
    result = run("verify", "cert.json", "--json")
    assert result.code == 3, (result.out, result.err)
    report = result.json
    assert report["valid"] is False
    assert report["problems"]
    assert word in " ".join(report["problems"])
    for problem in report["problems"]:
        assert not JARGON.search(problem), problem
        assert len(problem.split()) >= 4, problem
    check_sentence(result, ("cert.json", "does not hold"))
    assert listing(folder) == before
    spoken = run("verify", "cert.json")
    assert spoken.code == 3
    assert spoken.out.startswith("NOT valid\n- ")


def test_an_untouched_certificate_is_valid(run: Run, folder: Path) -> None:
    content = _certificate(run, folder)
    for name, inside in (
        ("cert.json", content),
        ("release.json", {"answer": content["answer"], "certificate": content}),
    ):
        write(folder, {name: inside})
        result = run("verify", name, "--json")
        assert (result.code, result.err) == (0, "")
        stated = {"valid": True, "problems": [], "warnings": ["unsafe: seeded"]}
        assert {key: result.json[key] for key in stated} == stated
        assert result.json["vouched"]["answer"] == content["answer"]
