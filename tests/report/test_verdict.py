"""The verdict of a plan: the first words in every medium, and true of the best mechanism."""

from __future__ import annotations

import re
from html import unescape

import pytest

import pufferdp
from pufferdp.assess.comparison import PlainDp, comparison_of
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.report.html import report_html
from pufferdp.report.page import Figure
from pufferdp.report.pages.answers import plan_page, plan_verdict
from pufferdp.report.pages.leakage import multiplied
from pufferdp.report.text import terminal
from tests.report.examples import CHAIN


@pytest.mark.parametrize(
    ("query", "clip", "words"),
    [
        ("histogram", None, "You may: each number is off by less than {alpha}, {of_records} % of 500 records,"),
        ("count:active", None, "You may: the number is off by less than {alpha}, {of_records} % of 500 records,"),
        ("frequency", None, "You may: each number is off by less than {alpha}, {of_one} % of the whole,"),
        ("sum", (0, 4), "You may: the number is off by less than {alpha}, {of_sum} % of its range,"),
        ("mean", (0, 4), "You may: the number is off by less than {alpha}, {of_mean} % of its range,"),
    ],
)
def test_the_error_is_that_of_the_best_mechanism(query: str, clip: tuple[float, float] | None, words: str) -> None:
    model = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    plan = pufferdp.plan(model, query, epsilon=1, length=500, clip=clip)
    assert plan.best.accuracy is not None
    alpha = plan.best.accuracy.alpha
    shares = {"of_records": alpha / 500, "of_one": alpha, "of_sum": alpha / 2000, "of_mean": alpha / 4}
    filled = words.format(alpha=number(alpha), **{name: number(round(100 * s, 1)) for name, s in shares.items()})
    assert plan_verdict(plan) == (f"{filled} with probability 0.95.",)


def test_it_comes_first_in_every_medium() -> None:
    plan = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=500)
    (verdict,) = plan_verdict(plan)
    assert str(plan).replace("\n", " ").startswith(verdict)
    shown = re.sub(r"<[^>]*>", "", unescape(plan._repr_html_()))
    assert shown.startswith(f"Plan: histogram{verdict}")
    assert f'</h1>\n<p class="verdict">{verdict}</p>' in report_html(plan)


@pytest.mark.parametrize("query", ["histogram", "frequency", "count:active", "sum", "mean"])
def test_an_error_of_half_the_range_says_very_little(query: str) -> None:
    clip = (0.0, 1.0) if query in ("sum", "mean") else None
    first, advice = plan_verdict(pufferdp.plan(CHAIN, query, epsilon=0.001, length=20, clip=clip))
    assert first.startswith("You may, but it would say very little: ")
    assert advice == "Raise epsilon, take more records, or ask for less."


def test_a_hopeless_problem_says_very_little_and_the_warning_what_would_help() -> None:
    plan = pufferdp.plan(pufferdp.AnyGroups(largest=100), "count:1", epsilon=1, lengths=[100])
    (verdict,) = plan_verdict(plan)
    assert verdict.startswith("You may, but it would say very little: ")
    assert "What would help" in str(plan)


def test_a_small_error_is_not_rounded_to_none() -> None:
    plan = pufferdp.plan(CHAIN, "count:active", epsilon=5, length=1_000_000)
    assert "less than 0.1 % of 1,000,000 records" in plan_verdict(plan)[0]


def test_where_nothing_applies_it_says_so_and_what_to_do() -> None:
    problem = Problem(
        model=CHAIN, query=Query.parse("histogram"), lengths=((500, 1),), epsilon=1, adversary=Adversary.BDP
    )
    plan = plan_problem(problem, only=["gk16", "wasserstein"])
    text = terminal(plan_page(plan))
    assert text.startswith("You may not: no mechanism keeps this promise here.\nAsk another query,")
    assert "2 mechanisms do not apply: see text(verbose=True) or to_dict() for the reasons." in text
    assert plan.to_dict()["best"] is None
    assert "You may not" in report_html(plan)


def test_a_budget_that_has_no_room_is_a_no() -> None:
    plan = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=500)
    applying = [c.mechanism for c in plan.candidates if c.applies]
    assert plan_verdict(plan, refused=applying)[0].startswith("You may not: every mechanism that applies spends more")
    second = plan.candidate(applying[1])
    assert second.accuracy is not None
    assert f"less than {number(second.accuracy.alpha)}," in plan_verdict(plan, refused=applying[:1])[0]


@pytest.mark.parametrize(
    ("tau", "first"), [(0.01, "You may, but it would say very little: each share may"), (0.9, "You may: each share is")]
)
def test_a_flow_is_measured_by_what_the_model_alone_would_do(tau: float, first: str) -> None:
    plan = pufferdp.plan_flow(CHAIN, eta=0.001, tau=tau, length=5000)
    assert plan.problem.trial.guess is not None
    alpha = plan.to_dict()["candidates"][0]["accuracy"]["alpha"]
    assert str(plan).startswith(first)
    assert number(alpha) in str(plan).partition("\n\n")[0]


def test_a_table_has_the_error_of_each_query() -> None:
    text = str(pufferdp.plan_table(CHAIN, ["histogram", "count:active"], epsilon=1, length=500))
    assert text.startswith("You may: in each group the numbers are off by less than ")
    assert "(histogram)" in text.partition("\n\n")[0]
    assert "(count:active)" in text.partition("\n\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("query", ["histogram", "count:a"])
def test_a_bound_for_any_algorithm_is_not_worded_as_what_this_noise_leaks(query: str) -> None:
    chain = pufferdp.MarkovChain(transition=[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], states=["a", "b", "c"])
    plan = pufferdp.plan(chain, query, epsilon=1, length=30)
    comparison = comparison_of(plan)
    assert isinstance(comparison, PlainDp)
    assert comparison.leakage is not None
    section = next(s for s in plan_page(plan, comparison).sections if s.title == "What leaks otherwise")
    words = str(section.blocks[0])
    known = comparison.leakage.exact is not None
    assert known == (query == "count:a")
    assert ("the same noise leaks" in words) == known
    assert ("the bound for any algorithm is" in words) == (not known)
    assert ("How much of it this noise leaks is not computed here." in words) == (not known)


def test_a_flow_says_which_error_is_of_each_share_and_which_of_all():
    chain = pufferdp.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=["rest", "active"])
    done = pufferdp.flow(["rest", "rest", "active"] * 40, model=chain, eta=0.01, tau=0.3)
    content = done.certificate.to_dict()
    assert content["accuracy"]["alpha"] < content["expected_l1_error"]  # of one share, and of all four
    assert not re.search(r"(?<!\S)--[a-z]", str(done))
    text = " ".join(report_html(done).split())
    assert "every share errs by less than" in text
    assert "errors of all shares together are below" not in text


def captions(plan: object) -> list[str]:
    blocks = [block for section in plan_page(plan).sections for block in section.blocks]
    return [block.caption for block in blocks if isinstance(block, Figure)]


def test_stripes_are_explained_where_there_are_some() -> None:
    striped = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=50)
    assert captions(striped) == ["Striped: a mechanism that does not apply."]
    plain = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=50, adversary="dp")
    assert captions(plain) == [""]


def test_what_a_small_epsilon_becomes_names_the_curve_of_each_number() -> None:
    assert multiplied({"odds": 4.83, "tight": 3.18}) == (
        "Correlation multiplies a small epsilon by at most 4.83 (odds curve, any DP algorithm). "
        "Here an epsilon of 0.01 becomes at most 0.0318 (tight curve)."
    )
    assert multiplied({"odds": 4.83}).endswith("4.83 (odds curve, any DP algorithm).")
    assert multiplied({}) == ""


def test_text_fits_a_narrow_terminal_and_is_the_same_in_every_file(monkeypatch):
    chain = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["resting", "active"])
    made = pufferdp.release(["resting", "active"] * 50, model=chain, query="histogram", epsilon=1)
    planned = pufferdp.plan(chain, "histogram", epsilon=1, length=2016)
    wide = str(made)
    assert max(map(len, wide.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    assert str(made) == wide  # stdout is no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for text in (str(made), planned.text(verbose=True), planned.chart()):
        assert max(map(len, text.splitlines())) <= 80, text
