"""Flows of real series: expected errors of the poster's noise and of ours. Models are fitted to the data itself."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from pufferdp.basics.errors import DataError
from pufferdp.bounds.orbits import Privacy, dobrushin
from pufferdp.data.layout import Layout
from pufferdp.data.series import open_series
from pufferdp.models.base import Lengths
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.publish.fits.publication import fit
from pufferdp.publish.reading import coding_of
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.flows import POWER, SLEEP
from pufferdp_papers.flows.figures import ERROR_COLUMNS, error_row

ETA: Final = 0.001
TAU: Final = 0.1
BINS: Final = "0,1,2,12"
"""Household power in kW: below one, below two, above."""


def errors(setting: Setting, *, privacies: Sequence[Privacy] = (Privacy.RECORD, Privacy.JOINT)) -> ExperimentResult:
    """Sleep stages, person by person and all nights together, and a household's power."""
    setting.progress("reading sleep stages")
    stages, everyone, people = sleepers(setting.file(SLEEP))
    setting.progress("reading power")
    power, minutes = _power(setting.file(POWER))
    each = {"least": people[0], "median": people[len(people) // 2], "most": people[-1]}
    cases = (
        *((f"sleeper, {name}", stages, lengths) for name, lengths in each.items()),
        ("all sleepers", stages, everyone),
        ("power", power, minutes),
    )
    rows = []
    for name, chain, lengths in cases:
        for privacy in privacies:
            setting.progress(f"simulating flows, {name}")
            row = error_row(chain, lengths, ETA, TAU, privacy)
            row.pop("guess")
            rows.append({"data": name, "privacy": str(privacy), **row})
    sizes = "; ".join(f"{_transitions(lengths):,} ({name})" for name, _, lengths in cases)
    alphas = ", ".join(
        f"{dobrushin(chain.transition):.4f} ({name})" for chain, name in ((stages, "sleep"), (power, "power"))
    )
    return ExperimentResult(
        rows=tuple(rows),
        columns={"data": "data", "privacy": "privacy", **ERROR_COLUMNS},
        notes=(
            f"Expected L1 error of a flow, eta {ETA:g}, tau {TAU:g}, simulated under the chain fitted here. "
            f"Transitions: {sizes}. Each of {len(people)} sleepers gets a flow: here those with the least data, the "
            f"median and the most. Dobrushin coefficients: {alphas}. Sleep has five stages (3 and 4 are one), an "
            f"unknown stage breaks the chain, and each night is one; power has the bins {BINS} kW. ratio: poster log "
            "over our best.",
            "Slow chains forget late, and the orbit part grows by 1/(1-alpha): hiding the chain costs most accuracy "
            "here, hiding single records does not. In 200 W bins power has rows that never meet, alpha is 1, and a "
            "flow is refused.",
        ),
        drawing=Drawing(
            x="data",
            y="expected L1 error",
            by="privacy",
            lines={"paper": "poster, log", "paper_simplex": "poster, simplex", "ours": "ours, best"},
            log_y=True,
        ),
    )


def _transitions(lengths: Lengths) -> int:
    return sum((length - 1) * count for length, count in lengths)


def sleepers(path: Path) -> tuple[MarkovChain, Lengths, list[Lengths]]:
    """The chain of all nights, the lengths of all pieces, and those of each person, fewest first."""
    with path.open(newline="", encoding="utf-8") as file:
        nights = list(csv.DictReader(file))
    try:
        stages = [(row["recording"], row["subject"], row["stages"].replace("4", "3")) for row in nights]
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{str(path)!r} must have the columns recording, subject and stages", value=str(path)) from None
    nights_at, epochs, values = zip(*((n, t, s) for n, _, text in stages for t, s in enumerate(text)), strict=True)
    frame = duckdb.connect().sql(
        "SELECT unnest($1) AS night, unnest($2) AS epoch, nullif(unnest($3), '?') AS stage",
        params=[list(nights_at), list(epochs), list(values)],
    )
    model = chain_of(
        fit(frame, column="stage", order="epoch", by="night", missing="keep", family="chain", checks=False).model
    )
    assert model is not None
    subjects = {subject for _, subject, _ in stages}
    people = [_lengths([t for _, subject, t in stages if subject == person]) for person in subjects]
    return model, _lengths([t for *_, t in stages]), sorted(people, key=_transitions)


def _lengths(texts: Sequence[str]) -> Lengths:
    """Pieces between unknown stages, by length."""
    counted: dict[int, int] = {}
    for piece in (piece for text in texts for piece in text.split("?") if piece):
        counted[len(piece)] = counted.get(len(piece), 0) + 1
    return tuple(sorted(counted.items()))


def _power(path: Path) -> tuple[MarkovChain, Lengths]:
    layout = Layout(column="global_active_power_kw", order="datetime", missing="keep")
    chain = chain_of(
        fit(
            path,
            column=layout.column,
            order=layout.order,
            missing=layout.missing,
            bins=BINS,
            family="chain",
            checks=False,
        ).model
    )
    assert chain is not None
    return chain, open_series(path, layout).counts(coding_of(chain), pieces=True).lengths
