"""A real PostgreSQL of our own: made in a folder under /tmp, reached on this machine alone, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    """Where initdb and pg_ctl are, if the server is installed. Debian keeps them off the path."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "pg_ctl").exists()), None)


def why_not() -> str | None:
    """Why there can be no server here; None where there can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    if binaries() is None:
        return "the PostgreSQL server is not installed (Debian: apt-get install postgresql)"
    if os.getuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        return "initdb refuses root, and there is no user postgres"
    return None


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server that runs while the block does."""
    place = binaries()
    assert place is not None
    folder = Path(tempfile.mkdtemp(prefix="pufferdp-pg-", dir="/tmp"))
    become = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        become = ["runuser", "-u", "postgres", "--"]

    def call(*words: str) -> None:
        subprocess.run([*become, *words], cwd=folder, check=True, capture_output=True, timeout=120)

    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        call(
            str(place / "initdb"),
            "-D",
            str(data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        )
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        options += " -c max_connections=200 -c timezone=Asia/Kolkata"  # a zone nobody would guess
        call(str(place / "pg_ctl"), "-D", str(data), "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            call(str(place / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
