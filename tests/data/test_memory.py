"""A file held in memory reads as the same file on a disk, and comes out again as text."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import pytest

import pufferdp
from pufferdp.basics.errors import DataError
from pufferdp.data.files import column_names
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.memory import MemoryFile
from pufferdp.data.rewrite import formula_warning, rewrite_file, rewrite_frame
from pufferdp.data.series import open_series

TEXT = 'when,who,"what, and ""how"""\n2024-01-01 00:05,b,x\n2024-01-01 00:00,a,NA\n2024-01-01 01:00,b,"y, z"\n'
COLUMN = 'what, and "how"'
NAMES = ["when", "who", COLUMN]
LAYOUT = Layout(column=COLUMN, order="when", by="who", restart="10min", missing="keep")
CODING = Coding(labels=("x", "y, z"))


@pytest.mark.parametrize(("name", "text"), [("a.csv", TEXT), ("A.CSV", TEXT), ("a.txt", TEXT.replace(",", ";"))])
def test_it_counts_as_a_file_does(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    column = column_names(MemoryFile(name, text.encode()))[-1]
    layout = Layout(column=column, order="when", by="who", restart="10min", missing="keep")
    coding = Coding(labels=("x", text.splitlines()[-1].split('"')[1]))
    ours = open_series(MemoryFile(name, text.encode()), layout).counts(coding, transitions=True)
    theirs = open_series(tmp_path / name, layout).counts(coding, transitions=True)
    assert ours == theirs
    assert ours.records == 2


def test_tabs_separate_where_the_name_says_so() -> None:
    file = MemoryFile("a.tsv", b"a,b\tc\n1,2\t3\n")
    assert column_names(file) == ["a,b", "c"]


def test_it_is_written_as_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TEXT)
    rewrite_file(tmp_path / "a.csv", COLUMN, [(1, 1), (3, 3)], "*", str(tmp_path / "b.csv"), NAMES)
    marked = rewrite_frame(MemoryFile("a.csv", TEXT.encode()), COLUMN, [(1, 1), (3, 3)], "*", NAMES)
    read = [open_series(f, Layout(column=COLUMN, order="when")) for f in (marked, tmp_path / "b.csv")]
    assert read[0].found_states() == read[1].found_states() == ("*",)
    header, *rows = marked.content.decode().splitlines()
    assert header == TEXT.splitlines()[0]
    assert rows == ["2024-01-01 00:05,b,*", "2024-01-01 00:00,a,", "2024-01-01 01:00,b,*"]


def test_no_disk_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    open_series(MemoryFile("a.csv", TEXT.encode()), LAYOUT).counts(CODING)
    rewrite_frame(MemoryFile("a.csv", TEXT.encode()), COLUMN, [(1, 1)], "*", NAMES)
    assert [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size] == []


def test_elsewhere_the_file_is_gone_when_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memfd_create a temporary file stands in."""
    monkeypatch.setattr("pufferdp.data.memory.sys.platform", "darwin")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = MemoryFile("a.csv", TEXT.encode())
    with file.parts() as parts:
        (folder,) = tmp_path.iterdir()
        (path,) = map(Path, parts.paths)
        assert path.is_relative_to(folder)
        assert folder.stat().st_mode & 0o077 == 0  # its owner alone
    assert not path.exists()
    assert open_series(file, LAYOUT).counts(CODING).records == 2
    assert [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size] == []


def test_what_is_no_table_is_refused() -> None:
    for name, content, words in (
        ("a.sqlite", b"SQLite", "must end in"),
        ("a.csv", b" \n", "is empty"),
        ("a.csv", b"a,b\n1,2,3\n", "does not split"),
    ):
        with pytest.raises(DataError, match=words):
            column_names(MemoryFile(name, content))
    with pytest.raises(DataError, match="no column"):
        open_series(MemoryFile("a.csv", b"a\n1\n"), Layout(column="b"))


def test_it_goes_to_another_process_and_shows_nothing() -> None:
    file = MemoryFile("a.csv", TEXT.encode())
    assert pickle.loads(pickle.dumps(file)).content == file.content
    assert "2024" not in repr(file)


@pytest.mark.slow
def test_a_release_and_a_fit_take_it() -> None:
    content = ("v\n" + "a\nb\n" * 40).encode()
    model = pufferdp.fit(MemoryFile("d.csv", content), column="v").model
    made = pufferdp.release(MemoryFile("d.csv", content), model=model, column="v", query="histogram", epsilon=1.0)
    assert made.certificate.data.records == 80


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"who,n,s\n=1+1,1,a\n@x,-2.5,b\n", "who"),
        (b"=who,n,s\nann,1,-x\nbob,2,b\n", "=who, s"),
        (b'who,n,s\n"\tx",+1,a\nbob,-1e3,b\n', "who"),
        (b"who,n,s\nann,-1.5,a\n", None),
    ],
)
def test_texts_that_a_spreadsheet_runs_are_named(content: bytes, columns: str | None) -> None:
    words = formula_warning(MemoryFile("a.csv", content))
    assert words.startswith(f"a spreadsheet runs texts of {columns} as formulas") if columns else words == ""
