"""Ledgers in a file and on a server: made, charged, refused, found again."""

from __future__ import annotations

import math
import sqlite3
import threading
import traceback
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from pufferdp import (
    BudgetError,
    Charge,
    DataError,
    Gaussian,
    Ledger,
    LedgerError,
    MarkovChain,
    ParameterError,
    RefusedError,
    best_curve,
    release,
)
from pufferdp.ledger.charge import KINDS, channel_loss, flip_charge, loss_of, redaction
from pufferdp.ledger.totals import add_up
from pufferdp.models.files.json import model_digest
from tests.tolerance import both_upper_ends, upper_end

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
SMALL = Charge(kind="dp", dp_loss=0.01, longest=50)
LITTLE = best_curve(CHAIN, 50)(0.01)
"""What a loss of 0.01 leaks: the tight curve has tests of its own."""


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    with Ledger(place, create=True) as made:
        made.create("week", model=CHAIN, adversary="bdp", budget=1.0)
        yield made


def test_what_was_charged_is_there_for_whoever_opens_it_next(ledger: Ledger, place: str) -> None:
    first, second = ledger.charge("week", SMALL), ledger.charge("week", SMALL)
    assert (first.position, second.position, second.previous) == (1, 2, first.head)
    ledger.close()
    with Ledger(place) as again:
        found = again.dataset("week")
        assert (found.releases, found.head, found.spent_dp) == (2, second.head, 0.02)
        assert again.names() == ("week",)
        assert again.verify(first.head).valid


def test_losses_add_up_and_the_curve_is_read_once(ledger: Ledger) -> None:
    """The tight curve at a loss of .01, and its check value .389344 at ten times that; 50 records."""
    ledger.create("ten", model=CHAIN, adversary="bdp", budget=2.0)
    ledger.charge("ten", SMALL)
    assert ledger.dataset("ten").leakage == both_upper_ends(LITTLE)
    ledger.charge_many([("ten", SMALL)] * 9)
    assert ledger.dataset("ten").leakage == upper_end(0.389343703)


def test_nothing_is_charged_when_it_is_too_much(ledger: Ledger) -> None:
    ledger.charge("week", SMALL)
    before = ledger.dataset("week")
    with pytest.raises(BudgetError, match=r"in DP loss 0\.2(39|4)\d*; this release needs a DP loss of 0\.3"):
        ledger.charge("week", Charge(kind="dp", dp_loss=0.3, longest=50))
    assert ledger.dataset("week") == before
    assert before.left_dp is not None
    ledger.charge("week", Charge(kind="dp", dp_loss=before.left_dp, longest=50))
    after = ledger.dataset("week")
    assert after.leakage is not None and after.leakage <= 1.0
    with pytest.raises(BudgetError, match=r"nothing is left|in DP loss"):
        ledger.charge("week", SMALL)


def test_a_longer_chain_counts_for_what_was_released_before(ledger: Ledger) -> None:
    ledger.charge("week", Charge(kind="dp", dp_loss=0.05, longest=2))
    short = ledger.dataset("week").leakage
    with pytest.raises(BudgetError):
        ledger.charge("week", Charge(kind="dp", dp_loss=0.21, longest=5000))
    ledger.charge("week", Charge(kind="dp", dp_loss=1e-6, longest=40))
    assert 0.05 < short < 0.1  # by group privacy it would be twice the loss
    assert ledger.dataset("week").leakage > 1.8 * short


def test_several_data_sets_are_charged_together_or_not_at_all(ledger: Ledger) -> None:
    ledger.create("other", model=CHAIN, adversary="pufferfish", budget=1.0)
    receipts = ledger.charge_many([("week", SMALL), ("other", SMALL), ("week", SMALL)])
    assert [(r.dataset, r.position) for r in receipts] == [("week", 1), ("other", 1), ("week", 2)]
    before = [ledger.dataset(name) for name in ledger.names()]
    with pytest.raises(BudgetError, match="'other'"):
        ledger.charge_many([("week", SMALL), ("other", Charge(kind="dp", dp_loss=3.0, longest=50))])
    assert [ledger.dataset(name) for name in ledger.names()] == before
    assert ledger.verify().valid


def test_another_model_or_adversary_is_refused(ledger: Ledger) -> None:
    other = MarkovChain(transition=[[0.5, 0.5], [0.305, 0.695]])
    common = {"kind": "dp", "dp_loss": 0.01, "longest": 50}
    with pytest.raises(RefusedError, match="keeps its budget for"):
        ledger.charge("week", Charge(**common, model=model_digest(other), adversary="bdp"))
    with pytest.raises(RefusedError, match="adversary='bdp'"):
        ledger.charge("week", Charge(**common, model=model_digest(CHAIN), adversary="pufferfish"))
    with pytest.raises(RefusedError, match="keeps its budget for"):
        ledger.expect("week", model=other, adversary="bdp")
    assert ledger.dataset("week").releases == 0


def test_an_answer_without_noise_uses_up_its_data_set(place: str) -> None:
    with Ledger(place, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="pufferfish", budget=1.0)
        about = {"model": model_digest(CHAIN), "adversary": "pufferfish"}
        exact = Charge(kind="additive", dp_loss=math.inf, longest=50, epsilon=0.5, **about)
        ledger.charge("week", exact)
        found = ledger.dataset("week")
        assert (found.leakage, found.left_dp, found.to_dict()["spent_dp"]) == (0.5, 0.0, None)
        for charge in (exact, SMALL):
            with pytest.raises(BudgetError, match="used up"):
                ledger.charge("week", charge)
        ledger.create("later", model=CHAIN, adversary="pufferfish", budget=1.0)
        ledger.charge("later", SMALL)
        with pytest.raises(BudgetError, match="without end"):
            ledger.charge("later", exact)


def test_a_single_release_keeps_its_own_guarantee(ledger: Ledger) -> None:
    """An answer may spend more DP loss than the curve allows for its guarantee; a second release is refused."""
    about = {"model": model_digest(CHAIN), "adversary": "bdp"}
    ledger.charge("week", Charge(kind="additive", dp_loss=0.3, longest=50, epsilon=1.0, **about))
    assert ledger.dataset("week").leakage == 1.0
    assert ledger.dataset("week").curve == "own"
    with pytest.raises(BudgetError, match="a guarantee of its own counts for a single release only"):
        ledger.charge("week", Charge(kind="dp", dp_loss=1e-6, longest=50))


def test_a_guarantee_of_its_own_over_the_budget_is_refused(ledger: Ledger) -> None:
    about = {"model": model_digest(CHAIN), "adversary": "bdp"}
    with pytest.raises(BudgetError):
        ledger.charge("week", Charge(kind="additive", dp_loss=0.5, longest=50, epsilon=1.5, **about))
    # The curve may still say that it leaks less than it guarantees.
    ledger.charge("week", Charge(kind="additive", dp_loss=0.01, longest=50, epsilon=1.5, **about))
    assert ledger.dataset("week").leakage == pytest.approx(LITTLE, abs=1e-6)


def test_real_numbers_have_one_clipping_width(place: str) -> None:
    family = Gaussian(mean=[0, 0, 0], covariance=[[9, 0.666, 2.475], [0.666, 9, 1.818], [2.475, 1.818, 9]])
    with Ledger(place, create=True) as ledger:
        ledger.create("heights", model=family, adversary="bdp", budget=2.0)
        clipped = Charge(kind="dp", dp_loss=0.5, longest=3, width=20.0)
        ledger.charge("heights", clipped)
        ledger.charge("heights", clipped)
        assert ledger.dataset("heights").leakage == pytest.approx(1.477, abs=1e-3)
        with pytest.raises(RefusedError, match="at most 20 apart"):
            ledger.charge("heights", Charge(kind="dp", dp_loss=0.01, longest=3, width=40.0))
        # What is not a clipped sum is not covered by the Gaussian curves: group privacy is left, three times .51.
        with pytest.raises(BudgetError):
            ledger.charge("heights", Charge(kind="dp", dp_loss=0.01, longest=3))
        ledger.create("others", model=family, adversary="bdp", budget=2.0)
        ledger.charge("others", Charge(kind="dp", dp_loss=0.5, longest=3, width=20.0))
        ledger.charge("others", Charge(kind="dp", dp_loss=0.1, longest=3))
        assert ledger.dataset("others").leakage == pytest.approx(1.8)


def test_redactions_of_one_data_set_keep_the_same_records_private(place: str) -> None:
    with Ledger(place, create=True) as ledger:
        for who in ("bdp", "pufferfish"):
            ledger.create(who, model=CHAIN, adversary=who, budget=2.0)
            about = {"longest": 50, "model": model_digest(CHAIN), "adversary": who}
            first = redaction(window=True, leakage=0.5, private="row 7", **about)
            ledger.charge(who, first)
            ledger.charge(who, SMALL)
            found = ledger.dataset(who)
            # What was released is known, so both read the curve for those who know records.
            assert found.leakage == pytest.approx(0.5 + LITTLE, abs=5e-7)
            assert found.private == "row 7"
            with pytest.raises(RefusedError, match="for the same records"):
                ledger.charge(who, redaction(window=True, leakage=0.1, private="row 8", **about))
        about = {"longest": 50, "private": "row 7", "model": model_digest(CHAIN), "adversary": "bdp"}
        with pytest.raises(BudgetError, match="redact more"):
            ledger.charge("bdp", redaction(window=True, leakage=1.9, **about))
        with pytest.raises(BudgetError, match="method='window'"):
            ledger.charge("bdp", redaction(window=False, leakage=0.1, **about))
        ledger.charge("bdp", redaction(window=True, leakage=0.1, **about))
        with pytest.raises(RefusedError, match="design both together"):
            ledger.charge("pufferfish", first)
        assert ledger.verify().valid
        assert len(ledger.verify().unchecked) > 0


def test_flips_charge_the_largest_ratio_of_their_channel() -> None:
    assert flip_charge([[0.75, 0.25], [0.4, 0.6]], longest=9).dp_loss == pytest.approx(math.log(0.6 / 0.25))
    assert flip_charge([[0.75, 0.25], [0.4, 0.6]], longest=9).dp_loss >= math.log(0.6 / 0.25)
    assert channel_loss([[1.0, 0.0], [0.5, 0.5]]) == math.inf
    assert channel_loss([[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]) < 1e-15


def test_losses_are_never_rounded_down() -> None:
    from fractions import Fraction

    total, exact = 0.0, Fraction(0)
    for n in range(1, 2000):
        loss = loss_of(float(n) / 7)
        assert Fraction(loss) * Fraction(float(n) / 7) >= 1
        total, exact = add_up(total, loss), exact + Fraction(loss)
        assert Fraction(total) >= exact
    assert float(exact) == pytest.approx(total, rel=1e-12)
    assert loss_of(2.0) == 0.5 and loss_of(0.0) == math.inf and add_up(0.5, 0.25) == 0.75


@pytest.mark.parametrize(
    "bad",
    [{"dp_loss": 0.0}, {"dp_loss": math.nan}, {"dp_loss": -1.0}, {"longest": 0}, {"kind": "magic"}, {"epsilon": 1.0}],
)
def test_charges_that_make_no_sense(bad: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        Charge(**{"kind": "dp", "dp_loss": 0.1, "longest": 3, **bad})


def test_a_name_is_taken_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="already"):
        ledger.create("week", model=CHAIN, budget=1.0)
    with pytest.raises(LedgerError, match="it has week"):
        ledger.charge("month", SMALL)


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    tiny = Charge(kind="dp", dp_loss=1e-5, longest=50)
    threads = [threading.Thread(target=lambda: [ledger.charge("week", tiny) for _ in range(10)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.dataset("week").releases == 80
    assert ledger.verify().valid


def test_files_that_are_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("this is not a database, and it is longer than a header of a hundred bytes" * 20)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(tmp_path / "text.db")
    with pytest.raises(LedgerError, match="folder"):
        Ledger(tmp_path)
    with pytest.raises(LedgerError, match="no folder"):
        Ledger(tmp_path / "no" / "x.db", create=True)
    with sqlite3.connect(tmp_path / "empty.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    with pytest.raises(LedgerError, match="holds no ledger"):
        Ledger(tmp_path / "empty.db")
    with pytest.raises(LedgerError, match="another kind"):
        Ledger("mysql://host/db")


def test_a_ledger_of_another_version_is_rejected(ledger: Ledger, place: str) -> None:
    with ledger.store.writing() as session:
        session.run("UPDATE ledger_version SET version = 1")
    ledger.close()
    with pytest.raises(LedgerError, match=r"version is 1; this pufferdp reads version 2"):
        Ledger(place)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=ann&password=hunter2",
        "postgresql://127.0.0.1:1/x?user=ann&pass%77ord=hunter2",
        "postgresql://ann:hunter2@hunter2@127.0.0.1:1/x",
        "postgresql://ann:hunter2?/@127.0.0.1:1/x",
        "postgresql://ann@127.0.0.1:hunter2/x",
        "postgresql://ann:hunter2/x",
        "postgresql://127.0.0.1:1/x?hunter2",
        "postgres://ann:%68unter2@127.0.0.1:1/x",
        "mysql://ann:hunter2@127.0.0.1:1/x",
        "host=127.0.0.1 user=ann password=hunter2",
        "postgresql://ann:hunter2@\udcff/x",
        Path("postgresql://ann:hunter2@127.0.0.1:1/x"),
    ],
)
def test_a_password_is_not_repeated(url: str | Path) -> None:
    """Neither in the words of an error nor in the errors before it, for ledgers and for data."""
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError) as caught:
        Ledger(url, wait=2)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value)).replace(repr(url), "")
    table = type(url)(f"{url}{'&' if '?' in str(url) else '?'}table=visits")
    with pytest.raises(DataError) as wrong:
        release(table, model=CHAIN, column="x", order="t", query="histogram", epsilon=1)
    assert "hunter2" not in str(wrong.value) + str(wrong.value.value)


@pytest.mark.parametrize("other", ["Week", "w eek", "weeK", "we\u0435k", "ｗeek", "week/"[:-1] + "\u0301"])
def test_another_spelling_of_a_data_set_gets_no_budget(ledger: Ledger, other: str) -> None:
    normalised = unicodedata.normalize("NFKC", other).casefold().replace(" ", "")
    if normalised != "week":  # a letter of another alphabet is another name
        ledger.create(other, model=CHAIN, adversary="dp", budget=1.0)
        return
    with pytest.raises(LedgerError, match="is in the ledger already, as 'week'"):
        ledger.create(other, model=CHAIN, adversary="dp", budget=1.0)
    with pytest.raises(LedgerError, match="the same records would get a second budget; write 'week'"):
        ledger.create(f"{other}/ann", model=CHAIN, adversary="dp", budget=1.0)
    assert ledger.names() == ("week",)
    ledger.create("week/José", model=CHAIN, adversary="dp", budget=1.0)
    with pytest.raises(LedgerError, match="as 'week/José'"):
        ledger.create("week/JOSE\u0301", model=CHAIN, adversary="dp", budget=1.0)
    ledger.create("month/ann", model=CHAIN, adversary="dp", budget=1.0)
    with pytest.raises(LedgerError, match="write 'month'"):
        ledger.create("Month", model=CHAIN, adversary="dp", budget=1.0)
    assert ledger.verify().valid


@pytest.mark.parametrize("name", ["we\nek", "\udcff", "nul\0", " week", "", 3])
def test_names_that_no_ledger_can_hold(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match=r"there is no data set .* it has week"):
        ledger.charge(name, SMALL)
    with pytest.raises(LedgerError, match=r"there is no data set .* it has week"):
        ledger.dataset(name)
    with pytest.raises(ParameterError, match="printable"):
        ledger.create(name, model=CHAIN, adversary="dp", budget=1.0)


def test_a_server_that_does_not_wait_for_its_disk(postgres: str) -> None:
    """Commits that return early are made to wait."""
    from tests.ledger.conftest import fresh_database

    url = fresh_database(postgres)
    with Ledger(f"{url}?options=-csynchronous_commit%3Doff", create=True) as ledger:
        for transaction in (ledger.store.reading(), ledger.store.writing()):
            with transaction as session:
                assert list(session.rows("SHOW synchronous_commit")) == [("on",)]


def test_the_page_has_the_table_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "budget.md").read_text(encoding="utf-8")
    for name, charges in KINDS.items():
        assert f"| `{name}` | {charges.replace(': its --dp-epsilon', ': its `--dp-epsilon`')} |" in page
