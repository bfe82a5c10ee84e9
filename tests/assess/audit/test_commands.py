"""Commands that map lines to lines, and those that do not."""

from __future__ import annotations

import shlex
import sys

import numpy as np
import pytest

from pufferdp.assess.audit.mechanisms.outside import outside_mechanism
from pufferdp.assess.audit.mechanisms.process import RunBudget
from pufferdp.basics.errors import MechanismError, ParameterError, RefusedError

ROWS = np.array([[0, 1, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]])
COUNT = """awk -F, '{s=0; for(i=1;i<=NF;i++) s+=$i; print s}'"""


def python(text: str) -> str:
    return f"command:{shlex.join([sys.executable, '-S', '-c', text])}"


def test_lines_in_and_lines_out():
    found = outside_mechanism(f"command:{COUNT}", dp_loss=0.5)
    assert found.dp_loss == 0.5
    assert found.run(ROWS)[:, 0].tolist() == [2, 1, 3, 0]
    assert found.run(ROWS[:1])[:, 0].tolist() == [2]
    assert found.calls == 5
    assert np.array_equal(outside_mechanism("command:cat").run(ROWS), ROWS)
    assert outside_mechanism("command:cat").run(np.array([[0.1, -1e300]])).tolist() == [[0.1, -1e300]]
    assert outside_mechanism("command:tr , ' '").run(ROWS)[2].tolist() == [1, 1, 1]
    named = outside_mechanism("command:sed -e s/rest/0/g -e s/active/5/g", values=["rest", "active"])
    assert np.array_equal(named.run(ROWS), 5 * ROWS)


@pytest.mark.slow
def test_many_lines_do_not_fill_a_pipe():
    rows = np.arange(300_000).reshape(100_000, 3) % 2
    told = []
    found = outside_mechanism(f"command:{COUNT}", progress=told.append)
    assert np.array_equal(found.run(rows)[:, 0], rows.sum(axis=1))
    # One that answers only when it has read everything, and one that complains all the while.
    late = outside_mechanism(
        python("import sys; t = sys.stdin.read(); sys.stderr.write('x' * 10**6); print(t, end='')")
    )
    assert np.array_equal(late.run(rows), rows)
    assert told[-1].endswith("100,000 of 100,000 runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (python("import sys; sys.stdin.read(); print(1)"), "wrote 1 lines for 4 data sets; one line each is expected"),
        (python("print(1)"), "wrote 1 lines for 4 data sets"),
        ("command:yes 1", "wrote more than 4 lines for 4 data sets"),
        ("command:true", "wrote 0 lines for 4 data sets"),
        ("command:sed s/.*/none/", "sed s/.*/none/: line 1 is 'none'; finite numbers are expected"),
        ("command:sed s/.*/nan/", "line 1 gave back nan; finite numbers are expected"),
        ("command:sed s/.*//", "line 1 gave back 0 numbers; from 1 to 10,000 are expected"),
        ("command:sed 3s/.*/1/", "line 3 gave back 1 numbers, and those before 3; an output has the same length"),
        (python("while True: print('1', end=' ')"), "wrote a line of more than 320,000 characters"),
        (python("print(*[1] * 10_001, sep=',')\n" * 4), "line 1 gave back 10,001 numbers; from 1 to 10,000 are"),
        (python("import sys; sys.exit('no such table')"), "ended with exit status 1 on 4 data sets: no such table"),
        (python("import os; os.kill(os.getpid(), 9)"), "ended with signal SIGKILL on 4 data sets"),
        ("command:sleep 60", "line 1 did not return within 2 s, and was stopped"),
        (python("import os, time; os.close(0); os.close(1); os.close(2); time.sleep(60)"), "2 s, and was stopped"),
    ],
)
def test_bad_commands_are_reported(command, said):
    with pytest.raises(MechanismError) as caught:
        outside_mechanism(command, budget=RunBudget(patience=2 if said.endswith("stopped") else 60)).run(ROWS)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_commands_that_cannot_be_started():
    with pytest.raises(ParameterError, match="'/no/such/program' cannot be started: No such file"):
        outside_mechanism("command:/no/such/program").run(ROWS)
    with pytest.raises(ParameterError, match="cannot be read: No closing quotation"):
        outside_mechanism("command:echo 'x")
    with pytest.raises(ParameterError, match="leave query and batched out"):
        outside_mechanism("command:cat", query="sum")
    with pytest.raises(ParameterError, match="a comma"):
        outside_mechanism("command:cat", values=["a,b", "c"])


def test_time_and_calls_are_limited():
    with pytest.raises(RefusedError, match=r"used up its time of 0\.3 s; 0 of [04] runs were done"):
        outside_mechanism("command:sleep 60", budget=RunBudget(seconds=0.3)).run(ROWS)
    with pytest.raises(RefusedError, match="its budget of 3 calls"):
        outside_mechanism("command:cat", budget=RunBudget(calls=3)).run(ROWS)
