"""Temporary files are for their owner alone, and gone at the end; after a kill, at the next start."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import pufferdp
from pufferdp.basics import scratch
from pufferdp.data import files

SPILL = """
import os, sys
os.environ["PUFFERDP_MEMORY"] = "40MB"
from pufferdp.data.files import connect
connection = connect()
connection.execute("CREATE TEMP TABLE t AS SELECT hash(i) AS a, 'secret' || i AS b FROM range(2000000) r(i)")
print("spilled", flush=True)
{rest}
"""


def start(tmp_path: Path, rest: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SPILL.format(rest=rest)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )


def check_private(tmp_path: Path, process: int) -> Path:
    """What lies in the temporary folder is one folder that only its owner can enter; DuckDB has spilled into it."""
    (folder,) = tmp_path.iterdir()
    assert str(process) not in folder.name
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) > 2**20
    return folder


def test_what_duckdb_spills_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with start(tmp_path, "sys.stdin.read()") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "spilled\n"
        check_private(tmp_path, process.pid)
        process.communicate("")
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_a_kill_leaves_is_removed_at_the_next_start_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "pufferdp-somebody"
    other.mkdir()
    link = tmp_path / f"{scratch.PREFIX}link"
    link.symlink_to(other)
    with start(tmp_path, "sys.stdin.read()") as dead, start(tmp_path, "sys.stdin.read()") as alive:
        for process in (dead, alive):
            assert process.stdout is not None
            process.stdout.readline()
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert len(list(tmp_path.iterdir())) == 4
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        scratch.remove_abandoned()
        left = {path.name for path in tmp_path.iterdir()} - {other.name, link.name}
        assert len(left) == 1
        assert stat.S_IMODE((tmp_path / left.pop()).stat().st_mode) == 0o700
        alive.communicate("")
    assert {path.name for path in tmp_path.iterdir()} == {other.name, link.name}


def test_a_removal_that_a_kill_ends_is_completed_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"{scratch.PREFIX}0a1b2c3d"
    (folder / "parts").mkdir(mode=0o700, parents=True)
    for name in ("a", "z", "parts/rows"):  # the lock is gone already
        (folder / name).write_text("secret")
    other = tmp_path / "pufferdp-results"
    other.mkdir(mode=0o700)
    (other / "mine").write_text("kept")
    in_use = scratch.scratch_folder()  # removes what is abandoned first
    scratch.remove_abandoned()
    assert set(tmp_path.iterdir()) == {in_use, other}
    assert (other / "mine").read_text() == "kept"


def test_a_folder_for_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch.scratch() as folder:
        (folder / "rows").write_text("secret")
        assert folder.parent == scratch.scratch_folder()
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert not folder.exists()


def test_a_folder_that_was_swept_while_it_was_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    locked, swept = scratch._take_lock, list[Path]()

    def sweep_first(handle: int) -> bool:
        if not swept:
            (folder,) = tmp_path.iterdir()
            swept.append(folder)
            scratch.remove_abandoned()  # calls this again, and takes the lock
        return locked(handle)

    monkeypatch.setattr(scratch, "_take_lock", sweep_first)
    assert scratch.scratch_folder().is_dir()
    assert not swept[0].exists()


def test_no_folder_at_all_is_no_reason_not_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with files.connect() as connection:
        assert connection.sql("SELECT current_setting('temp_directory')").fetchall() == [("",)]
        assert connection.sql("SELECT sum(i) FROM range(10) r(i)").fetchall() == [(45,)]


@pytest.mark.slow
def test_frames_leave_nothing_in_the_database_they_share() -> None:
    """Two series one after the other, read in every way that keeps rows for a while: none sees the other's."""
    model = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]], states=["x", "y"])
    for states in (["x", "y", "x", "x"] * 10, ["y", "x"] * 10):
        frame = pd.DataFrame({"t": range(len(states)), "s": states})
        pufferdp.release(frame, model=model, column="s", order="t", query="histogram", epsilon=1)
        made = pufferdp.redact(frame, model=model, column="s", order="t", private=[5], epsilon=1)
        assert len(made.data) == len(states)
        pufferdp.flip(frame, model=model, column="s", order="t", epsilon=2)
        pufferdp.fit(frame, column="s", order="t", checks=False)
    with files.connect_for_frame() as connection:
        assert connection.sql("SHOW ALL TABLES").fetchall() == []
        assert connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
