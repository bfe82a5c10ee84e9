"""Bayesian networks and distributions of counts: exact inference against one einsum, and the cost of a plan."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Report, ratio, seconds, sized
from pufferdp.basics.adversary import Adversary
from pufferdp.models.chain import MarkovChain
from pufferdp.models.inference import JunctionTree, neighbours
from pufferdp.models.network import BayesianNetwork
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query

Table = npt.NDArray[np.float64]
Question = tuple[int, ...]

COUNTS = {"asia": "yes", "child": "yes", "sachs": "LOW", "alarm": "TRUE", "insurance": "True", "pigs": "0"}
"""The networks, and the state that is counted in each."""
NOISE = {"asia": 3.966, "child": 1.905, "sachs": 2.092, "alarm": 1.908, "insurance": 2.493, "pigs": 441.0}
"""What the best mechanism needs at epsilon 1, rounded up: it must not grow."""
LONG = sized(500, 20)
MOST_STATES = 10**5
"""Questions with more joint states are left out."""
PLAN = """
import json, resource, sys, time
began = time.perf_counter()
from pufferdp import BayesianNetwork, plan
found = plan(BayesianNetwork.from_bif(sys.argv[1]), sys.argv[2], epsilon=1.0, adversary="pufferfish").best
took, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([took, peak, found.mechanism, found.calibration.scale]))
"""
FROM_SMALL = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)"
"""Linux counts the memory of the process that starts another as the other's, so a small one starts it."""


def questions(network: BayesianNetwork) -> list[Question]:
    """Each record and its Markov blanket, in the moral graph: what the quilt search asks first."""
    links = neighbours(len(network.records), network.factors)
    asked = [(v, *sorted(links[v])) for v in range(len(links))]
    return [q for q in asked if math.prod(network.sizes[v] for v in q) <= MOST_STATES]


def ours(network: BayesianNetwork, asked: list[Question]) -> list[Table]:
    """One tree for all questions, compiled anew."""
    tree = JunctionTree(network.sizes, network.factors, network.records)
    return [tree.joint(q) for q in asked]


def direct(network: BayesianNetwork, asked: list[Question]) -> list[Table]:
    """One einsum a question, over the tables of its records and their ancestors: the others sum to 1."""
    return [_einsum(network, q) for q in asked]


def _einsum(network: BayesianNetwork, question: Question) -> Table:
    above: set[int] = set()
    stack = list(question)
    while stack:
        v = stack.pop()
        if v not in above:
            above.add(v)
            stack.extend(network.parents[v])
    operands: list[Any] = []
    for v in sorted(above):
        operands += [network.factors[v].table, list(network.factors[v].scope)]
    return np.asarray(np.einsum(*operands, list(question), optimize="greedy"))


def count(T: int, start: str) -> float:
    """The scale for how often a two-state chain is in state 1. A new chain: nothing is cached from an earlier call."""
    problem = Problem(
        model=MarkovChain(transition=np.array([[0.9, 0.1], [0.2, 0.8]]), start=start),
        query=Query.parse("count:1"),
        lengths=((T, 1),),
        epsilon=1.0,
        adversary=Adversary.PUFFERFISH,
    )
    return Wasserstein().calibrate(problem).scale


def planned(path: Path, query: str) -> tuple[float, float, str, float]:
    """Seconds with imports and reading, peak GiB, the best mechanism and its scale: in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", FROM_SMALL, "-c", PLAN, str(path), query], check=True, capture_output=True, text=True
    )
    took, peak, mechanism, scale = json.loads(done.stdout)
    unit = 1 if sys.platform == "darwin" else 1024
    return took, peak * unit / 2**30, mechanism, scale


def run(report: Report) -> None:
    """All of it."""
    count(20, "stationary")  # warm: imports
    report.title("wasserstein, two states, count, epsilon 1, pufferfish; cubic in T would be 8 times from 250 to 500")
    for start in ("stationary", "any"):
        # Where the chain may start anywhere there are twice as many distributions and four times as many pairs.
        goal = 2.0 if start == "stationary" else None
        report.row(f"T = 500, start {start}", seconds(partial(count, LONG, start), 3), "s", goal)
        times = ratio(partial(count, LONG, start), partial(count, LONG // 2, start), 3)
        report.row(f"T = 500 over T = 250, start {start}", times, "times", 8.0)

    folder = os.environ.get("PUFFERDP_DATA")
    if not folder:
        print("\nPUFFERDP_DATA is not set: the benchmarks of networks are left out")
        return
    paths = {name: Path(folder) / "bif" / f"{name}.bif" for name in sized(tuple(COUNTS), ("asia",))}
    for name in [name for name, path in paths.items() if not path.is_file()]:
        print(f"\n{paths.pop(name)} is not there: {name} is left out")
    if not paths:
        return

    report.title("each record with its Markov blanket: numpy's einsum over the ancestors' tables, over our tree")
    for name in [name for name in ("asia", "child", "alarm") if name in paths]:
        network = BayesianNetwork.from_bif(paths[name])
        asked = questions(network)
        times = ratio(partial(direct, network, asked), partial(ours, network, asked))
        report.row(f"{name}, {len(asked)} questions, compiling included", times, "times")
        pairs = zip(ours(network, asked), direct(network, asked), strict=True)
        report.row("  largest difference", max(float(abs(a - b).max()) for a, b in pairs), "", 1e-9)

    report.title("plan, epsilon 1, pufferfish: a process of its own, imports and reading included")
    for name, path in paths.items():
        took, peak, mechanism, scale = planned(path, f"count:{COUNTS[name]}")
        report.row(f"{name}, count:{COUNTS[name]}", took, "s", 60.0)
        report.row("  peak memory", peak, "GiB", 4.0)
        report.row(f"  scale, {mechanism}", scale, "", NOISE[name])
