"""Streams and losses of single records: how long they take, and how far below the recursion of Cao et al. (2017)."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.timing import Report, sized
from pufferdp.assess.losses import leakage_of_losses
from pufferdp.assess.streams import stream_leakage
from pufferdp.models.chain import MarkovChain

LOSS = 0.1
ROUNDS = 100
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
RECORDS = sized(100_000, 200)


def tpl(rows: np.ndarray) -> float:
    """One side by their recursion, without end: the largest quotient of two rows over weights between 1 and e^a."""
    side = LOSS
    for _ in range(ROUNDS):
        most, room = 0.0, math.expm1(side)
        for x, y in itertools.permutations(rows, 2):
            order = np.argsort(-x / y)
            quotients = (1 + room * np.cumsum(x[order])) / (1 + room * np.cumsum(y[order]))
            most = max(most, math.log(float(quotients.max())))
        before, side = side, most + LOSS
        if side - before <= 1e-9:
            break
    return side


def cpu(call: Callable[[], object]) -> float:
    """Processor time of one call: others may use the machine as well."""
    began = time.process_time()
    call()
    return time.process_time() - began


def run(report: Report) -> None:
    """All of it."""
    generator = np.random.default_rng(1)
    report.title(f"streams without end, {LOSS:g} a step, random chains")
    stream_leakage(ACTIVITY, LOSS)  # warm: imports
    for k in sized((5, 10, 20, 50), (5,)):
        chain = MarkovChain(transition=generator.dirichlet(np.ones(k), size=k))
        for adversary in ("pufferfish", "bdp"):
            took = cpu(partial(stream_leakage, chain, LOSS, adversary=adversary))
            report.row(f"{k} states, {adversary}", took, "s", 1.0)
        found = stream_leakage(chain, LOSS, adversary="pufferfish")
        theirs = tpl(chain.transition) + tpl(chain.reversal) - LOSS
        report.row("  leakage over that of TPL's recursion", found.upper / theirs, "", 1 + 1e-9)

    report.title(f"{RECORDS:,} records, each with a loss of its own")
    losses = generator.uniform(0.05, 0.2, size=RECORDS)
    for adversary in ("pufferfish", "bdp"):
        took = cpu(partial(leakage_of_losses, ACTIVITY, losses, adversary=adversary))
        report.row(f"two states, {adversary}", took, "s", 1.0)
