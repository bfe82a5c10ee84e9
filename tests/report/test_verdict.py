"""The verdict of a plan: the first words in every medium, and true of the best mechanism."""

from __future__ import annotations

import math
import re
from html import unescape

import pytest

import pufferdp
from pufferdp.assess.comparison import PlainDp, comparison_of
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import CertificateError
from pufferdp.basics.words import number
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.verdict import answer_verdict
from pufferdp.report.html import report_html
from pufferdp.report.page import Figure
from pufferdp.report.pages.answers import plan_page, plan_verdict
from pufferdp.report.pages.leakage import multiplied
from pufferdp.report.text import terminal
from tests.report.examples import CHAIN


@pytest.mark.parametrize(
    ("query", "clip", "words"),
    [
        ("histogram", None, "every count is within {alpha} of the true count ({of_records} % of 500 records)."),
        ("count:active", None, "the count is within {alpha} of the true count ({of_records} % of 500 records)."),
        ("frequency", None, "every share is within {alpha} of the true share ({of_one} % of the whole)."),
        ("sum", (0, 4), "the sum is within {alpha} of the true sum ({of_sum} % of its range)."),
        ("mean", (0, 4), "the mean is within {alpha} of the true mean ({of_mean} % of its range)."),
    ],
)
def test_the_error_is_that_of_the_best_mechanism(query: str, clip: tuple[float, float] | None, words: str) -> None:
    model = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    plan = pufferdp.plan(model, query, epsilon=1, length=500, clip=clip)
    assert plan.best.accuracy is not None
    alpha = plan.best.accuracy.alpha
    shares = {"of_records": alpha / 500, "of_one": alpha, "of_sum": alpha / 2000, "of_mean": alpha / 4}
    filled = words.format(alpha=number(alpha), **{name: number(round(100 * s, 1)) for name, s in shares.items()})
    assert plan_verdict(plan) == (f"Accurate enough to be useful: with 95 % probability {filled}",)
    assert plan.to_dict()["verdict"]["sentence"] == plan_verdict(plan)[0]


def test_it_comes_first_in_every_medium() -> None:
    plan = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=500)
    (verdict,) = plan_verdict(plan)
    assert str(plan).replace("\n", " ").startswith(verdict)
    shown = re.sub(r"<[^>]*>", "", unescape(plan._repr_html_()))
    assert shown.startswith(f"Plan: histogram{verdict}")
    assert f'</h1>\n<p class="verdict">{verdict}</p>' in report_html(plan)


@pytest.mark.parametrize("query", ["histogram", "frequency", "count:active", "sum", "mean"])
def test_an_error_of_half_the_range_is_not_useful(query: str) -> None:
    clip = (0.0, 1.0) if query in ("sum", "mean") else None
    plan = pufferdp.plan(CHAIN, query, epsilon=0.001, length=20, clip=clip)
    (sentence,) = plan_verdict(plan)
    assert sentence.startswith("Not useful at this ε: the 95 % error bound (")
    assert sentence.endswith(". Raise ε or use more records.")
    assert plan.to_dict()["verdict"]["useful"] is False


@pytest.mark.parametrize(
    ("alpha", "words"),
    [
        (1.0, "Accurate enough to be useful: with 95 % probability the count is within 1 of the true count (25 % of 4"),
        (2.0, "Not useful at this ε: the 95 % error bound (2) is 50 % of the largest possible count (4)."),
        (4.0, "Not useful at this ε: the 95 % error bound (4) is as large as the largest possible count (4)."),
        (5.0, "Not useful at this ε: the 95 % error bound (5) is larger than the largest possible count (4)."),
    ],
)
def test_the_error_is_compared_with_the_largest_count(alpha: float, words: str) -> None:
    found = answer_verdict("count:1", numbers=1, lipschitz=1.0, records=4, alpha=alpha, beta=0.05)
    assert found.sentence.startswith(words)
    assert found.useful == (alpha < 2)


def test_a_release_that_is_not_useful_says_so_first_and_is_not_rejected() -> None:
    made = pufferdp.release(["rest", "active"] * 10, model=CHAIN, query="count:active", epsilon=0.01)
    assert str(made).startswith("Not useful at this ε: ")
    assert made.to_dict()["verdict"]["useful"] is False
    assert made.verdict.sentence in unescape(report_html(made))
    output = made.to_dict()
    assert pufferdp.verify(output).valid
    output["verdict"]["useful"] = True
    with pytest.raises(CertificateError, match="useful is true; it should be false"):
        pufferdp.verify(output)


def test_an_answer_of_unknown_range_has_an_error_bound_and_no_verdict() -> None:
    query = pufferdp.Query.of_function(lambda chains: 3.0, 1.0)
    made = pufferdp.release(["rest", "active"] * 10, model=CHAIN, query=query, epsilon=1)
    assert made.verdict.useful is None
    assert str(made).startswith("Error bound: with 95 % probability the number is within ")


def test_a_hopeless_problem_is_not_useful_and_the_warning_says_what_would_help() -> None:
    plan = pufferdp.plan(pufferdp.AnyGroups(largest=100), "count:1", epsilon=1, lengths=[100])
    (verdict,) = plan_verdict(plan)
    assert verdict.startswith("Not useful at this ε: ")
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
    assert text.startswith("Not possible: no mechanism gives this guarantee here.\nAsk another query,")
    assert "2 mechanisms do not apply: see text(verbose=True) or to_dict() for the reasons." in text
    assert plan.to_dict()["best"] is None
    assert plan.to_dict()["verdict"] is None
    assert "Not possible" in report_html(plan)


def test_a_budget_that_has_no_room_is_a_no() -> None:
    plan = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=500)
    applying = [c.mechanism for c in plan.candidates if c.applies]
    assert plan_verdict(plan, refused=applying)[0].startswith("Over budget: every mechanism that applies spends more")
    second = plan.candidate(applying[1])
    assert second.accuracy is not None
    assert f"within {number(second.accuracy.alpha)} of" in plan_verdict(plan, refused=applying[:1])[0]


@pytest.mark.parametrize(
    ("tau", "first"),
    [(0.01, "Not useful at this τ: the model's own flow"), (0.9, "Accurate enough to be useful: with")],
)
def test_a_flow_is_measured_by_what_the_model_alone_would_do(tau: float, first: str) -> None:
    plan = pufferdp.plan_flow(CHAIN, eta=0.001, tau=tau, length=5000)
    assert plan.problem.trial.guess is not None
    assert str(plan).startswith(first)
    assert plan.to_dict()["verdict"]["useful"] is (plan.problem.trial.guess > plan.best.calibration.expected_l1_error)


def test_a_table_has_a_verdict_on_each_query() -> None:
    plan = pufferdp.plan_table(CHAIN, ["histogram", "count:active"], epsilon=1, length=500)
    text = " ".join(str(plan).partition("\n\n")[0].split())
    assert text.startswith("Accurate enough to be useful: with 95 % probability every count (histogram) is within")
    assert "the count (count:active) is within" in text
    assert [verdict["query"] for verdict in plan.to_dict()["verdicts"]] == ["histogram", "count:active"]


def test_a_quantile_is_judged_by_ranks_and_what_is_not_useful_comes_first() -> None:
    """The median of a day of minutes: the error in ranks is more than half of the day's records."""
    slow = pufferdp.MarkovChain(
        transition=[[0.9, 0.1], [0.1, 0.9]], states=["low", "high"], values=[0.0, 1.0], step="1min"
    )
    plan = pufferdp.plan_table(slow, ["mean", "median"], per="day", epsilon=1, length=14_400, split=[50, 1])
    mean, median = plan.verdicts
    assert "the mean of a group of 1,440 records is within" in mean.sentence
    assert mean.largest is not None
    least = math.ceil(1440 * mean.error / (mean.largest / 2))
    assert mean.sentence.endswith(f" Not useful in groups of fewer than {least:,} records.")
    assert (median.largest, median.useful) == (1440, False)
    first = str(plan).partition("\n\n")[0]
    assert " ranks) is " in " ".join(first.split())
    assert first.startswith("Not useful at this ε: the 95 % error bound of median in a group")


def test_a_released_table_is_judged_and_a_changed_verdict_is_found() -> None:
    made = pufferdp.release(["rest", "active"] * 10, model=CHAIN, query=["histogram", "frequency"], epsilon=0.05)
    assert str(made).startswith("Not useful at this ε: the 95 % error bound of histogram (")
    output = made.to_dict()
    assert [verdict["useful"] for verdict in output["verdicts"]] == [False, False]
    assert pufferdp.verify(output).valid
    output["verdicts"][0]["useful"] = True
    with pytest.raises(CertificateError, match="useful is true; it should be false"):
        pufferdp.verify(output)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["histogram", "count:a"])
def test_a_bound_for_any_algorithm_is_not_worded_as_what_this_noise_leaks(query: str) -> None:
    chain = pufferdp.MarkovChain(transition=[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], states=["a", "b", "c"])
    plan = pufferdp.plan(chain, query, epsilon=1, length=30)
    comparison = comparison_of(plan)
    assert isinstance(comparison, PlainDp)
    assert comparison.leakage is not None
    section = next(s for s in plan_page(plan, comparison).sections if s.title == "Comparison with standard DP noise")
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
        "Under this model, correlation amplifies the privacy loss of any DP algorithm by at most 4.83× (odds bound); "
        "for example, a DP ε of 0.01 leaks at most 0.0318 (tight bound)."
    )
    assert multiplied({"odds": 4.83}).endswith("4.83× (odds bound).")
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
