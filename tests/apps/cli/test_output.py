"""What is printed: help for every verb, tables that fit, and never the exact answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import pufferdp
from pufferdp.apps.verbs import command_line
from pufferdp.publish import noise
from pufferdp.publish.certificate import content_hash
from tests.apps.cli.conftest import CHAIN, Run, write

VERBS = (
    "plan", "release", "flip", "estimate", "redact", "flow", "verify", "sign", "leakage", "robustness", "attack",
    "audit", "fit", "check", "reproduce", "serve", "demo",
)  # fmt: skip
EXACT = (137, 263)
"""Exact counts that occur nowhere by chance."""
RELEASE = ["release", "d.csv", "--model", "m.json", "--column", "activity", "--epsilon", "1"]


def counted() -> str:
    """A series with exactly these counts, mixed."""
    rest, active = EXACT
    return "activity\n" + "rest\nactive\n" * rest + "active\n" * (active - rest)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, run: Run) -> None:
    result = run(verb, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"Usage: pufferdp {verb}" in result.out
    assert "--json" in result.out
    assert len(result.out.split("\n\n")[1].split()) >= 4  # it says what it does


def test_no_verb_is_left_out() -> None:
    commands = command_line([]).registered_commands
    assert {command.callback.__name__ for command in commands if command.callback} == set(VERBS)


def test_a_verb_is_loaded_alone(run: Run) -> None:
    (alone,) = command_line(["plan", "m.json"]).registered_commands
    assert alone.callback is not None
    assert alone.callback.__name__ == "plan"
    assert "did you mean 'plan'" in run("plam").err


def test_every_option_says_what_it_is(run: Run) -> None:
    for verb in VERBS:
        lines = run(verb, "--help").out.splitlines()
        for at, line in enumerate(lines):
            if line.startswith("  --"):
                following = lines[at + 1] if at + 1 < len(lines) else ""
                described = "  " in line.strip() or following.startswith(" " * 8)
                assert described, f"{verb}: {line}"


def test_the_version_is_shown(run: Run) -> None:
    result = run("--version")
    assert result.code == 0
    assert result.out.strip()[0].isdigit()


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", "dp"])
@pytest.mark.parametrize(("length", "epsilon"), [("20", "1"), ("2000000000", "0.000001")])
def test_a_plan_fits_a_hundred_columns(length: str, epsilon: str, adversary: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    usual = ["plan", "m.json", "--query", "histogram", "--length", length, "--epsilon", epsilon]
    result = run(*usual, "--adversary", adversary)
    assert result.code == 0, result.err
    for line in result.out.splitlines():
        assert len(line) <= 100, line
    assert "mechanism" in result.out
    assert "█" in result.out


def test_reasons_are_for_those_who_ask(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    asked = ["plan", "m.json", "--query", "count:active", "--length", "500", "--epsilon", "1"]
    brief, whole = run(*asked), run(*asked, "--verbose")
    assert brief.code == whole.code == 0, brief.err + whole.err
    candidates = run(*asked, "--json").json["candidates"]
    reasons = {c["mechanism"]: c["reason"] for c in candidates if not c["applies"]}
    assert f"{len(reasons)} mechanisms do not apply: see --verbose or --json for the reasons." in brief.out
    plain = " ".join(whole.out.split())
    for name, reason in reasons.items():
        assert f"{name}: {' '.join(reason.split())}." in plain
    assert "Does not apply" not in brief.out
    assert "gk16" not in brief.out
    assert " rests on: " in plain
    assert " rests on: " not in brief.out
    assert max(map(len, whole.out.splitlines())) <= 100
    for text in (brief.out, whole.out):
        assert text.startswith("Accurate enough to be useful: ")


def test_a_release_fits_a_hundred_columns(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": counted()})
    result = run(*RELEASE, "--query", "histogram", "--seed", "1")
    assert result.code == 0
    assert all(len(line) <= 100 for line in result.out.splitlines())


# ---- the exact answer stays inside ----


def leaks(text: str) -> list[int]:
    """Which exact counts a text shows."""
    # As a number of its own: among the many digits of a scale three may agree by chance.
    return [n for n in EXACT if re.search(rf"(?<!\d){n}(?!\d)", text)]


def without_digests(text: str, certificate: dict[str, Any]) -> str:
    """Digests are as good as random; taken out, they show nothing by chance."""
    return text.replace(certificate["sha256"], "").replace(certificate["model_sha256"], "")


def _constant(value: Any) -> Any:
    return lambda self, exact, scale: [value] * len(exact)


@pytest.fixture
def constant_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that forgets what it was given."""
    monkeypatch.setattr(noise.SystemSampler, "discrete_laplace", _constant(424242))
    monkeypatch.setattr(noise.SystemSampler, "laplace", _constant(424242.0))
    monkeypatch.setattr(noise.SystemSampler, "gaussian", _constant(424242.0))


@pytest.fixture
def broken_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that fails with the exact answer in its hands."""

    def fail(self: object, exact: list[Any], scale: float) -> list[Any]:
        raise pufferdp.ParameterError("the sampler failed")

    monkeypatch.setattr(noise.SystemSampler, "discrete_laplace", fail)
    monkeypatch.setattr(noise.SystemSampler, "laplace", fail)
    monkeypatch.setattr(noise.SystemSampler, "gaussian", fail)


QUERIES = {
    "histogram": CHAIN,
    "frequency": CHAIN,
    "count:rest": CHAIN,
    "count:active": CHAIN,
    "sum": {**CHAIN, "values": [0, 1]},
    "mean": {**CHAIN, "values": [0, 1]},
}


@pytest.mark.usefixtures("constant_noise")
@pytest.mark.parametrize("query", QUERIES)
def test_a_release_never_shows_the_exact_answer(query: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": QUERIES[query], "d.csv": counted()})
    for form in (["--json"], ["--overwrite"]):
        result = run(*RELEASE, "--query", query, "--out", "r.json", *form)
        assert result.code == 0, result.err
        assert "424" in result.out or query in ("frequency", "mean")
        for text in (result.out, result.err, (folder / "r.json").read_text()):
            assert leaks(without_digests(text, pufferdp.read_certificate("r.json"))) == []
        assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "m.json", "r.json"]


@pytest.mark.usefixtures("constant_noise")
@pytest.mark.parametrize("query", QUERIES)
def test_a_release_object_never_shows_the_exact_answer(query: str, folder: Path) -> None:
    write(folder, {"m.json": QUERIES[query], "d.csv": counted()})
    done = pufferdp.release("d.csv", model=pufferdp.load_model("m.json"), column="activity", query=query, epsilon=1.0)
    for text in (repr(done), str(done), repr(done.certificate), repr(vars(done)), repr(done.to_dict())):
        assert leaks(without_digests(text, done.certificate.to_dict())) == []


@pytest.mark.usefixtures("broken_noise")
@pytest.mark.parametrize("query", QUERIES)
def test_a_failing_sampler_shows_nothing(query: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": QUERIES[query], "d.csv": counted()})
    result = run(*RELEASE, "--query", query, "--out", "r.json", "--json")
    assert result.code == 2
    assert result.out == ""
    assert result.err == "pufferdp: the sampler failed\n"
    assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "m.json"]
    with pytest.raises(pufferdp.ParameterError) as failure:
        pufferdp.release("d.csv", model=pufferdp.load_model("m.json"), column="activity", query=query, epsilon=1.0)
    shown = "".join(traceback.format_exception(failure.value)) + repr(failure.value) + repr(failure.value.value)
    assert leaks(shown.replace(str(folder), "")) == []


def test_a_bad_value_is_refused_without_counts(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": counted() + "asleep\n"})
    result = run(*RELEASE, "--query", "histogram", "--json")
    assert result.code == 2
    assert leaks(result.err) == []


# ---- seeds ----


def test_a_seed_repeats_itself_and_is_marked_unsafe(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": counted()})
    usual = [*RELEASE, "--query", "histogram", "--json"]
    one, two, other = (run(*usual, "--seed", seed) for seed in ("0", "0", "8"))
    assert one.code == two.code == other.code == 0
    assert "unsafe: seeded" in one.json["certificate"]["warnings"]
    assert one.json["answer"] == two.json["answer"]
    assert one.json["answer"] != other.json["answer"]
    spoken = run(*RELEASE, "--query", "histogram", "--seed", "0")
    assert "Warning: unsafe: seeded." in spoken.out


def test_without_a_seed_releases_differ(run: Run, folder: Path) -> None:
    # Many states and much noise: that ten coordinates agree by chance is out of the question.
    model = {"type": "markov_chain", "transition": [[0.1] * 10] * 10}
    write(folder, {"m.json": model, "d.csv": "activity\n" + "3\n" * 50})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "activity", "--query", "histogram"]
    one, two = (run(*usual, "--epsilon", "0.0001", "--json") for _ in range(2))
    assert one.code == two.code == 0
    # One time in a thousand noise alone makes an answer that the model hardly explains, and a warning of that.
    assert not any("seed" in warning for warning in one.json["certificate"]["warnings"])
    assert one.json["answer"] != two.json["answer"]


# ---- files and figures ----


def test_what_out_keeps_is_what_json_prints(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": counted()})
    result = run(*RELEASE, "--query", "histogram", "--json", "--out", "r.json", "--figure", "r.svg")
    assert result.code == 0, result.err
    assert json.loads((folder / "r.json").read_text()) == result.json
    assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "m.json", "r.json", "r.svg"]


@pytest.mark.parametrize("ending", ["pdf", "PNG"])
def test_a_plan_is_drawn(ending: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    usual = ["plan", "m.json", "--query", "histogram", "--length", "20", "--epsilon", "1"]
    assert run(*usual, "--figure", f"p.{ending}").code == 0
    assert sorted(p.name for p in folder.iterdir()) == ["m.json", f"p.{ending}"]
    assert (folder / f"p.{ending}").stat().st_size > 1000


@pytest.mark.slow
def test_the_demo_runs(run: Run, folder: Path) -> None:
    result = run("demo", "--json")
    assert result.code == 0, result.err
    assert set(result.json) == {"plan", "release", "verification", "folder"}
    assert result.json["verification"]["valid"] is True
    names = ["plan.png", "release.json", "release.png", "wearer.json", "week.csv"]
    assert sorted(p.name for p in (folder / "pufferdp-demo").iterdir()) == names
    assert run("verify", "pufferdp-demo/release.json").code == 0
    spoken = run("demo", "--out", "tour/one")
    assert spoken.code == 0
    assert "SIMULATED DATA" in spoken.out


# ---- quick to start ----

HEAVY = ("opendp", "matplotlib", "scipy", "pandas", "polars", "pyarrow", "duckdb")


@pytest.mark.parametrize(
    "code",
    [
        "import pufferdp",
        "import sys; sys.argv = ['pufferdp', '--help']\nfrom pufferdp.apps.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass",
        "import sys; sys.argv = ['pufferdp', 'release', '--help']\nfrom pufferdp.apps.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass",
    ],
    ids=["import", "help", "help of release"],
)
def test_heavy_modules_stay_out(code: str, folder: Path) -> None:
    report = f"\nimport sys\nprint([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "[]"


# ---- quick to end ----

ENDING = """
import atexit, sys
from pufferdp.apps import cli

class Left:
    def __del__(self):
        print("taken apart")

left = Left()

def main():
    atexit.register(print, "cleaned up")
    sys.stdout.write("said; ")
    {end}

cli.main = main
cli.program()
"""


def test_the_process_ends_once_everything_is_cleaned_up() -> None:
    """What others left to do at the end is done and what was said is out; only objects are not taken apart."""
    call = [sys.executable, "-c", ENDING.format(end="sys.exit(3)")]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said; cleaned up\n", "")


def test_a_program_that_fails_ends_as_python_does() -> None:
    call = [sys.executable, "-c", ENDING.format(end="raise RuntimeError")]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "said; cleaned up\ntaken apart\n")
    assert "RuntimeError" in done.stderr


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["plan", "none.json", "--query", "sum"], 2)])
def test_the_process_has_the_exit_code_of_the_command_line(words: list[str], code: int) -> None:
    done = subprocess.run([sys.executable, "-m", "pufferdp", *words], capture_output=True, timeout=60)
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0) and bool(done.stderr) == (code != 0)


def test_a_strangers_file_does_not_write_over_what_is_said_of_it(run: Run, folder: Path) -> None:
    """Its names and warnings could clear the screen, and print ``valid`` there."""
    golden = Path(__file__).parents[2] / "golden" / "answer-histogram-balanced.json"
    content = json.loads(golden.read_text(encoding="utf-8"))
    content["warnings"] = ["\x1b[2J\x1b[31mred\r\x9b1m \u202eback"]
    content["sha256"] = content_hash(content)
    (folder / "c.json").write_text(json.dumps(content), encoding="utf-8")
    made = run("verify", "c.json")
    assert made.code == 0
    assert "\\x1b[2J\\x1b[31mred" in made.out
    assert not set(made.out) & set("\x1b\r\x9b\u202e")
    assert "\\x9b1m \\u202eback" in made.out
    made = run("verify", "no\x1b[2J.json")
    assert (made.code, "\x1b" in made.err) == (2, False)
