"""Jobs that say what leaks: of a DP loss, of a stream, of a mechanism under attack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pufferdp.apps.web import pictures
from pufferdp.apps.web.commands import two_states
from pufferdp.apps.web.inputs import Inputs, JobContext
from pufferdp.basics.errors import ParameterError
from pufferdp.models.files.json import model_from_dict
from pufferdp.report.pages.leakage import leakage_curves


def leakage(
    inputs: Inputs,
    progress: JobContext,
    *,
    model: str | None,
    stay: list[float] | None,
    theme: str,
    **arguments: Any,
) -> dict[str, Any]:
    """What a DP loss leaks under a model, or under a chain with two states."""
    from pufferdp.assess.dp import leakage_lines, leakage_of

    if model is None:
        prior = model_from_dict({"type": "markov_chain", "transition": two_states(stay)})
    else:
        prior = inputs.model(model)
    progress("computing")
    result = leakage_of(prior, **arguments)
    progress.part({**result.to_dict(), "words": str(result), "chart": None})
    lines = leakage_lines(prior, result, arguments["query"])
    shown = {**result.to_dict(), "lines": lines}
    return {**result.to_dict(), "words": str(result), "chart": pictures.vega(leakage_curves(shown), theme)}


def stream(
    inputs: Inputs,
    progress: JobContext,
    *,
    model: str,
    losses: list[float] | None,
    target: float | None,
    length: int | None,
    adversary: str,
    theme: str,
) -> dict[str, Any]:
    """What a stream leaks about the record of each step, or what a step may spend."""
    from pufferdp.assess.streams import StreamBudget, StreamReport, stream_budget, stream_leakage

    if (losses is None) == (target is None):
        raise ParameterError("give either the loss of each step or the leakage that is allowed")
    prior = inputs.model(model)
    result: StreamBudget | StreamReport
    if target is not None:
        progress("searching for what a step may spend")
        result = stream_budget(prior, target, length=length, adversary=adversary)
    else:
        progress("following the stream")
        spent = losses or [0.0]
        result = stream_leakage(
            prior, spent[0] if len(spent) == 1 else spent, length=length, adversary=adversary, progress=progress
        )
    return {"page": pictures.page(result, theme)}


def audit(inputs: Inputs, progress: JobContext, *, model: str, theme: str, **arguments: Any) -> dict[str, Any]:
    """A built-in mechanism under attack: what it leaks at least, exactly and at most."""
    from pufferdp.assess.audit.audit import audit_mechanism

    result = audit_mechanism(inputs.model(model), progress=progress, **arguments)
    content = result.to_dict()
    return {
        "page": pictures.page(result, theme),
        "refuted": content["refuted"],
        "files": {"audit.json": content, "report.html": pictures.report(result)},
    }


JOBS: Final[tuple[Callable[..., dict[str, Any]], ...]] = (leakage, stream, audit)
