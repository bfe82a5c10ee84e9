"""``make bench``: everything that is measured, as seconds and as ratios in one run. Exit 1 when a goal is missed."""

from __future__ import annotations

import sys

from benchmarks import (
    attacks,
    audit,
    denoising,
    engines,
    flips,
    histograms,
    leakage,
    ledger,
    networks,
    package,
    page,
    quilts,
    redaction,
    streams,
    tables,
    tight,
)
from benchmarks.timing import Report

ROOMS = {
    "quilts": quilts,
    "leakage": leakage,
    "streams": streams,
    "tight": tight,
    "networks": networks,
    "denoising": denoising,
    "histograms": histograms,
    "ledger": ledger,
    "redaction": redaction,
    "engines": engines,
    "tables": tables,
    "flips": flips,
    "attacks": attacks,
    "audit": audit,
    "package": package,
    "page": page,
}

if __name__ == "__main__":
    if unknown := [name for name in sys.argv[1:] if name not in ROOMS]:
        print(f"{', '.join(unknown)}: there is no such benchmark; there are {', '.join(ROOMS)}", file=sys.stderr)
        sys.exit(2)
    report = Report()
    for name in sys.argv[1:] or ROOMS:
        ROOMS[name].run(report)
    print(f"\n{len(report.missed)} goal(s) missed" + "".join(f"\n- {what}" for what in report.missed))
    sys.exit(bool(report.missed))
