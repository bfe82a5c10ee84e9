"""What noise that adds up to 0 gains on a histogram: expected errors and times over those of independent noise."""

from __future__ import annotations

from benchmarks.timing import Report, ratio, sized
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.answers.plan import plan
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, SystemSampler, draw

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
WEEK = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])


def run(report: Report) -> None:
    """All of it."""
    report.title("histograms: expected error of noise that adds up to 0 over that of independent noise")
    for k in sized((2, 3, 5, 10, 51), (2, 3)):
        balanced, independent = _distributions(k, 20.0)
        gain = balanced.expected_l1_error / independent.expected_l1_error
        report.row(f"{k} bins, sum of absolute errors", gain, "", (k - 1) / k)
        gain = balanced.mean_squared_error / independent.mean_squared_error
        report.row(f"{k} bins, sum of squares", gain, "", (k - 1) / k)
        gain = balanced.accuracy(0.05).alpha / independent.accuracy(0.05).alpha
        report.row(f"{k} bins, 95 % error bound", gain, "", 1.0)
    report.title("histograms: time to draw noise that adds up to 0 over that of independent noise")
    sampler = SystemSampler()
    for k, goal in ((2, 1.5), (3, 5.0), (10, 12.0), (51, 60.0)):
        distributions = _distributions(k, 20.0)
        took = ratio(
            *(
                lambda distribution=distribution, k=k: [draw(distribution, [100] * k, sampler) for _ in range(20)]
                for distribution in distributions
            )
        )
        report.row(f"{k} bins", took, "", goal)
    report.title("histograms: expected error at epsilon 1 over that of quilt-exact with independent noise")
    for name, chain, length, goal in (("activity", ACTIVITY, 15264, 1 / 8), ("three states", WEEK, 2016, 1 / 5)):
        made = plan(chain, "histogram", epsilon=1.0, length=length)
        published = made.candidate("quilt-exact").calibration
        best = made.best.calibration
        assert published is not None
        assert best is not None
        before = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=published.scale, coordinates=chain.size)
        report.row(name, best.distribution.expected_l1_error / before.expected_l1_error, "", goal)


def _distributions(k: int, scale: float) -> tuple[NoiseDistribution, NoiseDistribution]:
    kind = NoiseKind.DISCRETE_LAPLACE
    return (
        NoiseDistribution(kind=kind, scale=scale, coordinates=k, balanced=True),
        NoiseDistribution(kind=kind, scale=scale, coordinates=k),
    )
