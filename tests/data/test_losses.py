"""Files with a DP loss for each record."""

from __future__ import annotations

from pathlib import Path

import pytest

from pufferdp.basics.errors import InputError
from pufferdp.data.number_files import read_losses


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "loss\n0.1\n0\n.25\n"),
        ("a.csv", "0.1\n0\n.25"),
        ("a.csv", "time,Loss\n1,0.1\n2,0\n3,.25\n"),
        ("a.txt", "0.1\r\n\r\n0\r\n.25\r\n"),
        ("a.json", "[0.1, 0, 0.25]"),
        ("a.csv", "\ufeffloss\n1e-1\n0\n.25\n"),
    ],
)
def test_all_ways_to_write_them(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_losses(tmp_path / name) == [0.1, 0.0, 0.25]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "loss\n0.1\n-1\n", "row 3 of losses file .* is -1; give one DP loss per record, a finite number"),
        ("a.csv", "0.1\nnan\n", "row 2 of losses file .* is nan"),
        ("a.csv", "0.1\ninf\n", "row 2 of losses file .* is inf"),
        ("a.txt", "0.1\nmuch\n", "row 2 of losses file .* is 'much'"),
        ("a.csv", "", "has no loss; give one DP loss per record"),
        ("a.csv", "loss\n", "has no loss"),
        ("a.csv", "1,2\n3,4\n", "row 1 of losses file .* has 2 columns; give 1 in each row, or a header"),
        ("a.csv", "0.1\n1,2\n", "row 2 of losses file .* has 2 columns"),
        ("a.csv", "t,loss\n1\n", "row 2 of losses file .* has 1 columns"),
        ("a.json", '[0.1, "x"]', "entry 2 of losses file .* is 'x'"),
        ("a.json", "[0.1, true]", "entry 2 of losses file .* is true"),
        ("a.json", "[]", "has no loss"),
        ("a.json", '{"a": 1}', "must be a JSON list"),
        ("a.json", "[1,", "is not JSON"),
        ("a.json", "[1, -0.5]", "entry 2 of losses file .* is -0.5"),
    ],
)
def test_refusals_name_value_row_and_rule(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_losses(tmp_path / name)


def test_what_is_no_file_of_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_losses(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_losses(tmp_path)
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        read_losses(tmp_path / "a.csv")
