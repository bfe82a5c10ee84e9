"""Group sizes: published exactly, or in no form at all; and a warning where their number says something by itself."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pufferdp import MarkovChain, ParameterError, plan_table, read_released, release, verify
from pufferdp.publish.tables.certificate import HIDDEN, IRREGULAR
from pufferdp.report.html import report_html
from pufferdp.report.pages.tables import table_chart

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], bins=(0, 60, 200))
START = dt.datetime(2024, 1, 1)
QUERIES = ["mean", "sum", "histogram", "count:1", "transitions", "median"]
SIZES = (613, 0, 727, 541)
"""Records of each hour; none of these numbers may be found in a table with hidden sizes."""


def beats(seed: int = 3) -> pl.DataFrame:
    """Irregular times: so many beats in each hour, at uniform times."""
    rng = np.random.default_rng(seed)
    times = [np.sort(hour * 3600 + 3600 * rng.random(size)) for hour, size in enumerate(SIZES)]
    seconds = np.concatenate(times)
    return pl.DataFrame(
        {
            "time": [START + dt.timedelta(microseconds=int(1e6 * s)) for s in seconds],
            "bpm": rng.uniform(40, 90, len(seconds)),
        }
    )


def steady(missing: int = 0) -> pl.DataFrame:
    """A record each minute; the clock jitters by a second, and some records are missing."""
    rng = np.random.default_rng(4)
    kept = np.sort(rng.permutation(1200)[missing:])
    times = [START + dt.timedelta(minutes=int(n), seconds=float(rng.uniform(-1, 1))) for n in kept]
    return pl.DataFrame({"time": times, "bpm": rng.uniform(40, 90, len(kept))})


def table_of(data: pl.DataFrame, sizes: str = "exact", **more: Any) -> Any:
    request = {"model": CHAIN, "column": "bpm", "order": "time", "per": "hour", "query": QUERIES, "clip": (30, 150)}
    return release(data, epsilon=1.0, sizes=sizes, **{**request, **more})


def numbers(content: Any) -> list[Any]:
    """Every number of a JSON content."""
    if isinstance(content, dict):
        return [leaf for value in content.values() for leaf in numbers(value)]
    if isinstance(content, list):
        return [leaf for value in content for leaf in numbers(value)]
    return [content]


def test_hidden_sizes_are_nowhere_in_the_output():
    made = table_of(beats(), "hidden")
    content = made.to_dict()
    for part in (content["table"], content["estimate"], content["certificate"]["table"]):
        del part["rows"]  # a noisy count is the number of records by chance
    assert not set(numbers(content)) & {613, 727, 541}
    assert made.table.column("records") == [None] * 4
    assert made.estimate.column("records") == [None] * 4
    assert made.to_frame(backend="polars")["records"].null_count() == 4
    content = made.certificate.to_dict()
    assert content["groups"]["sizes"] == "hidden"
    assert HIDDEN in content["guarantee"]["statement"]
    assert verify(made.to_dict()).valid


@pytest.mark.slow
def test_noise_of_hidden_tables_does_not_add_up_to_the_size():
    """Noise of its own for each number: of 20 tables not all of the sums are the sizes (probability below 1e-12)."""
    sums = [
        [row[2] + row[3] for row in table_of(beats(), "hidden", query="histogram", clip=None).table.rows]
        for _ in range(20)
    ]
    assert any(found != list(SIZES) for found in sums)
    exact = table_of(beats(), query="histogram", clip=None)
    assert [row[2] + row[3] for row in exact.table.rows] == list(SIZES)
    assert all(not question.noise.balanced for question in table_of(beats(), "hidden").certificate.questions)


def test_a_group_without_records_looks_like_the_others():
    made = table_of(beats(), "hidden")
    assert all(cell is not None for row in made.table.rows for cell in row[2:])
    assert table_of(beats()).table.rows[1][2] is None  # there is no mean, and the table says why


def test_figure_and_report_do_not_show_what_is_hidden():
    made = table_of(beats(), "hidden")
    content = made.certificate.to_dict()
    chart = table_chart(content)
    assert [type(layer).__name__ for layer in chart.layers] == ["Bars", "Rule"]  # whiskers of a mean would tell
    text = report_html(made)
    for size in SIZES[:1] + SIZES[2:]:
        assert f">{size}<" not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": "frequency", "clip": None}, "frequency divides whole counts"),
        ({"per": "person", "by": "who"}, "the certificate states how long each series is"),
        ({"sizes": "some"}, "sizes is 'some'; it must be exact or hidden"),
        ({"per": None, "query": "mean"}, "groups, split and sizes go with a table"),
    ],
)
def test_what_would_show_the_sizes_is_rejected(change: dict[str, Any], words: str):
    data = beats().with_columns(who=pl.lit("a"))
    with pytest.raises(ParameterError, match=words):
        table_of(data, **{"sizes": "hidden", **change})


def test_a_plan_has_the_noise_of_the_release():
    made = table_of(beats(), "hidden")
    plan = plan_table(CHAIN, QUERIES, epsilon=1.0, length=sum(SIZES), per="hour", clip=(30, 150), sizes="hidden")
    stated = [question.accuracy.alpha for question in made.certificate.questions]
    assert [query["accuracy"]["alpha"] for query in plan.to_dict()["queries"][2:]] == pytest.approx(stated[2:])
    assert plan.to_dict()["sizes"] == "hidden"


@pytest.mark.parametrize(
    ("data", "warned"), [(beats(), True), (steady(), False), (steady(200), False)], ids=["beats", "minutes", "gaps"]
)
def test_irregular_times_warn_and_missing_records_do_not(data: pl.DataFrame, warned: bool):
    made = table_of(data, query="mean")
    assert (IRREGULAR in made.certificate.warnings) == warned
    assert ("informative" in str(made)) == warned
    assert ("informative" in report_html(made)) == warned
    assert IRREGULAR not in table_of(data, "hidden", query="mean").certificate.warnings


def test_a_table_that_is_handed_over_is_checked_without_its_sizes(tmp_path: Path):
    made = table_of(beats(), "hidden")
    for ending in (".csv", ".parquet"):
        path = tmp_path / f"table{ending}"
        made.table.write(path, ending)
        assert verify(made.certificate, table=read_released(path)).valid
