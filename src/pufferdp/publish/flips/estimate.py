"""What people do with a sanitised series: counts, frequencies and transitions without bias, and the likeliest truth.

Nothing here touches the true series. Let C be the inverse of the channel B. The number u_t(a) = C(z_t, a) has the
mean 1 where the true state of record t is a, and 0 elsewhere, so sums of u and of products of neighbours are unbiased
counts of states and of transitions. Given the true series the u_t are independent. Because a mean that is 0 or 1
equals its square, the variance of such sums has an unbiased estimate as well. Intervals are for the true series at
hand, not for a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.errors import CertificateError, NotApplicableError, ParameterError
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series
from pufferdp.leakage.chains.forward_backward import posterior
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.certificate import SERIES_SCHEMA
from pufferdp.publish.flips.certificate import SeriesCertificate

States = Sequence[npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate for each state, or for each pair of states, and where the true ones lie."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True)
class FlipEstimate:
    """Estimates from a sanitised series. Each interval holds its true number with about this confidence."""

    labels: tuple[str, ...]
    records: int
    confidence: float
    counts: Interval
    """Records in each state: unbiased, so they may lie below 0; the intervals do not."""
    frequencies: Interval
    """Share of all records that is in each state: ``counts`` over ``records``."""
    transitions: Interval
    """Row a: how often each state follows state a; nan where the series says too little of a."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON content; null where nothing can be said."""

        def listed(part: Interval) -> dict[str, Any]:
            arrays = {"value": part.value, "low": part.low, "high": part.high}
            return {name: _nullable(values.tolist()) for name, values in arrays.items()}

        parts = {name: listed(getattr(self, name)) for name in ("counts", "frequencies", "transitions")}
        return {"labels": list(self.labels), "records": self.records, "confidence": self.confidence, **parts}


def estimate_flips(
    data: object, certificate: SeriesCertificate | dict[str, Any], *, confidence: float = 0.95
) -> FlipEstimate:
    """Counts, frequencies and transitions of the true series, from a sanitised file or frame and its certificate."""
    c = _parsed(certificate)
    chains = _chains(data, c)
    return estimate_series(chains, np.array(c.channel.matrix), labels=tuple(c.labels), confidence=confidence)


def denoise_flips(
    data: object, certificate: SeriesCertificate | dict[str, Any], *, model: MarkovChain | None = None
) -> list[Floats]:
    """P(true state | whole sanitised series), one array a chain and one row a record, under the certificate's model.

    A class has no one law: name the chain that is believed as ``model``. Any start counts as a stationary one.
    """
    c = _parsed(certificate)
    believed = chain_of(model or model_from_dict(c.model))
    if believed is None:
        raise NotApplicableError("the certificate is for a class of chains, which has no one law; name one as model")
    if c.data.part is True and believed.given_start is not None:
        raise NotApplicableError(
            "the model's start is for the first record of the series, and this is a later part of it; name a chain "
            'with the start "stationary" as model'
        )
    channel = np.array(c.channel.matrix)
    start = believed.stationary if believed.given_start is None else believed.given_start
    return [posterior(chain, start, believed.transition, channel) for chain in _chains(data, c)]


def estimate_series(
    chains: States, channel: Matrix, *, labels: tuple[str, ...] | None = None, confidence: float = 0.95
) -> FlipEstimate:
    """Counts, frequencies and transitions of the true series, from arrays of sanitised states and a channel."""
    confidence = checks.probability(confidence, "confidence")
    matrix = np.asarray(channel, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or np.linalg.cond(matrix) > 1e12:
        raise ParameterError("the channel cannot be inverted: some states look the same in the output")
    inverse, k = np.linalg.inv(matrix), len(matrix)
    width = _normal(confidence)
    outputs = np.sum([np.bincount(np.asarray(chain, dtype=np.int64), minlength=k) for chain in chains], axis=0)
    records = int(outputs.sum())
    if not records:
        raise ParameterError("the series is empty; at least one record is needed")
    counts = outputs @ inverse
    # Var(u) given the true state: Σ B·C² − [state is a]; between the least and the most it can be.
    each = matrix @ inverse**2 - np.eye(k)
    spread = np.clip(outputs @ (inverse**2 - inverse), records * each.min(axis=0), records * each.max(axis=0))
    half = width * np.sqrt(np.maximum(spread, 0.0))
    interval = Interval(value=counts, low=np.clip(counts - half, 0, records), high=np.clip(counts + half, 0, records))
    return FlipEstimate(
        labels=labels or tuple(str(n) for n in range(k)),
        records=records,
        confidence=confidence,
        counts=interval,
        frequencies=Interval(value=counts / records, low=interval.low / records, high=interval.high / records),
        transitions=_transitions(chains, inverse, width),
    )


def _transitions(chains: States, inverse: Floats, width: float) -> Interval:
    k = len(inverse)
    indicators = [inverse[np.asarray(chain, dtype=np.int64)] for chain in chains if len(chain) > 1]
    pairs = np.sum([u[:-1].T @ u[1:] for u in indicators], axis=0) if indicators else np.zeros((k, k))
    out = Interval(value=np.full((k, k), np.nan), low=np.zeros((k, k)), high=np.ones((k, k)))
    for a in range(k):
        left = float(pairs[a].sum())
        if not indicators or left < 1:
            continue
        for b in range(k):
            p = float(pairs[a, b]) / left
            # Linear in the error: what each pair adds to the numerator beyond its share of the denominator.
            spread = sum(_spread(u[:, a], u[:, b], p, a == b) for u in indicators)
            half = width * float(np.sqrt(max(spread, 0.0))) / left
            out.value[a, b], out.low[a, b], out.high[a, b] = p, max(0.0, p - half), min(1.0, p + half)
    return out


def _spread(first: Floats, second: Floats, p: float, same: bool) -> float:
    """An unbiased estimate of the variance of Σ u_t(a)·(u_{t+1}(b) − p), given the true series.

    Terms two apart are independent; neighbours share a record. Means are 0, −p or 1−p times indicators, so their
    squares and products have unbiased estimates too.
    """
    now, then = first[:-1], second[1:]
    errors = now * (then - p)
    total = float((errors**2).sum() - (now * (then * (1 - 2 * p) + p * p)).sum())
    if len(errors) > 1:
        middle = first[1:-1] * ((1.0 if same else 0.0) - p)
        total += 2 * float((errors[:-1] * errors[1:]).sum() - (now[:-1] * middle * (second[2:] - p)).sum())
    return total


def _normal(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + confidence / 2))


def _parsed(certificate: SeriesCertificate | dict[str, Any]) -> SeriesCertificate:
    if not isinstance(certificate, SeriesCertificate):
        if certificate.get("schema") != SERIES_SCHEMA:
            raise CertificateError("the certificate is not one of a sanitised series, as pufferdp flip writes it")
        certificate = SeriesCertificate.model_validate(certificate)
    if certificate.channel.noise is not None:
        raise NotApplicableError(
            "the flips of this series are a chain, and estimates are for independent ones; its intervals would be wrong"
        )
    return certificate


def _chains(data: object, c: SeriesCertificate) -> list[npt.NDArray[np.int64]]:
    """The sanitised series as chains; the output names states, also where the model had bins."""
    missing = "refuse" if c.data.missing == "refuse" else "hole"
    by = c.data.by
    where = Layout(
        column=c.data.column,
        order=c.data.order,
        by=by,
        restart=c.data.gap,
        missing=missing,
        step=c.data.step,
        independent=by is not None,
    )
    return open_series(data, where).states(Coding(labels=tuple(c.labels)), pieces=True)


def _nullable(value: Any) -> Any:
    """Lists of numbers, None in place of nan."""
    if isinstance(value, list):
        return [_nullable(item) for item in value]
    return None if math.isnan(value) else value
