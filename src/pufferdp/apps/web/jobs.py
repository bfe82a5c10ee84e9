"""What the processes beside the server do: each job calls the library once or twice and hands on what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pufferdp.apps.flags import advised, flags
from pufferdp.apps.web import assessments, pictures, publications
from pufferdp.apps.web.inputs import Inputs, JobContext, certificate_in, decorate, publish
from pufferdp.basics import checks
from pufferdp.basics.errors import DataError, ModelError, PufferdpError
from pufferdp.basics.files import JsonRuleError, parse_json
from pufferdp.data.files import column_names
from pufferdp.data.layout import Layout
from pufferdp.data.memory import MemoryFile
from pufferdp.data.rewrite import Placement, formula_warning, row_codes
from pufferdp.data.series import open_series
from pufferdp.models.base import Model
from pufferdp.models.chain import chain_of
from pufferdp.models.files.json import model_from_dict, model_to_dict
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.plan import Plan, plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.fits.publication import fit as fit_model
from pufferdp.publish.reading import coding_of
from pufferdp.report.pages.answers import plan_comparison, plan_guarantee, plan_verdict, release_chart
from pufferdp.report.pages.ledger import budget_calendar, budget_over_time
from pufferdp.report.pages.redaction import redaction_map

SLOW: Final = ("exact-laplace", "laplace-hidden", "wasserstein", "gk16")
"""Mechanisms whose noise takes longest to find, up to seconds: a plan is shown without them first."""
SHOWN: Final = 20_000
"""Rows of a series that the page shows, and states of a column that it lists."""
LOSSES: Final = tuple(10 ** (n / 4 - 2) for n in range(13))
"""Where the error is shown against epsilon: 0.01 to 10."""


def columns(inputs: Inputs, progress: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """The column names in the header of an upload."""
    progress("reading the header")
    return {"columns": column_names(MemoryFile(name, content))}


def values(inputs: Inputs, progress: JobContext, *, data: str, column: str) -> dict[str, Any]:
    """What stands in a column: its distinct values, or the range of its numbers where they are many."""
    progress("looking at the column")

    def scan() -> dict[str, Any]:
        series = open_series(inputs.file(data), Layout(column=column, missing="keep", rows_in_order=True))
        try:
            span: tuple[float, float] | None = series.number_range()
        except DataError:
            span = None
        states = series.found_states()
        listed = None if span is None else list(span)
        return {"states": list(states[:SHOWN]), "distinct": len(states), "range": listed}

    return inputs.look(("values", data, column), scan)


def model(inputs: Inputs, progress: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """The description of an uploaded model file, checked."""
    try:
        raw = parse_json(content.decode("utf-8-sig"))
    except JsonRuleError as error:
        raise ModelError(f"{name!r}: {error}", value=name) from None
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


def fit(inputs: Inputs, progress: JobContext, *, data: str, reading: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A model from the data itself."""
    result = fit_model(inputs.file(data), **reading, **more, progress=progress)
    return {
        **describe(result.model),
        "left_out": list(result.left_out),
        "unvisited": list(result.unvisited),
        "checks": advised({"tests": [check.to_dict() for check in result.checks]})["tests"],
    }


def _problem(inputs: Inputs, progress: JobContext, arguments: dict[str, Any], epsilon: float | None = None) -> Problem:
    query = Query.parse(arguments["query"], clip=arguments["clip"])
    lengths, unobserved = inputs.read_lengths(progress, arguments, query)
    return Problem(
        model=inputs.model(arguments["model"]),
        query=query,
        lengths=lengths,
        epsilon=arguments["epsilon"] if epsilon is None else epsilon,
        adversary=checks.adversary(arguments["adversary"]),
        unobserved=unobserved,
    )


def _quick() -> list[str]:
    """Mechanisms that take no time; the page guarantees no delta."""
    return [m.name for m in MECHANISMS if m.name not in SLOW and not m.approximate]


def plan(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """Every mechanism; those that take long come later. Who asks the same again is answered at once."""
    key = ("plan", str(arguments["data"]), arguments["model"], json.dumps(arguments, sort_keys=True))
    return inputs.look(key, lambda: _plan(inputs, progress, arguments))


def _plan(inputs: Inputs, progress: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
    problem = _problem(inputs, progress, arguments)
    quick = plan_problem(problem, progress=progress, only=_quick())
    waiting = [m.name for m in MECHANISMS if m.name in SLOW and m.tried(problem)]
    progress.part({**_plan_content(quick, arguments["theme"]), "waiting": waiting})
    slow = plan_problem(problem, progress=progress, only=waiting)
    return {**_plan_content(quick.with_more(slow), arguments["theme"]), "waiting": []}


def _plan_content(planned: Plan, theme: str) -> dict[str, Any]:
    return {
        **planned.to_dict(),
        "verdict": (*plan_verdict(planned), planned.problem.checked.sentence),
        "guarantee": plan_guarantee(planned),
        "lengths": [list(p) for p in planned.problem.lengths],
        "chart": pictures.vega(plan_comparison(planned.to_dict()), theme),
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
    from pufferdp.publish.answers.estimate import why_not_shown
    from pufferdp.publish.release import release as make

    names = ("query", "clip", "epsilon", "adversary", "id", "mechanism")
    asked = {name: arguments[name] for name in names}
    made, content, kept = publish(inputs, progress, arguments, make, **asked, **arguments["reading"])
    certificate, theme = content["certificate"], arguments["theme"]
    drawn = {
        "chart": lambda: pictures.vega(release_chart(certificate), theme),
        "report": lambda: pictures.report(made),
    }
    hidden = {"hidden_estimate": why_not_shown(certificate)}
    return {**content, **hidden, "kept": kept, **decorate(drawn, kept is not None)}


def series(inputs: Inputs, progress: JobContext, *, data: str, model: str, column: str) -> dict[str, Any]:
    """The states of a series, row by row, for its owner to point at."""
    progress("reading the series")
    prior = inputs.model(model)
    if not prior.needs_length or prior.real_valued:
        raise ModelError("a series is redacted under a Markov chain; choose another model")

    def scan() -> dict[str, Any]:
        layout = Layout(column=column, missing="keep", rows_in_order=True)
        coding = coding_of(prior)
        file = inputs.file(data)
        open_series(file, layout).counts(coding)  # refuses what is no state, with the place
        codes = row_codes(file, layout, coding)
        return {"rows": len(codes), "codes": codes[:SHOWN].tolist(), "labels": list(coding.labels)}

    return inputs.look(("series", data, model, column), scan)


def design(
    inputs: Inputs,
    progress: JobContext,
    *,
    model: str,
    data: str | None,
    column: str | None,
    order: str | None,
    private: list[int | str],
    theme: str,
    **arguments: Any,
) -> dict[str, Any]:
    """Which records a redaction would hide, with which probabilities; the data says which rows times stand for."""
    from pufferdp.publish.redaction.plan import plan_redaction
    from pufferdp.publish.redaction.private import PrivateRecords

    prior, named = inputs.model(model), PrivateRecords.parse(private)
    rows = named.rows
    if named.times and data is not None and column is not None:
        progress("looking up the times")
        layout = Layout(column=column, order=order, missing="keep", step=prior.step)
        named.check(layout)
        series = open_series(inputs.file(data), layout, rows=True)
        rows = named.rows_in(Placement(series=series, coding=coding_of(prior)))
    progress("designing")
    result = plan_redaction(prior, private=sorted(set(rows)) if rows else private, **arguments)
    content = {**result.to_dict(), "redaction_probabilities": None}
    return {**content, "rows": result.rows, "words": str(result), "chart": pictures.vega(redaction_map(result), theme)}


def redact(inputs: Inputs, progress: JobContext, *, theme: str, **arguments: Any) -> dict[str, Any]:
    """The series but for what gives private records away."""
    from pufferdp.publish.redaction.publication import marked_rows
    from pufferdp.publish.redaction.publication import redact as make

    asked = {name: value for name, value in arguments.items() if name not in ("data", "model", "ledger", "dataset")}
    result, content, kept = publish(inputs, progress, arguments, make, lambda made: made.data, **asked)
    assert isinstance(result.data, MemoryFile)
    content = {**content, "redaction_probabilities": None}
    rows = sorted(marked_rows(result.data, arguments["column"], result.mark))
    written = result.data
    drawn = {
        "words": lambda: str(result),
        "report": lambda: pictures.report(result),
        "formulas": lambda: formula_warning(written),
    }
    return {**content, "kept": kept, "file": written, "marked": rows, **decorate(drawn, kept is not None)}


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
            if stands.calendar is not None and stands.calendar.pieces:
                chart = pictures.vega(budget_calendar(stands), theme)
            elif dataset["releases"] > 1:
                chart = pictures.vega(budget_over_time(dataset, history(budget_ledger, name)), theme)
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


Job = Callable[..., dict[str, Any]]
_JOBS: Final[tuple[Job, ...]] = (
    *(columns, values, model, fit, plan, errors, release, series, design, redact, ledger, ledger_verify, verify),
    *publications.JOBS,
    *assessments.JOBS,
)
JOBS: Final = {job.__name__: job for job in _JOBS}
"""By the name under which the page asks for them."""
