"""Series and records from files and frames: sorted, split at gaps, counted in the engine that holds the rows."""

from __future__ import annotations

from pufferdp.data.families import read_families
from pufferdp.data.files import scanned
from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.records import read_records
from pufferdp.data.series import Series, open_series
from pufferdp.data.sources import Source

__all__ = ["Coding", "Counts", "Layout", "Series", "Source", "open_series", "read_families", "read_records", "scanned"]
