"""An answer that was charged reaches its owner whatever happens afterwards, and nothing is replaced unasked."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pufferdp
from pufferdp.apps.cli import main
from pufferdp.apps.signs import spell
from pufferdp.basics import places
from pufferdp.ledger.ledger import Ledger
from pufferdp.models.files.json import load_model, model_from_dict
from pufferdp.publish import noise
from pufferdp.publish.noise import SystemSampler
from pufferdp.publish.redaction import publication as redaction
from pufferdp.report import charts, html
from tests.apps.cli.conftest import CHAIN, Result, Run, listing, series, write

CREATE = ["ledger", "create", "books.db", "--dataset"]
CHARGED = ["--ledger", "books.db", "--dataset", "week"]


@dataclass(frozen=True)
class Verb:
    """A verb that charges: the data sets that it needs, what it is asked, and the options that it writes to."""

    create: tuple[list[str], ...]
    words: list[str]
    whole: str
    """The option whose file has the whole answer."""
    outputs: tuple[str, ...]
    series: bool = False
    """Whether it writes a series, with --out series.csv."""

    def asked(self, *more: str) -> list[str]:
        return [*self.words, *CHARGED, *(["--out", "series.csv"] if self.series else []), *more]


BUDGET = ["--budget", "5"]
USUAL = ["d.csv", "--model", "m.json", "--column", "activity", "--order", "rows"]
VERBS = {
    "release": Verb(
        ([*CREATE, "week", "--model", "m.json", *BUDGET],),
        ["release", *USUAL, "--query", "histogram", "--epsilon", "1", "--mechanism", "curve-tight"],
        "out",
        ("out.json", "figure.png", "report.html"),
    ),
    "table": Verb(
        ([*CREATE, "week", "--model", "m.json", *BUDGET],),
        ["release", *USUAL, "--query", "histogram", "--query", "count:rest", "--epsilon", "1"],
        "out",
        ("out.json", "figure.png", "report.html"),
    ),
    "fleet": Verb(
        tuple([*CREATE, f"week/{name}", "--model", "m.json", *BUDGET] for name in ("ann", "bob")),
        shlex.split(
            "release d.csv --models people.json --by person --independent --column activity --order rows "
            "--query histogram --epsilon 1 --mechanism curve-tight"
        ),
        "out",
        ("out.json",),
    ),
    "fit": Verb(
        ([*CREATE, "week", "--model", "m.json", "--budget", "50"],),
        [
            *["fit", "d.csv", "--column", "activity", "--order", "rows", "--states", "rest,active"],
            *["--dp-epsilon", "1", "--confidence", "0.9"],
        ],
        "out",
        ("out.json",),
    ),
    "flow": Verb(
        ([*CREATE, "week", "--model", "m.json", "--tau", "0.5", "--eta", "0.01", "--privacy", "record"],),
        ["flow", *USUAL, "--eta", "0.01", "--tau", "0.2", "--privacy", "record"],
        "out",
        ("out.json", "figure.png", "report.html"),
    ),
    "flip": Verb(
        ([*CREATE, "week", "--model", "m.json", *BUDGET],),
        ["flip", *USUAL, "--epsilon", "1"],
        "certificate",
        ("out.csv", "certificate.json", "report.html"),
        series=True,
    ),
    "redact": Verb(
        ([*CREATE, "week", "--model", "m.json", *BUDGET],),
        ["redact", *USUAL, "--private", "6", "--epsilon", "1", "--method", "window"],
        "certificate",
        ("out.csv", "certificate.json", "rule.json", "tilted.json", "figure.png", "report.html"),
        series=True,
    ),
}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """A model, the same one for two people, and a series."""
    people = {"ann": CHAIN, "bob": CHAIN}
    write(folder, {"m.json": CHAIN, "people.json": people, "d.csv": series()})


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest, run: Run) -> Verb:
    """Each verb that charges, with its data sets made."""
    chosen = VERBS[request.param]
    for words in chosen.create:
        assert run(*words).code == 0
    return chosen


@pytest.fixture
def release(run: Run) -> Verb:
    """A release, with its data set made."""
    assert run(*VERBS["release"].create[0]).code == 0
    return VERBS["release"]


class Broken(io.StringIO):
    """A stream that fails when it is written to."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def gone() -> OSError:
    return BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@pytest.fixture
def broken_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command line with these streams in place of stdout and stderr."""

    def call(*args: object, out: Any = None, err: Any = None) -> Result:
        monkeypatch.setattr(sys, "argv", ["pufferdp", *(str(a) for a in args)])
        streams = {"stdout": out, "stderr": err}
        with pytest.MonkeyPatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as stop:
                main()
        texts = ["" if s is None or isinstance(s, Broken) else s.getvalue() for s in streams.values()]
        assert isinstance(stop.value.code, int)
        return Result(stop.value.code, texts[0], texts[1])

    return call


def charges() -> list[str]:
    """Heads of the data sets that have a charge; each must have one at most."""
    heads = []
    with Ledger("books.db") as ledger:
        for name in ledger.names():
            dataset = ledger.dataset(name)
            assert dataset.releases <= 1
            heads += [dataset.head] if dataset.releases else []
    return heads


def certificates(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The certificates in an answer: its own, or one a person."""
    if "releases" in content:
        return [part["certificate"] for part in content["releases"]]
    found = content.get("certificate", content)
    assert isinstance(found, dict)
    return [found]


def check_whole(content: dict[str, Any], verb: Verb) -> None:
    """An answer is complete: it verifies and is the one that was charged."""
    if verb.words[0] == "fit":
        assert len(model_from_dict(content).labels) == 2
        assert len(charges()) == 1
        return
    heads = charges()
    assert len(heads) == len(verb.create)
    made = certificates(content)
    assert [certificate["ledger"]["head"] for certificate in made] == heads
    for certificate in made:
        assert pufferdp.verify(certificate).valid
    if "answer" in made[0]:
        assert made[0]["answer"] == (content if "answer" in content else content["releases"][0])["answer"]


def told(result: Result) -> dict[str, Any]:
    """The answer that went to stderr, as the last line says."""
    *_, line, sentence = result.err.splitlines()
    assert sentence.startswith("pufferdp: ")
    assert sentence.endswith("the answer and its certificate are in the line of JSON above")
    content = json.loads(line)
    assert isinstance(content, dict)
    return content


# ---- after the charge ----


@pytest.mark.parametrize(("error", "words", "form"), [(full, "No space left", []), (gone, "has gone", ["--json"])])
def test_stdout_that_fails(
    error: Callable[[], OSError], words: str, form: list[str], verb: Verb, broken_run: Callable[..., Result]
) -> None:
    result = broken_run(*verb.asked(*form), out=Broken(error()), err=io.StringIO())
    assert result.code == 1
    assert words in result.err and "charged" in result.err
    check_whole(told(result), verb)


@pytest.mark.parametrize(("error", "words"), [(full, "No space left"), (gone, "has gone")])
def test_a_charge_whose_receipt_cannot_be_shown(
    error: Callable[[], OSError], words: str, release: Verb, broken_run: Callable[..., Result]
) -> None:
    asked = ["ledger", "charge", "books.db", "--dataset", "week", "--dp-epsilon", "0.1", "--note", "elsewhere"]
    result = broken_run(*asked, out=Broken(error()), err=io.StringIO())
    assert result.code == 1
    assert words in result.err and "data set 'week' was charged (row 1)" in result.err
    assert len(charges()) == 1


def test_stdout_and_stderr_that_fail(verb: Verb, broken_run: Callable[..., Result], folder: Path) -> None:
    before = set(listing(folder))
    assert broken_run(*verb.asked(), out=Broken(full()), err=Broken(full())).code == 1
    new = set(listing(folder)) - before - {"series.csv"}
    (name,) = new
    assert re.fullmatch(r"books\.db-(week-row-1|answers)\.json", name)
    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    check_whole(json.loads((folder / name).read_text()), verb)


def test_a_rescued_answer_replaces_nothing(release: Verb, broken_run: Callable[..., Result], folder: Path) -> None:
    (folder / "books.db-week-row-1.json").write_text("mine")
    assert broken_run(*release.asked(), out=None, err=None).code == 2  # both are closed, and no file is named
    assert charges() == []
    assert broken_run(*release.asked(), out=Broken(full()), err=None).code == 1
    assert (folder / "books.db-week-row-1.json").read_text() == "mine"
    check_whole(json.loads((folder / "books.db-week-row-1-2.json").read_text()), release)


def test_a_closed_stdout_is_refused_or_not_needed(verb: Verb, broken_run: Callable[..., Result], folder: Path) -> None:
    before = listing(folder)
    refused = broken_run(*verb.asked(), out=None, err=io.StringIO())
    assert refused.code == 2 and f"name a file with --{verb.whole}" in refused.err
    assert listing(folder) == before
    done = broken_run(*verb.asked(f"--{verb.whole}", "kept.json"), out=None, err=io.StringIO())
    assert (done.code, done.err) == (0, "")
    check_whole(json.loads((folder / "kept.json").read_text()), verb)


def test_a_file_that_cannot_be_filled(verb: Verb, run: Run) -> None:
    result = run(*verb.asked(f"--{verb.whole}", "/dev/full"))
    assert result.code == 1
    assert f"{verb.whole} '/dev/full' cannot be written: No space left on device" in result.err
    assert result.out  # the text is shown all the same
    assert "/dev/full" not in result.out
    check_whole(told(result), verb)


def test_a_file_that_cannot_be_filled_beside_json(verb: Verb, run: Run) -> None:
    result = run(*verb.asked(f"--{verb.whole}", "/dev/full", "--json"))
    assert result.code == 1
    assert result.err.endswith("the answer and its certificate are on stdout\n")
    check_whole(result.json, verb)


@pytest.mark.parametrize("name", ["release", "flow", "redact"])
def test_a_figure_and_a_report_that_fail(name: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = VERBS[name]
    run(*verb.create[0])

    def fail(*_: object) -> None:
        raise RuntimeError("with a value of the data in it: 42424242")

    monkeypatch.setattr(charts.Drawable, "save", fail)
    monkeypatch.setattr(html, "write_report", fail)
    result = run(*verb.asked(f"--{verb.whole}", "kept.json", "--figure", "f.png", "--report", "r.html"))
    assert result.code == 1
    assert "figure 'f.png' cannot be written: RuntimeError; report 'r.html' cannot be written" in result.err
    assert result.err.endswith("the answer and its certificate are in 'kept.json'\n")
    assert "42424242" not in result.err
    check_whole(json.loads((folder / "kept.json").read_text()), verb)
    assert not [name for name in listing(folder) if name in ("f.png", "r.html") or name.startswith(".")]


def test_a_file_that_comes_in_between_is_not_replaced(
    verb: Verb, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge, charge_many = Ledger.charge, Ledger.charge_many
    name = "series.csv" if verb.series else "out.json"

    def slow(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            (folder / name).write_text("somebody else's")
            return original(*args, **kwargs)

        return wrapped

    monkeypatch.setattr(Ledger, "charge", slow(charge))
    monkeypatch.setattr(Ledger, "charge_many", slow(charge_many))
    result = run(*verb.asked(*([] if verb.series else ["--out", name])))
    assert result.code == 1
    assert "File exists" in result.err
    assert (folder / name).read_text() == "somebody else's"
    check_whole(told(result), verb)
    if verb.series:
        (elsewhere,) = folder.glob("pufferdp-*/series.csv")
        assert repr(str(elsewhere)) in result.err
        assert len(elsewhere.read_text().splitlines()) == 13


def test_a_text_that_fails(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> str:
        raise KeyError("42424242")

    monkeypatch.setattr(pufferdp.Release, "__str__", fail)
    result = run(*release.asked())
    assert result.code == 1 and "42424242" not in result.err.replace(json.dumps(told(result)), "")
    check_whole(told(result), release)


def test_a_sampler_that_fails_says_that_it_was_charged(
    release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[Any]:
        raise ValueError("42424242")

    monkeypatch.setattr(SystemSampler, "discrete_laplace", fail)
    result = run(*release.asked())
    assert (result.code, result.out) == (1, "")
    assert "data set 'week' was charged (row 1), and then nothing was released" in result.err
    assert "42424242" not in result.err
    assert len(charges()) == 1


# ---- series ----


def failing(times: int) -> Callable[[Path, Path, bool], None]:
    """Moves files, but not the first ones."""
    left, original = [times], places.move

    def move(source: Path, target: Path, overwrite: bool) -> None:
        if left[0] and target.suffix == ".csv":
            left[0] -= 1
            raise full()
        original(source, target, overwrite)

    return move


@pytest.mark.parametrize("name", ["flip", "redact"])
@pytest.mark.parametrize("more", [[], ["--order", "time"]])
@pytest.mark.parametrize(("times", "where"), [(1, "beside"), (2, "temporary")])
def test_a_series_goes_elsewhere(
    name: str,
    more: list[str],
    times: int,
    where: str,
    run: Run,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    verb = VERBS[name]
    run(*verb.create[0])
    monkeypatch.setattr(places, "move", failing(times))
    result = run(*verb.asked(*more))
    assert result.code == 1
    home = folder if where == "beside" else tmp_path / "temporary"
    (place,) = home.glob("pufferdp-*/series.csv")
    assert repr(str(place)) in result.err
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert len(place.read_text().splitlines()) == 13
    assert not (folder / "series.csv").exists()
    assert not list(folder.glob(".pufferdp*"))
    check_whole(told(result), verb)


@pytest.mark.parametrize("name", ["flip", "redact"])
def test_a_series_that_can_go_nowhere(name: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = VERBS[name]
    run(*verb.create[0])
    monkeypatch.setattr(places, "move", failing(9))
    result = run(*verb.asked())
    assert result.code == 1
    assert "data set 'week' was charged (row 1)" in result.err and "it was not published" in result.err
    assert len(charges()) == 1
    if name == "redact":
        hidden = re.search(r"put the mark into these rows yourself, and no others: ([\d, -]+)", result.err)
        assert hidden is not None
        content = told(result)
        check_whole(content, verb)
        window = [n for n, distribution in enumerate(content["redaction_probabilities"], 1) if distribution == [1, 1]]
        assert hidden[1].strip() == f"{window[0]}-{window[-1]}"


@pytest.mark.parametrize("name", ["flip", "redact"])
def test_no_room_for_a_series(name: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = VERBS[name]
    run(*verb.create[0])
    before = listing(folder)

    def allocate(handle: int, begin: int, size: int) -> None:
        if size != places._USUAL:
            raise full()

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    result = run(*verb.asked())
    assert result.code == 2
    assert "there is no space for about" in result.err
    assert listing(folder) == before
    assert charges() == []


def test_python_has_the_result(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*VERBS["flip"].create[0])
    monkeypatch.setattr(places, "move", failing(1))
    with pytest.raises(pufferdp.DeliveryError) as caught:
        pufferdp.flip(
            "d.csv",
            model=load_model("m.json"),
            column="activity",
            order="rows",
            epsilon=1.0,
            out="o.csv",
            ledger="books.db",
            dataset="week",
        )
    assert isinstance(caught.value.result, pufferdp.Flip)
    assert pufferdp.verify(caught.value.result.certificate).valid
    assert Path(str(caught.value.value)).read_text().startswith("activity\n")
    asked: dict[str, Any] = {
        "model": load_model("m.json"),
        "column": "activity",
        "order": "rows",
        "epsilon": 1.0,
        "out": "free.csv",
    }
    pufferdp.flip("d.csv", **asked)
    with pytest.raises(pufferdp.ParameterError, match="already exists"):
        pufferdp.flip("d.csv", **asked)
    pufferdp.flip("d.csv", **asked, overwrite=True)


# ---- Ctrl-C and its like ----


def interrupting(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Send this process a signal when noise is drawn or a record flipped, which is after the charge."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            signal.raise_signal(number)
            return original(*args)

        return wrapped

    for name in ("discrete_laplace", "laplace", "gaussian"):
        monkeypatch.setattr(SystemSampler, name, wrap(getattr(SystemSampler, name)))
    monkeypatch.setattr("pufferdp.publish.flips.publication.draw_flips", wrap(noise.pass_channel))
    monkeypatch.setattr(redaction, "draw", wrap(redaction.draw))


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
)
def test_a_signal_waits_for_a_charged_answer(
    number: int, verb: Verb, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    interrupting(monkeypatch, number)
    result = run(*verb.asked("--json"))
    assert result.code == 128 + number
    assert result.err == "pufferdp: stopped; what was charged had been delivered by then\n"
    check_whole(result.json, verb)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_a_signal_before_the_charge_ends_at_once(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("pufferdp.publish.answers.publication.AnswerPublication.read", stop)
    result = run(*release.asked())
    assert (result.code, result.out) == (130, "")
    assert charges() == []


class Endless:
    """A stream of lines that a signal or an error comes into."""

    def __init__(self, happen: Callable[[], None]) -> None:
        self._parts, self._happen = [series().encode()], happen

    def read(self, size: int) -> bytes:
        if not self._parts:
            self._happen()
        return self._parts.pop()


def spoil() -> None:
    raise pufferdp.DataError("a later line is wrong")


@pytest.mark.parametrize(
    ("happen", "code", "words"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), 130, ""),
        (lambda: signal.raise_signal(signal.SIGTERM), 143, ""),
        (spoil, 1, "the stream ended after 12 records: a later line is wrong"),
    ],
)
def test_a_stream_that_is_broken_off_has_its_certificate(
    happen: Callable[[], None], code: int, words: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = VERBS["flip"]
    run(*verb.create[0])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Endless(happen)))
    result = run("flip", "-", *verb.words[2:], *CHARGED, "--certificate", "c.json")
    assert result.code == code, result.err
    assert words in result.err
    assert len(result.out.splitlines()) == 13
    content = json.loads((folder / "c.json").read_text())
    assert content["data"]["records"] == 12
    check_whole(content, verb)


# ---- before the charge ----


def make_strange(folder: Path) -> None:
    """Places that are no free file."""
    (folder / "there.json").write_text("{}")
    (folder / "there.csv").write_text("a\n1\n")
    (folder / "place").mkdir()
    (folder / "place.csv").mkdir()
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.csv")
    for ending in ("", ".csv"):
        (folder / f"to-data{ending}").symlink_to("d.csv")
        (folder / f"to-ledger{ending}").symlink_to(folder / "books.db")
        os.link(folder / "books.db", folder / f"hard-ledger{ending}")
        os.link(folder / "m.json", folder / f"hard-model{ending}")
        (folder / f"loop{ending}").symlink_to(f"loop{ending}")


NEVER = {
    "d.csv": "is the data itself",
    "./../work/d.csv": "is the data itself",
    "to-data": "is the data itself",
    "m.json": "itself",
    "hard-model": "itself",
    "books.db": "belongs to the ledger",
    "books.db-wal": "belongs to the ledger",
    "place/../books.db-shm": "belongs to the ledger",
    "to-ledger": "belongs to the ledger",
    "hard-ledger": "belongs to the ledger",
    "pipe": "a pipe",
    "loop": "cannot be written",
    "nowhere/x": "there is no folder",
    "x" * 300: "too long",
    "/proc/x": "cannot be written",
    "d.csv/x": "there is no folder",
}


@pytest.mark.parametrize("name", ["release", "flip", "redact", "fit", "fleet", "flow"])
def test_places_that_are_refused(name: str, run: Run, folder: Path) -> None:
    verb = VERBS[name]
    for words in verb.create:
        run(*words)
    make_strange(folder)
    before = {path: content for path, content in listing(folder).items() if not path.startswith(("pipe", "loop"))}
    for place, words in {**NEVER, "there.json": "already exists"}.items():
        if (verb.words[0] == "fit" and "model" in place) or (name in ("fit", "fleet") and place == "m.json"):
            continue  # it does not read that one
        if name == "fleet" and place == "hard-model":
            continue  # the models are in another file
        for option in {"out", verb.whole}:
            target = place
            if verb.series and option == "out" and not place.endswith(".csv"):
                target = f"{place}.csv"
                if place in ("m.json", "books.db", "books.db-wal", "place/../books.db-shm"):
                    continue  # the ending is refused first
            if target == "there.json.csv":
                target = "there.csv"
            for overwrite in ([], ["--overwrite"]) if place in NEVER else ([],):
                asked = [*verb.words, *CHARGED, f"--{option}", target, *overwrite]
                if verb.series and option != "out":
                    asked += ["--out", "series.csv"]
                result = run(*asked)
                assert (result.code, result.out) == (2, ""), asked
                assert words in result.err, asked
    after = {path: content for path, content in listing(folder).items() if not path.startswith(("pipe", "loop"))}
    assert after == before


@pytest.mark.parametrize("module", ["matplotlib.figure", "jinja2"])
@pytest.mark.parametrize("name", ["release", "flow", "flip", "redact"])
def test_a_library_that_is_missing(
    module: str, name: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = VERBS[name]
    run(*verb.create[0])
    before = listing(folder)
    monkeypatch.setitem(sys.modules, module, None)
    wanted = {"report": "r.html"} if module == "jinja2" or name == "flip" else {"report": "r.html", "figure": "f.png"}
    for option, file in wanted.items():
        result = run(*verb.asked(f"--{option}", file))
        assert result.code == 2
        assert f"a {option} needs {module.partition('.')[0]}; install it" in result.err
    assert listing(folder) == before


@pytest.mark.parametrize("name", VERBS)
def test_a_disk_that_is_full_is_seen_before_the_charge(
    name: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = VERBS[name]
    for words in verb.create:
        run(*words)
    before = listing(folder)

    def allocate(handle: int, begin: int, size: int) -> None:
        raise full()

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    for option in {"out", verb.whole}:
        asked = [*verb.words, *CHARGED, f"--{option}", "new.csv" if verb.series and option == "out" else "new.json"]
        result = run(*asked, *(["--out", "/dev/null"] if option != "out" else []))
        assert result.code == 2
        assert "No space left on device" in result.err
    assert listing(folder) == before


def test_two_outputs_in_one_file(release: Verb, run: Run, folder: Path) -> None:
    before = listing(folder)
    for one, other in (("x.html", "x.html"), ("x.html", "./x.html"), ("x.html", "../work/x.html")):
        result = run(*release.asked("--out", one, "--report", other))
        assert result.code == 2 and "are the same file" in result.err
    assert listing(folder) == before


def test_a_device_and_a_link_to_a_free_place(release: Verb, run: Run, folder: Path) -> None:
    (folder / "link.json").symlink_to("target.json")
    assert run(*release.asked("--out", "/dev/null")).code == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert run(*release.words, "--out", "link.json").code == 0
    assert (folder / "link.json").is_symlink()
    assert "certificate" in json.loads((folder / "target.json").read_text())


@pytest.mark.slow
def test_a_file_is_replaced_where_asked(verb: Verb, run: Run, folder: Path) -> None:
    options: list[str] = []
    for file in verb.outputs:
        (folder / file).write_text("old")
        options += [f"--{file.partition('.')[0]}", file]
    before = listing(folder)
    asked = [*verb.words, *CHARGED, *options]
    refused = run(*asked)
    assert refused.code == 2 and "already exists; name another file, or use --overwrite" in refused.err
    assert listing(folder) == before
    done = run(*asked, "--overwrite")
    assert done.code == 0, done.err
    changed = {path for path, content in listing(folder).items() if before.get(path) != content}
    assert changed == {*verb.outputs, "books.db"}


OTHERS = {
    "plan": shlex.split(
        "plan m.json --query histogram --length 20 --epsilon 1 --adversary dp --figure f.png --report r.html"
    ),
    "leakage": ["leakage", "m.json", "--length", "9", "--dp-epsilon", "1", "--figure", "f.png"],
    "losses": ["leakage", "m.json", "--losses", "losses.json", "--figure", "f.png"],
    "streams": ["leakage", "m.json", "--stream", "0.1", "--length", "5", "--figure", "f.png"],
    "robustness": shlex.split("robustness m.json --alternative m2.json --epsilon 1 --length 5 --figure f.png"),
    "attack": ["attack", "--model", "m.json", "--length", "5", "--epsilon", "1", "--runs", "3", "--figure", "f.png"],
    "audit": shlex.split(
        "audit m.json --mechanism laplace:count:active --length 3 --dp-epsilon 1 --calls 2000 --figure "
        "f.png --report r.html"
    ),
    "reproduce": ["reproduce", "thesis-figure-3", "--figure", "f.png"],
    "ledger show": ["ledger", "show", "books.db", "--figure", "f.png"],
    "ledger export": ["ledger", "export", "books.db", "--out", "e.json"],
    "design": shlex.split(
        "redact --model m.json --length 10 --private 1 --epsilon 1 --method window --rule rule.json --figure f.png"
    ),
    "flips": ["flip", "--model", "m.json", "--length", "10", "--epsilon", "1", "--report", "r.html"],
    "fit": ["fit", "d.csv", "--column", "activity", "--order", "rows", "--out", "fit.json"],
    "demo": ["demo", "--out", "tour"],
}
"""Verbs that charge nothing, with all they can write."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_verbs_replace_nothing_unasked(name: str, release: Verb, run: Run, folder: Path) -> None:
    other = {**CHAIN, "transition": [[0.8, 0.2], [0.4, 0.6]]}
    write(folder, {"m2.json": other, "losses.json": [0.1, 0.2, 0.1]})
    files = [word for word in OTHERS[name] if word.endswith((".png", ".html")) or word in ("e.json", "rule.json")]
    files += ["fit.json"] if name == "fit" else []
    if name == "demo":
        (folder / "tour").mkdir()
        files = ["tour/release.json", "tour/plan.png"]
    for file in files:
        for old in files:
            (folder / old).unlink(missing_ok=True)
        (folder / file).write_text("old")
        before = listing(folder)
        result = run(*OTHERS[name])
        assert (result.code, result.out) == (2, ""), result.err
        assert "already exists" in result.err
        assert listing(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_verbs_replace_what_they_may(name: str, release: Verb, run: Run, folder: Path) -> None:
    other = {**CHAIN, "transition": [[0.8, 0.2], [0.4, 0.6]]}
    write(folder, {"m2.json": other, "losses.json": [0.1, 0.2, 0.1]})
    first = run(*OTHERS[name])
    assert first.code == 0, first.err
    before = listing(folder)
    assert run(*OTHERS[name]).code == 2
    assert listing(folder) == before
    assert run(*OTHERS[name], "--overwrite").code == 0
    assert set(listing(folder)) == set(before)


# ---- people ----

ODD = ("ann", "Ann", "ANN", "", " ", "../x", "a/b", ".", "x" * 300, "ö" * 100, "con", "a\nb", "\ud800")


def test_people_with_odd_names(run: Run, folder: Path) -> None:
    rows = "".join(f'"{person}",rest\n"{person}",active\n' for person in ODD[:-1] if person.strip())
    write(folder, {"p.csv": "who,activity\n" + rows, "p.json": dict.fromkeys(ODD, CHAIN), "out": None})
    people = [person for person in ODD[:-1] if person.strip()]
    asked = ["release", "p.csv", "--models", "p.json", "--column", "activity", "--by", "who", "--query", "histogram"]
    asked.append("--independent")
    done = run(*asked, "--epsilon", "1", "--mechanism", "curve-tight", "--out", "out")
    assert done.code == 0, done.err
    made = sorted(path for path in (folder / "out").iterdir())
    assert [path.parent for path in made] == [folder / "out"] * len(people)
    assert sorted(json.loads(path.read_text())["person"] for path in made) == sorted(people)
    assert len({path.name.casefold() for path in made}) == len(people)
    before = listing(folder)
    again = run(*asked, "--epsilon", "1", "--mechanism", "curve-tight", "--out", "out")
    assert again.code == 2 and "already exists" in again.err
    assert listing(folder) == before


def test_a_file_of_people_is_no_certificate(run: Run, folder: Path) -> None:
    """``verify`` said that it has no schema, and listed all schemas."""
    write(folder, {"p.csv": "who,activity\n" + "ann,rest\nann,active\n" * 9, "p.json": {"ann": CHAIN}})
    asked = ["release", "p.csv", "--models", "p.json", "--column", "activity", "--by", "who", "--query", "histogram"]
    assert run(*asked, "--epsilon", "1", "--mechanism", "curve-tight", "--out", "all.json").code == 0
    told = run("verify", "all.json")
    assert told.code == 2
    assert "has the certificates of 1 person; one is checked at a time" in told.err
    (folder / "out").mkdir()
    assert run(*asked, "--epsilon", "1", "--mechanism", "curve-tight", "--out", "out").code == 0
    assert run("verify", "out/ann.json").code == 0


def test_a_folder_that_fills_up(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = VERBS["fleet"]
    for words in verb.create:
        run(*words)
    (folder / "out").mkdir()
    original = places.move

    def move(source: Path, target: Path, overwrite: bool) -> None:
        if target.name == "ann.json":
            raise full()
        original(source, target, overwrite)

    monkeypatch.setattr(places, "move", move)
    result = run(*verb.asked("--out", "out"))
    assert result.code == 1
    assert "ann.json' cannot be written: No space left" in result.err
    assert [path.name for path in (folder / "out").iterdir()] == ["bob.json"]
    check_whole(told(result), verb)


# ---- terminals ----


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
def test_signs_that_cannot_be_printed(encoding: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = ["é", "Ω"]
    write(folder, {"m.json": {**CHAIN, "states": states}, "d.csv": "activity\n" + "é\nΩ\né\né\n" * 3})
    run(*VERBS["release"].create[0])
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "argv", ["pufferdp", *VERBS["release"].asked("--out", "r.json")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    out.seek(0)
    text = out.read()
    for state in states:
        shown = state.encode(encoding, "backslashreplace").decode(encoding)
        assert re.search(rf"^{re.escape(shown)} ", text, re.MULTILINE)
    assert ("..." in text) is (encoding in ("ascii", "latin-1", "cp437"))
    made = json.loads((folder / "r.json").read_text())
    assert made["labels"] == states
    for number in made["answer"]:
        assert str(number) in text
    check_whole(made, VERBS["release"])


def test_a_model_is_printed_as_it_is(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"d.csv": "activity\n" + "ε\n≤\nε\nε\n" * 3})
    run(*VERBS["fit"].create[0])
    words = [word.replace("rest,active", "ε,≤") for word in VERBS["fit"].asked()]
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "argv", ["pufferdp", *words])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    out.seek(0)
    check_whole(json.loads(out.read().splitlines()[-1]), VERBS["fit"])


def test_spelling_loses_no_character() -> None:
    text = "ε ≤ 1 … é Ω \ud800"
    error = UnicodeEncodeError("ascii", text, 0, len(text), "test")
    assert spell(error) == ("epsilon <= 1 ... \\xe9 \\u03a9 \\ud800", len(text))


# ---- the real thing ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("{} >/dev/full", 1),
        ("{} --json >/dev/full", 1),
        ("{} >&-", 2),
        ("{} --out kept.json >&-", 0),
        ("set -o pipefail; {{ sleep 1; {}; }} | true", 1),
        ("{} >/dev/full 2>/dev/full", 1),
        ("{} >/dev/full 2>&-", 1),
        ("{} >>books.db", 2),
        ("{} --out /dev/stdout | cat >&2; exit ${{PIPESTATUS[0]}}", 2),
        ("{} --out /dev/stdout >shown.txt", 2),
        ("PYTHONIOENCODING=ascii {} --out kept.json", 0),
        ("PYTHONIOENCODING=cp437 {} --out kept.json", 0),
        ("PYTHONUTF8=0 LC_ALL=C {} --out kept.json", 0),
        ("ulimit -f 0; {} --out kept.json", 2),
    ],
)
def test_in_a_shell(shell: str, code: int, run: Run, folder: Path) -> None:
    verb = VERBS["release"]
    run(*verb.create[0])
    before = listing(folder)
    command = " ".join([sys.executable, "-m", "pufferdp", *verb.asked()])
    # The text may be in another encoding than this process has.
    done = subprocess.run(
        ["bash", "-c", shell.format(command)], capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    if code == 2:
        after = listing(folder)
        assert {name: after[name] for name in before} == before
        return
    if code == 0:
        content = json.loads((folder / "kept.json").read_text())
    elif (folder / "books.db-week-row-1.json").exists():
        content = json.loads((folder / "books.db-week-row-1.json").read_text())
    else:
        content = told(Result(code, done.stdout, done.stderr))
    check_whole(content, verb)


@pytest.mark.parametrize("words", ["--help", "plan --help", "--version"])
def test_help_that_cannot_be_written(words: str) -> None:
    command = f"{sys.executable} -m pufferdp {words} >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "pufferdp: stdout cannot be written: No space left on device\n")
