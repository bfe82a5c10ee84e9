"""Redacted files and frames, their certificates, the owner's rule, and what later releases may assume."""

from __future__ import annotations

import csv
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pufferdp
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import CertificateError, DataError, NotApplicableError, ParameterError
from pufferdp.bounds.redaction.design import Block, Design, RedactionProblem, blocks_of
from pufferdp.bounds.redaction.optimal import optimal, redesign_with
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.rewrite import Placement
from pufferdp.data.series import open_series
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler, SystemSampler, bernoulli, mark_thresholds
from pufferdp.publish.redaction.publication import draw
from pufferdp.publish.redaction.tilt import check_tiltable, tilted_model
from tests.oracles import redaction as oracle
from tests.strategies import examples

EXACT = ("window", "3r-numerical", "3r-optimal")
CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=("rest", "active"))


def series(length: int = 60, seed: int = 0) -> list[str]:
    generator, state, out = np.random.default_rng(seed), 0, []
    for _ in range(length):
        state = int(generator.random() < CHAIN.transition[state, 1])
        out.append(CHAIN.labels[state])
    return out


def write(path: Path, values: list[str]) -> Path:
    path.write_text("time,activity\n" + "".join(f"{t},{v}\n" for t, v in enumerate(values)))
    return path


def read(path: Path, column: str = "activity") -> list[str]:
    with path.open(newline="") as lines:
        return [row[column] for row in csv.DictReader(lines)]


def redact(data: object, **more: Any) -> pufferdp.Redaction:
    usual: dict[str, Any] = {"model": CHAIN, "column": "activity", "private": [30], "epsilon": 1.0}
    return pufferdp.redact(data, **{**usual, **more})


# ---- files and frames ----


def test_a_file_keeps_everything_but_what_is_redacted(tmp_path: Path) -> None:
    values = series()
    data, out = write(tmp_path / "d.csv", values), tmp_path / "o.csv"
    result = redact(data, out=out, order="time", sampler=SeededSampler(1))
    published = read(out)
    assert published[29] == "*"
    for t, (before, after) in enumerate(zip(values, published, strict=True), start=1):
        chance = result.probabilities()[t - 1][CHAIN.labels.index(before)]
        assert after in (before, "*")
        if chance in (0, 1):
            assert (after == "*") == (chance == 1)
    assert read(out, "time") == [str(t) for t in range(60)]
    assert result.certificate is not None
    assert result.certificate.warnings == ["unsafe: seeded"]
    assert pufferdp.verify(result.certificate).valid


@pytest.fixture(scope="module")
def redacted_csv(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What becomes of the series in a CSV file, with the seed that the test below gives to every other kind of data."""
    folder = tmp_path_factory.mktemp("csv")
    redact(write(folder / "d.csv", series()), out=folder / "expected.csv", sampler=SeededSampler(7))
    return read(folder / "expected.csv")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "pandas", "polars", "lazy", "pyarrow", "tsv", "gz"])
def test_every_kind_of_data_gives_the_same_rows(kind: str, redacted_csv: list[str], tmp_path: Path) -> None:
    frame = pl.DataFrame({"activity": series(), "time": list(range(60))})
    if kind in ("parquet", "tsv", "gz"):
        ending = {"parquet": ".parquet", "tsv": ".tsv", "gz": ".csv.gz"}[kind]
        data, out = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
        if kind == "parquet":
            frame.write_parquet(data)
        else:
            pandas = frame.to_pandas()
            pandas.to_csv(data, index=False, sep="\t" if kind == "tsv" else ",")
        redact(data, out=out, sampler=SeededSampler(7))
        found = (
            pl.read_parquet(out)["activity"].to_list()
            if kind == "parquet"
            else pd.read_csv(out, sep="\t" if kind == "tsv" else ",")["activity"].tolist()
        )
    else:
        source = {"pandas": frame.to_pandas(), "polars": frame, "lazy": frame.lazy(), "pyarrow": frame.to_arrow()}[kind]
        got = redact(source, sampler=SeededSampler(7)).data
        if kind == "lazy":
            got = got.collect()
        assert isinstance(got, (pd.DataFrame, pl.DataFrame, pa.Table))
        found = list(got["activity"].to_pylist() if kind == "pyarrow" else got["activity"])
    assert found == redacted_csv


@pytest.mark.slow
def test_numbers_with_bins_are_released_as_they_are(tmp_path: Path) -> None:
    steps = [0, 3, 0, 0, 12, 40, 0, 0, 5, 0] * 6
    data, out = tmp_path / "d.csv", tmp_path / "o.csv"
    data.write_text("steps\n" + "\n".join(map(str, steps)) + "\n")
    model = MarkovChain(transition=CHAIN.transition, bins=(0, 1, 100000))
    result = redact(data, model=model, column="steps", out=out, sampler=SeededSampler(1))
    published = out.read_text().split()[1:]
    assert published[29] == "*"
    assert all(after in (str(before), "*") for before, after in zip(steps, published, strict=True))
    assert result.certificate is not None
    assert "independent of all other records" in result.certificate.public[-1]


@pytest.mark.slow
def test_the_chain_goes_on_behind_a_missing_value(tmp_path: Path) -> None:
    values = series()
    values[25] = ""  # row 26
    data, out = write(tmp_path / "d.csv", values), tmp_path / "o.csv"
    with pytest.raises(DataError, match="missing in 1 row, first at row 26"):
        redact(data, out=out)
    result = redact(data, out=out, private=[27, 10], missing="keep")
    assert [tuple(span) for span in result.certificate.data.chains] == [(1, 60)]  # type: ignore[union-attr]
    published = read(out)
    assert (published[9], published[25] in ("", "*"), published[26]) == ("*", True, "*")
    assert result.leakage <= 1
    assert pufferdp.verify(result.certificate.to_dict()).valid  # type: ignore[union-attr]
    hidden = redact(data, out=tmp_path / "other.csv", private=[26], missing="keep")
    assert 0 < hidden.leakage <= 1  # what surrounds it shows it


def test_what_is_drawn_has_the_probabilities_of_the_design() -> None:
    """A binomial test at a fixed seed; it would fail one time in a million by chance."""
    frame = pl.DataFrame({"activity": ["rest"] * 40})
    sampler, marks, tries = SeededSampler(3), 0, 150
    result = pufferdp.plan_redaction(CHAIN, length=40, private=[20], epsilon=1, method="3r-numerical")
    row = next(b.first + n for b in result.blocks for n, q in enumerate(b.marks[:, 0]) if 0 < q < 1)
    chance = result.probabilities()[row - 1][0]
    opened = Placement(series=open_series(frame, Layout(column="activity")), coding=Coding(labels=CHAIN.labels))
    for _ in range(tries):
        spans = draw(result.blocks, opened, sampler)
        marks += any(first <= row <= last for first, last in spans)
    assert stats.binomtest(marks, tries, chance).pvalue > 1e-6


def test_thresholds_round_towards_more_redaction() -> None:
    assert mark_thresholds(np.array([0.0, 0.5, 1.0, 2.0**-64, 2.0**-70])) == [0, 2**63, 2**64, 1, 1]
    chances = np.array([0.0, 1.0] * 500)
    assert bernoulli(chances, SystemSampler()).tolist() == [False, True] * 500
    assert abs(bernoulli(np.full(100_000, 0.3), SeededSampler(1)).mean() - 0.3) < 0.01  # 7 standard deviations


@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 2**32 - 1),
    private=st.sets(st.integers(1, 30), min_size=1, max_size=4),
    epsilon=st.sampled_from([1e-6, 0.3, 2.0, 50.0, 1e6]),
    how=st.sampled_from([*itertools.product(EXACT, ("bdp", "pufferfish", "dp"))]),
)
def test_a_private_record_is_never_released(seed: int, private: set[int], epsilon: float, how: tuple[str, str]) -> None:
    values, (method, adversary) = series(30, seed), how
    frame = pd.DataFrame({"activity": values})
    got = redact(frame, private=sorted(private), epsilon=epsilon, method=method, adversary=adversary)
    assert all(got.data["activity"][p - 1] == "*" for p in private)
    assert got.leakage <= epsilon


# ---- refusals ----


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"private": [61]}, ParameterError, "private row is 61; the data has 60 rows"),
        ({"private": [0]}, ParameterError, "private row is 0"),
        ({"private": []}, ParameterError, "no private record"),
        ({"mark": "rest"}, ParameterError, "which is a state"),
        ({"mark": "7"}, ParameterError, "a number that could be a value"),
        ({"mark": " "}, ParameterError, "must be a word"),
        ({"method": "best"}, ParameterError, "must be one of window"),
        ({"epsilon": 0}, ParameterError, "above 0"),
        ({"epsilon": math.inf}, ParameterError, "finite"),
        ({"model": MarkovChain(transition=CHAIN.transition, start="any")}, NotApplicableError, "stationary"),
        ({"column": "nothing"}, DataError, "no column 'nothing'"),
        ({"out": None}, ParameterError, "out="),
        ({"after": {"schema": "pufferdp-redaction-certificate/2"}}, ParameterError, "published"),
        ({"after": {"schema": "x"}, "published": "o.csv"}, CertificateError, "not the certificate"),
    ],
)
def test_refusals(more: dict[str, Any], error: type[Exception], said: str, tmp_path: Path) -> None:
    data = write(tmp_path / "d.csv", series())
    with pytest.raises(error, match=said):
        redact(data, **{"out": tmp_path / "o.csv", **more})
    assert not (tmp_path / "o.csv").exists()


def test_the_data_itself_is_not_written_over(tmp_path: Path) -> None:
    data = write(tmp_path / "d.csv", series())
    with pytest.raises(ParameterError, match="the data itself"):
        redact(data, out=data)
    with pytest.raises(ParameterError, match=r"must end in \.csv"):
        redact(data, out=tmp_path / "o.xlsx")


# ---- certificates ----


# ---- the owner's rule ----


def apply_rule(rule: dict[str, Any], row: int, value: str, word: int) -> str:
    """What an owner does, with nothing but the rule: the reference of the guide."""
    for block in rule["blocks"]:
        place = row - block["first"]
        inside = 0 <= place < len(block["thresholds"])
        if inside and word < int(block["thresholds"][place][rule["states"].index(value)]):
            return str(rule["mark"])
    return value


def test_an_owner_decides_alone_as_the_library_does(tmp_path: Path) -> None:
    class Fixed(SeededSampler):
        """Words that are known beforehand."""

        def bytes(self, count: int) -> bytes:
            return np.full(count // 8, random.Random(5).getrandbits(64), dtype=np.uint64).tobytes()

    values = series()
    data, out, sampler = write(tmp_path / "d.csv", values), tmp_path / "o.csv", Fixed(0)
    result = redact(data, out=out, sampler=sampler)
    rule = json.loads(json.dumps(result.rule()))
    published = read(out)
    word = int(random.Random(5).getrandbits(64))
    assert [apply_rule(rule, t, v, word) for t, v in enumerate(values, start=1)] == published


# ---- later releases ----


def tilt_example() -> tuple[MarkovChain, Design]:
    chain = MarkovChain(transition=[[0.98, 0.02], [0.5, 0.5]])
    hiding = RedactionProblem(chain=chain, length=4, private=(3,), epsilon=2)
    marks = np.array([[0.2, 1], [1, 1], [1, 1], [0.3, 1]])
    return chain, Design(hiding=hiding, method="3r-optimal", blocks=blocks_of(hiding, 1, marks))


def test_naive_addition_fails_after_marks() -> None:
    """The counterexample of the notes: the two leakages do not add up when marks are soft evidence."""
    chain, design = tilt_example()
    marks = np.array(design.probabilities())
    alone = oracle.noisy_count_after(chain.transition, chain.stationary, np.ones((4, 2)), 2, 1, 1.0)
    both = oracle.noisy_count_after(chain.transition, chain.stationary, marks, 2, 1, 1.0)
    assert math.isclose(design.leakage, 1.3286, abs_tol=5e-5)
    assert math.isclose(alone, 2.5909, abs_tol=5e-5)
    assert math.isclose(both, 4.3369, abs_tol=5e-5)
    assert design.leakage + alone < both


def outputs(marks: np.ndarray) -> list[tuple[int | None, ...]]:
    """Every output that can be seen."""
    choices = [[v for v in range(2) if row[v] < 1] + ([None] if (row > 0).any() else []) for row in marks]
    return list(itertools.product(*choices))


@pytest.mark.parametrize("which", ["notes", "window", "3r-optimal"])
def test_a_count_calibrated_on_the_tilted_model_adds(which: str) -> None:
    """For every output: redaction and then a noisy count leak no more than the sum of what was guaranteed."""
    if which == "notes":
        chain, design = tilt_example()
    else:
        chain = MarkovChain(transition=[[0.8, 0.2], [0.5, 0.5]])
        design = pufferdp.plan_redaction(chain, length=4, private=[2], epsilon=0.7, method=which).designs[0][1]
    p = design.hiding.private[0] - 1
    marks = np.array(design.probabilities())
    rows, distribution = oracle.series_distribution(chain.transition, chain.stationary, 4)
    count = (rows == 1).sum(axis=1)
    for output in outputs(marks):
        weight = distribution.copy()
        for t, value in enumerate(output):
            weight *= marks[t, rows[:, t]] if value is None else (rows[:, t] == value) * (1 - marks[t, rows[:, t]])
        if weight.sum() == 0:
            continue
        # The marked records alone: those that were released are known.
        hidden = [t for t, value in enumerate(output) if value is None]
        model = tilted_model(design, {t + 1: value for t, value in enumerate(output)})
        assert model.records == tuple(str(t + 1) for t in hidden)
        joint = model.joint(range(len(hidden)), model.evidence({}))
        true = np.zeros(joint.shape)
        np.add.at(true, tuple(rows[:, hidden].T), weight / weight.sum())
        assert np.allclose(joint, true, atol=1e-12)
        guaranteed = 0.5
        plan = pufferdp.plan(model, "count:1", epsilon=guaranteed, adversary="pufferfish")
        calibration = plan.best.calibration
        assert calibration is not None
        if calibration.scale == 0:
            continue
        noise = np.exp(-abs(np.arange(5)[:, None] - count[None, :]) / calibration.scale)
        distributions = [
            noise[:, rows[:, p] == x] @ weight[rows[:, p] == x] / distribution[rows[:, p] == x].sum() for x in (0, 1)
        ]
        both = np.abs(np.log(distributions[0]) - np.log(distributions[1])).max()
        assert both <= design.leakage + guaranteed + 1e-9


@pytest.mark.slow
def test_a_tilted_model_from_a_file(tmp_path: Path) -> None:
    from pufferdp.publish.redaction.tilt import tilted_from_file

    data, out = write(tmp_path / "d.csv", series(20_000)), tmp_path / "o.csv"
    result = redact(data, out=out, private=[10, 15_000])
    model = tilted_from_file(result, out, Layout(column="activity"))
    published = read(out)
    assert model.records == tuple(str(t) for t, value in enumerate(published, start=1) if value == "*")
    plan = pufferdp.plan(model, "count:active", epsilon=1, adversary="pufferfish")  # however long the series
    assert plan.best.applies


def test_tilted_models_that_cannot_be_are_refused() -> None:
    _, design = tilt_example()
    with pytest.raises(DataError, match="the design is for 4"):
        tilted_model(design, {5: None})
    with pytest.raises(DataError, match="impossible"):
        tilted_model(design, {1: 1, 2: None, 3: None, 4: None})
    with pytest.raises(DataError, match="lacks record 2"):
        tilted_model(design, {1: None})
    with pytest.raises(DataError, match="no record is marked"):
        tilted_model(design, {1: 0})
    with pytest.raises(NotApplicableError, match="named states"):
        check_tiltable(MarkovChain(transition=CHAIN.transition, bins=(0, 1, 100000)))


# ---- a second redaction of the same data ----


@pytest.mark.slow
@pytest.mark.parametrize("adversary", [Adversary.PUFFERFISH, Adversary.BDP])
def test_a_second_redaction_is_designed_for_both_publications(adversary: Adversary) -> None:
    chain = MarkovChain(transition=[[0.85, 0.15], [0.5, 0.5]])
    first = optimal(RedactionProblem(chain=chain, length=6, private=(3,), epsilon=0.6, adversary=adversary))
    both = redesign_with(first, [4], 1.5)
    assert both.hiding.private == (3, 4)
    before, after = np.array(first.probabilities()), np.array(both.probabilities())
    assert (after <= before).all()
    if adversary is Adversary.PUFFERFISH:
        assert after.sum() < before.sum()  # a larger epsilon releases more
    enumerate_ = oracle.leakage if adversary is Adversary.PUFFERFISH else oracle.worst_leakage
    # Two publications: marked in both with the product, so enumerate the pair through its union.
    for p in (2, 3):
        assert enumerate_(chain.transition, chain.stationary, after, p) <= 1.5 + 1e-9
    with pytest.raises(NotApplicableError, match="may have been released"):
        redesign_with(first, [6], 1.5)
    with pytest.raises(NotApplicableError, match="alone leaks"):
        redesign_with(first, [4], 0.05)


def test_a_second_redaction_of_a_file(tmp_path: Path) -> None:
    values = series()
    data, one, two = write(tmp_path / "d.csv", values), tmp_path / "1.csv", tmp_path / "2.csv"
    first = redact(data, out=one, method="window")
    second = redact(data, out=two, private=[31], epsilon=2.0, after=first.certificate, published=one)
    assert second.private == (30, 31)
    assert second.leakage <= 2
    earlier, later = read(one), read(two)
    assert (later[29], later[30]) == ("*", "*")
    for a, b, value in zip(earlier, later, values, strict=True):
        assert b in (value, "*")
        assert not (a != "*" and b == "*")  # what was published stays published
    assert later.count("*") <= earlier.count("*")
    assert second.certificate is not None
    assert pufferdp.verify(second.certificate).valid
    other = MarkovChain(transition=[[0.5, 0.5], [0.4, 0.6]], states=CHAIN.states)
    with pytest.raises(ParameterError, match="same model"):
        redact(data, model=other, out=tmp_path / "3.csv", private=[31], after=first.certificate, published=one)


def test_both_leakages_are_told() -> None:
    result = pufferdp.plan_redaction(CHAIN, length=60, private=[30], epsilon=1, adversary="pufferfish")
    found = result.to_dict()
    assert found["leakage"] == found["leakage_to"]["pufferfish"] == result.leakage_to("pufferfish")
    assert found["leakage_to"]["bdp"] == result.leakage_to(Adversary.BDP) > found["leakage"]
    assert f"{found['leakage_to']['bdp']:.3f}"[:4] in str(result)
    assert isinstance(result.blocks[0], Block)


def test_an_hour_as_a_whole(tmp_path: Path) -> None:
    """One guarantee for the segment: in the certificate, its words, the ledger and the words of verify."""
    values = series()
    data, out, books = write(tmp_path / "a.csv", values), tmp_path / "b.csv", tmp_path / "books.db"
    pufferdp.Ledger(books, create=True).create("week", model=CHAIN, budget=2.0)
    more = {"private": ["20-31", 50], "order": "time", "whole": True, "method": "window"}
    result = redact(data, out=out, ledger=books, dataset="week", **more)
    assert result.certificate is not None
    content = result.certificate.to_dict()
    assert content["guarantee"]["whole"] is True
    assert "any two possible sequences for any one private segment, taken as a whole," in str(content["guarantee"])
    assert pufferdp.verify(content).valid
    assert pufferdp.Ledger(books).verify().valid
    marks = np.array(result.probabilities())
    assert (marks[19:31] == 1).all() and (marks[49] == 1).all()
    each = redact(data, out=tmp_path / "c.csv", **{**more, "whole": False})
    assert each.certificate is not None and "whole" not in each.certificate.to_dict()["guarantee"]
    assert each.utility > result.utility
    # The design for single records, called one for the whole, leaks more than is guaranteed.
    forged = each.certificate.to_dict()
    forged["guarantee"] |= {"whole": True, "statement": content["guarantee"]["statement"]}
    problems = pufferdp.verify({**forged, "sha256": content_hash(forged)}).problems
    assert any("more than the epsilon" in problem for problem in problems)


def test_earlier_redactions_hide_in_the_same_way(tmp_path: Path) -> None:
    data, out = write(tmp_path / "a.csv", series()), tmp_path / "b.csv"
    before = redact(data, out=out, private=["20-22"], order="time")
    with pytest.raises(ParameterError, match="hides each private record for itself"):
        redact(
            data,
            out=tmp_path / "c.csv",
            private=[40],
            order="time",
            after=before.certificate,
            published=out,
            whole=True,
        )
