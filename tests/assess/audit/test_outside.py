"""Mechanisms from outside: what works, and what is said of those that do not. Nothing hangs, nothing is a traceback."""

from __future__ import annotations

import os
import signal
import sys
import time

import diffprivlib.mechanisms
import numpy as np
import opendp.prelude as dp
import pytest

from pufferdp.assess.audit.mechanisms.outside import outside_mechanism
from pufferdp.assess.audit.mechanisms.process import OutsideMechanism, RunBudget
from pufferdp.basics.errors import MechanismError, ParameterError, RefusedError

ROWS = np.array([[0, 1, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]])
QUICK, PATIENT = RunBudget(patience=2), RunBudget(patience=60)


def total(row):
    return row.sum()


def test_a_function_of_one_data_set():
    found = outside_mechanism(total, dp_loss=1)
    assert found.name == "total"
    assert found.dp_loss == 1
    assert found.run(ROWS).tolist() == [[2], [1], [3], [0]]
    assert found.run(ROWS[:1]).tolist() == [[2]]
    assert found.calls == 5
    found.close()
    assert found.run(ROWS[:1]).tolist() == [[2]]  # a new child


def test_vectors_lambdas_and_batches():
    state = {"offset": 3.0}  # a closure: nothing of it could be pickled
    assert outside_mechanism(lambda row: [row[0], row[1] + state["offset"]]).run(ROWS)[0].tolist() == [0, 4]
    many = outside_mechanism(lambda rows: rows @ np.arange(6).reshape(3, 2), batched=True)
    assert np.array_equal(many.run(ROWS), ROWS @ np.arange(6).reshape(3, 2))
    wide = np.arange(30_000).reshape(-1, 1) % 7  # more than one call takes
    assert np.array_equal(outside_mechanism(lambda rows: rows[:, 0] * 1.5, batched=True).run(wide), wide * 1.5)


def test_states_can_have_names_and_queries_come_first():
    named = outside_mechanism(lambda row: sum(v == "active" for v in row), values=["rest", "active"])
    assert named.run(ROWS)[:, 0].tolist() == [2, 1, 3, 0]
    for query, answers in (("count:1", [2, 1, 3, 0]), ("sum", [2, 1, 3, 0]), ("mean", [2 / 3, 1 / 3, 1, 0])):
        assert outside_mechanism(lambda x: x, query=query).run(ROWS)[:, 0].tolist() == answers
    assert outside_mechanism(lambda x: x, query="count:active", values=["rest", "active"]).run(ROWS)[0] == 2
    assert outside_mechanism(lambda x: 2 * x, query="count:1", batched=True).run(ROWS)[:, 0].tolist() == [4, 2, 6, 0]
    assert outside_mechanism(total).run(np.array([[0.5, 0.25]]))[0, 0] == 0.75  # real-valued records


def test_noise_is_fresh_in_every_run_and_every_child():
    def noise(row):
        return np.random.random()

    drawn = np.concatenate([outside_mechanism(noise).run(np.zeros((50, 1), dtype=int)) for _ in range(2)])
    assert len(np.unique(drawn)) == 100


def test_the_loss_is_declared_or_taken_from_the_function():
    def claims(row):
        return row.sum()

    claims.dp_loss = 0.25
    assert outside_mechanism(claims).dp_loss == 0.25
    assert outside_mechanism(claims, dp_loss=2).dp_loss == 2
    assert outside_mechanism(total).dp_loss is None


def failing(row):
    raise ValueError("the file is\nmissing")


class Strange(Exception):
    def __str__(self):
        raise RuntimeError


def strange(row):
    raise Strange


def killed(row):
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(row):
    while True:
        time.sleep(1)


def deaf(row):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hangs(row)


def grows(row, seen=[]):  # noqa: B006
    seen.append(1)
    return [1.0] * len(seen)


def breaks_at_the_third(row, seen=[]):  # noqa: B006
    seen.append(1)
    return float("nan") if len(seen) == 3 else 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (failing, "call 1 raised ValueError: the file is missing"),
        (strange, "call 1 raised Strange"),
        (lambda row: sys.exit(4), "call 1 raised SystemExit: 4"),
        (killed, "ended its process during call 1 (signal SIGKILL)"),
        (lambda row: os._exit(3), "ended its process during call 1 (exit status 3)"),
        (hangs, "call 1 did not return within 2 s, and was stopped"),
        (deaf, "call 1 did not return within 2 s, and was stopped"),
        (lambda row: float("nan"), "call 1 gave back nan; finite numbers are expected"),
        (lambda row: [1.0, np.inf], "call 1 gave back inf; finite numbers are expected"),
        (breaks_at_the_third, "call 3 gave back nan"),
        (grows, "call 2 gave back 2 numbers, and those before 1; an output has the same length every time"),
        (lambda row: [], "call 1 gave back 0 numbers; from 1 to 10,000 are expected"),
        (lambda row: np.zeros(1_000_000), "call 1 gave back 1,000,000 numbers; from 1 to 10,000 are expected"),
        (lambda row: np.zeros((2, 2)), "call 1 gave back an array of shape (2, 2) and type float64; a number, or"),
        (lambda row: None, "call 1 gave back None; a number, or a list of numbers is expected"),
        (lambda row: "x" * 99, f"call 1 gave back the text '{'x' * 40}'"),
        (lambda row: [1, "a"], "call 1 gave back a list of 2 items"),
        (lambda row: [[1], [1, 2]], "call 1 gave back a list of 2 items"),
        (lambda row: {"answer": 1}, "call 1 gave back a dict"),
        (lambda row: 1 + 2j, "call 1 gave back a complex"),
        (lambda row: (v for v in row), "call 1 gave back a generator"),
        (lambda: 1, "call 1 raised TypeError"),
    ],
)
def test_bad_functions_are_reported(function, said):
    mechanism = outside_mechanism(function, name="mine", budget=QUICK if "within" in said else PATIENT)
    with pytest.raises(MechanismError) as caught:
        mechanism.run(ROWS)
    assert str(caught.value).startswith("mine")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda rows: rows[:2],
            "gave back an array of shape (2, 3) and type int64; one row of numbers for each of the 4",
        ),
        (lambda rows: 1.0, "gave back a float; one row of numbers"),
        (lambda rows: np.zeros((4, 2, 2)), "gave back an array of shape (4, 2, 2)"),
        (lambda rows: np.full(4, np.nan), "gave back nan"),
    ],
)
def test_bad_batches_are_reported(function, said):
    with pytest.raises(MechanismError) as caught:
        outside_mechanism(function, batched=True).run(ROWS)
    assert said in str(caught.value)


@pytest.mark.slow
def test_what_it_prints_goes_nowhere_and_what_it_starts_ends_with_it(capfd, tmp_path):
    def noisy(row):
        print("noise")
        print("noise", file=sys.stderr)
        os.write(1, b"noise")
        return row.sum()

    assert outside_mechanism(noisy).run(ROWS)[:, 0].tolist() == [2, 1, 3, 0]
    assert capfd.readouterr() == ("", "")
    alive = tmp_path / "alive"

    def starts(row):
        if os.fork() == 0:
            while True:
                alive.write_text(str(time.time()))
                time.sleep(0.02)
        hangs(row)

    with pytest.raises(MechanismError):
        outside_mechanism(starts, budget=QUICK).run(ROWS)
    before = alive.read_text()
    time.sleep(0.2)
    assert alive.read_text() == before


def test_a_mechanism_may_spoil_its_data():
    def spoils(row):
        row += 1
        return row.sum()

    rows = ROWS.copy()
    assert outside_mechanism(spoils).run(rows)[:, 0].tolist() == [5, 4, 6, 3]
    assert np.array_equal(rows, ROWS)


@pytest.mark.slow
def test_calls_and_time_are_limited_and_progress_is_told():
    told = []
    found = outside_mechanism(total, budget=RunBudget(calls=6), progress=told.append)
    found.run(ROWS)
    assert told[-1] == "running total: 4 of 4 runs"
    with pytest.raises(RefusedError, match="was run 4 times, and 4 runs more pass its budget of 6 calls"):
        found.run(ROWS)
    slow = outside_mechanism(lambda row: time.sleep(0.25) or 1.0, name="slow", budget=RunBudget(seconds=1))
    with pytest.raises(RefusedError, match=r"slow used up its time of 1 s; \d of \d+ runs were done"):
        slow.run(np.zeros((50, 1), dtype=int))
    with pytest.raises(ParameterError, match="patience is 0"):
        RunBudget(patience=0)


@pytest.mark.parametrize("rows", [np.zeros(3), np.zeros((0, 3)), np.array([["a"]])])
def test_records_must_be_rows_of_numbers(rows):
    with pytest.raises(ParameterError, match="one data set a row"):
        outside_mechanism(total).run(rows)


def test_python_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def count(row):\n    return (row == 1).sum()\n"
        "count.dp_loss = .5\n"
        "def many(rows):\n    return rows.sum(axis=1)\n"
        "many.batched = True\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    for where in (str(tmp_path / "mine.py"), "mine"):
        found = outside_mechanism(f"python:{where}:count")
        assert (found.name, found.dp_loss) == ("count", 0.5)
        assert found.run(ROWS)[:, 0].tolist() == [2, 1, 3, 0]
        assert outside_mechanism(f"python:{where}:many").run(ROWS)[:, 0].tolist() == [2, 1, 3, 0]
    assert "mine" not in sys.modules  # loaded in the child alone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_this_kind", "could not be loaded: ModuleNotFoundError: No module named"),
        ("def f(:", "could not be loaded: SyntaxError"),
        ("import os; os._exit(7)", "ended its process while it was loaded (exit status 7)"),
        ("while True: pass", "it was not loaded within 2 s"),
        ("", "bad.py has no"),
        ("f = 3", "could not be loaded: the mechanism is an int"),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path, text, said):
    (tmp_path / "bad.py").write_text(text)
    budget = QUICK if "within" in said else PATIENT
    mechanism = outside_mechanism(f"python:{tmp_path / 'bad.py'}:f", budget=budget)
    with pytest.raises(MechanismError) as caught:
        mechanism.run(ROWS)
    assert said in str(caught.value)


@pytest.mark.parametrize("spec", ["", "python:", "python:x", "python:x.py:", "python::f", "command:  ", "perl:x", "f"])
def test_texts_that_name_nothing(spec):
    with pytest.raises(ParameterError, match="it must be python:FILE_OR_MODULE:FUNCTION or command:COMMAND"):
        outside_mechanism(spec)


def test_things_that_cannot_be_run():
    with pytest.raises(ParameterError, match="the mechanism is an int; it must be a function"):
        outside_mechanism(3)
    with pytest.raises(ParameterError, match=r"query is 'median'"):
        outside_mechanism(total, query="median")
    with pytest.raises(MechanismError, match="there is no file"):
        outside_mechanism("python:/nowhere/x.py:f").run(ROWS)


def test_opendp_measurements():
    dp.enable_features("contrib")
    floats = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=2.0)
    whole = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=2.0)
    for measurement in (floats, whole):
        query = (lambda row: float(row.sum())) if measurement is floats else "count:1"
        found = outside_mechanism(measurement, query=query)
        assert found.name == "OpenDP measurement"
        assert found.dp_loss == pytest.approx(0.5, rel=1e-9)
        answers = found.run(np.ones((400, 3), dtype=int))[:, 0]
        # Mean 3, standard deviation 2√2 (less for whole numbers): 6 deviations of the mean of 400 are .85.
        assert abs(answers.mean() - 3) < 0.85
        assert len(np.unique(answers)) > 5
    assert outside_mechanism(floats, query="sum", d_in=2.0).dp_loss == pytest.approx(1, rel=1e-9)
    # The whole way in OpenDP, from the records: one record that changes is one removed and one added.
    space = dp.vector_domain(dp.atom_domain(bounds=(0, 1), T="i32")), dp.symmetric_distance()
    chain = space >> dp.t.then_sum() >> dp.m.then_laplace(scale=4.0)
    found = outside_mechanism(chain)
    assert found.dp_loss == pytest.approx(0.5, rel=1e-9)
    assert found.run(ROWS).shape == (4, 1)
    gaussian = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=2.0)
    assert outside_mechanism(gaussian, query=lambda row: float(row.sum())).dp_loss is None  # not pure DP


def test_opendp_errors_are_reported():
    dp.enable_features("contrib")
    floats = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=2.0)
    with pytest.raises(MechanismError, match="call 1 raised"):
        outside_mechanism(floats).run(ROWS)  # a list of records, and it takes one number


def test_diffprivlib_mechanisms():
    for kind in ("Laplace", "Geometric"):
        made = getattr(diffprivlib.mechanisms, kind)(epsilon=0.5, sensitivity=1)
        found = outside_mechanism(made, query="count:1")
        assert found.name == f"diffprivlib {kind}"
        assert found.dp_loss == 0.5
        answers = found.run(np.ones((400, 3), dtype=int))[:, 0]
        assert abs(answers.mean() - 3) < 0.85
        assert len(np.unique(answers)) > 5
    gaussian = diffprivlib.mechanisms.Gaussian(epsilon=0.5, delta=1e-5, sensitivity=1)
    assert outside_mechanism(gaussian, query="count:1").dp_loss is None
    with pytest.raises(ParameterError, match="say which one"):
        outside_mechanism(made)
    with pytest.raises(MechanismError, match="call 1 raised TypeError"):
        outside_mechanism(made, query=lambda row: "three").run(ROWS)


def test_it_prints_usefully():
    found = outside_mechanism(total, dp_loss=1)
    assert isinstance(found, OutsideMechanism)
    assert repr(found).startswith("OutsideMechanism(name='total', values=None, declared=1.0")
