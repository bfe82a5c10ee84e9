"""Lange 2024, figures 9 and 15: leakage by simulation, beside the paper's bounds and the exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pufferdp.assess.audit.audit import audit_mechanism
from pufferdp.assess.audit.mechanisms.ours import NoisyQuery
from pufferdp.assess.audit.priors import ChainPrior
from pufferdp.publish.answers.queries import Query
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.thesis.chains import even_chain, leaks
from pufferdp_papers.thesis.density import simulate_leakage

SEED: Final = 2025
CHAIN_RECORDS: Final = 10
PATIENCE: Final = 600.0
"""Seconds for one audit: so many that runs decide, and the same seed gives the same numbers everywhere."""
GAMMAS: Final = tuple(float(gamma) for gamma in range(1, 11))


def figure_15(
    setting: Setting,
    *,
    epsilons: Sequence[float] = (0.5, 1.0, 2.0),
    gammas: Sequence[float] = GAMMAS,
    adversaries: int = 40,
    draws: int = 100_000,
    calls: int = 200_000,
) -> ExperimentResult:
    """A count over a chain of ten records: bounds, estimate, proof, exact."""
    rows = []
    for epsilon in epsilons:
        setting.progress(f"drawing outputs for epsilon {epsilon:g}")
        for gamma in gammas:
            # A row of its own: the same whichever others are computed.
            generator = np.random.default_rng((SEED, round(1000 * epsilon), round(1000 * gamma)))
            chain = even_chain(gamma)
            leakage = leaks(chain, epsilon, CHAIN_RECORDS)
            markov = leakage.curves["markov"]
            assert markov is not None
            mechanism = NoisyQuery(
                model=chain,
                query=Query.parse("count:1"),
                records=CHAIN_RECORDS,
                dp_loss=epsilon,
                generator=generator,
            )
            numbers = {
                "estimate": simulate_leakage(
                    mechanism, ChainPrior(chain, CHAIN_RECORDS), generator, adversaries=adversaries, draws=draws
                ),
                "lower": audit_mechanism(
                    chain, mechanism, length=CHAIN_RECORDS, calls=calls, seconds=PATIENCE, seed=SEED
                ).lower,
                "quilt": leakage.curves["quilt"],
                "tight": leakage.curves["tight"],
                "ours": leakage.exact,
            }
            # The paper counts all ten records as correlated, at gamma = 1 too.
            paper = min(markov, CHAIN_RECORDS * epsilon)
            rows.append({"dp_epsilon": epsilon, "gamma": gamma, "paper": paper, **numbers})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "dp_epsilon": "DP epsilon",
            "gamma": "gamma",
            "paper": "paper's bound",
            "estimate": "estimate",
            "lower": "proved",
            "quilt": "our quilt",
            "tight": "our tight",
            "ours": "ours, exact",
        },
        notes=(
            f"Leakage of a count with Laplace noise over {CHAIN_RECORDS} records of the chain that leaves both states "
            "with probability 1/(gamma+1). paper: the smaller of its Markov chain bound and the general bound.",
            f"estimate: the paper's simulation, repeated with {adversaries:,} adversaries (paper: 1,000), {draws:,} "
            "draws each (paper: 100,000) and the density estimate of fastKDE, looked at between the outer quantiles of "
            f"both samples; seed {SEED}. It is not a bound.",
            f"proved: what pufferdp audit proves with {calls:,} runs, with 95 % confidence (paper: 200,000,000 runs "
            "for the estimate). ours: exact, over every adversary and output. tight: what the worst DP algorithm leaks "
            "on this chain; the count is one of the worst.",
        ),
        drawing=Drawing(
            x="gamma",
            y="leakage",
            by="dp_epsilon",
            lines={
                "paper": "paper: Markov or general",
                "quilt": "quilt curve",
                "ours": "exact",
                "tight": "tight curve",
                "estimate": "simulation",
                "lower": "proved by attack",
            },
        ),
    )
