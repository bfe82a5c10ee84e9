"""The file of a published series: tried and given space before the charge, written after it, elsewhere if need be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from pufferdp.basics.errors import DeliveryError, ParameterError
from pufferdp.basics.places import Place, check_place, named_files, spare_folders
from pufferdp.publish.pipeline import Account, Charged

T = TypeVar("T")
R = TypeVar("R")
_COMPRESSED: Final = (".gz", ".parquet")
_SMALLER: Final = 4
"""Text is compressed to less than one in so many."""


class SeriesFile:
    """Where a series goes. Its place is refused before anything is charged, where it can be."""

    def __init__(
        self,
        out: str | os.PathLike[str],
        endings: tuple[str, ...],
        *,
        data: object,
        account: Account,
        overwrite: bool,
        published: object = None,
    ) -> None:
        sources = {"the data": named_files(data), "the earlier redaction": named_files(published)}
        self._place = check_place(
            out, "out", endings, overwrite=overwrite, sources=sources, ledger=account.file, device=False
        )
        self._data, self._account, self._accident = data, account, ""
        self.path = os.fspath(out)
        """Where the series is, once it is written."""

    @contextmanager
    def reserved_space(self, least: int = 0) -> Iterator[None]:
        """Reserve space for a series as large as the data, and for so many bytes at least."""
        if not self._account.has_ledger:  # what is not charged may fail when it is written
            yield
            return
        size = sum(os.path.getsize(file) for file in named_files(self._data))
        read_compressed = any(file.lower().endswith(_COMPRESSED) for file in named_files(self._data))
        if self._place.path.lower().endswith(_COMPRESSED):
            size = size if read_compressed else size // _SMALLER
        else:
            size = max(size, least)
        place = self._place
        with place.with_space(size) as self._place:
            yield
        self._place = place

    def write(self, write: Callable[[Path], T], charged: Charged) -> T:
        """Let ``write`` make the file: in its place; if charged, else beside the ledger or in the temporary folder.

        It is drawn anew for each place. Nobody has seen what was drawn before, so what is published in the end is one
        draw of the same distribution.
        """
        try:
            return self._place.fill(write)
        except OSError as error:
            why = error.strerror or type(error).__name__
            reason = f"out is {self.path!r}, which cannot be written: {why}"
            if not charged.words:
                raise ParameterError(reason, value=self.path) from None
        for folder in spare_folders(self._account.file):
            try:
                own = tempfile.mkdtemp(prefix="pufferdp-", dir=folder)  # for this user alone
                target = Path(own) / f"series{''.join(Path(self.path).suffixes[-2:])}"
                made = Place(name="out", path=str(target), target=target).fill(write)
            except OSError:
                continue
            self.path = str(target)
            self._accident = f"{charged.words}; {reason}; the series is in {str(target)!r}"
            return made
        raise DeliveryError(
            f"{charged.words}; {reason}; nor could the series be written elsewhere, and it was not published"
        )

    def delivered(self, result: R) -> R:
        """The result; where the series had to go elsewhere, as a DeliveryError that has it."""
        if self._accident:
            raise DeliveryError(self._accident, value=self.path, result=result)
        return result
