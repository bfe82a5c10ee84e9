"""Charges as messages: what comes back is what was asked for, and nothing that cannot be read is charged."""

from __future__ import annotations

import math
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import Charge, Ledger
from pufferdp.basics.errors import BudgetError, LedgerError, ParameterError
from pufferdp.ledger import apply as requests
from pufferdp.ledger.balance import Receipt
from tests.ledger.races import CHAIN

names = st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=9)
losses = st.floats(1e-9, 1e9) | st.just(math.inf)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
charges = st.builds(
    Charge,
    kind=st.just("dp"),
    dp_loss=losses,
    longest=st.integers(1, 10**9),
    facts=st.dictionaries(words, words, max_size=2),
    model=st.none() | st.just("0" * 64),
    adversary=st.none() | st.just("bdp"),
)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
receipts = st.builds(
    Receipt,
    dataset=names,
    position=st.integers(1, 10**12),
    previous=digests,
    head=digests,
    charged=st.just("2026-01-01T00:00:00+00:00"),
)


@given(st.lists(st.tuples(names, charges), min_size=1, max_size=5))
def test_a_request_says_what_was_asked_for(asked: list[tuple[str, Charge]]) -> None:
    request = requests.encode(asked)
    assert request is not None
    read = requests.decode(request)
    for (name, charge), (read_name, read_charge) in zip(asked, read, strict=True):
        assert read_name == name
        assert (read_charge, read_charge.problem) == (charge, charge.problem)


@given(st.lists(receipts, min_size=1, max_size=5))
def test_receipts_come_back_as_they_were(made: list[Receipt]) -> None:
    assert requests.receipts(requests.answer(made)) == made


@pytest.mark.parametrize(
    "error", [BudgetError("over", left=0.25), LedgerError("{none}\n", value="x"), ParameterError("p")]
)
def test_refusals_come_back_as_they_were(error: BudgetError | LedgerError | ParameterError) -> None:
    with pytest.raises(type(error)) as found:
        requests.receipts(requests.refusal(error))
    assert str(found.value) == str(error)
    assert vars(found.value) == vars(error)


def test_a_line_too_many_is_no_message() -> None:
    charge = Charge(kind="dp", dp_loss=1.0, longest=5)
    assert requests.encode([("week", charge)]) is not None
    assert requests.encode([("we\nek", charge)]) is None
    assert requests.encode([("week", Charge(kind="dp", dp_loss=1.0, longest=5, model="a\nb"))]) is None
    assert requests.encode([]) is None
    assert requests.encode([("week", charge)] * (requests.MOST + 1)) is None


@pytest.mark.parametrize("name", ["we\nek", "\udcff", "nul\0", " week", "", 3])
def test_names_that_no_ledger_can_hold(tmp_path: Path, name: str) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=1.0)
        with pytest.raises(LedgerError, match=r"there is no data set .* it has week"):
            ledger.charge(name, Charge(kind="dp", dp_loss=0.1, longest=5))
        with pytest.raises(LedgerError, match=r"there is no data set .* it has week"):
            ledger.dataset(name)
        with pytest.raises(ParameterError, match="printable"):
            ledger.create(name, model=CHAIN, adversary="dp", budget=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere everybody takes the lock in turn")
def test_what_cannot_be_read_gets_no_answer_and_harms_nobody(tmp_path: Path) -> None:
    """Strangers whose messages are of another version, or noise, come while others charge."""
    place = tmp_path / "books.db"
    with Ledger(place, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=100.0)
    over, answers = threading.Event(), []

    def disturb() -> None:
        said = [b"[[1]]", b"\xff", b"week\n\n\n{}", b'week\n\n\n{"dp_loss":null}', b"\n\n\n", b"a\n" * 9]
        while not over.is_set():
            for noise in said:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                    stranger.settimeout(0.2)
                    try:
                        stranger.connect(str(place) + "-queue.sock")
                        stranger.send(noise)
                        answers.append(stranger.recv(100))
                    except OSError:
                        continue

    strangers = [threading.Thread(target=disturb) for _ in range(2)]
    for one in strangers:
        one.start()
    try:
        with Ledger(place) as ledger:
            for n in range(300):
                assert ledger.charge("week", Charge(kind="dp", dp_loss=0.01, longest=5)).position == n + 1
    finally:
        over.set()
        for one in strangers:
            one.join()
    assert answers, "nobody was heard"
    with Ledger(place) as ledger:
        assert ledger.dataset("week").releases == 300
        assert ledger.verify().valid
