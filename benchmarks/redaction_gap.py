"""The gap between methods of redaction, as in docs/theory/redaction.md: ``python -m benchmarks.redaction_gap``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.redaction.design import RedactionProblem
from pufferdp.bounds.redaction.methods import numerical, window
from pufferdp.bounds.redaction.optimal import optimal
from pufferdp.models.chain import MarkovChain
from pufferdp_papers.redaction.independent import independent_bound
from pufferdp_papers.redaction.relaxed import relaxed

CASES = (
    (0.01, 0.8, 10, 1, 1.0),
    (0.01, 0.8, 10, 1, 2.0),
    (0.01, 0.8, 100, 50, 1.0),
    (0.25, 0.5, 2, 1, 0.5),
    (0.2, 0.4, 6, 3, 1.6),
    (0.118, 0.305, 288, 144, 0.5),
    (0.118, 0.305, 288, 144, 1.0),
    (0.02, 0.3, 288, 144, 1.0),
    (0.4, 0.1, 40, 33, 1.0),
    (0.3, 0.3, 40, 20, 1.0),
    (0.7, 0.9, 40, 20, 1.0),
)
"""alpha, beta, records, the private one, epsilon."""


def gap_rows(cases: Sequence[tuple[float, float, int, int, float]] = CASES) -> Iterator[str]:
    """One row of the table a case: expected number of records redacted."""
    for alpha, beta, n, p, epsilon in cases:
        chain = MarkovChain(transition=[[1 - alpha, alpha], [beta, 1 - beta]])
        hiding = RedactionProblem(chain=chain, length=n, private=(p,), epsilon=epsilon, adversary=Adversary.PUFFERFISH)
        printed, bound = (n * (1 - independent_bound(chain, n, p, epsilon, printed=b)) for b in (True, False))
        found = [design(hiding).redacted for design in (window, relaxed, numerical, optimal)]
        cells = [f"{v:.3f}" for v in found]
        yield f"| {alpha:g}, {beta:g} | {n} | {p} | {epsilon:g} | {printed:.0f} | {bound:.0f} | {' | '.join(cells)} |"


def everybody_rows() -> Iterator[str]:
    """The same for those who know no record and for those who may know any, and what the first leaks to the second."""
    for alpha, beta, n, p, epsilon in CASES:
        chain = MarkovChain(transition=[[1 - alpha, alpha], [beta, 1 - beta]])
        both = [
            RedactionProblem(chain=chain, length=n, private=(p,), epsilon=epsilon, adversary=who)
            for who in (Adversary.PUFFERFISH, Adversary.BDP)
        ]
        windows, ours = ([design(hiding) for hiding in both] for design in (window, optimal))
        cells = [*(d.redacted for d in windows), ours[0].redacted, ours[0].leakage_to(Adversary.BDP), ours[1].redacted]
        said = " | ".join(f"{v:.3f}" for v in cells)
        yield f"| {alpha:g}, {beta:g} | {n} | {p} | {epsilon:g} | {said} |"


if __name__ == "__main__":
    print("\n".join(gap_rows()), "\n".join(everybody_rows()), sep="\n\n")
