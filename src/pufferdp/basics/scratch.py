"""Temporary files: for this user alone, under a name that nobody can guess, gone when the process ends.

What a kill leaves behind is removed by the next process. A folder is in use as long as there is a lock on a file in
it, and the lock ends with the process that holds it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

_PREFIX: Final = "pufferdp-"
_LOCK: Final = ".in-use"
_NAME: Final = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")
"""What Python's ``tempfile`` calls such folders."""
_UNUSED: Final = 600
"""Seconds after which an empty folder without a lock is one that a kill has left."""
_folders: Final[dict[tuple[int, str], tuple[Path, int]]] = {}
"""By process and temporary folder: ours, and the open lock. A process that was forked has its own."""


def scratch_folder() -> Path:
    """The folder of this process, made on first use. Raises OSError where no folder can be written."""
    key = os.getpid(), tempfile.gettempdir()
    if key not in _folders or not _folders[key][0].is_dir():
        sweep()
        if not _folders:
            atexit.register(remove)
        _folders[key] = _new()
    return _folders[key][0]


@contextmanager
def scratch() -> Iterator[Path]:
    """A new empty folder, removed at the end of the block."""
    folder = Path(tempfile.mkdtemp(dir=scratch_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove what processes of this user that were killed have left."""
    if sys.platform == "win32":
        return  # no locks of this kind there: what is in use cannot be told from what is left
    root = tempfile.gettempdir()
    with suppress(OSError):
        for name in [entry.name for entry in os.scandir(root) if entry.name.startswith(_PREFIX)]:
            folder = Path(root) / name
            with suppress(OSError):
                status = folder.lstat()
                if status.st_uid == os.geteuid() and folder.is_dir() and not folder.is_symlink():
                    _sweep_folder(folder)


def _sweep_folder(folder: Path) -> None:
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:  # another process's, or ours after the lock was removed and before the folder was
        status = folder.lstat()
        ours = _NAME.fullmatch(folder.name) and stat.S_IMODE(status.st_mode) == 0o700
        if ours and time.time() - status.st_mtime > _UNUSED:
            folder.rmdir()  # refused where anything is in it
        return
    try:
        if _locked(handle):
            _delete(folder)
    finally:
        os.close(handle)


def _delete(folder: Path) -> None:
    """Remove a folder, the lock last: whatever a kill leaves of it is found by the next process."""
    for entry in list(folder.iterdir()):
        if entry.name != _LOCK:
            with suppress(OSError):
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _new() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # 0700, with a name from the operating system's randomness
        handle = os.open(folder / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        # Another process may have swept between the two lines, and taken the folder for one that was left.
        if _locked(handle) and (folder / _LOCK).exists():
            return folder, handle
        os.close(handle)


def _locked(handle: int) -> bool:
    """Take the lock; False where another process has it."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove() -> None:
    """Remove what this process has made, where it ends without coming to its last line: by a signal."""
    for (process, _), (folder, _handle) in _folders.items():
        if process == os.getpid():
            with suppress(OSError):
                _delete(folder)
