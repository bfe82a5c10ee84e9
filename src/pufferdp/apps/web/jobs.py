"""What the processes beside the server do: each job calls the library once or twice and hands on what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pufferdp.apps.flags import flags
from pufferdp.apps.web import pictures
from pufferdp.apps.web.charged import AnswerFolder
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
from pufferdp.publish.certificate import embedded_certificate, is_report, unwrapped
from pufferdp.publish.fits.fit import fit
from pufferdp.publish.reading import check_reading, coding_of, read_exact

SLOW: Final = ("exact-laplace", "exact-optimal", "wasserstein", "gk16")
"""Mechanisms whose noise takes longest to find, up to seconds: a plan is shown without them first."""
SHOWN: Final = 20_000
"""Rows of a series that the page shows, and states of a column that it lists."""
LOSSES: Final = tuple(10 ** (n / 4 - 2) for n in range(13))
"""Where the error is shown against epsilon: 0.01 to 10."""


class JobContext(Protocol):
    """How a job speaks while it works."""

    def __call__(self, words: str) -> None:
        """Tell the page what the job is at, in a few words."""

    def part(self, content: dict[str, Any]) -> None:
        """Something to show already."""


@dataclass
class Inputs:
    """Files and models of this process; a model keeps what was computed for it, so sliders are quick."""

    things: dict[str, object] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    lengths: dict[str, tuple[tuple[tuple[int, int], ...], bool]] = field(default_factory=dict)
    """Chain lengths and whether records are missing, by how they were read: public, and the same for every epsilon."""

    def keep(self, key: str, thing: object) -> None:
        """Something that later jobs name by its key."""
        self.things[key] = thing

    def forget(self, key: str) -> None:
        """Something that no job names any more, unless it is sent again."""
        self.things.pop(key, None)
        self.models.pop(key, None)

    def file(self, key: str) -> MemoryFile:
        """A file that the server sent before the job that names it."""
        upload = self.things[key]
        assert isinstance(upload, MemoryFile)
        return upload

    def model(self, key: str) -> Model:
        """A model that was kept, made once."""
        if key not in self.models:
            self.models[key] = model_from_dict(self.things[key])
        return self.models[key]


def columns(inputs: Inputs, progress: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """The header of an upload."""
    progress("reading the header")
    return {"columns": memory_columns(MemoryFile(name, content))}


def values(inputs: Inputs, progress: JobContext, *, data: str, column: str) -> dict[str, Any]:
    """What stands in a column: its distinct values, or the range of its numbers where they are many."""
    progress("looking at the column")
    series = open_series(inputs.file(data), Layout(column=column, missing="hole"))
    try:
        span: tuple[float, float] | None = series.number_range()
    except DataError:
        span = None
    states = series.found_states()
    return {"states": list(states[:SHOWN]), "distinct": len(states), "range": None if span is None else list(span)}


def model(inputs: Inputs, progress: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """A model file, checked."""
    try:
        raw = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ModelError(f"{name!r} is not JSON; a model file holds one JSON object", value=name) from None
    return describe(model_from_dict(raw))


def describe(model: Model) -> dict[str, Any]:
    """What the page needs to know of a model."""
    return {
        "model": model_to_dict(model),
        "words": repr(model),
        "states": list(model.labels),
        "numbers": getattr(model, "values", None) is not None,
        "chained": model.takes_length,
        "redactable": chain_of(model) is not None,
        "fitted": model.fitted is not None,
    }


def fit_model(
    inputs: Inputs, progress: JobContext, *, data: str, reading: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """A model from the data itself."""
    result = fit(inputs.file(data), **reading, **more, progress=progress)
    return {
        **describe(result.model),
        "left_out": list(result.left_out),
        "unvisited": list(result.unvisited),
        "checks": [check.to_dict() for check in result.checks],
    }


def _problem(inputs: Inputs, progress: JobContext, arguments: dict[str, Any], epsilon: float | None = None) -> Problem:
    believed = inputs.model(arguments["model"])
    query = Query.parse(arguments["query"], clip=arguments["clip"])
    lengths: tuple[tuple[int, int], ...] = ()
    holes = False
    if arguments["data"] is not None:
        layout_options = {name: arguments["reading"][name] for name in ("order", "by", "restart")}
        check_reading(believed, layout_options, arguments["reading"]["missing"], arguments["id"])
        key = json.dumps([arguments[name] for name in ("model", "data", "reading", "id", "query", "clip")])
        if key not in inputs.lengths:
            progress("reading the data")
            layout = Layout(**arguments["reading"], step=believed.step)
            exact = read_exact(inputs.file(arguments["data"]), believed, query, layout, arguments["id"])
            inputs.lengths[key] = exact.lengths, exact.holes
        lengths, holes = inputs.lengths[key]
    elif arguments["length"] is not None:
        lengths = ((arguments["length"], 1),)
    return Problem(
        model=believed,
        query=query,
        lengths=lengths,
        epsilon=arguments["epsilon"] if epsilon is None else epsilon,
        adversary=checks.adversary(arguments["adversary"]),
        holes=holes,
    )


def _quick() -> list[str]:
    """Mechanisms that take no time; the page promises no delta."""
    return [m.name for m in MECHANISMS if m.name not in SLOW and not m.approximate]


def plan(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """Every mechanism; those that take long come later."""
    problem = _problem(inputs, progress, arguments)
    quick = plan_problem(problem, progress=progress, only=_quick())
    waiting = [m.name for m in MECHANISMS if m.name in SLOW and m.tried(problem)]
    progress.part({**_plan_content(quick, arguments["theme"]), "waiting": waiting})
    slow = plan_problem(problem, progress=progress, only=waiting)
    return {**_plan_content(quick.with_more(slow), arguments["theme"]), "waiting": []}


def _plan_content(planned: Plan, theme: str) -> dict[str, Any]:
    return {
        **planned.to_dict(),
        "lengths": [list(p) for p in planned.problem.lengths],
        "chart": pictures.plan(planned, theme),
    }


def errors(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """The least error for each epsilon, by the mechanisms that are quick."""
    quick, rows = _quick(), []
    for epsilon in LOSSES:
        best = plan_problem(_problem(inputs, progress, arguments, epsilon), progress=progress, only=quick).best
        assert best.calibration is not None
        assert best.accuracy is not None
        rows.append({"epsilon": epsilon, "mechanism": best.mechanism, "alpha": best.accuracy.alpha})
    return {"rows": rows, "chart": pictures.errors(rows, arguments["theme"])}


def release(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """One private answer, charged before its noise where there is a ledger."""
    from pufferdp.publish.release import release as make

    answers = _answers(arguments["ledger"])
    made = make(
        inputs.file(arguments["data"]),
        model=inputs.model(arguments["model"]),
        query=arguments["query"],
        clip=arguments["clip"],
        epsilon=arguments["epsilon"],
        adversary=arguments["adversary"],
        id=arguments["id"],
        mechanism=arguments["mechanism"],
        ledger=arguments["ledger"],
        dataset=arguments["dataset"],
        progress=progress,
        **arguments["reading"],
    )
    content = made.to_dict()
    kept = _keep(answers, content)
    progress("writing the report")
    drawn = {"chart": lambda: pictures.release(made, arguments["theme"]), "report": lambda: pictures.report(made)}
    return {**content, "kept": kept, **_decorated(drawn, answers is not None)}


def _answers(ledger: str | None) -> AnswerFolder | None:
    """Where a charged answer will be kept, tried; None where nothing is charged."""
    if ledger is None:
        return None
    answers = AnswerFolder.of(ledger)
    answers.check()
    return answers


def _keep(answers: AnswerFolder | None, content: dict[str, Any], series: MemoryFile | None = None) -> list[str] | None:
    """The files of a charged answer; None where nothing was charged."""
    return None if answers is None else answers.keep(content["certificate"]["ledger"], content, series)


def _decorated(parts: dict[str, Callable[[], Any]], charged: bool) -> dict[str, Any]:
    """Charts and reports. One that fails is left out of a charged answer, which must not be lost with it."""
    made: dict[str, Any] = {}
    for name, draw in parts.items():
        try:
            made[name] = draw()
        except Exception:
            if not charged:
                raise
            made[name] = None
    return made


def leakage(inputs: Inputs, progress: JobContext, *, stay: list[float], theme: str, **arguments: Any) -> dict[str, Any]:
    """What a DP loss leaks under a chain with two states."""
    from pufferdp.assess.dp import leakage_lines, leakage_of

    chain = model_from_dict({"type": "markov_chain", "transition": two_states(stay)})
    result = leakage_of(chain, **arguments)
    progress.part({**result.to_dict(), "words": str(result), "chart": None})
    lines = leakage_lines(chain, result, arguments["query"])
    shown = {**result.to_dict(), "lines": lines}
    return {**result.to_dict(), "words": str(result), "chart": pictures.leakage(shown, theme)}


def series(inputs: Inputs, progress: JobContext, *, data: str, model: str, column: str) -> dict[str, Any]:
    """The states of a series, row by row, for its owner to point at."""
    progress("reading the series")
    believed = inputs.model(model)
    if not believed.needs_length or believed.real_valued:
        raise ModelError("a series is redacted under a Markov chain; choose another model")
    layout, coding = Layout(column=column, missing="hole"), coding_of(believed)
    file = inputs.file(data)
    open_series(file, layout).counts(coding)  # refuses what is no state, with the place
    codes = row_codes(file, layout, coding)
    return {"rows": len(codes), "codes": codes[:SHOWN].tolist(), "labels": list(coding.labels)}


def design(inputs: Inputs, progress: JobContext, *, model: str, theme: str, **arguments: Any) -> dict[str, Any]:
    """Which records a redaction would hide, with which probabilities."""
    from pufferdp.publish.redaction.redact import plan_redaction

    progress("designing")
    result = plan_redaction(inputs.model(model), **arguments)
    content = {**result.to_dict(), "redaction_probabilities": None}
    return {**content, "rows": result.rows, "words": str(result), "chart": pictures.redaction(result, theme)}


def redact(
    inputs: Inputs, progress: JobContext, *, data: str, model: str, theme: str, **arguments: Any
) -> dict[str, Any]:
    """The series but for what gives private records away."""
    from pufferdp.publish.redaction.redact import marked_rows
    from pufferdp.publish.redaction.redact import redact as make

    answers = _answers(arguments["ledger"])
    result = make(inputs.file(data), model=inputs.model(model), progress=progress, **arguments)
    assert isinstance(result.data, MemoryFile)
    content = {**result.to_dict(), "redaction_probabilities": None}
    kept = _keep(answers, result.to_dict(), result.data)
    rows = sorted(marked_rows(result.data, arguments["column"], result.mark))
    drawn = {"words": lambda: str(result), "report": lambda: pictures.report(result)}
    return {**content, "kept": kept, "file": result.data, "marked": rows, **_decorated(drawn, answers is not None)}


def ledger(inputs: Inputs, progress: JobContext, *, place: str, theme: str) -> dict[str, Any]:
    """Every data set of a ledger and its latest releases."""
    from pufferdp.ledger.history import history, latest
    from pufferdp.ledger.ledger import Ledger

    datasets = []
    with Ledger(place) as budget_ledger:
        for name in budget_ledger.names():
            progress(f"reading {name}")
            stands = budget_ledger.dataset(name)
            dataset = stands.to_dict()
            chart = None
            if stands.calendar is not None and stands.calendar.keyed_pieces:
                chart = pictures.calendar(stands, theme)
            elif dataset["releases"] > 1:
                chart = pictures.budget(dataset, history(budget_ledger, name), theme)
            datasets.append({**dataset, "latest": latest(budget_ledger, name), "chart": chart})
    return {"datasets": datasets}


def ledger_verify(inputs: Inputs, progress: JobContext, *, place: str, head: str | None) -> dict[str, Any]:
    """Every hash and every charge of a ledger computed again."""
    from pufferdp.ledger.ledger import Ledger

    progress("recomputing hashes and charges")
    with Ledger(place) as budget_ledger:
        return budget_ledger.verify(head).to_dict()


def verify(inputs: Inputs, progress: JobContext, *, name: str, content: bytes, place: str | None) -> dict[str, Any]:
    """A certificate or a report computed again; its row is looked up where a ledger is open."""
    from pufferdp.publish.verify import verify as check

    raw = certificate_in(name, content)
    progress("recomputing the certificate")
    verification = check(raw)
    head = (raw.get("ledger") or {}).get("head") if isinstance(raw.get("ledger"), dict) else None
    row = None
    if place is not None and head is not None:
        try:
            row = ledger_verify(inputs, progress, place=place, head=head)
        except PufferdpError as error:
            row = {"valid": False, "problems": [flags(str(error))]}
    guarantee = raw.get("guarantee")
    statement = guarantee.get("statement") if isinstance(guarantee, dict) else None
    return {
        **verification.to_dict(),
        "statement": statement,
        "created": raw.get("created"),
        "head": head,
        "ledger": row,
    }


JOBS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "columns": columns,
    "values": values,
    "model": model,
    "fit": fit_model,
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
    raw = unwrapped(raw)
    if not isinstance(raw, dict):
        raise CertificateError(f"{name!r} holds no certificate: it must be a JSON object with a schema")
    return raw
