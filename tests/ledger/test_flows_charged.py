"""Transition flows and their budget in total variation, which never mixes with an epsilon."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import (
    BudgetError,
    Charge,
    FlowBudget,
    Ledger,
    LedgerError,
    MarkovChain,
    NotApplicableError,
    ParameterError,
    RefusedError,
    flip,
    flow,
    release,
    verify,
)
from pufferdp.bounds.orbits import Privacy, dobrushin, least_favourable, our_noise
from pufferdp.ledger import hash_chain
from pufferdp.ledger.charge import KINDS
from pufferdp.ledger.flow_budget import add_taus, flow_charge, tau_left
from pufferdp.models.files.json import model_digest
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.bounds.test_flow_attacks import GRID, records
from tests.bounds.test_orbits import mixing, others
from tests.ledger.rows import assert_other_rows_are_found_out
from tests.oracles.flows import flow_distribution, total_variation
from tests.strategies import random_distribution

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["rest", "active"])
FRAME = pd.DataFrame({"state": ["rest", "active", "active", "rest", "rest", "active", "rest", "rest"] * 10})
GUARANTEE: dict[str, Any] = {"eta": 0.01, "tau": 0.1}
ASKED: dict[str, Any] = {"model": CHAIN, "column": "state", **GUARANTEE}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "books.db"
    with Ledger(made, create=True) as ledger:
        ledger.create("flows", model=CHAIN, budget=FlowBudget(tau=0.3, eta=0.01))
        ledger.create("week", model=CHAIN, adversary="bdp", budget=2.0)
    return made


def spent(path: Path) -> tuple[int, float | None]:
    with Ledger(path) as ledger:
        found = ledger.dataset("flows")
    return found.releases, found.spent_tau


@pytest.mark.slow
def test_the_certificate_names_the_row(path: Path) -> None:
    first, second = (flow(FRAME, **ASKED, ledger=path, dataset="flows").certificate for _ in range(2))
    assert first.ledger is not None and second.ledger is not None
    assert (first.ledger.position, second.ledger.position) == (1, 2)
    assert second.ledger.previous == first.ledger.head
    assert spent(path) == (2, 0.2)
    assert verify(first).valid
    assert verify(second, head=second.ledger.head).valid
    assert not verify(second, head=first.ledger.head).valid
    for certificate in (first, second):
        with Ledger(path) as ledger:
            found = ledger.verify(certificate.ledger.head)
            assert (found.valid, found.releases, found.recomputed, found.unchecked) == (True, 2, 1, ())
    plain = {**first.to_dict(), "ledger": None}
    plain["sha256"] = content_hash(plain)
    assert verify(plain).valid
    assert verify(plain, head=first.ledger.head).problems == (
        "the release was not charged to a ledger: the certificate names no row",
    )


@pytest.mark.slow
def test_a_row_of_another_flow_is_found_out(path: Path) -> None:
    raw = flow(FRAME, **ASKED, ledger=path, dataset="flows").certificate.to_dict()
    other = flow(FRAME, **{**ASKED, "tau": 0.05}, ledger=path, dataset="flows").certificate.to_dict()
    assert_other_rows_are_found_out(raw, other)


def test_the_charge_is_there_before_the_noise(path: Path) -> None:
    class Crash(SeededSampler):
        def gaussian(self, exact: list[float], scale: float) -> list[float]:
            assert spent(path) == (1, 0.1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flow(FRAME, **ASKED, sampler=Crash(1), ledger=path, dataset="flows")
    assert spent(path) == (1, 0.1)


@pytest.mark.slow
def test_three_times_a_third_fits_and_a_fourth_does_not(path: Path) -> None:
    """Taus are the decimals that were typed: in doubles .1 + .1 + .1 is more than .3."""

    class Never(SeededSampler):
        def gaussian(self, exact: list[float], scale: float) -> list[float]:
            raise AssertionError

    for _ in range(2):
        flow(FRAME, **ASKED, ledger=path, dataset="flows")
    with pytest.raises(BudgetError, match=r"spent 0\.2 of .* 0\.3, 0\.1 is left; .* needs 0\.15: .* with tau=0\.1$"):
        flow(FRAME, **{**ASKED, "tau": 0.15}, sampler=Never(1), ledger=path, dataset="flows")
    flow(FRAME, **ASKED, ledger=path, dataset="flows")
    with pytest.raises(BudgetError, match="no flow fits"):
        flow(FRAME, **ASKED, sampler=Never(1), ledger=path, dataset="flows")
    assert spent(path) == (3, 0.3)
    with Ledger(path) as ledger:
        assert ledger.verify().valid


def test_an_epsilon_and_a_total_variation_never_mix(path: Path, tmp_path: Path) -> None:
    asked = {"model": CHAIN, "column": "state", "epsilon": 0.1, "ledger": path}
    with pytest.raises(RefusedError, match="made with tau="):
        flow("no such file.csv", **ASKED, ledger=path, dataset="week")
    with pytest.raises(RefusedError, match="made with budget="):
        release("no such file.csv", **asked, query="histogram", dataset="flows")
    with pytest.raises(RefusedError, match="made with budget="):
        flip("no such file.csv", **asked, dataset="flows")
    with Ledger(path) as ledger:
        for kind in KINDS:
            if kind in ("window-redaction", "3r"):
                about = {"private": "row 7", "model": model_digest(CHAIN), "adversary": "bdp"}
                charge = Charge(kind=kind, dp_loss=1.0, longest=5, **about)
            elif kind == "transition-flow":
                continue
            else:
                charge = Charge(kind=kind, dp_loss=0.01, longest=5)
            with pytest.raises(RefusedError, match=f"kind {kind} spends epsilon"):
                ledger.charge("flows", charge)
        with pytest.raises(RefusedError, match="transition-flow spends total variation"):
            ledger.charge("week", of_flow(0.1))
        # Together with one that fits, neither is charged.
        with pytest.raises(RefusedError):
            ledger.charge_many([("flows", of_flow(0.1)), ("week", of_flow(0.1))])
        assert ledger.dataset("week").releases == 0
    assert spent(path) == (0, 0.0)


def of_flow(tau: float, lengths: tuple[tuple[int, int], ...] = ((80, 1),), **guarantee: Any) -> Charge:
    """The charge of a flow from CHAIN."""
    about = FlowBudget(**{"eta": 0.01, "tau": tau, **guarantee})
    transitions = sum((length - 1) * count for length, count in lengths)
    noise = our_noise(
        CHAIN.transition,
        transitions,
        eta=about.eta,
        tau=tau,
        privacy=Privacy(about.privacy),
        centre_only=about.centre_only,
    )
    return flow_charge(
        model=model_digest(CHAIN),
        guarantee=about,
        add=False,
        mechanism="flow-simplex",
        kappa=None,
        sigma=noise.sigma,
        lengths=lengths,
    )


def test_flows_of_a_data_set_make_one_guarantee_about_the_same_records(path: Path) -> None:
    asked = {"ledger": path, "dataset": "flows"}
    for change in ({"eta": 0.02}, {"privacy": "record"}, {"centre_only": True}):
        with pytest.raises(RefusedError, match=r"keeps its budget for eta=0\.01, privacy='joint'"):
            flow("no such file.csv", **{**ASKED, **change}, **asked)
    other = MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=["rest", "active"])
    with pytest.raises(RefusedError, match="a total is for one model"):
        flow("no such file.csv", **{**ASKED, "model": other}, **asked)
    with pytest.raises(LedgerError, match="no data set 'month'"):
        flow("no such file.csv", **ASKED, ledger=path, dataset="month")
    assert spent(path) == (0, 0.0)
    flow(FRAME, **ASKED, **asked)
    with pytest.raises(RefusedError, match="flows of the same records"):
        flow(FRAME.iloc[:40], **ASKED, **asked)
    assert spent(path) == (1, 0.1)


def test_in_a_file_and_on_a_server(place: str) -> None:
    with Ledger(place, create=True) as ledger:
        ledger.create("flows", model=CHAIN, budget=FlowBudget(tau=0.3, eta=0.01))
        ledger.charge("flows", of_flow(0.1))
        receipt = ledger.charge("flows", of_flow(0.1))
        with pytest.raises(BudgetError, match=r"with tau=0\.1$"):
            ledger.charge("flows", of_flow(0.2))
    with Ledger(place) as again:
        found = again.dataset("flows")
        assert (found.releases, found.spent_tau, found.head) == (2, 0.2, receipt.head)
        assert found.to_dict()["budget"]["kind"] == "total-variation"
        assert again.verify(receipt.head).valid


def test_data_sets_for_flows_that_cannot_be(tmp_path: Path) -> None:
    stuck = MarkovChain(transition=[[1.0, 0.0], [0.5, 0.5]], states=["a", "b"])
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        never = MarkovChain(transition=[[1.0, 0.0], [0.0, 1.0]], start=[0.5, 0.5])
        with pytest.raises(NotApplicableError, match="may never forget"):
            ledger.create("x", model=never, budget=FlowBudget(tau=0.1, eta=0.01))
        ledger.create("x", model=stuck, budget=FlowBudget(tau=0.1, eta=0.01))
        for bad in ({"tau": 1.0}, {"tau": 0.0}, {"eta": 1.0}, {"privacy": "none"}):
            with pytest.raises(ParameterError):
                FlowBudget(**{"tau": 0.1, "eta": 0.01, **bad})
        assert ledger.names() == ("x",)
    for bad_charge in ({"tau": None}, {"tau": 1.0}, {"kind": "dp"}):
        with pytest.raises(ParameterError):
            Charge(**{"kind": "transition-flow", "dp_loss": 1.0, "longest": 3, "tau": 0.1, **bad_charge})


@given(
    taus=st.lists(st.integers(1, 5000).map(lambda n: Fraction(n, 10000)), min_size=1, max_size=6),
    budget=st.integers(10, 900).map(lambda n: Fraction(n, 1000)),
)
def test_sums_of_taus_never_pass_the_budget(taus, budget, tmp_path_factory) -> None:
    with Ledger(tmp_path_factory.mktemp("l") / "books.db", create=True) as ledger:
        most = FlowBudget(tau=float(budget), eta=0.01)
        ledger.create("flows", model=CHAIN, budget=most)
        exact = Fraction(0)
        for tau in taus:
            fits = exact + tau <= budget
            try:
                ledger.charge("flows", of_flow(float(tau)))
            except BudgetError as error:
                assert not fits, error
            else:
                assert fits
                exact += tau
        found = ledger.dataset("flows")
        assert Fraction(repr(found.spent_tau)) == exact
        left = tau_left(most, found.spent_tau)
        assert Fraction(repr(left)) == budget - exact
        assert ledger.verify().valid
        assert found.to_dict()["left_tau"] == left


@given(a=st.floats(1e-9, 1.0), b=st.floats(1e-9, 1.0))
def test_sums_of_decimals_are_never_rounded_down(a: float, b: float) -> None:
    total, exact = add_taus(a, b), Fraction(repr(a)) + Fraction(repr(b))
    assert exact <= Fraction(repr(total)) <= exact * (1 + Fraction(1, 2**51))


@pytest.mark.parametrize("seed", range(3))
def test_flows_of_the_same_records_keep_the_sum_of_their_taus(seed: int) -> None:
    """By enumeration: two noisy flows of one path are as good as one with the noise of their weighted mean."""
    generator = np.random.default_rng([seed, 9])
    n, eta, taus = int(generator.integers(1, 6)), 0.05, generator.uniform(0.02, 0.25, size=2)
    centre = mixing(generator, 2)
    while dobrushin(centre) + 2 * eta >= 1:
        centre = mixing(generator, 2)
    start = random_distribution(generator, 2)
    for privacy in (Privacy.ORBIT, Privacy.RECORD):
        sigmas = [our_noise(centre, n, eta=eta, tau=float(t), privacy=privacy).sigma for t in taus]
        together = 1 / math.sqrt(sum(1 / s**2 for s in sigmas))
        kernels = others(centre, eta, generator)
        if privacy is Privacy.ORBIT:
            distributions = [
                (flow_distribution(centre, start, n), flow_distribution(kernel, start, n)) for kernel in kernels
            ]
        else:
            distributions = records(least_favourable(centre, eta), start, n)
        worst = max(total_variation(*pair, together) for pair in distributions)
        assert worst <= float(sum(taus)) + GRID


def test_total_variations_as_such_do_not_add_up() -> None:
    """Why the argument needs one coupling: each of two coins looks the same in both cases, and together they do not."""
    alike, opposite = {(0, 0): 0.5, (1, 1): 0.5}, {(0, 1): 0.5, (1, 0): 0.5}
    for place in (0, 1):
        sides = [sum(p for pair, p in distribution.items() if pair[place]) for distribution in (alike, opposite)]
        assert sides[0] == sides[1]
    assert sum(abs(alike.get(pair, 0) - opposite.get(pair, 0)) for pair in {*alike, *opposite}) / 2 == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c["facts"].update(sigma=0.001), "facts.sigma is 0.001; recomputed"),
        (lambda c: c.update(tau=0.01), "tau is 0.01; recomputed"),
        (lambda c: c["facts"]["guarantee"].update(eta=0.02), "the budget is for"),
        (lambda c: c["facts"].update(lengths=[[10, 1]]), "longest is 80; recomputed it is 10"),
        (lambda c: c["facts"].update(mechanism="poster-log", kappa=0.1), "facts.sigma is"),
        (lambda c: c["facts"].update(mechanism="flow-log"), "has a kappa above 0"),
    ],
)
def test_a_forger_who_mends_every_hash_is_found_by_the_charge(path: Path, change, reason: str) -> None:
    with Ledger(path) as ledger:
        ledger.charge("flows", of_flow(0.1))
        with ledger.store.writing() as session:
            ((content,),) = session.rows("SELECT content FROM ledger_problems")
            ((definition,),) = session.rows("SELECT definition FROM ledger_datasets WHERE name = 'flows'")
            ((created,),) = session.rows("SELECT created FROM ledger_entries")
            raw = json.loads(content)
            change(raw)
            forged = hash_chain.canonical_json(raw)
            ((identity,),) = list(session.rows("SELECT identity FROM ledger_entries"))
            row = hash_chain.link(hash_chain.digest(definition), 1, created, hash_chain.digest(forged), identity)
            session.run("UPDATE ledger_problems SET content = ?, sha256 = ?", forged, hash_chain.digest(forged))
            session.run("UPDATE ledger_entries SET problem = ?, hash = ?", hash_chain.digest(forged), row)
        problems = ledger.verify().problems
        assert any(reason in text for text in problems), problems


def test_a_ledger_of_both_kinds_is_exported_and_imported(path: Path, tmp_path: Path) -> None:
    from pufferdp.ledger.history import export_ledger, import_ledger, read_export

    flow(FRAME, **ASKED, ledger=path, dataset="flows")
    flip(FRAME, model=CHAIN, column="state", epsilon=0.5, ledger=path, dataset="week")
    with Ledger(path) as ledger:
        export_ledger(ledger, tmp_path / "e.json")
        before = [ledger.dataset(name) for name in ledger.names()]
    with Ledger(tmp_path / "again.db", create=True) as again:
        import_ledger(again, read_export(tmp_path / "e.json"))
        assert [again.dataset(name).to_dict() for name in again.names()] == [one.to_dict() for one in before]
        assert again.verify().valid
