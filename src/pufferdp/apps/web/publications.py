"""Jobs for tables, flipped series and flows: their plans, and what is published, charged first where a ledger is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pufferdp.apps.web import pictures
from pufferdp.apps.web.inputs import Inputs, JobContext, Result, certificate_in, decorate, publish
from pufferdp.basics.errors import CertificateError
from pufferdp.data.memory import MemoryFile
from pufferdp.data.reading_options import ROWS
from pufferdp.data.rewrite import formula_warning, key_columns
from pufferdp.models.base import Lengths
from pufferdp.publish.certificate import SERIES_SCHEMA

if TYPE_CHECKING:
    from pufferdp.publish.flips.publication import Flip
    from pufferdp.publish.tables.publication import TableRelease


def table_plan(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """How accurate every question of a table will be."""
    from pufferdp.publish.tables.plan import plan_table

    lengths, unobserved = inputs.read_lengths(progress, arguments)
    result = plan_table(inputs.model(arguments["model"]), lengths=lengths, unobserved=unobserved, **_table(arguments))
    return _planned(result, lengths, arguments)


def _table(arguments: dict[str, Any]) -> dict[str, Any]:
    asked = {name: arguments[name] for name in ("split", "clip", "epsilon", "adversary")}
    return {**asked, "query": arguments["queries"], "per": arguments["per"] or None}


def _planned(result: Result, lengths: Lengths, arguments: dict[str, Any]) -> dict[str, Any]:
    page = pictures.page(result, arguments["theme"], read=arguments["data"] is not None)
    return {**result.to_dict(), "lengths": [list(pair) for pair in lengths], "page": page}


def table(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """A table, charged before its noise where there is a ledger."""
    from pufferdp.publish.series import Series, run_of
    from pufferdp.publish.tables.publication import release_table

    def make(source: MemoryFile, *, ledger: Any, dataset: Any, progress: JobContext, **asked: Any) -> TableRelease:
        run = run_of({"ledger": ledger, "dataset": dataset, "progress": progress})
        return release_table(Series(source, **arguments["reading"]), **asked, **run)

    made, content, kept = publish(inputs, progress, arguments, make, **_table(arguments))
    files = {"table.csv": made.table.to_csv().decode("utf-8", "replace"), "release.json": content}
    return _published(made, content, kept, files, arguments["theme"])


def flip_plan(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """The channel that every record would pass."""
    from pufferdp.publish.flips.plan import design_flips

    lengths, unobserved = inputs.read_lengths(progress, arguments)
    progress("choosing the channel")
    result = design_flips(
        inputs.model(arguments["model"]),
        arguments["epsilon"],
        length=None if unobserved or not lengths else max(length for length, _ in lengths),
        adversary=arguments["adversary"],
    )
    return _planned(result, lengths, arguments)


def flip(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """A series whose every record passed a channel."""
    from pufferdp.publish.flips.publication import flip as make

    source, reading = inputs.file(arguments["data"]), arguments["reading"]
    keys = key_columns(source, [name for name in (reading["by"], reading["order"]) if name not in (None, ROWS)])

    def written(made: Flip) -> MemoryFile:
        columns = [*keys.values(), made.values]
        return source.written([*keys, reading["column"]], zip(*columns, strict=True))

    asked = {name: arguments[name] for name in ("epsilon", "adversary")}
    made, content, kept = publish(inputs, progress, arguments, make, written, **asked, **reading)
    series = written(made)
    files = {f"flipped-{series.name.rpartition('/')[2]}": series, "certificate.json": content["certificate"]}
    shown = decorate({"formulas": lambda: formula_warning(series)}, kept is not None)
    return {"file": series, **shown, **_published(made, content, kept, files, arguments["theme"])}


def certificate(inputs: Inputs, progress: JobContext, *, name: str, content: bytes) -> dict[str, Any]:
    """The certificate of a flipped series."""
    raw = certificate_in(name, content)
    if raw.get("schema") != SERIES_SCHEMA:
        raise CertificateError(f"{name!r} is no certificate of a flipped series; choose the one that came with it")
    return {"certificate": raw}


def estimate(
    inputs: Inputs,
    progress: JobContext,
    *,
    data: str,
    certificate: str,
    confidence: float,
    theme: str,
) -> dict[str, Any]:
    """What a flipped series says of the true one; it costs no budget."""
    from pufferdp.publish.flips.estimate import estimate as make

    result = make(inputs.file(data), inputs.certificate(certificate), confidence=confidence, progress=progress)
    return {**result.to_dict(), "page": pictures.page(result, theme), "files": {"estimate.json": result.to_dict()}}


def flow_plan(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """How accurate a private flow will be."""
    from pufferdp.publish.flows.plan import plan_flow

    lengths, _ = inputs.read_lengths(progress, arguments)
    prior = inputs.model(arguments["model"])
    result = plan_flow(prior, lengths=lengths, progress=progress, **_flow(arguments))
    return _planned(result, lengths, arguments)


def _flow(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in ("eta", "tau", "privacy")}


def flow(inputs: Inputs, progress: JobContext, **arguments: Any) -> dict[str, Any]:
    """How the series moves between states, with noise."""
    from pufferdp.publish.flows.publication import flow as make

    made, content, kept = publish(inputs, progress, arguments, make, **_flow(arguments), **arguments["reading"])
    return _published(made, content, kept, {"flow.json": content}, arguments["theme"])


def _published(
    made: object, content: dict[str, Any], kept: list[str] | None, files: dict[str, Any], theme: str
) -> dict[str, Any]:
    """What the page shows of something that was published, and what can be taken along."""
    charged = kept is not None
    drawn = decorate({"page": lambda: pictures.page(made, theme), "report": lambda: pictures.report(made)}, charged)
    report = drawn.pop("report")
    return {
        **drawn,
        "certificate": content["certificate"],
        "kept": kept,
        "files": {**files, **({"report.html": report} if report else {})},
    }


JOBS: Final[tuple[Callable[..., dict[str, Any]], ...]] = (
    *(table_plan, table, flip_plan, flip),
    *(certificate, estimate, flow_plan, flow),
)
