"""What any DP algorithm leaks on correlated records: exactly on Markov chains, bounded from odds ratios elsewhere.

docs/theory/tight.md has the theorems and their proofs. To read the code, in this order:

- ``inputs``: chains, losses, adversaries, checked once.
- ``sides``: Theorem 1. One side of a record as a signed vector that is followed record by record, at several μ at a
  time, until a bracket is narrow. ``outlook`` has what a search is about: kernels, ends, rows of targets and pairs.
- ``series``: Theorem 2 for series with an end, losses and kernels that change, every record. ``two_series`` and
  ``many_series`` do it for all records of long series at once, with two states and with more.
- ``steady``: equal losses, all records by a few passes; short series, and long ones that end before their chain has
  forgotten.
- ``chain``: ``TightCurve``, the same loss on every record, and its inverse. ``two_states`` has the closed forms of two
  states, ``many_states`` chains without end, with ``screening`` for quick proofs that a pair of values leaks no more.
- ``any_start``: the worst law of the first record, where any is allowed.
- ``attack``: who learns most, and from which questions.
- ``odds``: Theorem 4, ``OddsCurve`` for classes of chains, ``TreeOdds``.
- ``approximate``: Theorem 3, (epsilon, delta) and privacy profiles.
- ``streams``: losses over time, and budgets for them. ``inverse``: from a leakage back to a loss.

A target has two *lanes*: 0 is the side before it, 1 the side after it. A *row* is one target with a pair of values, the
one that algorithms speak for and the other. An *end* closes a side: a known record, or the end of the series.
"""
