"""Units and secrets that are more than one record: whole periods, stretches as a whole, and events.

docs/theory/units.md has the theorems and their proofs.

- ``blocks``: a period as the unit. An algorithm has a DP loss for a whole block of records, and the secret is what a
  block holds.
- ``stretch``: losses are those of records, and the secret is the joint value of several that follow each other.
- ``events``: losses are those of records, and the secret is whether a state occurred in a stretch.
"""
