"""A PostgreSQL server and a Spark session for tests: started once a session, where they are installed."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.postgres import server, why_not


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server of our own."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with server() as url:
        yield url


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
