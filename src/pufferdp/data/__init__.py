"""Series from files and frames: sort them, split them at gaps, count them. Rows stay in the engine that holds them."""

from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.series import Series, open_series
from pufferdp.data.tables import Source

__all__ = ["Coding", "Counts", "Layout", "Series", "Source", "open_series"]
