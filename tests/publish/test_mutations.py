"""Files that somebody has changed anywhere: a sentence says what is wrong, and nothing crashes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import pufferdp
from pufferdp.basics.errors import PufferdpError
from pufferdp.ledger.history import import_ledger, read_export
from pufferdp.models.files.json import model_digest, model_from_dict
from tests.strategies import examples

GOLDEN = Path(__file__).parent.parent / "golden"
CERTIFICATES = {
    path.name: json.loads(path.read_text()) for path in sorted(GOLDEN.glob("*.json")) if "export" not in path.name
}
MODELS: Final[dict[str, dict[str, Any]]] = {
    **{raw["model"]["type"]: raw["model"] for raw in CERTIFICATES.values() if isinstance(raw.get("model"), dict)},
    "gaussian": {"type": "gaussian", "mean": [0.0, 1.0], "covariance": [[1.0, 0.5], [0.5, 2.0]], "records": ["a", "b"]},
    "limited": {"type": "limited_correlation", "records": 3, "rho": 0.2},
    "ar1": {"type": "ar1", "coefficient": 0.5},
}
WRONG: Final = (
    "\ud800", 2**70, -(2**70), 10**400, 1e308, -1e308, 5e-324, 1e-300, float("nan"), float("inf"), None, "", [], {},
    True, 0, -1, [[1e308, 1e308], [1e308, 1e308]], [[0, 0], [0, 0]], [10**400], [[1.0, 1e200], [1e200, 1.0]],
)  # fmt: skip


def places(content: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a file; of lists the first three."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield (*at, key)
            yield from places(value, (*at, key))
    elif isinstance(content, list):
        for n, value in enumerate(content[:3]):
            yield (*at, n)
            yield from places(value, (*at, n))


def changed(content: Any, at: tuple[Any, ...], value: object) -> Any:
    """A copy with one place changed."""
    out = copy.deepcopy(content)
    inner = out
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return out


def drawn(contents: dict[str, Any], count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """So many changed files, by what was changed."""
    draw = random.Random(seed)
    where = {name: list(places(content)) for name, content in contents.items()}
    for _ in range(count):
        name = draw.choice(sorted(contents))
        at, value = draw.choice(where[name]), draw.choice(WRONG)
        yield f"{name} {at} {ascii(value)[:40]}", changed(contents[name], at, value)


def crashes(cases: Iterator[tuple[str, Any]], act: Callable[[Any], object]) -> list[str]:
    """What came to an error that is not ours."""
    out = []
    for words, content in cases:
        try:
            act(content)
        except PufferdpError:
            continue
        except Exception as error:
            out.append(f"{words}: {type(error).__name__}")
    return out


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_certificates() -> None:
    """Those whose computation takes longest are left to the second tier."""
    quick = {name: raw for name, raw in CERTIFICATES.items() if name.startswith(("answer-frequency", "flow", "flip"))}
    assert crashes(drawn(quick, examples(40), 1), pufferdp.verify) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_kind_of_certificate() -> None:
    assert crashes(drawn(CERTIFICATES, examples(2000), 2), pufferdp.verify) == []


def use(raw: Any) -> None:
    """Read a model, plan with it and write it down."""
    model = model_from_dict(raw)
    if model.real_valued:
        pufferdp.plan(model, "mean", epsilon=1.0, clip=(0, 1), length=4 if model.takes_length else None)
    model_digest(model)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_models() -> None:
    assert crashes(drawn(MODELS, examples(2000), 3), use) == []


def test_ledger_exports(tmp_path: Path) -> None:
    export = json.loads((GOLDEN / "ledger-export.json").read_text())
    count = 0

    def load(content: Any) -> None:
        nonlocal count
        count += 1
        file = tmp_path / "export.json"
        file.write_text(json.dumps(content))
        raw = read_export(file)
        with pufferdp.Ledger(tmp_path / f"books{count}.db", create=True) as ledger:
            import_ledger(ledger, raw)

    assert crashes(drawn({"export": export}, examples(60), 4), load) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"states": ["a\ud800", "b"]}, "not Unicode"),
        ({"fitted": {"rows": 2**70}}, "beyond 2\\^63"),
        ({"fitted": {"digest": float("nan")}}, "fitted holds nan"),
    ],
)
def test_values_that_no_file_can_hold(content: dict[str, Any], words: str) -> None:
    chain = {"type": "markov_chain", "transition": [[0.9, 0.1], [0.2, 0.8]], "states": ["a", "b"]}
    with pytest.raises(pufferdp.ModelError, match=words):
        model_from_dict({**chain, **content})


@pytest.mark.parametrize("value", [10**400, -(10**400), "1" + "0" * 400, float("inf"), 2**53 + 1])
def test_lengths_that_are_no_length(value: Any) -> None:
    with pytest.raises(pufferdp.ParameterError, match="must be a whole number"):
        pufferdp.plan(model_from_dict(MODELS["markov_chain"]), "histogram", epsilon=1.0, length=value)


def test_a_covariance_out_of_bounds() -> None:
    for matrix in ([[1e308, 1e308], [1e308, 1e308]], [[1e-320, 0.0], [0.0, 1e-320]], [[1.0, 1e200], [1e200, 1.0]]):
        with pytest.raises(pufferdp.ModelError, match="another unit"):
            pufferdp.Gaussian(mean=[0, 0], covariance=matrix)
