"""How often the lower bound accuses a correct chain, and how near the estimate is to epsilon. All seeds are fixed."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import Report, sized
from pufferdp import MarkovChain
from pufferdp.models.simulate import sample_chain, seeded
from pufferdp.publish.fits.effective import Observations, RicherFamily, noise_scales
from pufferdp.publish.fits.leakage_estimate import estimate_leakage
from pufferdp.publish.fits.lower_bound import lower_bound

CHAINS = {
    "two states": MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
    "long stays": MarkovChain([[0.97, 0.03], [0.045, 0.955]]),
    "three states": MarkovChain([[0.95, 0.04, 0.01], [0.05, 0.9, 0.05], [0.02, 0.08, 0.9]]),
}


def simulated(chain: MarkovChain, records: int, runs: int) -> list[Observations]:
    """The records of so many runs, each one series."""
    joined = np.arange(records) > 0
    paths = sample_chain(chain, records, runs, seeded(7))
    return [Observations(codes=path, joined=joined, persons=np.zeros_like(path), times=None) for path in paths]


def run(report: Report) -> None:
    """The lower bound on 200 runs of 5,000 records, and the estimate on 40 runs of 10,000 records."""
    report.title("checks of correct chains: false alarms of the lower bound, and the estimate")
    for name, chain in CHAINS.items():
        scales = noise_scales(chain, ((5000, 1),), 1.0, range(chain.size))
        runs = simulated(chain, 5000, sized(200, 2))
        bounds = [lower_bound(data.records, scales) for data in runs]
        alarms = np.mean([bound is not None and bound.epsilon > 1 for bound in bounds])
        report.row(f"{name}: share of runs that prove more than epsilon", float(alarms), "", 0.05)
    for name, chain in list(CHAINS.items())[:: sized(2, 3)]:
        scales = noise_scales(chain, ((10_000, 1),), 1.0, range(chain.size))
        estimates, counted = [], []
        for data in simulated(chain, sized(10_000, 2_000), sized(40, 1)):
            richer, held = RicherFamily.of(data, chain), data.take(data.held_out)
            found = estimate_leakage(richer.rich, held.records, held.slots(1), scales)
            estimates.append(np.nan if found is None else found.epsilon)
            counted.append(richer.z > 2)
        outside = np.mean([not 0.9 <= estimate <= 1.3 for estimate in estimates])
        report.row(f"{name}: share of estimates outside [0.9, 1.3]", float(outside), "", 0.1)
        report.row(f"{name}: share of runs in which the estimate counts", float(np.mean(counted)), "", 0.1)
