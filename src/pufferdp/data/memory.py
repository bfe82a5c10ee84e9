"""A file that is held in memory: read as the file would be, written again as text, never kept on a disk."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pufferdp.basics.errors import DataError
from pufferdp.basics.scratch import scratch
from pufferdp.data.parts import Parts

PARQUET: Final = ".parquet"
ENDINGS: Final = (".csv", ".tsv", ".txt", PARQUET)


@dataclass(frozen=True, eq=False, repr=False)
class MemoryFile:
    """The name and the bytes of a .csv, .tsv, .txt or .parquet file. Goes wherever a frame goes."""

    name: str
    content: bytes

    def __post_init__(self) -> None:
        if not self.name.lower().endswith(ENDINGS):
            raise DataError(f"{self.name!r} must end in one of {', '.join(ENDINGS)}; save it as CSV", value=self.name)
        if not self.content.strip():
            raise DataError(f"{self.name!r} is empty; a header and at least one row are needed", value=self.name)

    def __repr__(self) -> str:
        return f"MemoryFile({self.name!r}, {len(self.content):,} bytes)"

    @contextmanager
    def parts(self) -> Iterator[Parts]:
        """A path that leads to the bytes while the block runs. On Linux no disk is touched.

        Elsewhere DuckDB needs a file; it is readable by its owner alone and gone when the block ends.
        """
        text, tabs = not self.name.lower().endswith(PARQUET), self.name.lower().endswith(".tsv")
        if sys.platform == "linux":
            handle = os.memfd_create("pufferdp")
            try:
                with os.fdopen(os.dup(handle), "wb") as out:
                    out.write(self.content)
                yield Parts(name=self.name, paths=(f"/proc/self/fd/{handle}",), text=text, tabs=tabs)
            finally:
                os.close(handle)
        else:
            with scratch() as folder:
                path = folder / "upload"
                path.write_bytes(self.content)
                yield Parts(name=self.name, paths=(str(path),), text=text, tabs=tabs)

    def written(self, header: list[str], rows: Iterator[tuple[object, ...]]) -> MemoryFile:
        """A text file of this name with other rows; None becomes an empty field, which reads as missing again."""
        text = io.StringIO()
        out = csv.writer(text, delimiter="\t" if self.name.lower().endswith(".tsv") else ",", lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)
        stem, ending = os.path.splitext(self.name)
        name = f"{stem}.csv" if ending.lower() == PARQUET else self.name
        return MemoryFile(name, text.getvalue().encode())
