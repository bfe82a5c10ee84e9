"""``make bench``: everything that is measured, as seconds and as ratios in one run. Exit 1 when a goal is missed."""

from __future__ import annotations

import importlib
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does, and before numpy is imported

from benchmarks.timing import Report

MODULES = (
    "quilts", "leakage", "streams", "tight", "hidden", "networks", "histograms", "model_estimates", "ledger",
    "redaction", "engines", "tables", "flips", "attacks", "audit", "package", "page", "real_data",
    "model_checks",
)  # fmt: skip
"""Each is a module with a function ``run``, loaded when it is asked for."""

if __name__ == "__main__":
    if unknown := [name for name in sys.argv[1:] if name not in MODULES]:
        print(f"{', '.join(unknown)}: there is no such benchmark; there are {', '.join(MODULES)}", file=sys.stderr)
        sys.exit(2)
    report = Report()
    for name in sys.argv[1:] or MODULES:
        importlib.import_module(f"benchmarks.{name}").run(report)
    print(f"\n{len(report.missed)} goal(s) missed" + "".join(f"\n- {what}" for what in report.missed))
    sys.exit(bool(report.missed))
