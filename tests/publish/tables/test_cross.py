"""Cross tables: the histogram of pairs, in the shape of a table."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp import MarkovChain
from pufferdp.basics.errors import QueryError
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.tables.classic import CrossQuestion, cross_table
from pufferdp.publish.tables.parsing import parse_question
from pufferdp.publish.tables.questions import GroupRecords

PAIRS = MarkovChain(transition=np.full((3, 3), 1 / 3), states=["good|home", "bad|home", "good|work"])


def test_noise_is_that_of_a_histogram():
    cross, histogram = parse_question("cross"), parse_question("histogram")
    assert cross.noise(PAIRS, 0.5, 0.05) == histogram.noise(PAIRS, 0.5, 0.05)
    group = GroupRecords(states=3, codes=np.array([0, 2, 2, 1]))
    noise = cross.noise(PAIRS, 0.5, 0.05)
    assert (
        cross.measure_each(PAIRS, [group], noise, SeededSampler(3))[0]
        == histogram.measure_each(PAIRS, [group], noise, SeededSampler(3))[0]
    )
    assert cross.labels(PAIRS) == PAIRS.labels
    assert cross.name == "cross"


def test_pairs_that_the_model_does_not_have_are_empty():
    columns, rows = cross_table(PAIRS.labels, (5, -1, 7))
    assert columns == ["home", "work"]
    assert rows == {"good": [5, 7], "bad": [-1, None]}


def test_refused():
    with pytest.raises(QueryError, match="nothing of the other"):
        CrossQuestion().check(MarkovChain(transition=np.full((2, 2), 0.5), states=["a|b", "c"]))
    with pytest.raises(QueryError, match="nothing after"):
        parse_question("cross:a")
