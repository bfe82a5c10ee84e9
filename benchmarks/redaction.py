"""Redaction: design and application at 10^5 records, and how the design does not grow with the series."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import Report, ratio, seconds, sized
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.redaction.plan import plan_redaction
from pufferdp.publish.redaction.publication import redact

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
SLOW = MarkovChain(transition=[[0.98, 0.02], [0.3, 0.7]])
RECORDS = sized(100_000, 500)


def series(chain: MarkovChain) -> list[int]:
    """States drawn one after the other."""
    chances, state, out = np.random.default_rng(1).random(RECORDS), 0, []
    for chance in chances:
        state = int(chance < chain.transition[state, 1])
        out.append(state)
    return out


def run(report: Report) -> None:
    """Seconds for one private record in the middle, and the ratio between a long and a short series."""
    report.title("Redaction of one private record")
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "d.csv", Path(folder) / "o.csv"
        for name, chain in (("activity", ACTIVITY), ("slow", SLOW)):
            data.write_text("state\n" + "\n".join(map(str, series(chain))) + "\n")
            middle = RECORDS // 2

            def whole(chain: MarkovChain = chain, middle: int = middle) -> None:
                redact(data, model=chain, column="state", private=[middle], epsilon=1, out=out, overwrite=True)

            taken = seconds(whole, 3)
            report.row(f"{name}: design and application, {RECORDS:,} records", taken, "s", 1.0)
    grown = ratio(
        lambda: plan_redaction(ACTIVITY, length=10**9, private=[10**8], epsilon=1),
        lambda: plan_redaction(ACTIVITY, length=1000, private=[500], epsilon=1),
    )
    report.row("design for 10^9 records over the one for 1,000", grown, "×", 1.5)
