"""The figure of docs/theory/tight.md: one side of a record, followed at three values of μ.

``python -m benchmarks.tight_pass`` draws docs/images/tight-pass.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import pufferdp
from pufferdp.models.chain import MarkovChain
from pufferdp.report.charts import Axis, Chart, Layer, Line, Panels, Rule

ROOT = Path(__file__).parents[1]
WEARER = ROOT / "src" / "pufferdp" / "apps" / "demo" / "wearer.json"
IMAGE = ROOT / "docs" / "images" / "tight-pass.png"
LOSS = 0.5
RECORDS = 12
FACTORS = (0.5, 1.0, 1.5)
"""The three values of log μ, as multiples of the root."""
Floats = npt.NDArray[np.float64]


def wearer() -> MarkovChain:
    """The chain of the tour: resting, light, active."""
    model = pufferdp.load_model(WEARER)
    assert isinstance(model, MarkovChain)
    return model


def follow(kernel: Floats, log_mu: float, records: int) -> Floats:
    """The signed vectors of Theorem 1 for the first state against the last, (records, k), each of absolute sum 1."""
    vector, out = kernel[0] - np.exp(log_mu) * kernel[-1], []
    for _ in range(records):
        vector = vector / np.abs(vector).sum()
        out.append(vector)
        vector = np.where(vector > 0, vector, vector * np.exp(-LOSS)) @ kernel
    return np.array(out)


def root(kernel: Floats) -> float:
    """The largest log μ that some algorithm reaches on a long side, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if follow(kernel, middle, 500)[-1].sum() > 0 else (low, middle)
    return low


def decided_at(vectors: Floats) -> int | None:
    """The first record from which on all entries have one sign, counted from 1."""
    one_sign = (vectors > 0).all(axis=1) | (vectors <= 0).all(axis=1)
    return int(one_sign.argmax()) + 1 if one_sign.any() else None


def figure() -> Panels:
    """One panel for each μ, one line for each state."""
    chain = wearer()
    kernel, states = np.asarray(chain.transition), [str(state) for state in chain.states]
    top, parts, findings = root(kernel), [], []
    for factor in FACTORS:
        mu, vectors = float(np.exp(factor * top)), follow(kernel, factor * top, RECORDS)
        record, positive = decided_at(vectors), bool((vectors[-1] > 0).all())
        if record is None:
            finding = f"μ = {mu:.2f}, the root: signs stay mixed"
        else:
            finding = f"μ = {mu:.2f}: {'all' if positive else 'none'} positive from record {record} on"
        findings.append(finding)
        distance = tuple(float(t) for t in range(1, RECORDS + 1))
        layers: list[Layer] = [Rule(at=0.0, pale=True)]
        layers += [
            Line(x=distance, y=tuple(vectors[:, v].tolist()), label=state, series=v, marked=True)
            for v, state in enumerate(states)
        ]
        parts.append(
            Chart(
                title=finding,
                x=Axis(name="distance from the target, records", whole=True),
                y=Axis(name="entry of g, scaled" if factor == FACTORS[0] else "", low=-1.0, high=1.0),
                layers=tuple(layers),
                alt=finding + ".",
                width=4.6,
                height=3.6,
                legend="upper right",
            )
        )
    low, middle, high = (float(np.exp(factor * top)) for factor in FACTORS)
    title = f"The signs decide after a few records: a factor of {low:.2f} is reached, {high:.2f} is not"
    alt = f"{title}, and near the root {middle:.2f} they stay mixed. {'; '.join(findings)}."
    return Panels(title=title, parts=tuple(parts), across=3, same_y=True, alt=alt)


if __name__ == "__main__":
    figure().save(IMAGE)
    print(f"{IMAGE}: {figure().alt}")
