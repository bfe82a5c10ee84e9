"""Tables and figures of papers, reproduced: what the paper says and, beside it, what this package finds.

A paper has a module with its list of experiments; a new paper is one more line in ``EXPERIMENTS``. Seeds are fixed:
experiments draw from numpy's generators and never from the noise of a release.
"""

from __future__ import annotations

import difflib
from typing import Any

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import line_width, table
from pufferdp_papers import flips as local_bdp
from pufferdp_papers import flows as poster
from pufferdp_papers import redaction, song, thesis
from pufferdp_papers.base import Experiment, ExperimentResult, Setting

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentResult", "Setting", "experiment", "listing", "to_dict"]

EXPERIMENTS: tuple[Experiment, ...] = (
    *song.EXPERIMENTS,
    *thesis.EXPERIMENTS,
    *local_bdp.EXPERIMENTS,
    *redaction.EXPERIMENTS,
    *poster.EXPERIMENTS,
)


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    names = {known: entry for entry in EXPERIMENTS for known in (entry.name, entry.also) if known is not None}
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        way_out = f"did you mean {near[0]!r}?" if near else "see pufferdp reproduce --list"
        raise ParameterError(f"there is no experiment {name!r}; {way_out}", value=name)
    return names[name]


def listing() -> str:
    """Every experiment, by paper."""
    parts = []
    for paper in dict.fromkeys(entry.paper for entry in EXPERIMENTS):
        rows = [[entry.name, entry.also or "", entry.about] for entry in EXPERIMENTS if entry.paper == paper]
        listed = table(["name", "or", "about"], rows, left=3)
        if max(map(len, listed.splitlines())) > line_width():  # a narrow terminal: what it is about goes below
            listed = "\n".join(f"{name}{also and f' or {also}'}\n    {about}" for name, also, about in rows)
        parts.append(f"{paper}\n\n{listed}")
    return "\n\n".join(parts)


def to_dict(entry: Experiment, result: ExperimentResult) -> dict[str, Any]:
    """What ``pufferdp reproduce NAME --json`` prints."""
    return {
        "name": entry.name,
        "paper": entry.paper,
        "about": entry.about,
        "rows": [dict(row) for row in result.rows],
        "notes": list(result.notes),
    }
