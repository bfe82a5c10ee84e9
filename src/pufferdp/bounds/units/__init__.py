"""Units and secrets that are more than one record: whole periods, intervals as a whole, and events.

docs/theory/units.md has the theorems and their proofs.

- ``blocks``: a period as the unit. An algorithm has a DP loss for a whole block of records, and the secret is what a
  block holds.
- ``events``: losses are those of records, and the secret is an interval: what all its records hold together, or whether
  a state occurred in it. ``coupling`` has the small problem that each step of an event's recursion solves.
- ``curves``: the leakage curves of both.
"""
