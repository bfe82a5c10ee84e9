"""A PostgreSQL server and a Spark session for tests: started once a session, where they are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _programs() -> Path | None:
    """Where PostgreSQL's own programs are: on the path, or where Debian hides them."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a database on a server of our own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    # initdb refuses to work for root.
    root = os.geteuid() == 0
    if root and (shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode):
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres to run it as")
    # A short path: the name of a Unix socket may have 107 letters.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    if root:
        shutil.chown(folder, "postgres", "postgres")

    def run(*command: str | Path) -> None:
        words = [*(["runuser", "-u", "postgres", "--"] if root else []), *map(str, command)]
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/", timeout=120)
        assert done.returncode == 0, done.stderr

    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        run(programs / "initdb", "-D", data, "-U", "tester", "--auth=trust", "-E", "UTF8", "--no-sync", "--locale=C")
        flags = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        flags += " -c max_connections=200 -c timezone=Asia/Kolkata"
        run(programs / "pg_ctl", "-D", data, "-o", flags, "-l", folder / "log", "-w", "start")
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session in this process, in a time zone that changes its clocks."""
    pyspark_sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed (Debian: apt-get install openjdk-17-jre-headless)")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = pyspark_sql.SparkSession.builder.master("local[2]").appName("pufferdp tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.driver.memory": "1g",
        # Compiling queries takes longer than running them on so few rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, about the pandas it finds
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
