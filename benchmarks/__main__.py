"""``make bench``: everything that is measured, as seconds and as ratios in one run. Exit 1 when a goal is missed."""

from __future__ import annotations

import sys

from benchmarks import (
    attacks,
    audit,
    denoising,
    engines,
    flips,
    leakage,
    ledger,
    networks,
    package,
    page,
    quilts,
    redaction,
    streams,
)
from benchmarks.timing import Report

ROOMS = {
    "quilts": quilts,
    "leakage": leakage,
    "streams": streams,
    "networks": networks,
    "denoising": denoising,
    "ledger": ledger,
    "redaction": redaction,
    "engines": engines,
    "flips": flips,
    "attacks": attacks,
    "audit": audit,
    "package": package,
    "page": page,
}

if __name__ == "__main__":
    report = Report()
    for name in sys.argv[1:] or ROOMS:
        ROOMS[name].run(report)
    print(f"\n{len(report.missed)} goal(s) missed" + "".join(f"\n- {what}" for what in report.missed))
    sys.exit(bool(report.missed))
