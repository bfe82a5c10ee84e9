"""Temporary files: for this user alone, under a name that nobody can guess, gone when the process ends.

What a kill leaves behind is removed by the next process. A folder is in use as long as a process holds the lock on a
file in it, and the lock ends with that process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

PREFIX: Final = "pufferdp-scratch-"
_LOCK: Final = ".in-use"
_folders: Final[dict[tuple[int, str], tuple[Path, int]]] = {}
"""By process and temporary folder: ours, and the open lock. A process that was forked has its own."""


def scratch_folder() -> Path:
    """The folder of this process, made on first use. Raises OSError where no folder can be written."""
    key = os.getpid(), tempfile.gettempdir()
    if key not in _folders or not _folders[key][0].is_dir():
        remove_abandoned()
        if not _folders:
            atexit.register(remove_own)
        _folders[key] = _locked_folder()
    return _folders[key][0]


@contextmanager
def scratch() -> Iterator[Path]:
    """A new empty folder, removed at the end of the block."""
    # Not TemporaryDirectory: a process that was forked inside the block would remove the folder when it ends.
    folder = Path(tempfile.mkdtemp(dir=scratch_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove what processes of this user that were killed have left."""
    if sys.platform == "win32":
        return  # it has no locks of this kind: folders in use cannot be distinguished from abandoned ones
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError):
                if folder.lstat().st_uid == os.geteuid() and not folder.is_symlink():
                    handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
                    try:
                        if _take_lock(handle):
                            shutil.rmtree(folder, ignore_errors=True)
                    finally:
                        os.close(handle)


def remove_own() -> None:
    """Remove what this process has made; also called where a signal ends it."""
    for (process, _), (folder, _handle) in _folders.items():
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700, with a name from the operating system's randomness
        # Another process may take the folder for an abandoned one before it is locked: then the next one is tried.
        with suppress(FileNotFoundError):
            handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            if _take_lock(handle) and (folder / _LOCK).exists():
                return folder, handle
            os.close(handle)


def _take_lock(handle: int) -> bool:
    """Whether this process has the lock now; False where another has it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
