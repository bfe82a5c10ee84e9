"""The simulated week that the package carries: one wearer's activity every five minutes. Nobody's real data.

``python -m pufferdp.apps.demo.simulate`` writes week.csv again, byte for byte.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from pufferdp.models.chain import chain_of
from pufferdp.models.files.json import load_model

HERE = Path(__file__).parent
SEED = 20240101


def week() -> str:
    """The content of week.csv, drawn from wearer.json."""
    model = chain_of(load_model(HERE / "wearer.json"))
    assert model is not None
    generator = np.random.default_rng(SEED)
    state = int(generator.choice(model.size, p=model.stationary))
    lines, time = ["time,activity"], datetime(2024, 1, 1)
    for _ in range(7 * 288):
        lines.append(f"{time:%Y-%m-%d %H:%M},{model.labels[state]}")
        state = int(generator.choice(model.size, p=model.transition[state]))
        time += timedelta(minutes=5)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (HERE / "week.csv").write_text(week(), encoding="utf-8")
