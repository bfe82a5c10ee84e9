"""What the processes beside the server do: each job calls the library once or twice and hands on what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pufferdp.apps.web import pictures
from pufferdp.apps.web.commands import two_states
from pufferdp.basics import checks
from pufferdp.basics.errors import CertificateError, DataError, ModelError, PufferdpError
from pufferdp.data.files import memory_columns
from pufferdp.data.layout import Layout
from pufferdp.data.memory import MemoryFile
from pufferdp.data.rewrite import row_codes
from pufferdp.data.series import open_series
from pufferdp.models.base import Model
from pufferdp.models.chain import chain_of
from pufferdp.models.files.json import model_from_dict, model_to_dict
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.plan import Plan, plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import embedded_certificate, is_report
from pufferdp.publish.fits.fit import fit
from pufferdp.publish.reading import check_reading, coding_of, read_exact

SLOW: Final = ("exact-laplace", "wasserstein", "gk16")
"""Mechanisms whose noise takes longest to find, up to seconds: a plan is shown without them first."""
SHOWN: Final = 20_000
"""Rows of a series that the page shows, and states of a column that it lists."""
LOSSES: Final = tuple(10 ** (n / 4 - 2) for n in range(13))
"""Where the error is shown against epsilon: 0.01 to 10."""


class JobContext(Protocol):
    """How a job speaks while it works."""

    def __call__(self, words: str) -> None:
        """Progress."""

    def part(self, content: dict[str, Any]) -> None:
        """Something to show already."""


@dataclass
class Kept:
    """Files and models of this process; a model keeps what was computed for it, so sliders are quick."""

    things: dict[str, object] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    lengths: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Chain lengths by how they were read: public, and the same for every epsilon."""

    def keep(self, key: str, thing: object) -> None:
        """Something that later jobs name by its key."""
        self.things[key] = thing

    def file(self, key: str) -> MemoryFile:
        """A file that was kept."""
        found = self.things[key]
        assert isinstance(found, MemoryFile)
        return found

    def model(self, key: str) -> Model:
        """A model that was kept, made once."""
        if key not in self.models:
            self.models[key] = model_from_dict(self.things[key])
        return self.models[key]


def columns(kept: Kept, tell: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """The header of an upload."""
    tell("reading the header")
    return {"columns": memory_columns(MemoryFile(name, content))}


def values(kept: Kept, tell: JobContext, *, data: str, column: str) -> dict[str, Any]:
    """What stands in a column: its distinct values, or the range of its numbers where they are many."""
    tell("looking at the column")
    series = open_series(kept.file(data), Layout(column=column, missing="break"))
    try:
        span: tuple[float, float] | None = series.number_range()
    except DataError:
        span = None
    states = series.found_states()
    return {"states": list(states[:SHOWN]), "distinct": len(states), "range": None if span is None else list(span)}


def model(kept: Kept, tell: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """A model file, checked."""
    try:
        raw = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ModelError(f"{name!r} is not JSON; a model file holds one JSON object", value=name) from None
    return describe(model_from_dict(raw))


def describe(found: Model) -> dict[str, Any]:
    """What the page needs to know of a model."""
    return {
        "model": model_to_dict(found),
        "words": repr(found),
        "states": list(found.labels),
        "numbers": getattr(found, "values", None) is not None,
        "chained": found.takes_length,
        "redactable": chain_of(found) is not None,
        "fitted": found.fitted is not None,
    }


def fitted(kept: Kept, tell: JobContext, *, data: str, reading: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A model from the data itself."""
    found = fit(kept.file(data), **reading, **more, progress=tell)
    return {**describe(found.model), "left_out": list(found.left_out), "unvisited": list(found.unvisited)}


def _problem(kept: Kept, tell: JobContext, asked: dict[str, Any], epsilon: float | None = None) -> Problem:
    believed = kept.model(asked["model"])
    query = Query.parse(asked["query"], clip=asked["clip"])
    lengths: tuple[tuple[int, int], ...] = ()
    if asked["data"] is not None:
        ways = {name: asked["reading"][name] for name in ("order", "by", "gap")}
        check_reading(believed, ways, asked["reading"]["missing"], asked["id"])
        key = json.dumps([asked["model"], asked["data"], asked["reading"], asked["id"], asked["query"], asked["clip"]])
        if key not in kept.lengths:
            tell("reading the data")
            layout = Layout(**asked["reading"])
            kept.lengths[key] = read_exact(kept.file(asked["data"]), believed, query, layout, asked["id"]).lengths
        lengths = kept.lengths[key]
    elif asked["length"] is not None:
        lengths = ((asked["length"], 1),)
    return Problem(
        model=believed,
        query=query,
        lengths=lengths,
        epsilon=asked["epsilon"] if epsilon is None else epsilon,
        adversary=checks.adversary(asked["adversary"]),
    )


def plan(kept: Kept, tell: JobContext, **asked: Any) -> dict[str, Any]:
    """Every mechanism; those that take long come later."""
    problem = _problem(kept, tell, asked)
    quick = plan_problem(problem, progress=tell, only=[m.name for m in MECHANISMS if m.name not in SLOW])
    tell.part({**_planned(quick, asked["theme"]), "waiting": list(SLOW)})
    slow = plan_problem(problem, progress=tell, only=SLOW)
    return {**_planned(quick.with_more(slow), asked["theme"]), "waiting": []}


def _planned(found: Plan, theme: str) -> dict[str, Any]:
    return {
        **found.to_dict(),
        "lengths": [list(p) for p in found.problem.lengths],
        "chart": pictures.plan(found, theme),
    }


def errors(kept: Kept, tell: JobContext, **asked: Any) -> dict[str, Any]:
    """The least error for each epsilon, by the mechanisms that are quick."""
    quick, rows = [m.name for m in MECHANISMS if m.name not in SLOW], []
    for epsilon in LOSSES:
        best = plan_problem(_problem(kept, tell, asked, epsilon), progress=tell, only=quick).best
        assert best.calibration is not None
        assert best.accuracy is not None
        rows.append({"epsilon": epsilon, "mechanism": best.mechanism, "alpha": best.accuracy.alpha})
    return {"rows": rows, "chart": pictures.errors(rows, asked["theme"])}


def release(kept: Kept, tell: JobContext, **asked: Any) -> dict[str, Any]:
    """One private answer, charged before its noise where there is a ledger."""
    from pufferdp.publish.answers.release import release as make

    made = make(
        kept.file(asked["data"]),
        model=kept.model(asked["model"]),
        query=asked["query"],
        clip=asked["clip"],
        epsilon=asked["epsilon"],
        adversary=asked["adversary"],
        id=asked["id"],
        mechanism=asked["mechanism"],
        ledger=asked["ledger"],
        dataset=asked["dataset"],
        progress=tell,
        **asked["reading"],
    )
    tell("writing the report")
    return {**made.to_dict(), "chart": pictures.release(made, asked["theme"]), "report": pictures.report(made)}


def leakage(kept: Kept, tell: JobContext, *, stay: list[float], theme: str, **asked: Any) -> dict[str, Any]:
    """What a DP loss leaks under a chain with two states."""
    from pufferdp.assess.dp import leakage_lines, leakage_of

    chain = model_from_dict({"type": "markov_chain", "transition": two_states(stay)})
    found = leakage_of(chain, **asked)
    tell.part({**found.to_dict(), "words": str(found), "chart": None})
    lines = leakage_lines(chain, found, asked["query"])
    shown = {**found.to_dict(), "lines": lines}
    return {**found.to_dict(), "words": str(found), "chart": pictures.leakage(shown, theme)}


def series(kept: Kept, tell: JobContext, *, data: str, model: str, column: str) -> dict[str, Any]:
    """The states of a series, row by row, for its owner to point at."""
    tell("reading the series")
    believed = kept.model(model)
    if not believed.needs_length:
        raise ModelError("a series is redacted under a Markov chain; choose another model")
    layout, coding = Layout(column=column, missing="break"), coding_of(believed)
    file = kept.file(data)
    open_series(file, layout).counts(coding)  # refuses what is no state, with the place
    codes = row_codes(file, layout, coding)
    return {"rows": len(codes), "codes": codes[:SHOWN].tolist(), "labels": list(coding.labels)}


def design(kept: Kept, tell: JobContext, *, model: str, theme: str, **asked: Any) -> dict[str, Any]:
    """Which records a redaction would hide, with which probabilities."""
    from pufferdp.publish.redaction.redact import plan_redaction

    tell("designing")
    found = plan_redaction(kept.model(model), **asked)
    content = {**found.to_dict(), "redaction_probabilities": None}
    return {**content, "rows": found.rows, "words": str(found), "chart": pictures.redaction(found, theme)}


def redact(kept: Kept, tell: JobContext, *, data: str, model: str, theme: str, **asked: Any) -> dict[str, Any]:
    """The series but for what gives private records away."""
    from pufferdp.publish.redaction.redact import marked_rows
    from pufferdp.publish.redaction.redact import redact as make

    tell("redacting")
    found = make(kept.file(data), model=kept.model(model), **asked)
    assert isinstance(found.data, MemoryFile)
    content = {**found.to_dict(), "redaction_probabilities": None}
    rows = sorted(marked_rows(found.data, asked["column"], found.mark))
    return {**content, "words": str(found), "file": found.data, "marked": rows, "report": pictures.report(found)}


def ledger(kept: Kept, tell: JobContext, *, place: str, theme: str) -> dict[str, Any]:
    """Every data set of a ledger and its latest releases."""
    from pufferdp.ledger.history import history, latest
    from pufferdp.ledger.ledger import Ledger

    found = []
    with Ledger(place) as books:
        for name in books.names():
            tell(f"reading {name}")
            one = books.dataset(name).to_dict()
            chart = pictures.budget(one, history(books, name), theme) if one["releases"] > 1 else None
            found.append({**one, "latest": latest(books, name), "chart": chart})
    return {"datasets": found}


def ledger_verify(kept: Kept, tell: JobContext, *, place: str, head: str | None) -> dict[str, Any]:
    """Every hash and every charge of a ledger computed again."""
    from pufferdp.ledger.ledger import Ledger

    tell("recomputing hashes and charges")
    with Ledger(place) as books:
        return books.verify(head).to_dict()


def verify(kept: Kept, tell: JobContext, *, name: str, content: bytes, place: str | None) -> dict[str, Any]:
    """A certificate or a report computed again; its row is looked up where a ledger is open."""
    from pufferdp.publish.verify import verify as check

    raw = certificate_in(name, content)
    tell("recomputing the certificate")
    found = check(raw)
    head = (raw.get("ledger") or {}).get("head") if isinstance(raw.get("ledger"), dict) else None
    row = None
    if place is not None and head is not None:
        try:
            row = ledger_verify(kept, tell, place=place, head=head)
        except PufferdpError as error:
            row = {"valid": False, "problems": [str(error)]}
    guarantee = raw.get("guarantee")
    said = guarantee.get("statement") if isinstance(guarantee, dict) else None
    return {**found.to_dict(), "statement": said, "created": raw.get("created"), "head": head, "ledger": row}


JOBS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "columns": columns,
    "values": values,
    "model": model,
    "fit": fitted,
    "plan": plan,
    "errors": errors,
    "release": release,
    "leakage": leakage,
    "series": series,
    "design": design,
    "redact": redact,
    "ledger": ledger,
    "ledger_verify": ledger_verify,
    "verify": verify,
}


def certificate_in(name: str, content: bytes) -> dict[str, Any]:
    """The content of a certificate; of a release its certificate, of a report the one that is embedded."""
    try:
        text = content.decode("utf-8-sig")
        raw = json.loads(embedded_certificate(text) if is_report(text) else text)
    except (ValueError, RecursionError):
        raise CertificateError(
            f"{name!r} is neither a certificate nor a report that carries one; drop the .json or the .html file"
        ) from None
    if isinstance(raw, dict) and isinstance(raw.get("certificate"), dict) and "schema" not in raw:
        raw = raw["certificate"]
    if not isinstance(raw, dict):
        raise CertificateError(f"{name!r} holds no certificate: it must be a JSON object with a schema")
    return raw
