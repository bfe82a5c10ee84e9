"""Runs pages and writes what their commands print today into them: python -m tests.docs.rewrite PAGE...

Only output that the tests would reject is replaced. Lines left out of a page (``…``) stay left out. The schemas of
certificates are written too.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import functools
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.docs.test_docs import (
    DOCS,
    READ_ALONE,
    SCHEMAS,
    Step,
    Terminal,
    matches,
    mismatch,
    programs,
    run_session,
    sessions,
)


def like(line: str, output: list[str], start: int) -> int | None:
    """The line of the output, from a start, that a shown line is or resembles most."""
    for at in range(start, len(output)):
        if matches(line.rstrip(), output[at].rstrip()):
            return at
    scores = [difflib.SequenceMatcher(None, line, text).ratio() for text in output[start:]]
    best = max(range(len(scores)), key=scores.__getitem__, default=None)
    return None if best is None or scores[best] < 0.6 else start + best


def first_like(lines: list[str], output: list[str], start: int) -> int | None:
    """The line of the output that is like the first of some lines, or else like the next of them."""
    found = (like(line, output, start) for line in lines if line.strip())
    return next((at for at in found if at is not None), None)


def renewed(shown: list[str], output: list[str]) -> list[str]:
    """The output as the page shows it: the same parts of it, as they are now."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == "…":
            parts.append([])
        else:
            parts[-1].append(line)
    out, at = list[str](), 0
    for n, part in enumerate(parts):
        if n:
            out.append("…")
        if not part:
            continue
        first = 0 if n == 0 else first_like(part, output, at)
        last = (
            len(output) - 1 if n == len(parts) - 1 else first_like(part[::-1], output, at if first is None else first)
        )
        if first is None or last is None or last < first:
            print(f"    by hand: {part[0]!r} … {part[-1]!r}")
            out += part
            continue
        out += [line.rstrip() for line in output[first : last + 1]]
        at = last + 1
    return out


@functools.cache
def tour() -> Path:
    """The folder that ``pufferdp demo --out tour`` makes; most pages use it."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return run_session([Step("pufferdp demo --out tour", ["…"])], folder) / "tour"


def rewrite(page: Path) -> None:
    """Run one page in a folder of its own and replace the output that differs."""
    text = page.read_text(encoding="utf-8")

    def renew(step: Step, output: list[str]) -> None:
        nonlocal text
        if step.shown is None or mismatch(step.shown, output) is None:
            return
        before, after = ("".join(f"{line}\n" for line in lines) for lines in (step.shown, renewed(step.shown, output)))
        print(f"  {page.name}: {step.source.splitlines()[0][:90]}")
        prefix = "" if step.source.endswith("\n") else f"$ {step.source}\n"
        if text.count(prefix + before) != 1:
            print(f"    by hand: shown {text.count(prefix + before)} times")
        text = text.replace(prefix + before, prefix + after, 1)

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        terminal = Terminal(Path(folder))
        if page not in READ_ALONE:
            shutil.copytree(tour(), terminal.folder / "tour")
        for step in sessions(page):
            code, written = terminal.run(step.source)
            if code:
                print(f"  {page.name}: {step.source} exits {code}\n{written}")
            renew(step, [line for line in written.splitlines() if not line.endswith(" …")])
        os.chdir(terminal.folder)
        os.environ["PUFFERDP_HOME"] = terminal.environment["PUFFERDP_HOME"]
        namespace: dict[str, object] = {"__name__": "page"}
        for step in programs(page):
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(compile(step.source, str(page), "exec"), namespace)
            except Exception as error:
                print(f"  {page.name}: {error!r} in\n{step.source}")
            renew(step, printed.getvalue().splitlines())
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for file, certificate in SCHEMAS.items():
        schema = json.dumps(certificate.model_json_schema(by_alias=True), indent=1, ensure_ascii=False)
        (DOCS / f"{file}.schema.json").write_text(f"{schema}\n", encoding="utf-8")
    for name in sys.argv[1:]:
        rewrite(Path(name).resolve())
