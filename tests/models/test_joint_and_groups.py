"""Tables of outcomes and exchangeable groups, against sums over everything that can happen."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from pufferdp.basics.errors import ModelError
from pufferdp.models.files.json import load_model, model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from tests.models.test_network import questions, summed
from tests.strategies import SEEDS, groups, tables

JOINT = {
    "type": "joint",
    "values": [0, 1],
    "outcomes": [{"records": [0, 1, 1], "probability": 0.2}, {"records": [1, 0, 0], "probability": 0.8}],
}
GROUPS = {"type": "groups", "sizes": [2, 1], "positives": [[0.2, 0.3, 0.5], [0.4, 0.6]]}


def filled(table):
    """The joint distribution of a table as an array."""
    distribution = np.zeros((len(table.states),) * len(table.names))
    for row, p in zip(table.listed, table.probabilities, strict=True):
        distribution[tuple(row)] += p
    return distribution


def spread(model):
    """The joint distribution of groups as an array: a group's ones are spread evenly over its members."""
    distribution = np.ones(())
    for m, ones in zip(model.group_sizes, model.positives, strict=True):
        part = np.zeros((2,) * m)
        for outcome in itertools.product((0, 1), repeat=m):
            j = sum(outcome)
            part[outcome] = ones[j] * math.factorial(j) * math.factorial(m - j) / math.factorial(m)
        distribution = np.multiply.outer(distribution, part)
    return distribution


def listing(model):
    rows, distribution = model.outcomes()
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
    return {tuple(row): p for row, p in zip(rows.tolist(), distribution.tolist(), strict=True)}


@pytest.mark.parametrize(("models", "brute"), [(tables(), filled), (groups(), spread)], ids=["tables", "groups"])
def test_distributions_against_enumeration(models, brute):
    @given(model=models, seed=SEEDS)
    def check(model, seed):
        distribution = brute(model)
        assert distribution.sum() == pytest.approx(1)
        records, evidence = questions(seed, distribution.shape)
        found = model.joint(records, evidence)
        assert found.shape == tuple(distribution.shape[i] for i in records)
        assert found == pytest.approx(summed(distribution, records, evidence), abs=1e-12)
        names = [model.records[i] for i in records]
        known = {model.records[i]: [model.domains[i][x] for x in states] for i, states in evidence.items()}
        total = summed(distribution, [], evidence)
        assert model.probability(known) == pytest.approx(float(total), abs=1e-12)
        if total > 0:
            expected = summed(distribution, records, evidence) / total
            assert model.distribution(*names, given=known) == pytest.approx(expected, abs=1e-9)
        assert listing(model) == pytest.approx(
            {tuple(int(x) for x in row): float(distribution[tuple(row)]) for row in np.argwhere(distribution > 0)}
        )

    check()


@pytest.mark.parametrize("models", [tables(), groups()], ids=["tables", "groups"])
def test_a_file_gives_back_the_model(models):
    @given(model=models)
    def check(model):
        again = model_from_dict(json.loads(json.dumps(model_to_dict(model))))
        assert type(again) is type(model)
        assert (again.records, again.domains, again.values) == (model.records, model.domains, model.values)
        assert model_digest(again) == model_digest(model)
        assert repr(again) == repr(model)

    check()


@given(table=tables(), seed=SEEDS)
def test_a_table_given_what_is_known(table, seed):
    distribution = filled(table)
    _, evidence = questions(seed, distribution.shape)
    known = {table.records[i]: [table.domains[i][x] for x in states] for i, states in evidence.items()}
    left = summed(distribution, range(distribution.ndim), evidence)
    if left.sum() > 0:
        conditioned = table.given(known)
        assert filled(conditioned) == pytest.approx(left / left.sum(), abs=1e-12)
        assert (conditioned.records, conditioned.values) == (table.records, table.values)
    else:
        with pytest.raises(ModelError, match="has probability 0"):
            table.given(known)


@given(table=tables())
def test_only_records_that_vary_are_in_the_component(table):
    possible = [row for row, p in zip(table.listed.tolist(), table.probabilities, strict=True) if p > 0]
    varying = tuple(i for i in range(len(table.records)) if len({row[i] for row in possible}) > 1)
    expected = {(i,) for i in range(len(table.records)) if i not in varying} | ({varying} if varying else set())
    assert set(table.components) == expected
    assert len(table.components) == len(expected)


def test_what_a_table_says_of_itself(tmp_path):
    table = model_from_dict({**JOINT, "records": ["a", "b", 3], "fitted": {"records": 9}})
    assert isinstance(table, JointTable)
    assert repr(table) == "JointTable(3 records, 2 states, 2 outcomes)"
    assert table.records == ("a", "b", "3")
    assert (table.labels, table.values, table.sizes) == (("0", "1"), (0, 1), (2, 2, 2))
    assert table.distribution("a") == pytest.approx([0.2, 0.8])
    save_model(table, tmp_path / "m.json")
    assert model_digest(load_model(tmp_path / "m.json")) == model_digest(table)
    with pytest.raises(ValueError, match="read-only"):
        table.probabilities[0] = 1
    with pytest.raises(AttributeError):
        table.names = ()


def test_values_are_numbers_or_names():
    mixed = JointTable(values=[1.0, 2.5, -3], outcomes=np.array([[1, 2.5]]), probabilities=[1])
    assert (mixed.labels, mixed.values) == (("1", "2.5", "-3"), (1, 2.5, -3))
    named = JointTable(values=["low", "high"], outcomes=[("low",)], probabilities=[1])
    assert (named.labels, named.values) == (("low", "high"), None)
    odd = JointTable(values=["1.0", "2"], outcomes=[("1.0", 2)], probabilities=[1])
    again = model_from_dict(json.loads(json.dumps(model_to_dict(odd))))
    assert (again.labels, again.values) == (odd.labels, odd.values) == (("1.0", "2"), (1, 2))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"values": []}, "values is []; it must list the values a record may take"),
        ({"values": [0, 1, 0.0]}, "the value 0 is listed twice"),
        ({"values": ["", 1]}, "every record: a state has an empty name"),
        ({"values": [math.inf, 1]}, "a value is no number, infinite or too large"),
        ({"values": [10**400, 1]}, "a value is no number, infinite or too large"),
        ({"values": [True, 1]}, "values.0 is true; it must be of another kind"),
        ({"outcomes": []}, "outcomes is empty; list every outcome"),
        ({"outcomes": [{"records": [], "probability": 1}]}, "outcome 1 is []; it must be a list of values"),
        ({"outcomes": [{"records": [0, 2], "probability": 1}]}, "outcome 1 has the value '2'; values lists 0, 1"),
        (
            {"outcomes": [{"records": [0, 1], "probability": 0.5}, {"records": [0], "probability": 0.5}]},
            "outcome 2 has 1 values and outcome 1 has 2",
        ),
        ({"outcomes": [{"records": [0, 1], "probability": 0.5}] * 2}, "outcome 2 is the same as outcome 1 (0, 1)"),
        ({"outcomes": [{"records": [0, 1], "probability": 0.9}]}, "the list of probabilities sums to 0.9"),
        ({"outcomes": [{"records": [0, 1], "probability": -1}]}, "entry 1 of the list of probabilities is -1"),
        ({"outcomes": [{"records": [0, 1], "probability": "x"}]}, 'outcomes.0.probability is "x"; it must be a number'),
        ({"outcomes": [{"records": [0, 1]}]}, "outcomes.0.probability is missing"),
        ({"records": ["a"]}, "records has 1 names; there are 3 records"),
        ({"records": ["a", "b", "a"]}, "record 'a' is named twice"),
        ({"records": ["a", "b", ""]}, "a record has an empty name"),
    ],
)
def test_wrong_tables_are_refused(change, says):
    with pytest.raises(ModelError) as refused:
        model_from_dict({**JOINT, **change})
    assert says in str(refused.value)


def test_wrong_tables_made_in_code():
    for wrong, says in [
        ({"probabilities": [1, 0]}, "there are 2 probabilities and 1 outcomes"),
        ({"values": "01"}, "values is '01'; it must list"),
        ({"outcomes": ["01"]}, "outcome 1 is '01'; it must be a list of values"),
        ({"values": [True, False]}, "a value is True; it must be a number or a name"),
        ({"records": "ab"}, "records is 'ab'; it must be a list of 2 names"),
        ({"outcomes": np.zeros((2**20 + 1, 1))}, "1,048,577 joint states; at most 1,048,576 can be listed"),
    ]:
        with pytest.raises(ModelError) as refused:
            JointTable(**{"values": [0, 1], "outcomes": [(0, 1)], "probabilities": [1], **wrong})
        assert says in str(refused.value)
    wide = JointTable(values=[0, 1], outcomes=[(0,) * 21], probabilities=[1])
    with pytest.raises(ModelError, match="a distribution of these records has 2,097,152 joint states"):
        wide.joint(range(21), {})


def test_what_groups_say_of_themselves(tmp_path):
    model = model_from_dict({**GROUPS, "states": ["well", "ill"], "values": {"ill": 2, "well": 0}})
    assert isinstance(model, Groups)
    assert repr(model) == "Groups(3 records in 2 groups of 1 to 2)"
    assert repr(Groups(sizes=[1], positives=[[0.5, 0.5]])) == "Groups(1 record in 1 group of 1)"
    assert (model.records, model.components) == (("1", "2", "3"), ((0, 1), (2,)))
    assert [model.group_of(i) for i in range(3)] == [0, 0, 1]
    assert (model.labels, model.values) == (("well", "ill"), (0, 2))
    assert model.distribution("1", given={"2": "ill"}) == pytest.approx([0.15 / 0.65, 0.5 / 0.65])
    assert Groups(sizes=[1], positives=[[0.5, 0.5]]).values == (0, 1)
    save_model(model, tmp_path / "m.json")
    assert model_digest(load_model(tmp_path / "m.json")) == model_digest(model)
    with pytest.raises(ValueError, match="read-only"):
        model.positives[0][0] = 1
    with pytest.raises(AttributeError):
        model.states = ()


def test_large_groups_are_exact():
    """A thousand records: against fractions, whose sums and products are exact."""
    m = 1000
    distribution = np.full(m + 1, 1 / (m + 1))
    model = Groups(sizes=[m, 1], positives=[distribution, [0.5, 0.5]])
    for told in (1, 2, 500, 1000):
        for ones in {0, told // 2, told}:
            known = {str(n + 1): ("1" if n < ones else "0") for n in range(told)}
            # With every number of ones equally likely this is 1/((told+1)·C(told, ones)) (Laplace's rule).
            exact = Fraction(1, (told + 1) * math.comb(told, ones))
            assert model.probability(known) == pytest.approx(float(exact), rel=1e-9)
    pair = model.distribution("1", "1000", "1001", given={"500": "1"})
    assert pair.sum() == pytest.approx(1)
    assert pair[1, 1, 0] == pytest.approx(0.5 * (1 / 4) / (1 / 2))


def test_outcomes_of_groups_are_counted_before_they_are_listed():
    fair = Groups(sizes=[21], positives=[np.full(22, 1 / 22)])
    with pytest.raises(ModelError, match="the model has 2,097,152 joint states; at most 1,048,576"):
        fair.outcomes()
    with pytest.raises(ModelError, match="a distribution of these records has 2,097,152 joint states"):
        fair.joint(range(21), {})
    together = np.zeros(1001)
    together[[0, 1000]] = 0.25, 0.75
    rows, distribution = Groups(sizes=[1000], positives=[together]).outcomes()
    assert rows.sum(axis=1).tolist() == [0, 1000]
    assert distribution.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sizes": []}, "sizes is []; it must list how many records each group has"),
        ({"sizes": [2, 0]}, "the size of group 2 is 0; it must be a whole number of records, 1 or more"),
        ({"sizes": [2, 1.5]}, "sizes.1 is 1.5; it must be"),
        ({"sizes": [2, 1001]}, "a group has 1001 records; at most 1000 are allowed"),
        ({"sizes": [2]}, "positives has 2 distributions; there are 1 groups"),
        ({"sizes": [3, 1]}, "distribution 1 of positives has 3 entries; a group of 3 needs 4"),
        ({"positives": [[0.2, 0.3, 0.6], [0.4, 0.6]]}, "distribution 1 of positives sums to 1.1"),
        ({"positives": [[0.2, 0.3, 0.5], [-1, 2]]}, "entry 1 of distribution 2 of positives is -1"),
        ({"states": ["a", "b", "c"]}, "states has 3 names; a record of a group has two states"),
        ({"states": ["a", "a"]}, "every record: state 'a' is named twice"),
        ({"values": {"0": 1}}, "values must give a number for each of 0, 1"),
        ({"largest": 4}, "groups are given by largest alone, or by sizes and positives"),
        ({"positives": None}, "groups are given by largest alone, or by sizes and positives"),
    ],
)
def test_wrong_groups_are_refused(change, says):
    with pytest.raises(ModelError) as refused:
        model_from_dict({**GROUPS, **change})
    assert says in str(refused.value)


def test_groups_in_which_anything_may_hold(tmp_path):
    model = model_from_dict({"type": "groups", "largest": 4})
    assert isinstance(model, AnyGroups)
    assert repr(model) == "AnyGroups(groups of at most 4 records, 2 states)"
    assert (model.largest, model.labels, model.size, model.values) == (4, ("0", "1"), 2, (0, 1))
    assert (model.bins, model.fitted) == (None, None)
    named = AnyGroups(largest=1, states=("a", "b", "c"), values={"a": 1, "b": 2, "c": 3}, fitted={"records": 1})
    for n, one in enumerate((model, named)):
        save_model(one, tmp_path / f"{n}.json")
        again = load_model(tmp_path / f"{n}.json")
        assert repr(again) == repr(one)
        assert model_digest(again) == model_digest(one)
    for wrong in (0, -1, 2.5, True, "4"):
        with pytest.raises(ModelError, match="largest is"):
            AnyGroups(largest=wrong)
    with pytest.raises(ModelError, match="a state has an empty name"):
        AnyGroups(largest=1, states=("a", ""))
