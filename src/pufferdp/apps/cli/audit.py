"""``pufferdp audit``: what a mechanism really leaks, proved by attack and bounded by theory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the mechanism claims, and who attacks it."""

    dp_epsilon: Annotated[
        str | None, typer.Option("--dp-epsilon", help="The DP loss that the mechanism claims, for one record changed.")
    ] = None
    dp_delta: Annotated[
        str | None,
        typer.Option("--dp-delta", help="The delta that it claims beside it, for instance for Gaussian noise."),
    ] = None
    adversary: options.AdversaryName = "bdp"
    record: Annotated[str | None, typer.Option("--record", help="Attack this record only, counted from 1.")] = None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long an audit takes, and how sure it is."""

    confidence: Annotated[str, typer.Option("--confidence", help="Confidence of the lower bound.")] = "0.95"
    seconds: Annotated[str, typer.Option("--seconds", help="Total time limit in seconds (kept to within 20 %).")] = "60"
    calls: Annotated[str, typer.Option("--calls", help="Data sets put through the mechanism, at most.")] = "1000000"
    seed: Annotated[str, typer.Option("--seed", help="Seed of the data drawn and of built-in noise.")] = "0"


def audit(
    model: Annotated[str, typer.Argument(help="Model file (JSON): how records are correlated.")],
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            help="laplace:QUERY, flip:R0,R1, redact:ROW:EPSILON, python:MODULE:FUNCTION or command:COMMAND.",
        ),
    ],
    claim: Claim,
    effort: Effort,
    length: Annotated[
        str | None, typer.Option("--length", help="Records of a series; other models know their size.")
    ] = None,
    clip: options.Clip = None,
    figure: options.FigureFile = None,
    report: options.ReportFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what a mechanism leaks about one record: at least, by attack; exactly, where known; at most, by theory.

    Exit 3 where the claim is proved wrong.
    """
    from pufferdp.apps.start_up import seconds_since_start
    from pufferdp.assess.audit.audit import audit_mechanism
    from pufferdp.assess.audit.search import Budget
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model
    from pufferdp.report.pages.assess import audit_panels

    outputs = Outputs({"figure": figure, "report": report}, sources={"the model": model}, overwrite=overwrite)
    budget = Budget(
        calls=checks.length(effort.calls, "calls"),
        seconds=options.number("seconds", effort.seconds),
        started=seconds_since_start(),
    )
    with options.progress(lambda: budget.share) as progress:
        result = audit_mechanism(
            load_model(model),
            mechanism,
            length=None if length is None else checks.length(length.strip()),
            dp_epsilon=None if claim.dp_epsilon is None else options.number("dp_epsilon", claim.dp_epsilon),
            dp_delta=0.0 if claim.dp_delta is None else options.number("dp_delta", claim.dp_delta),
            adversary=claim.adversary,
            confidence=options.number("confidence", effort.confidence),
            calls=budget.calls,
            seconds=budget.seconds,
            record=None if claim.record is None else checks.length(claim.record, "record"),
            clip=options.pair(clip),
            seed=checks.length(effort.seed, "seed", least=0),
            progress=progress,
            budget=budget,
        )
        content = result.to_dict()
        progress("drawing")
        outputs.show(content, str(result), as_json, lambda path: audit_panels(content).save(path), report=result)
    if result.refuted:
        raise typer.Exit(3)
