"""``pufferdp attack``: how often attackers are right about a privatised series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError
from pufferdp.data.reading_options import OrderOptions


@dataclass(frozen=True, kw_only=True)
class Published(OrderOptions):
    """A privatised series, and how it is read."""

    column: Annotated[str | None, typer.Option("--column", help="Column with the privatised states.")] = None
    rho: Annotated[
        str | None, typer.Option("--rho", help="Probability of a flip: R0,R1 for two states, or one for any number.")
    ] = None
    truth: Annotated[str | None, typer.Option("--truth", help="Column with the true states, where known.")] = None


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Series that are drawn from the model."""

    epsilon: Annotated[str | None, typer.Option("--epsilon", help="Drawn series: the guarantee they keep.")] = None
    channel: Annotated[
        str | None, typer.Option("--channel", help="Drawn series: who the guarantee is for: bdp, pufferfish or dp.")
    ] = None
    runs: Annotated[str | None, typer.Option("--runs", help="Drawn series: how many; 100 by default.")] = None
    record: Annotated[str | None, typer.Option("--record", help="Drawn series: guess this record only, from 1.")] = None
    seed: Annotated[str | None, typer.Option("--seed", help="Drawn series: the seed; 0 by default.")] = None


def attack(
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): the chain that attackers know.")],
    published: Published,
    drawn: Drawn,
    data: Annotated[str | None, typer.Argument(help="A privatised series: CSV or Parquet; none with --length.")] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Instead of DATA: draw series of this many records.")
    ] = None,
    learned: Annotated[
        bool, typer.Option("--learned", help="Also train a small network on the truth; takes seconds.")
    ] = False,
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Attack a privatised series, or series drawn from a model, and say how often attackers are right."""
    from pufferdp.assess.attack.attack import attack_file, attack_simulated
    from pufferdp.assess.attack.attackers import Learned
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model
    from pufferdp.report.pages.assess import attack_success

    if (data is None) == (length is None):
        raise ParameterError("give either DATA (a privatised series) or --length (series drawn from the model)")
    read = published.arguments()
    for name, value in vars(drawn).items() if data is not None else read.items():
        if value is not None:
            where = "drawn series (--length)" if data is not None else "a privatised series (DATA)"
            raise ParameterError(f"{name} is {value!r}; it is for {where}: leave it out", value=value)
    outputs = Outputs({"figure": figure}, sources={"the data": data, "the model": model}, overwrite=overwrite)
    prior = load_model(model)
    trained = Learned() if learned else None
    with options.progress() as progress:
        if data is not None:
            for name in ("column", "rho"):
                if read[name] is None:
                    raise ParameterError(f"{name} is missing; a privatised series needs --column and --rho")
            read["rho"] = options.numbers("rho", read["rho"])
            result = attack_file(data, model=prior, **read, learned=trained, progress=progress)
        else:
            if drawn.epsilon is None:
                raise ParameterError("epsilon is missing; say which guarantee the drawn series keep with --epsilon")
            result = attack_simulated(
                prior,
                length=checks.length(str(length).strip()),
                epsilon=options.number("epsilon", drawn.epsilon),
                channel=drawn.channel or "bdp",
                runs=checks.length(drawn.runs or "100", "runs"),
                record=None if drawn.record is None else checks.length(drawn.record, "record"),
                seed=checks.length(drawn.seed or "0", "seed", least=0),
                learned=trained,
                progress=progress,
            )
        content = result.to_dict()
        progress("drawing")
        outputs.show(content, str(result), as_json, lambda path: attack_success(content).save(path))
