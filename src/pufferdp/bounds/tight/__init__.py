"""What any DP algorithm leaks on correlated records: exactly on Markov chains, bounded from odds ratios elsewhere.

docs/theory/tight.md has the theorems and their proofs. To read the code, in this order:

- ``inputs``: chains, losses, adversaries, checked once.
- ``recursion``: Theorem 1. One side of a record as a signed vector that is followed outwards, at several μ at a time.
- ``search``: brackets of both sides of targets, narrowed to a tolerance.
- ``series``: Theorem 2. Which targets a series has, pairs of values that need not be searched, a loss for each record.
- ``chain``: ``TightCurve``, the same loss on every record, and its inverse.
- ``attack``: the worst-case adversary and the worst-case questions.
- ``odds``: Theorem 4, ``OddsCurve`` for classes of chains, ``TreeOdds``.
- ``streams``: losses over time, and budgets for them.

A target has two *sides*: 0 is before it, 1 after it. A *row* is one target with a pair of values, the one that an
algorithm speaks for and the other. An *end* closes a side: a known record, or the end of the series.
"""
