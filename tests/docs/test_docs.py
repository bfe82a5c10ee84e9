"""The pages do what they say.

A ``console`` block is a session: lines with ``$`` are commands (a backslash continues them), the rest is their output.
A ``text`` block right after a ``python`` block is what that block prints. Output must match line by line; a line ``…``
stands for any number of lines, for random numbers and for what is left out. A number with decimals may differ by one in
its last digit or by 1e-9 of itself: another machine may round it differently. A page's commands run in order, and each
must exit 0; where a failure is shown the page echoes the exit code, so it is checked as output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from benchmarks.first_screen import RECORDS, WEARER, cost, odds
from benchmarks.flips import noise_row
from benchmarks.model_estimates import gains
from benchmarks.redaction_gap import CASES, gap_rows
from pydantic import BaseModel

import pufferdp
from pufferdp.apps.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_DECIMAL = re.compile(r"\d+\.\d+")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """Something to run and the output shown for it."""

    source: str
    shown: list[str] | None


def sessions(page: Path) -> list[Step]:
    """The commands of a page's console blocks."""
    steps: list[Step] = []
    for kind, body in _FENCE.findall(page.read_text(encoding="utf-8")):
        if kind != "console":
            continue
        continues = False
        for line in body.splitlines():
            if continues:
                steps[-1].source += "\n" + line
            elif line.startswith("$ "):
                steps.append(Step(line[2:], []))
            else:
                shown = steps[-1].shown
                assert shown is not None
                shown.append(line)
            continues = (continues or line.startswith("$ ")) and line.endswith("\\")
    return steps


def programs(page: Path) -> list[Step]:
    """The python blocks of a page, each with the text block that follows it at once."""
    text = page.read_text(encoding="utf-8")
    steps: list[Step] = []
    end_of_python = -1
    for fence in _FENCE.finditer(text):
        kind, body = fence.groups()
        if kind == "python":
            steps.append(Step(body, None))
            end_of_python = fence.end()
        elif kind == "text" and end_of_python >= 0 and not text[end_of_python : fence.start()].strip():
            steps[-1].shown = body.splitlines()
            end_of_python = -1
    return steps


def matches(shown: str, printed: str) -> bool:
    """Whether two lines have the same text and numbers that agree up to rounding."""
    if shown == printed:
        return True
    pairs = list(zip(_DECIMAL.findall(shown), _DECIMAL.findall(printed), strict=False))
    near = all(
        abs(Decimal(a) - Decimal(b)) <= max(Decimal(1).scaleb(-len(a.partition(".")[2])), abs(Decimal(a)) / 10**9)
        for a, b in pairs
    )
    return near and _DECIMAL.sub("#", shown) == _DECIMAL.sub("#", printed)


def mismatch(shown: list[str], output: list[str]) -> str | None:
    """The first shown line that the output does not have where it should; None when everything matches."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == "…":
            parts.append([])
        else:
            parts[-1].append(line.rstrip())
    output = [line.rstrip() for line in output]
    at = 0
    for n, part in enumerate(parts):
        first, last = n == 0, n == len(parts) - 1
        if not part and not (first and last):
            continue
        places = range(at, len(output) - len(part) + 1)
        if first:
            places = places[:1]
        if last:
            places = range(max(at, len(output) - len(part)), len(output) - len(part) + 1)
            if first and len(output) != len(part):
                places = range(0)
        found = next((p for p in places if all(map(matches, part, output[p : p + len(part)]))), None)
        if found is None:
            unseen = [line for line in part if not any(matches(line, printed) for printed in output)]
            return unseen[0] if unseen else "\n".join(part) or "nothing at all"
        at = found + len(part)
    return None


@pytest.mark.parametrize(
    ("shown", "output", "matches"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a", "b"], True),
        (["…", "b"], ["a", "b"], True),
        (["…", "a"], ["a", "b"], False),
        (["a", "…", "c"], ["a", "b", "x", "c"], True),
        (["a", "…", "d"], ["a", "b", "c"], False),
        (["…"], ["a"], True),
        ([], ["a"], False),
        ([], [], True),
        (["b", "…"], ["a", "b"], False),
        (["0.7531 of 3"], ["0.7532 of 3"], True),
        (["0.7531 of 3"], ["0.7533 of 3"], False),
        (["0.7531 of 3"], ["0.7531 of 4"], False),
        (["1.9599010409901345"], ["1.9599010409901316"], True),
        (["1.9599010409901345"], ["1.9599010509901345"], False),
        (["0.5"], ["0.5 and 0.5"], False),
    ],
)
def test_matching(shown: list[str], output: list[str], matches: bool) -> None:
    assert (mismatch(shown, output) is None) is matches


EXIT_CODE = '; echo "exit $?"'
"""How a page shows what a command exits with."""


def plain_words(source: str) -> list[str] | None:
    """The words of a ``pufferdp`` command that asks nothing of the shell but quoting; None where it asks more."""
    joined = source.replace("\\\n", "")
    bare = re.sub(r"""'[^']*'|"[^"$`\\]*\"""", "", joined)
    if not joined.startswith("pufferdp ") or re.search(r"""[|&;<>(){}$`*?~!#\\"'\n\[\]]""", bare):
        return None
    return shlex.split(joined)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("pufferdp plan a.json \\\n    --query sum", ["pufferdp", "plan", "a.json", "--query", "sum"]),
        ("""pufferdp plan 'a; b|c' "d e" """, ["pufferdp", "plan", "a; b|c", "d e"]),
        ("pufferdp plan a.json > b", None),
        ("pufferdp plan a.json | head", None),
        ("pufferdp plan a.json; ls", None),
        ("pufferdp plan *.json", None),
        ("pufferdp plan $(cat name)", None),
        ('pufferdp plan "$NAME"', None),
        ("pufferdp plan a.json &", None),
        ("pufferdp plan a.json\nls", None),
        ("ls", None),
    ],
)
def test_what_needs_a_shell(source: str, words: list[str] | None) -> None:
    assert plain_words(source) == words


class Terminal:
    """Runs commands as somebody at a terminal would: each in the folder where the last one ended.

    A ``pufferdp`` that needs no shell runs in this process, through its real entry point: a new interpreter would
    import everything again. The rest goes to bash, one for each command, so that variables do not last.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._ended_in = folder / "work", folder / "pwd"
        self.folder.mkdir(exist_ok=True)
        # The pufferdp of this interpreter comes first on the path.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        # Unbuffered, as on a terminal, so that errors come where they come for a user.
        self.environment = {
            "PATH": path,
            "PUFFERDP_HOME": str(folder / "home"),
            "PYTHONUNBUFFERED": "1",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, source: str) -> tuple[int, str]:
        """What a command exits with and what it writes, to stdout and stderr alike."""
        words = plain_words(source.removesuffix(EXIT_CODE))
        if words is None:
            return self._in_bash(source)
        code, output = self._in_process(words)
        return (0, f"{output}exit {code}\n") if source.endswith(EXIT_CODE) else (code, output)

    def _in_process(self, words: list[str]) -> tuple[int, str]:
        written = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", words)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            with (
                contextlib.redirect_stdout(written),
                contextlib.redirect_stderr(written),
                pytest.raises(SystemExit) as stop,
            ):
                main()
        code = stop.value.code
        assert isinstance(code, int), f"pufferdp ends with the exit code {code!r}"
        return code, written.getvalue()

    def _in_bash(self, source: str) -> tuple[int, str]:
        script = f"{source}\ncode=$?\npwd >{shlex.quote(str(self._ended_in))}\nexit $code"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=120,
        )
        self.folder = Path(self._ended_in.read_text(encoding="utf-8").strip())
        return done.returncode, done.stdout


def run_step(step: Step, terminal: Terminal) -> None:
    """Run a command, and compare what it writes with what the page shows."""
    code, written = terminal.run(step.source)
    assert code == 0, f"{step.source}\nexits {code}:\n{written}"
    # "calibrating quilt-exact …" is progress: whether it is shown depends on the machine's speed.
    output = [line for line in written.splitlines() if not line.endswith(" …")]
    assert step.shown is not None
    wrong = mismatch(step.shown, output)
    assert wrong is None, f"{step.source}\nthe page shows: {wrong}\nthe output is:\n" + "\n".join(output)


def run_session(steps: list[Step], folder: Path) -> Path:
    """Run the commands one after the other; returns the folder they end in."""
    terminal = Terminal(folder)
    for step in steps:
        run_step(step, terminal)
    return terminal.folder


def run_programs(page: Path) -> None:
    """All python blocks of a page in one fresh namespace."""
    namespace: dict[str, object] = {"__name__": "page"}
    for step in programs(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(step.source, str(page), "exec"), namespace)
        if step.shown is not None:
            output = printed.getvalue().splitlines()
            wrong = mismatch(step.shown, output)
            assert wrong is None, f"{step.source}\nthe page shows: {wrong}\nthe output is:\n" + "\n".join(output)


@pytest.mark.docs
def test_sessions_and_programs_of_the_first_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "start-here.md"
    steps = sessions(page)
    assert steps
    monkeypatch.chdir(run_session(steps, tmp_path))
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path / "home"))
    run_programs(page)


class Readme:
    """Somebody who reads the README from the top and types its commands."""

    def __init__(self, folder: Path) -> None:
        self.terminal = Terminal(folder)
        self.ahead = sessions(ROOT / "README.md")

    def read(self, to: int) -> None:
        """Type what comes next, until so many commands are still ahead."""
        while len(self.ahead) > to:
            run_step(self.ahead.pop(0), self.terminal)


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Readme:
    return Readme(tmp_path_factory.mktemp("readme"))


# One test for a command, so that each has the time of a test of the first tier to itself.
@pytest.mark.parametrize("ahead", [*range(len(sessions(ROOT / "README.md")))][::-1])
def test_commands_of_the_readme(ahead: int, readme: Readme) -> None:
    readme.read(ahead)


def test_programs_of_the_readme(readme: Readme, monkeypatch: pytest.MonkeyPatch) -> None:
    readme.read(0)
    monkeypatch.chdir(readme.terminal.folder)
    monkeypatch.setenv("PUFFERDP_HOME", readme.terminal.environment["PUFFERDP_HOME"])
    run_programs(ROOT / "README.md")


def test_numbers_of_the_first_screen_are_computed() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Install")[0]
    leaked, guaranteed = odds()
    assert f"a factor of up to **{leaked:.1f}**" in text and f"e^1 = {guaranteed:.1f}" in text
    assert f"a week of {RECORDS:,} records" in text
    for name, query in (
        ("how often active", "count:active"),
        ("the whole histogram, each of three counts", "histogram"),
    ):
        week = cost(query)
        row = f"| {name} | {week.dp_scale:g} | {week.scale:.3f} | {week.dp_error:g} | **{week.error:g}** |"
        assert row in text
    published = pufferdp.plan(WEARER, "histogram", epsilon=1, length=RECORDS).candidate("quilt-exact").calibration
    assert published is not None
    assert f"(Song et al. 2017) needs a scale of {published.scale:.2f}" in text
    for page in ("index.md", "start-here.md"):
        opening = (DOCS / page).read_text(encoding="utf-8")[:2000]
        numbers = (f"{leaked:.1f}", f"{guaranteed:.1f}", f"{cost('histogram').error:g}", f"{RECORDS:,}")
        assert not [number for number in numbers if number not in opening]
    # The factor is that of one count, so the errors beside it are those of one count.
    count = cost("count:active")
    opening = (DOCS / "start-here.md").read_text(encoding="utf-8")[:2000]
    assert f"a single count of active records would be off by less than {count.dp_error:g} with 95 %" in opening
    assert f"raises the error bound of this count to {count.error:g}," in opening


def test_first_screen_has_its_parts_in_order() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    parts = ["gives away", "what it costs", "three commands", "when to use opendp", "install"]
    assert [
        part for line in re.findall(r"^## (.*)$", text, re.MULTILINE)[:5] for part in parts if part in line.lower()
    ] == parts


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``pufferdp demo --out tour`` makes."""
    return run_session([Step("pufferdp demo --out tour", ["…"])], tmp_path_factory.mktemp("tour")) / "tour"


READ_ALONE = [ROOT / "README.md", DOCS / "start-here.md", DOCS / "reproduce.md"]
TOURED = [page.relative_to(DOCS).as_posix() for page in PAGES if page not in READ_ALONE and sessions(page)]


@pytest.mark.docs
@pytest.mark.parametrize("page", TOURED)
def test_sessions_that_use_the_tour(page: str, tour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tour, tmp_path / "work" / "tour")
    monkeypatch.chdir(run_session(sessions(DOCS / page), tmp_path))
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path / "home"))
    run_programs(DOCS / page)


@pytest.mark.docs
def test_sessions_that_use_real_data(shared_data: Path, tmp_path: Path) -> None:
    run_session(sessions(DOCS / "reproduce.md"), tmp_path)


@pytest.mark.docs
def test_api_examples(tour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tour, tmp_path / "tour")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path / "home"))
    run_programs(DOCS / "api.md")


@pytest.mark.docs
@pytest.mark.skipif("PUFFERDP_DATA" not in os.environ, reason="PUFFERDP_DATA does not name the folder with the data")
def test_power_page_has_the_errors_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path))
    model = pufferdp.fit(
        Path(os.environ["PUFFERDP_DATA"]) / "power" / "household_minute.csv.gz",
        column="global_active_power_kw",
        order="datetime",
        bins="width:0.2:0:10.2",
        missing="keep",
        family="chain",
        checks=False,
    ).model
    text = (DOCS / "guide" / "power.md").read_text(encoding="utf-8")
    for lengths in ([6839, 12883, 21237], [1_000_000]):
        # Under bdp the tight curve of 46 states takes seconds: at one length only.
        for adversary in ("pufferfish",) if lengths == [1_000_000] else ("pufferfish", "bdp"):
            # At one epsilon of the three: a command of reproduce.md runs the others under pufferfish.
            plan = pufferdp.plan(model, "frequency", epsilon=1, lengths=lengths, adversary=adversary)
            shown = {"curve-tight": adversary, "quilt-exact": adversary}
            if lengths != [1_000_000]:
                shown |= {"quilt-approx": adversary, "group": "both"}
            for name, who in shown.items():
                calibration = plan.candidate(name).calibration
                assert calibration is not None
                error = f"{calibration.distribution.expected_l1_error:.4f}"
                assert re.search(rf"\| {name} \| {who} \| [\d.]+ \| {re.escape(error)} \|", text), (name, error)


@pytest.mark.docs
@pytest.mark.skipif("PUFFERDP_DATA" not in os.environ, reason="PUFFERDP_DATA does not name the folder with the data")
@pytest.mark.parametrize(("clock", "row"), [(None, "one chain"), ("hour", "a clock of 24 hours")])
def test_rhythms_page_has_the_noise_of_the_plan(
    clock: str | None, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path))
    model = pufferdp.fit(
        Path(os.environ["PUFFERDP_DATA"]) / "power" / "household_minute.csv.gz",
        column="global_active_power_kw",
        order="datetime",
        bins="0,0.5,1.5,12",
        missing="keep",
        family="chain" if clock is None else "clock",
        clock=clock,
        checks=False,
    ).model
    text = (DOCS / "guide" / "rhythms.md").read_text(encoding="utf-8")
    shown = re.search(rf"\| {row} \| ([\d.]+) \|", text)
    assert shown is not None
    loss = 2 / float(shown[1]) / 40_959
    assert pufferdp.curves(model, 40_959)["tight"](loss) == pytest.approx(1.0, rel=2e-3)  # four digits are shown


@pytest.mark.docs
def test_model_estimate_page_has_the_table_of_the_benchmark() -> None:
    text = (DOCS / "guide" / "model-estimates.md").read_text(encoding="utf-8")
    rows = [found.row() for found in gains((1.0, 5.0))]  # at 0.2, ten times as many noisy answers are summed
    assert len(rows) == 6
    assert not [row for row in rows if row not in text]


@pytest.mark.docs
def test_redaction_page_has_the_table_of_the_benchmark() -> None:
    text = (DOCS / "theory" / "redaction.md").read_text(encoding="utf-8")
    assert not [row for row in gap_rows(CASES[::2]) if row not in text]


@pytest.mark.docs
def test_flips_page_has_the_table_of_the_benchmark() -> None:
    text = (DOCS / "theory" / "flips.md").read_text(encoding="utf-8")
    cases = ((0.02, 5.0), (0.05, 1.0), (0.1, 8.0), (0.2, 3.0), (0.35, 5.0))  # of twenty rows, one for each theta
    assert not [case for case in cases if noise_row(*case) not in text]


SCHEMAS: dict[str, type[BaseModel]] = {
    "certificate": pufferdp.Certificate,
    "series-certificate": pufferdp.SeriesCertificate,
    "redaction-certificate": pufferdp.RedactionCertificate,
    "flow-certificate": pufferdp.FlowCertificate,
    "table-certificate": pufferdp.TableCertificate,
    "measurement-certificate": pufferdp.MeasurementCertificate,
}


@pytest.mark.parametrize(("file", "certificate"), SCHEMAS.items())
def test_certificate_schemas_are_those_in_the_code(file: str, certificate: type[BaseModel]) -> None:
    written = json.loads((DOCS / f"{file}.schema.json").read_text(encoding="utf-8"))
    assert written == certificate.model_json_schema(by_alias=True)


def test_api_page_has_every_public_name() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    missing = [name for name in pufferdp._public_names() if not re.search(rf"`{name}\b", text)]
    assert not missing


def test_certificate_page_has_every_key() -> None:
    text = (DOCS / "guide" / "certificate.md").read_text(encoding="utf-8")
    keys = pufferdp.Certificate.model_json_schema(by_alias=True)["properties"]
    assert not [key for key in keys if f"`{key}`" not in text]


def images() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            yield page, target


def test_every_image_exists_and_is_used() -> None:
    shown = {(page.parent / target).resolve() for page, target in images()}
    assert not [path for path in shown if not path.is_file()]
    assert {path.resolve() for path in (DOCS / "images").iterdir()} == shown


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http", "#")):
                assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"
