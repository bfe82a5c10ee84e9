"""Natural but wrong calls from Python: one sentence in Python's words, never an error from inside."""

import re
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

import pufferdp
from pufferdp import MarkovChain, PufferdpError, Series

VALUES = ["rest", "rest", "active"] * 20
CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["rest", "active"])
FRAME = pd.DataFrame({"state": VALUES, "time": range(len(VALUES))})
FLAG = re.compile(r"(?<![\w-])--[a-z]")


def release(data=VALUES, **changes):
    return pufferdp.release(data, **{"model": CHAIN, "query": "histogram", "epsilon": 1, **changes})


CALLS = {
    "a certificate that is not there": lambda: pufferdp.verify("mine.json"),
    "a model file that is not there": lambda: release(model="x.json"),
    "a number for a certificate": lambda: pufferdp.verify(3),
    "a list for a certificate": lambda: pufferdp.verify([1, 2]),
    "a table that is not there": lambda: pufferdp.verify(release(query=["histogram"]), table="none.csv"),
    "a matrix for a model": lambda: release(model=[[0.9, 0.1], [0.3, 0.7]]),
    "no model": lambda: release(model=None),
    "the class for a model": lambda: release(model=MarkovChain),
    "an array for a model": lambda: pufferdp.plan(np.eye(2), "histogram", epsilon=1, length=5),
    "a dict that is no model": lambda: release(model={"transition": [[1]]}),
    "text for epsilon": lambda: release(epsilon="one"),
    "no epsilon": lambda: release(epsilon=None),
    "a list for epsilon": lambda: release(epsilon=[1, 2]),
    "a negative epsilon": lambda: release(epsilon=-1),
    "a number for a query": lambda: release(query=5),
    "an unknown query": lambda: release(query="averages"),
    "an unknown state": lambda: release(query="count:sleep"),
    "a number in a list of queries": lambda: release(query=["histogram", 5]),
    "no query": lambda: release(query=None),
    "an unknown column": lambda: release(FRAME, column="stat"),
    "no column": lambda: release(FRAME),
    "a number for a column": lambda: release(FRAME, column=0),
    "an unknown order": lambda: release(FRAME, column="state", order="when"),
    "a number for an order": lambda: release(FRAME, column="state", order=1),
    "a list for by": lambda: release(FRAME, column="state", by=["state"]),
    "words for bins": lambda: release(bins=["low", "high"]),
    "falling bins": lambda: release([0.5], bins=[2, 1, 0]),
    "one number for bins": lambda: release([0.5], bins=3),
    "a list for restart": lambda: release(FRAME, column="state", order="time", restart=[8]),
    "words for restart": lambda: release(FRAME, column="state", order="time", restart="eight hours"),
    "a list for first": lambda: release(FRAME, column="state", order="time", first=[1]),
    "an unknown word for missing": lambda: release(missing="drop"),
    "an unknown adversary": lambda: release(adversary="everyone"),
    "a number for an adversary": lambda: release(adversary=3),
    "one number for clip": lambda: release([0.5, 1.5], query="sum", clip=3),
    "text for clip": lambda: release([0.5, 1.5], query="sum", clip="ab"),
    "data that are a number": lambda: release(5, column="state"),
    "no data": lambda: release(None, column="state"),
    "a file that is not there": lambda: release("week.csv", column="state"),
    "an empty list": lambda: release([]),
    "columns of other lengths": lambda: release({"a": [1], "b": [1, 2]}, column="a"),
    "a table of an array": lambda: release(np.zeros((3, 2))),
    "a set for data": lambda: release({"rest"}, column="state"),
    "states that the model does not know": lambda: release(["rest", "sleep"]),
    "a dataset without a ledger": lambda: release(dataset="week"),
    "a ledger without a dataset": lambda: release(ledger="budget.db"),
    "a number for a ledger": lambda: release(ledger=3, dataset="week"),
    "an unknown mechanism": lambda: release(mechanism="magic"),
    "text for beta": lambda: release(beta="small"),
    "a number for a unit that is none": lambda: release(unit=1.5),
    "words for a length": lambda: pufferdp.plan(CHAIN, "histogram", epsilon=1, length="long"),
    "no length": lambda: pufferdp.plan(CHAIN, "histogram", epsilon=1),
    "text for lengths": lambda: pufferdp.plan(CHAIN, "histogram", epsilon=1, lengths="3,x"),
    "a number for lengths": lambda: pufferdp.plan(CHAIN, "histogram", epsilon=1, lengths=3),
    "neither loss nor target": lambda: pufferdp.leakage_of(CHAIN, length=5),
    "both loss and target": lambda: pufferdp.leakage_of(CHAIN, length=5, dp_epsilon=1, target=1),
    "text for a loss": lambda: pufferdp.leakage_of(CHAIN, length=5, dp_epsilon="x"),
    "rows of a chain that do not add up": lambda: MarkovChain(transition=[[0.9, 0.2], [0.3, 0.7]]),
    "text for a chain": lambda: MarkovChain(transition="x"),
    "nothing for a chain": lambda: MarkovChain(transition=None),
    "a number for states": lambda: MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=2),
    "a list for a start": lambda: MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], start=[1]),
    "no private rows": lambda: pufferdp.redact(FRAME, column="state", model=CHAIN, private=None, epsilon=1),
    "a private row that is not there": lambda: pufferdp.redact(
        FRAME, column="state", model=CHAIN, private=[9999], epsilon=1
    ),
    "a file for a frame": lambda: pufferdp.flip(FRAME, column="state", model=CHAIN, epsilon=8, out="x.csv"),
    "epsilon for a flow": lambda: pufferdp.flow(VALUES, model=CHAIN, eta="x", tau=0.1),
    "a series in a series": lambda: Series(Series(VALUES)),
    "an option beside a series": lambda: release(Series(VALUES, "state"), column="state"),
    "a model that is none to save": lambda: pufferdp.save_model("x", "y.json"),
    "a belief that is none": lambda: pufferdp.robustness(CHAIN, 5, epsilon=1),
    "a number for a stream": lambda: pufferdp.stream_budget(CHAIN, "much"),
    "true for epsilon": lambda: release(epsilon=True),
    "a series for epsilon": lambda: release(epsilon=pd.Series([1.0, 2.0])),
    "text for a belief": lambda: release(FRAME, column="state", independent="yes"),
    "a set for clip": lambda: release([0.5, 1.5], query="sum", clip={1, 2}),
    "a number for per": lambda: release(FRAME, column="state", order="time", per=3),
    "text for split": lambda: release(query=["histogram", "count:rest"], split="1,2"),
    "a number for secrets": lambda: release(adversary="pufferfish", secrets=3),
    "a seed for a sampler": lambda: release(sampler=5),
    "true for progress": lambda: release(progress=True),
    "a release for data": lambda: release(release(), column="state"),
    "a generator for data": lambda: release(value for value in VALUES),
    "an address for data": lambda: release("https://example.com/week.csv", column="state"),
    "a number for a model file": lambda: pufferdp.load_model(3),
    "nothing for a model file": lambda: pufferdp.load_model(None),
    "nowhere to save a model": lambda: pufferdp.save_model(CHAIN, None),
    "nowhere to save a release": lambda: release().save(None),
    "a number for a report": lambda: pufferdp.write_report(release(), 3),
    "a number for a certificate file": lambda: pufferdp.read_certificate(3),
    "a number for a secrets file": lambda: pufferdp.load_secrets(3),
    "several queries for a plan": lambda: pufferdp.plan(CHAIN, ["histogram", "sum"], epsilon=1, length=5),
    "a number for the query of a leakage": lambda: pufferdp.leakage_of(CHAIN, length=5, dp_epsilon=1, query=3),
    "a number of columns to keep": lambda: pufferdp.redact(
        FRAME, column="state", order="time", model=CHAIN, private=3, epsilon=1, keep=3
    ),
    "an earlier redaction that is not there": lambda: pufferdp.redact(
        FRAME, column="state", order="time", model=CHAIN, private=3, epsilon=1, after="x.json", published=FRAME
    ),
    "no certificate of a flipped series": lambda: pufferdp.estimate([FRAME], None),
    "a release for a flipped series": lambda: pufferdp.estimate([FRAME], release()),
    "a list for a clock": lambda: pufferdp.fit(FRAME, column="state", order="time", clock=[1]),
    "a number of states": lambda: pufferdp.fit(VALUES, states=2),
    "one name for states": lambda: pufferdp.fit(VALUES, states="rest"),
    "a list of models for a fleet": lambda: pufferdp.release_fleet(
        FRAME, models=[CHAIN], column="state", by="time", query="histogram", epsilon=1
    ),
    "one model for a fleet": lambda: pufferdp.release_fleet(
        FRAME, models=CHAIN, column="state", by="time", query="histogram", epsilon=1
    ),
    "a fleet of nobody": lambda: pufferdp.release_fleet(
        FRAME, models={"a": CHAIN}, column="state", query="histogram", epsilon=1
    ),
    "text for flips": lambda: pufferdp.attack_file(FRAME, model=CHAIN, column="state", rho="x"),
    "names for state numbers": lambda: pufferdp.attack_series(VALUES, None, model=CHAIN, channel=[0.2]),
    "numbers for a class": lambda: pufferdp.MarkovClass([1, 2]),
    "nothing for a network": lambda: pufferdp.BayesianNetwork(nodes=None),
    "a kind of query that there is not": lambda: pufferdp.Query.parse("average"),
    "a function query without its function": lambda: pufferdp.Query.of_function(None, 1.0),
    "nothing for the place of a ledger": lambda: pufferdp.Ledger(None),
    "a ledger that is not there": lambda: pufferdp.Ledger("books.db"),
    "one value for data": lambda: release(np.array(3)),
    "a folder for data": lambda: release(".", column="state"),
    "a count of nothing": lambda: release(query="count"),
    "no query for a table": lambda: pufferdp.plan_table(CHAIN, None, epsilon=1, length=5),
    "a number to parse": lambda: pufferdp.Query.parse(3),
    "words for the steps of a budget": lambda: pufferdp.stream_budget(CHAIN, 1).to_frame("four"),
    "text for a switch": lambda: pufferdp.fit(VALUES, independent="yes"),
    "a mask for private rows": lambda: pufferdp.redact(
        FRAME, column="state", model=CHAIN, private=FRAME.state == "active", epsilon=1
    ),
    "one row for a chain": lambda: MarkovChain([0.9, 0.1]),
    "words for a memory": lambda: pufferdp.fit(VALUES, memory="two"),
    "a number for groups": lambda: release(FRAME, column="state", order="time", per="state", groups=3),
    "a dict for bins": lambda: release([0.5], bins={0: 1}),
    "nothing to fit": lambda: pufferdp.fit(None),
    "an empty list to fit": lambda: pufferdp.fit([]),
    "nothing for a list of states": lambda: pufferdp.fit(VALUES, states=[None, "rest"]),
    "the same state twice": lambda: pufferdp.fit(VALUES, states=["rest", "rest"]),
    "a negative unit": lambda: release(FRAME, column="state", order="time", unit=timedelta(days=-1)),
    "no flips": lambda: pufferdp.attack_file(FRAME, model=CHAIN, column="state", rho=None),
    "a word for a private row": lambda: pufferdp.redact(
        FRAME, column="state", order="time", model=CHAIN, private="noon", epsilon=1
    ),
    "a word for a charge": lambda: pufferdp.Ledger("new.db", create=True).charge("week", "much"),
    "a query with a capital": lambda: release(query="Histogram"),
    "two queries in one text": lambda: release(query="histogram,mean"),
    "a csv for a ledger": lambda: release(ledger=__file__, dataset="week"),
    "a mechanism by half its name": lambda: release(mechanism="quilt"),
    "members as rows": lambda: pufferdp.Pedigree(members=[{"id": "1"}], major_allele_frequency=0.7),
    "not a number for epsilon": lambda: release(epsilon=float("nan")),
    "half a million years": lambda: release(FRAME, column="state", order="time", first="500000-01-01"),
    "a frame for a length": lambda: pufferdp.plan(CHAIN, "histogram", epsilon=1, length=FRAME),
    "model and query swapped": lambda: pufferdp.plan("histogram", CHAIN, epsilon=1, length=5),
    "a confidence in percent": lambda: pufferdp.fit(VALUES, confidence=95),
}


@pytest.mark.parametrize("call", CALLS, ids=list(CALLS))
def test_a_wrong_call_is_answered_in_a_sentence(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PufferdpError) as caught:
        CALLS[call]()
    message = str(caught.value)
    assert message and "\n" not in message and len(message) < 500
    assert not FLAG.search(message), message
    assert "object has no attribute" not in message and "Traceback" not in message


WORDS = {
    "a number for groups": "groups is 3; it must be names, such as ['a', 'b'], or the path of a file with one in a "
    "line",
    "a dict for bins": "bins is a dict; it must be rising edges such as [0, 200, 400], or text such as 'width:200'",
    "nothing to fit": "the data is None; it must be a file, a frame, a table or a list of values",
    "an empty list to fit": "the data has no rows; at least one record is needed",
    "the same state twice": "the states are rest, rest; they must be one or more different names",
    "a negative unit": "unit is datetime.timedelta(days=-1); it must be longer than no time at all",
    "no flips": "rho is None; it must be probabilities of a flip",
    "a word for a private row": "private is 'noon'; it must be a row such as 100, rows such as 100-111, or times such "
    "as 2024-05-03T08:00..2024-05-03T09:00",
    "a word for a charge": "the charge is a str; it must be a Charge",
    "members as rows": "members holds {'id': '1'}; it must be a list of members, each a Member with an id",
}


@pytest.mark.parametrize("call", WORDS, ids=list(WORDS))
def test_the_sentence_is_about_what_was_given(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PufferdpError) as caught:
        CALLS[call]()
    assert str(caught.value) == WORDS[call]


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("Histogram", "did you mean 'histogram'?"),
        ("COUNT:rest", "did you mean 'count:rest'?"),
        ("freqency", "did you mean 'frequency'?"),
        ("histogram,mean", "ask for several one by one, without commas"),
        ("wavelets", "transitions, cross, flow"),
    ],
)
def test_a_query_by_nearly_its_name_is_pointed_out(query, hint):
    with pytest.raises(PufferdpError) as caught:
        release(query=query)
    assert str(caught.value).endswith(hint)


def test_no_other_query_is_taken_for_the_one_that_was_meant():
    with pytest.raises(PufferdpError) as caught:
        pufferdp.leakage_of(CHAIN, length=5, dp_epsilon=1, query="quantile:.5")
    assert str(caught.value).endswith("histogram, frequency, sum, mean, variance, flow")


def test_numbers_name_states_as_well():
    column = [0, 1, 1, 0, 1] * 6
    assert pufferdp.fit(column, states=[1, 0]).model.states == ("1", "0")
    named = pufferdp.fit(column, states=np.array([0, 1])).model
    assert named.states == ("0", "1")
    assert (named.transition == pufferdp.fit(column, states=["0", "1"]).model.transition).all()


def test_there_are_forty():
    assert len(CALLS) >= 40


def test_the_one_thing_a_chain_or_a_class_needs_goes_without_its_name():
    assert pufferdp.MarkovClass([MarkovChain([[0.9, 0.1], [0.3, 0.7]])]).labels == ("0", "1")


def test_nothing_is_charged_where_nobody_can_draw(tmp_path):
    with pufferdp.Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, budget=2.0)
        with pytest.raises(PufferdpError, match="sampler"):
            release(ledger=ledger, dataset="week", sampler=5)
        assert ledger.dataset("week").to_dict()["spent_dp"] == 0
