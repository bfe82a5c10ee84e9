"""Series and records from files and frames: sorted, split at gaps, counted in the engine that holds the rows.

Nothing is imported here: a ledger needs the ranges of this layer, and not the engines.
"""

from __future__ import annotations
