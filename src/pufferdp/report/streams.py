"""The figure of a stream: what leaks about the record of each step, from outputs before, after and all."""

from __future__ import annotations

import os
from typing import Any

from pufferdp.report.figures import INK, PALE, new_figure, save_figure


def stream_figure(stream: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Leakage over time; the DP loss of each step is pale."""
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    styles = {"total": "-", "backward": "--", "forward": ":"}
    names = {"total": "all outputs", "backward": "outputs so far", "forward": "outputs from then on"}
    few = len(stream["steps"]) <= 40
    for part, style in styles.items():
        axes.plot(
            stream["steps"], stream[part], color=INK, linestyle=style, marker="." if few else "", label=names[part]
        )
    axes.plot(stream["steps"], stream["dp_epsilon"], color=PALE, linewidth=2, zorder=0, label="DP loss of the step")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")
    axes.set_ylabel("leakage about the step's record, at most")
    axes.set_title(f"{stream['length']:,} steps, adversary {stream['adversary']}", fontsize=10)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)
