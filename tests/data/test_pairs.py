"""Two columns read as one: the states of both, as pairs."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest

from pufferdp import fit, flip, release
from pufferdp.basics.errors import DataError, ParameterError, PufferdpError
from pufferdp.data.layout import Coding, Layout, column_name, column_pair
from pufferdp.data.series import open_series

PAIR = Layout(column="mood,place", order="t")
STATES = ("good|home", "bad|home", "good|work")
FRAME = pl.DataFrame(
    {"t": [3, 1, 2, 4], "mood": ["good", "good", "bad", "good"], "place": ["work", "home", "home", "home"]}
)


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "arrow", "duckdb", "csv", "parquet"])
def test_pairs_of_every_source(tmp_path: Path, kind: str) -> None:
    FRAME.write_csv(tmp_path / "x.csv")
    FRAME.write_parquet(tmp_path / "x.parquet")
    sources = {
        "polars": FRAME,
        "lazy": FRAME.lazy(),
        "pandas": FRAME.to_pandas(),
        "arrow": FRAME.to_arrow(),
        "duckdb": duckdb.sql(f"SELECT * FROM '{tmp_path / 'x.parquet'}'"),
        "csv": tmp_path / "x.csv",
        "parquet": tmp_path / "x.parquet",
    }
    series = open_series(sources[kind], PAIR)
    assert series.found_states() == ("bad|home", "good|home", "good|work")
    (chain,) = series.states(Coding(labels=STATES))
    assert chain.tolist() == [0, 1, 2, 0]


def test_missing_in_either_column_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("mood,place\ngood,home\n,home\ngood,\nNA,NA\nbad,home\n")
    layout = Layout(column="mood,place", missing="keep")
    for source in (path, pd.read_csv(path), pl.read_csv(path, null_values=["NA"])):
        counts = open_series(source, layout).counts(Coding(labels=STATES))
        assert (counts.records, counts.missing, counts.histogram) == (2, 3, (1, 1, 0))
    with pytest.raises(DataError, match="missing in 3 rows"):
        open_series(path, Layout(column="mood,place")).counts(Coding(labels=STATES))


def test_whole_numbers_truth_and_categories() -> None:
    frame = pl.DataFrame({"a": [1, 2, 1], "b": [True, False, False]})
    assert open_series(frame, Layout(column="a,b")).found_states() == ("1|false", "1|true", "2|false")
    table = pd.DataFrame({"a": pd.Categorical(["x", "y"]), "b": [0, 1]})
    assert open_series(table, Layout(column="a,b")).found_states() == ("x|0", "y|1")
    with pytest.raises(DataError, match="decimal numbers"):
        open_series(pl.DataFrame({"a": [1.5], "b": [1]}), Layout(column="a,b"))


def test_values_with_the_mark_between_states_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "x|y,1\nz,2\n" * 30)
    with pytest.raises(DataError, match=r"'x\|y\|1' is none"):
        fit(tmp_path / "x.csv", column="a,b")
    # Also where a model has proper pairs: the value is none of its states.
    (tmp_path / "y.csv").write_text("a,b\n" + "x,1\nz,2\nx,2\n" * 30)
    model = fit(tmp_path / "y.csv", column=("a", "b"), checks=False).model
    assert set(model.labels) == {"x|1", "z|2", "x|2"}
    with pytest.raises(DataError, match=r"x\|y\|1"):
        release(tmp_path / "x.csv", model=model, column="a,b", query="histogram", epsilon=1)


def test_names_of_two_columns() -> None:
    assert column_name(("a", "b")) == "a,b"
    assert column_pair("a,b") == ("a", "b")
    # A single column may have a comma in its name, but for one that looks like two names.
    for single in ("a", "a, b", "a,b,c", "a,", ","):
        assert column_pair(single) is None
    for wrong in (("a",), ("a", "b,c"), ("a", ""), ("a", "b", "c")):
        with pytest.raises(DataError, match="two names"):
            column_name(wrong)
    with pytest.raises(DataError, match="both 'a'"):
        Layout(column="a,a")
    with pytest.raises(DataError, match="no column 'c'"):
        open_series(FRAME, Layout(column="mood,c"))


def test_what_does_not_go_with_pairs(tmp_path: Path) -> None:
    single = fit(FRAME.vstack(FRAME), column="mood", states=["good", "bad"], prior=1, checks=False).model
    with pytest.raises(DataError, match=r"'good' is none: the model must be about pairs"):
        release(FRAME, model=single, column="mood,place", order="t", query="histogram", epsilon=1)
    with pytest.raises(ParameterError, match="bins"):
        fit(FRAME, column="mood,place", bins="0,1,2")
    model = fit(FRAME, column="mood,place", order="t", prior=1, checks=False).model
    FRAME.write_csv(tmp_path / "x.csv")
    for source in (FRAME, tmp_path / "x.csv", duckdb.sql(f"SELECT * FROM '{tmp_path / 'x.csv'}'")):
        out = str(tmp_path / "out.csv") if isinstance(source, Path) else None
        with pytest.raises(PufferdpError, match="mood,place"):
            flip(source, model=model, column="mood,place", order="t", epsilon=1, out=out)
