"""What an experiment is: a paper's table or figure, reproduced, with our number beside the paper's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pufferdp.basics.errors import DataError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress

if TYPE_CHECKING:
    from pufferdp.report.charts import Panels


@dataclass(frozen=True)
class DataFile:
    """A file that an experiment reads, below the folder of ``--data``."""

    path: str
    origin: str
    """Where the file can be downloaded."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How rows become a figure: one panel for each value of ``by``, one line for each column."""

    x: str
    """The column along the horizontal axis."""
    lines: Mapping[str, str]
    """Columns to draw, with what the legend calls them."""
    y: str
    """What the vertical axis shows."""
    by: str | None = None
    only: tuple[str, str] | None = None
    """A column and its value in the rows to draw; None draws all."""
    log_x: bool = False
    log_y: bool = False
    heat: bool = False
    """Heat maps, one for each column of ``lines``: ``x`` across, ``y`` (a column too) down."""


@dataclass(frozen=True, kw_only=True)
class ExperimentResult(Paged):
    """The rows of an experiment. Each has ``paper`` and ``ours``; None where there is no answer."""

    rows: tuple[Mapping[str, float | str | None], ...]
    columns: Mapping[str, str]
    """The columns in the order they are printed, with their headings."""
    notes: tuple[str, ...]
    """Where the numbers come from, and how the experiment differs from the paper's."""
    drawing: Drawing

    def panels(self, title: str) -> Panels:
        """The figure of the experiment, to be drawn or saved."""
        from pufferdp_papers.page import experiment_panels

        return experiment_panels(self, title)


@dataclass(frozen=True)
class Setting:
    """What an experiment is given: the folder of data files, and a function that reports progress."""

    data: Path | None = None
    """The folder with data files."""
    progress: Progress = lambda words: None

    def file(self, needed: DataFile) -> Path:
        """A data file, or a refusal that says where it was looked for and where to get it."""
        get = f"get it from {needed.origin}"
        if self.data is None:
            raise DataError(
                f"{needed.path} is needed, and no folder of data is named; {get}, then give the folder with --data "
                "or in PUFFERDP_DATA",
                value=needed.path,
            )
        path = self.data / needed.path
        if not path.is_file():
            raise DataError(f"{str(path)!r} is not there; {get}", value=str(path))
        return path


class Run(Protocol):
    """Computes an experiment; the paper's sizes, or nearly, unless others are given."""

    def __call__(self, setting: Setting, **sizes: Any) -> ExperimentResult:
        """The rows and what is to be said about them."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure of a paper."""

    name: str
    paper: str
    """Author, year and title of the paper."""
    about: str
    """What is compared, in a few words."""
    run: Run
    needs: tuple[DataFile, ...] = ()
    also: str | None = None
    """Another name it answers to."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp reproduce --list --json`` says about it."""
        stated = {"name": self.name, "also": self.also, "paper": self.paper, "about": self.about}
        return {**stated, "needs": [file.path for file in self.needs]}


def late(module: str, function: str) -> Run:
    """A run whose module is imported when it is started, so that the list of experiments comes at once."""

    def run(setting: Setting, **sizes: Any) -> ExperimentResult:
        result: ExperimentResult = getattr(importlib.import_module(f"pufferdp_papers.{module}"), function)(
            setting, **sizes
        )
        return result

    return run
