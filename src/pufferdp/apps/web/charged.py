"""Charged answers are in a file before the page gets them: a tab can be closed, a connection break, a server end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pufferdp.apps.outputs import answer_title, write_new
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.places import check_place, home_folder, spare_folders
from pufferdp.data.memory import MemoryFile


@dataclass(frozen=True)
class AnswerFolder:
    """Where the charged answers of a ledger go. Nothing in it is ever replaced."""

    folder: Path
    ledger: str
    """What their names begin with."""

    @classmethod
    def of(cls, ledger: str) -> AnswerFolder:
        """Beside the file of a ledger; in the user's own folder where it is on a server."""
        if "://" in ledger:
            return cls(home_folder() / "answers", "pufferdp-ledger")
        return cls(Path(os.path.realpath(ledger)).parent, os.path.basename(ledger))

    @property
    def pattern(self) -> str:
        """What the files are called, in words for a user who looks for one."""
        return str(self.folder / f"{self.ledger}-DATASET-row-N.json")

    def check(self) -> None:
        """Refuse a folder that cannot be written, before anything is charged."""
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise ParameterError(
                f"charged answers are kept in {str(self.folder)!r}, which cannot be made: {error.strerror}; set "
                "PUFFERDP_HOME to a folder that can be written",
                value=str(self.folder),
            ) from None
        check_place(self.folder / f"{self.ledger}-answers.json", "the file of the answer", overwrite=True)

    def keep(
        self, receipt: Mapping[str, Any], content: Mapping[str, Any], series: MemoryFile | None = None
    ) -> list[str]:
        """The files that hold an answer with its certificate now, and its series; none where no folder takes them."""
        title = answer_title(self.ledger, receipt)
        parts = [] if series is None else [(series.content, PurePath(series.name).suffix.lower())]
        parts.append(((json.dumps(content, indent=1) + "\n").encode(), ".json"))
        written: list[str] = []
        for part, ending in parts:
            for folder in (self.folder, *spare_folders(None)):
                with suppress(OSError):
                    written.append(str(write_new(folder, title, part, ending)))
                    break
        return written if len(written) == len(parts) else []
