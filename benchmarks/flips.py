"""Flips: records a second from memory, lines a second from a file, and hidden chains of a million steps."""

from __future__ import annotations

import io
import math
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import Report, seconds, sized
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.chains.forward_backward import posterior
from pufferdp.bounds.channels.design import best_flips, least_response
from pufferdp.bounds.channels.two_states import Flips, flip_loss
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.flips.publication import flip, flip_stream
from pufferdp.publish.noise import SystemSampler, thresholds
from pufferdp.publish.noise import pass_channel as draw
from pufferdp_papers.flips.closed_forms import closed_rho, least_rho, zhao_rho

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.35, 0.65]], states=["rest", "active"])
NEGATIVE = MarkovChain(transition=[[0.2, 0.8], [0.7, 0.3]])
STICKY = MarkovChain(transition=[[0.9999, 0.0001], [0.0001, 0.9999]])
THREE = MarkovChain(transition=[[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])


def noise_row(theta: float, epsilon: float) -> str:
    """As in the table of docs/theory/flips.md: noise of each rule, and what the paper's leaks to every adversary."""
    chain = MarkovChain(transition=[[1 - theta, theta], [theta, 1 - theta]])
    dp, paper = 1 / (1 + math.exp(epsilon)), closed_rho(theta, epsilon)
    nothing, everyone = (least_rho(chain, epsilon, None, who) for who in (Adversary.PUFFERFISH, Adversary.BDP))
    leaks = flip_loss(chain, Flips.of(paper, paper), None, Adversary.BDP).worst
    noise = " | ".join(f"{rho:.4f}" for rho in (dp, nothing, everyone, paper, zhao_rho(theta, epsilon)))
    return f"| {theta:g} | {epsilon:g} | {noise} | {leaks:.3f} | {'yes' if leaks <= epsilon else 'no'} |"


def run(report: Report) -> None:
    """All of it."""
    generator = np.random.default_rng(0)
    report.title("flipping")
    states = generator.integers(2, size=sized(30_000_000, 3000)).astype(np.uint8)
    shares = thresholds([[0.7, 0.3], [0.2, 0.8]])
    took = seconds(lambda: draw(states, shares, SystemSampler()), 3)
    report.row("from memory, million records/s", len(states) / took / 1e6, "M/s", 30.0, at_least=True)
    lines = sized(3_000_000, 3000)
    text = "state\n" + "\n".join(np.array(CHAIN.labels)[states[:lines]]) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
        source.write_text(text)
        took = seconds(lambda: flip(source, model=CHAIN, column="state", epsilon=2, out=target, overwrite=True), 3)
        report.row("from file to file in chunks, million lines/s", lines / took / 1e6, "M/s", 0.5, at_least=True)
        content = source.read_bytes()
    took = seconds(lambda: flip_stream(io.BytesIO(content), io.BytesIO(), model=CHAIN, column="state", epsilon=2), 3)
    report.row("as a stream, million lines/s", lines / took / 1e6, "M/s", 0.5, at_least=True)

    report.title("hidden chains")
    z, start = states[: 10**6], CHAIN.stationary
    channel = np.array([[0.7, 0.3], [0.2, 0.8]])
    took = seconds(lambda: posterior(z, start, CHAIN.transition, channel))
    report.row("forward–backward, 10^6 steps, two states", took, "s", 0.2)

    report.title("designs, endless series, every adversary")
    designs = (
        ("two states", CHAIN),
        ("two states, negative correlation", NEGATIVE),
        ("two states that stay with .9999", STICKY),
    )
    for what, chain in designs:
        cost = (float(chain.stationary[0]), float(chain.stationary[1]))
        took = seconds(lambda c=chain, w=cost: best_flips([c], 1.0, None, Adversary.BDP, w), 1)
        report.row(what, took, "s", 5.0)
    took = seconds(lambda: least_response([THREE], 1.0, None, Adversary.BDP), 1)
    report.row("three states, randomised response", took, "s", 20.0)
