"""Data sets of the same records share budgets: what a person's own data set and the whole were charged adds up."""

import itertools
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pufferdp import BudgetError, LedgerError, MarkovChain, RefusedError, release, release_fleet
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.bounds.curves import curve
from pufferdp.data.ranges import Range, Ranges
from pufferdp.ledger.charge import Charge, redaction
from pufferdp.ledger.flow_budget import FlowBudget
from pufferdp.ledger.history import export_ledger, history, import_ledger, read_export
from pufferdp.ledger.ledger import Ledger
from pufferdp.models.files.json import model_digest
from pufferdp.publish.answers.publication import Release
from tests.tolerance import both_upper_ends, upper_end

WHOLE = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["a", "b"])
STICKY = MarkovChain(transition=[[0.95, 0.05], [0.1, 0.9]], states=["a", "b"])
MODELS = {"ann": STICKY, "bob": WHOLE}
LENGTH = 7


def books(tmp_path: Path, whole: float = 9.0, **budgets: float) -> Ledger:
    ledger = Ledger(tmp_path / f"{len(list(tmp_path.iterdir()))}.db", create=True)
    ledger.create("sleep", model=WHOLE, budget=whole)
    for person, model in MODELS.items():
        ledger.create(f"sleep/{person}", model=model, budget=budgets.get(person, 9.0))
    return ledger


def read_of(*people: str, first: int = 1, last: int = LENGTH, by: str = "who") -> Ranges:
    parts = (Range(first=first, last=last, people=tuple(sorted(people))),)
    return Ranges(order="t", by=by, parts=parts)


def dp(loss: float, ranges: Ranges | None = None, longest: int = LENGTH, delta: float = 0.0) -> Charge:
    return Charge(
        kind="dp", dp_loss=loss, dp_delta=delta, longest=longest, **({} if ranges is None else {"ranges": ranges})
    )


def tight(model: MarkovChain, loss: float, length: int = LENGTH) -> float:
    return curve("tight", model, length, "bdp")(loss)


def people_frame() -> pl.DataFrame:
    rows = [(who, t, "ab"[(t // 2 + n) % 2]) for n, who in enumerate(MODELS) for t in range(1, LENGTH + 1)]
    return pl.DataFrame(rows, schema=["who", "t", "state"], orient="row")


@pytest.mark.parametrize("fleet_first", [True, False])
def test_a_fleet_and_an_overall_release_share_the_budget_record_by_record(tmp_path: Path, fleet_first: bool) -> None:
    with books(tmp_path) as ledger:
        read = {"column": "state", "order": "t", "by": "who", "independent": True, "ledger": ledger, "dataset": "sleep"}

        def one_each() -> dict[str, float]:
            fleet = release_fleet(people_frame(), models=MODELS, query="count:a", epsilon=0.5, **read)
            return {who: 1 / made.certificate.calibration.sigma for who, made in fleet.releases.items()}

        losses = one_each() if fleet_first else {}
        overall = release(people_frame(), model=WHOLE, query="histogram", epsilon=0.4, **read)
        assert isinstance(overall, Release)
        losses = losses or one_each()
        spent = 1 / overall.certificate.calibration.sigma
        assert losses["ann"] < losses["bob"]  # sticky: the same guarantee for less DP loss
        for who, model in MODELS.items():
            found = ledger.dataset(f"sleep/{who}")
            assert found.spent_dp == pytest.approx(losses[who] + spent, rel=1e-9)
            # Each guarantee is read from the person's own model.
            assert found.leakage == pytest.approx(tight(model, losses[who] + spent), rel=1e-6)
            assert (found.releases, found.others, found.others_releases) == (1, ("sleep",), 1)
        whole = ledger.dataset("sleep")
        assert whole.spent_dp == pytest.approx(max(losses.values()) + spent, rel=1e-9)
        assert whole.leakage == pytest.approx(tight(WHOLE, max(losses.values()) + spent), rel=1e-6)
        assert whole.to_dict()["others"] == {"datasets": 2, "names": ["sleep/ann", "sleep/bob"], "releases": 2}
        (segment,) = whole.to_dict()["ranges"]
        assert (segment["by"], segment["from"], segment["to"]) == (["bob"], 1, LENGTH)
        asked = ledger.dataset("sleep", read_of("ann")).to_dict()["asked"]
        assert asked["dp_loss"] == pytest.approx(losses["ann"] + spent, rel=1e-9)
        assert "count too" in str(whole)
        assert ledger.verify().valid, ledger.verify().problems
        last = history(ledger, "sleep")[-1]
        assert last["leakage"] == pytest.approx(whole.leakage)


def test_what_a_person_s_ledger_says_is_what_both_releases_leak(tmp_path: Path) -> None:
    """All paths of ann, all pairs of outputs: a noisy count of ann and one of everybody, to somebody who knows bob."""
    losses, n = (0.3, 0.5), 4
    with books(tmp_path) as ledger:
        ledger.charge("sleep/ann", dp(losses[0], read_of("ann", last=n), n))
        ledger.charge("sleep", dp(losses[1], read_of("ann", "bob", last=n), n))
        stated = ledger.dataset("sleep/ann").leakage
    assert stated is not None
    assert stated == upper_end(worst_leakage(STICKY, losses, n))
    assert worst_leakage(STICKY, [1.1 * loss for loss in losses], n) > stated + 0.01


def test_spellings_of_a_person_are_added_up_in_a_whole_and_its_parts(tmp_path: Path) -> None:
    """A frame has 1.0 where a file has 1."""
    with books(tmp_path) as ledger:
        ledger.charge("sleep/ann", dp(0.3, read_of("1")))
        ledger.charge("sleep", dp(0.3, read_of("1.0", "2.0")))
        assert ledger.dataset("sleep/ann").spent_dp == pytest.approx(0.6)
        assert ledger.dataset("sleep").spent_dp == pytest.approx(0.6)
        ledger.charge("sleep/bob", dp(0.3, read_of("2")))
        assert ledger.dataset("sleep/bob").spent_dp == pytest.approx(0.6)
        assert ledger.verify().valid


def worst_leakage(chain: MarkovChain, losses: list[float] | tuple[float, ...], n: int) -> float:
    """What counts with geometric noise of these losses leak together about a record of one chain, by enumeration."""
    start, step = chain.stationary, chain.transition
    paths = np.array(list(itertools.product(range(2), repeat=n)))
    weight = start[paths[:, 0]] * np.prod([step[paths[:, t], paths[:, t + 1]] for t in range(n - 1)], axis=0)
    count = paths.sum(axis=1)
    worst = 0.0
    for outputs in itertools.product(range(-1, n + 2), repeat=len(losses)):
        likely = np.exp(-sum(loss * abs(count - out) for loss, out in zip(losses, outputs, strict=True)))
        for known in itertools.product((None, 0, 1), repeat=n):
            fits = np.all([(paths[:, t] == v) | (v is None) for t, v in enumerate(known)], axis=0)
            for t in (t for t in range(n) if known[t] is None):
                of = [fits & (paths[:, t] == v) for v in (0, 1)]
                means = [np.sum((weight * likely)[some]) / np.sum(weight[some]) for some in of]
                worst = max(worst, abs(math.log(means[0] / means[1])))
    return worst


def test_nothing_is_charged_where_any_budget_of_the_records_would_be_passed(tmp_path: Path) -> None:
    with books(tmp_path, ann=1.0) as ledger:
        ledger.charge("sleep/ann", dp(0.1, read_of("ann")))
        left = ledger.remaining("sleep", read_of("ann", "bob"), LENGTH).dp_loss
        assert 0 < left < 1
        with pytest.raises(BudgetError, match=r"data set 'sleep/ann' has leaked at most .* of its budget 1"):
            ledger.charge("sleep", dp(left * 1.02, read_of("ann", "bob")))
        assert ledger.would_refuse("sleep", dp(left * 1.02, read_of("ann", "bob"))) is not None
        assert ledger.dataset("sleep").releases == 0
        assert ledger.would_refuse("sleep", dp(left * 1.02, read_of("bob"))) is None  # not ann's records
        ledger.charge("sleep", dp(left * 0.999, read_of("ann", "bob")))
        assert ledger.verify().valid
    with books(tmp_path, whole=1.0) as ledger:
        ledger.charge("sleep", dp(0.1, read_of("ann", "bob")))
        fleet = [("sleep/ann", dp(0.01, read_of("ann"))), ("sleep/bob", dp(0.5, read_of("bob")))]
        with pytest.raises(BudgetError, match="data set 'sleep' has leaked"):
            ledger.charge_many(fleet)
        assert [ledger.dataset(f"sleep/{who}").releases for who in MODELS] == [0, 0]
        ledger.charge_many(fleet[:1])
        assert ledger.verify().valid


def test_only_the_records_that_both_read_add_up(tmp_path: Path) -> None:
    with books(tmp_path) as ledger:
        ledger.charge("sleep/ann", dp(0.2, read_of("ann", first=1, last=3)))
        ledger.charge("sleep", dp(0.3, read_of("ann", "bob", first=4, last=LENGTH)))
        assert ledger.dataset("sleep/ann").spent_dp == 0.3
        assert ledger.dataset("sleep").spent_dp == 0.3
        # Nobody charged bob's own data set, so that nothing says whose records it has: anybody's.
        assert ledger.dataset("sleep/bob").spent_dp == 0.3
        ledger.charge("sleep", dp(0.4, read_of("bob")))
        assert ledger.dataset("sleep/ann").spent_dp == 0.3
        # Of segments that are apart the curve is read for a series without end.
        assert ledger.dataset("sleep/ann").leakage == both_upper_ends(tight(STICKY, 0.3, MOST_RECORDS))
        # A charge that names nobody may be on anybody's records.
        ledger.charge("sleep", dp(0.05))
        assert ledger.dataset("sleep/ann").spent_dp == pytest.approx(0.35)
        ledger.charge("sleep/ann", dp(0.01, Ranges(order="t", parts=(Range(first=1, last=LENGTH),))))
        assert ledger.dataset("sleep/ann").spent_dp == pytest.approx(0.05 + 0.01 + 0.7)
        assert ledger.verify().valid


def test_parts_of_parts(tmp_path: Path) -> None:
    with books(tmp_path) as ledger:
        ledger.create("sleep/ann/nights", model=STICKY, budget=9.0)
        for name, loss in (("sleep", 0.1), ("sleep/ann", 0.2), ("sleep/ann/nights", 0.4), ("sleep/bob", 0.8)):
            ledger.charge(name, dp(loss, read_of(*(["bob"] if "bob" in name else ["ann"]))))
        found = {name: ledger.dataset(name).spent_dp for name in ledger.names()}
    assert found == pytest.approx(
        {"sleep": 0.8, "sleep/ann": 0.7, "sleep/ann/nights": 0.7, "sleep/bob": 0.8}, rel=1e-12
    )


def test_a_guarantee_for_another_model_is_not_taken_over(tmp_path: Path) -> None:
    guaranteed = {"kind": "dp", "dp_loss": 0.3, "longest": LENGTH, "epsilon": 0.31, "adversary": "bdp"}
    with books(tmp_path) as ledger:
        ledger.charge("sleep", Charge(**guaranteed, model=model_digest(WHOLE), ranges=read_of("ann", "bob")))
        assert ledger.dataset("sleep/bob").leakage == 0.31  # the same belief about the same records
        assert ledger.dataset("sleep/ann").leakage == pytest.approx(tight(STICKY, 0.3), rel=1e-6)


def test_what_does_not_add_up_is_refused(tmp_path: Path) -> None:
    with books(tmp_path) as ledger:
        ledger.create("sleep/flows", model=WHOLE, budget=FlowBudget(tau=0.5, eta=0.01))
        ledger.charge("sleep/ann", dp(0.2, read_of("ann")))
        with pytest.raises(RefusedError, match="by is 'person', and data set 'sleep/ann' knows its records by 'who'"):
            ledger.charge("sleep", dp(0.3, read_of("ann", by="person")))
        ledger.create("sleep/ann/late", model=STICKY, budget=9.0, delta=1e-5)
        with pytest.raises(RefusedError, match="delta of 1e-06, and data set 'sleep' keeps a pure budget"):
            ledger.charge("sleep/ann/late", dp(0.3, read_of("ann"), delta=1e-6))
        hidden = redaction(
            window=True, leakage=0.1, private="record 3", longest=LENGTH, model=model_digest(WHOLE), adversary="bdp"
        )
        with pytest.raises(RefusedError, match="'sleep/ann' is a part of 'sleep', and what a redaction or a flow"):
            ledger.charge("sleep", hidden)
        assert ledger.dataset("sleep").releases == 0


def test_data_sets_that_were_charged_apart_are_added_up(tmp_path: Path) -> None:
    """As earlier versions charged them, and as exports bring them together."""
    exports = []
    for name, model, loss in (("sleep", WHOLE, 0.3), ("sleep/ann", STICKY, 0.2)):
        with Ledger(tmp_path / f"{len(exports)}.db", create=True) as ledger:
            ledger.create(name, model=model, budget=1.5)
            ledger.charge(name, dp(loss, read_of("ann")))
            exports.append(tmp_path / f"{len(exports)}.json")
            export_ledger(ledger, exports[-1])
    with Ledger(tmp_path / "both.db", create=True) as ledger:
        import_ledger(ledger, read_export(exports[0]))
        with pytest.raises(LedgerError, match=r"'sleep': its releases leak up to .* over the budget 1.5"):
            import_ledger(ledger, read_export(exports[1]))
        ledger.create("sleep/ann", model=STICKY, budget=9.0)
        assert ledger.dataset("sleep/ann").spent_dp == 0.3
        ledger.charge("sleep/ann", dp(0.01, read_of("ann")))
        assert ledger.dataset("sleep/ann").spent_dp == pytest.approx(0.31)
        assert ledger.verify().valid


def test_in_every_store(place: str) -> None:
    with Ledger(place, create=True) as ledger:
        ledger.create("sleep", model=WHOLE, budget=1.0)
        for who in MODELS:
            ledger.create(f"sleep/{who}", model=MODELS[who], budget=9.0)
        ledger.charge("sleep", dp(0.1, read_of("ann", "bob")))
        fleet = [(f"sleep/{who}", dp(loss, read_of(who))) for who, loss in (("ann", 0.01), ("bob", 0.5))]
        with pytest.raises(BudgetError, match="data set 'sleep' has leaked"):
            ledger.charge_many(fleet)
        ledger.charge_many(fleet[:1])
        assert ledger.dataset("sleep/ann").spent_dp == pytest.approx(0.11)
        assert [ledger.dataset(name).releases for name in ledger.names()] == [1, 1, 0]
        assert ledger.verify().valid
