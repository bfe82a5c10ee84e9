"""Every leaf of a certificate of every mechanism and every way to publish of which no earlier certificate is kept.

As in ``test_leaves``, with certificates that are made here: small ones, a third of a second each.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import polars as pl
import pytest

import pufferdp
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.answers.mechanisms import OURS
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.flips.publication import flip_stream
from pufferdp.publish.kind import kind_of
from pufferdp.publish.redaction.kind import REDACTIONS
from tests.publish.test_leaves import CERTIFICATES, Place, changes, golden, is_listed, path_of, put, solve_once

STATES: Final = ("rest", "active")
CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=STATES)
FAST = MarkovChain(transition=[[0.52, 0.48], [0.49, 0.51]], states=STATES)
COIN = MarkovChain(transition=[[0.6, 0.4], [0.6, 0.4]], states=STATES)
BOX = {"type": "markov_interval", "low": [[0.5, 0.1], [0.2, 0.3]], "high": [[0.9, 0.5], [0.7, 0.8]], "states": STATES}
REGIMES = {
    "type": "hidden_states",
    "transition": [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.1, 0.6]],
    "of": [0, 0, 1],
    "states": STATES,
}
NORMAL = {"type": "gaussian", "mean": [0.0, 1.0], "covariance": [[1.0, 0.25], [0.25, 1.0]], "records": ["x", "y"]}
FAMILY = {"type": "pedigree", "members": [{"id": "1"}, {"id": "2"}, {"id": "3", "father": "1", "mother": "2"}]}
FEW = [{"records": [a, b], "probability": 0.3 if a == b else 0.2} for a in (0, 1) for b in (0, 1)]
SECRETS = {"secrets": {"ill": {"1": "rest"}, "well": {"1": "active"}}, "pairs": [["ill", "well"]]}
ROWS = pl.DataFrame({"t": range(24), "s": ["rest", "active", "active"] * 8})
PEOPLE = pl.DataFrame({"who": ["ann"] * 12 + ["bob"] * 12, "t": [*range(12)] * 2, "s": ["rest", "active"] * 12})
READ: Final[dict[str, Any]] = {"column": "s", "order": "t"}
COUNT: Final[dict[str, Any]] = {**READ, "query": "count:active", "epsilon": 1.0}


def model(content: dict[str, Any]) -> Any:
    return model_from_dict(json.loads(json.dumps(content)))


def answer(which: Any, mechanism: str | None = None, adversary: str = "bdp", **more: Any) -> Any:
    return pufferdp.release(ROWS, model=which, **{**COUNT, "mechanism": mechanism, "adversary": adversary, **more})


def records(which: dict[str, Any], values: list[Any], names: list[str], mechanism: str | None, **more: Any) -> Any:
    frame = pl.DataFrame({"who": names, "v": values})
    return pufferdp.release(frame, model=model(which), column="v", id="who", epsilon=1.0, mechanism=mechanism, **more)


def numbers(mechanism: str) -> Any:
    return records(NORMAL, [0.5, 0.5], ["x", "y"], mechanism, query="sum", clip=(0, 1))


def redacted(method: str, **more: Any) -> Any:
    options: dict[str, Any] = {"adversary": "pufferfish", "private": [10], "epsilon": 1.0, **READ, **more}
    return pufferdp.redact(ROWS.with_columns(note=pl.lit("")), model=CHAIN, method=method, **options)


def redacted_again() -> Any:
    """A redaction that is designed together with an earlier one."""
    before = redacted("window", adversary="bdp", epsilon=3.0)
    options: dict[str, Any] = {"after": before.certificate, "published": before.data, "epsilon": 4.0, **READ}
    return pufferdp.redact(ROWS, model=CHAIN, private=[11], **options)


def streamed() -> Any:
    lines = io.BytesIO(b"t,s\n" + b"".join(b"%d,rest\n" % n for n in range(9)))
    return flip_stream(lines, io.BytesIO(), model=CHAIN, epsilon=1.0, **READ)


MADE: Final[dict[str, Callable[[], Any]]] = {
    "per-record-dp": lambda: answer(COIN, "per-record-dp"),
    "group": lambda: answer(CHAIN, "group"),
    "gk16": lambda: answer(FAST, "gk16", "pufferfish"),
    "quilt-approx": lambda: answer(CHAIN, "quilt-approx", "pufferfish"),
    "curve-potential": lambda: answer(model(REGIMES), "curve-potential"),
    "laplace-hidden": lambda: answer(model(REGIMES), "laplace-hidden"),
    "curve-independent": lambda: answer(COIN, "curve-independent"),
    "curve-general": lambda: answer(CHAIN, "curve-general"),
    "curve-gaussian": lambda: numbers("curve-gaussian"),
    "curve-gaussian-exact": lambda: numbers("curve-gaussian-exact"),
    "curve-markov": lambda: answer(FAST, "curve-markov"),
    "curve-zhao": lambda: answer(FAST, "curve-zhao"),
    "curve-quilt": lambda: answer(FAST, "curve-quilt"),
    "curve-pedigree": lambda: records(
        {**FAMILY, "major_allele_frequency": 0.7}, ["BB", "Bb", "bb"], ["1", "2", "3"], "curve-pedigree",
        query="count:bb",
    ),
    "dp": lambda: answer(CHAIN, adversary="dp"),
    "box": lambda: answer(model(BOX)),
    "secrets": lambda: answer(CHAIN, adversary="pufferfish", secrets=SECRETS),
    "restart": lambda: answer(CHAIN, restart=2),
    "joint": lambda: records(
        {"type": "joint", "values": [0, 1], "outcomes": FEW}, ["0", "1"], ["1", "2"], None, query="count:1",
        adversary="pufferfish",
    ),
    "fleet": lambda: pufferdp.release_fleet(
        PEOPLE, models={"ann": CHAIN, "bob": FAST}, by="who", **COUNT
    ).releases["ann"],
    "stream": streamed,
    "window": lambda: redacted("window", epsilon=3.0),
    "3r-numerical": lambda: redacted("3r-numerical", adversary="bdp"),
    "3r-optimal": lambda: redacted("3r-optimal", known=[3], keep=["note"]),
    "after": redacted_again,
}  # fmt: skip
NAMES: Final = {mechanism.name for mechanism in (*OURS, *REDACTIONS)}
QUICK: Final = ("gk16", "quilt-approx", "curve-gaussian-exact", "secrets", "stream", "window")
"""The others are left to the second tier."""


def test_every_mechanism_has_a_certificate_whose_leaves_are_changed() -> None:
    kept = {golden(name)["mechanism"]["name"] for name in CERTIFICATES}
    assert NAMES - kept <= set(MADE)


def same_fact(content: dict[str, Any], place: Place, value: Any) -> bool:
    """A value of a secret that is listed twice."""
    old: Any = content
    for step in place:
        old = old.get(step) if isinstance(old, dict) else old[step]
    twice = isinstance(value, list) and isinstance(old, list) and value == [*old, *old[-1:]]
    return twice and path_of(place).startswith("guarantee.framework.secrets.")


def accepted(content: dict[str, Any]) -> Iterator[str]:
    """Changes that pass though the field is not listed."""
    kind = kind_of(content["schema"])
    for place, value in changes(content):
        forged = put(content, place, value)
        forged["sha256"] = content_hash(forged)
        if not pufferdp.verify(forged).valid:
            continue
        if not is_listed(path_of(place), kind.unprovable) and not same_fact(content, place, value):
            yield f"{path_of(place)}: {value}"


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MADE]
)
def test_every_leaf(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(json.dumps(MADE[name]().certificate.to_dict()))
    if name in NAMES:
        assert content["mechanism"]["name"] == name
    solve_once(kind_of(content["schema"]), monkeypatch)
    assert pufferdp.verify(content).valid
    assert list(accepted(content)) == []
