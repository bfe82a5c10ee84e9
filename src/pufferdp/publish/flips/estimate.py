"""What people do with flipped series: shares, transitions and the series itself, from many devices together.

Nothing here touches a true series, so nothing here costs any budget. Let C be the inverse of the channel B. The number
u_t(a) = C(z_t, a) has the mean 1 where the true state of record t is a, and 0 elsewhere, so sums of u and of products
of neighbours are unbiased counts of states and of transitions, whatever the true series is. Intervals are for the true
records that were sent, not for a model; the series itself is what a model makes of it.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.errors import CertificateError, DataError, NotApplicableError, ParameterError
from pufferdp.basics.frames import csv_text, frame_of, quote_formula
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import a_kind
from pufferdp.bounds.chains.forward_backward import posterior
from pufferdp.bounds.chains.viterbi import best_path
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.rewrite import key_columns
from pufferdp.data.series import open_series
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.certificate import SERIES_SCHEMA, read_signed
from pufferdp.publish.flips.certificate import SeriesCertificate
from pufferdp.publish.flips.intervals import ChannelOutputs, count_interval, inverse_of, pair_sums
from pufferdp.publish.verdict import NOT_ESTIMABLE, estimable_share
from pufferdp.publish.verify import verify

States = Sequence[npt.NDArray[Any]]
StatedCertificate = SeriesCertificate | dict[str, Any] | str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate for each state, or for each pair of states, and where the true ones lie."""

    value: Floats
    """nan where it is not estimable."""
    low: Floats
    high: Floats

    @classmethod
    def of_shares(cls, value: Floats, low: Floats, high: Floats) -> Interval:
        """Shares from unbiased estimates and their intervals; all of [0, 1] where a share is not estimable."""
        cells = zip(value.ravel(), low.ravel(), high.ravel(), strict=True)
        shares = np.array([estimable_share(*cell) for cell in cells]).reshape(value.shape)
        return cls(value=shares, low=np.where(np.isnan(shares), 0, low), high=np.where(np.isnan(shares), 1, high))


@dataclass(frozen=True, kw_only=True, repr=False)
class DeviceSeries:
    """One flipped series, and what a model makes of it."""

    name: str
    """The file, or the number of the frame."""
    rows: npt.NDArray[np.int64]
    """The row of each record in its file or frame, counted from 1; people and times in order."""
    published: npt.NDArray[np.int64]
    """What was sent, as positions among the states."""
    probabilities: Floats
    """P(true state | everything that was sent), a row for each record."""
    path: npt.NDArray[np.int64]
    """The most probable series as a whole."""
    keys: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    """The columns that say whose and when each record is, as they are written."""

    @property
    def likeliest(self) -> npt.NDArray[np.int64]:
        """The likeliest state of each record by itself."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class FlipEstimate(Paged):
    """Estimates from flipped series. Each interval by itself holds its true number with this confidence."""

    labels: tuple[str, ...]
    records: int
    confidence: float
    counts: Interval
    """Records in each state: unbiased, so they may lie below 0; the intervals do not."""
    frequencies: Interval
    """Share of all records that is in each state: ``counts`` over ``records``, in its interval."""
    transitions: Interval
    """Row a: how often each state follows state a."""
    devices: int = 1
    """How many series were pooled."""
    series: tuple[DeviceSeries, ...] = field(default=(), repr=False)
    """What a model makes of each series, where it was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp estimate --json`` prints; null where nothing can be said. The series are not in it."""

        def listed(part: Interval) -> dict[str, Any]:
            arrays = {"value": part.value, "low": part.low, "high": part.high}
            return {name: _nullable(values.tolist()) for name, values in arrays.items()}

        parts = {name: listed(getattr(self, name)) for name in ("counts", "frequencies", "transitions")}
        for name in ("frequencies", "transitions"):
            parts[name]["reason"] = _reasons(parts[name]["value"])
        about = {"labels": list(self.labels), "records": self.records, "devices": self.devices}
        return {**about, "confidence": self.confidence, **parts}

    def rows(self) -> dict[str, list[Any]]:
        """The estimates as the columns of one table: a row for each share and for each transition."""
        k = range(len(self.labels))
        cells: list[tuple[str, str, str | None, Interval, tuple[int, ...]]]
        cells = [("share", self.labels[a], None, self.frequencies, (a,)) for a in k]
        cells += [("transition", self.labels[a], self.labels[b], self.transitions, (a, b)) for a in k for b in k]
        named: dict[str, list[Any]] = {
            "what": [what for what, *_ in cells],
            "state": [state for _, state, *_ in cells],
            "next": [after for _, _, after, *_ in cells],
        }
        for name in ("value", "low", "high"):
            named[name] = [_nullable(float(getattr(part, name)[place])) for *_, part, place in cells]
        return named

    def series_rows(self) -> dict[str, list[Any]]:
        """The series as the columns of one table: whose and when, what was sent, and what the model makes of it."""
        if not self.series:
            raise ParameterError("no series was asked for; estimate with series=True")
        out: dict[str, list[Any]] = {"device": [], **{name: [] for name, _ in self.series[0].keys}}
        out |= {name: [] for name in ("row", "published", "likeliest", "path")}
        out |= {f"P({label})": [] for label in self.labels}
        for device in self.series:
            if [name for name, _ in device.keys] != [name for name, _ in self.series[0].keys]:
                raise NotApplicableError("the series have different columns for order or people; take each by itself")
            out["device"] += [device.name] * len(device.rows)
            for name, cells in device.keys:
                out[name] += cells
            out["row"] += device.rows.tolist()
            for name in ("published", "likeliest", "path"):
                out[name] += [self.labels[code] for code in getattr(device, name)]
            for n, label in enumerate(self.labels):
                out[f"P({label})"] += device.probabilities[:, n].tolist()
        return out

    def to_frame(self, *, series: bool = False, backend: str | None = None) -> Any:
        """The estimates, or with ``series`` the series, as a frame of the library that is named, or that is there."""
        return frame_of(self.series_rows() if series else self.rows(), backend)

    def write_series(self, path: str | os.PathLike[str]) -> None:
        """Write the series as CSV; texts that a spreadsheet would run as formulas have a single quote before them."""
        columns = self.series_rows()
        rows = itertools.chain([columns], zip(*columns.values(), strict=True))
        Path(path).write_bytes(csv_text(map(quote_formula, row) for row in rows).encode())


def estimate(
    data: object,
    certificate: StatedCertificate | Sequence[StatedCertificate],
    *,
    confidence: float = 0.95,
    series: bool = False,
    model: Model | None = None,
    progress: Progress | None = None,
) -> FlipEstimate:
    """Shares, transitions and the series itself, from flipped series and their certificates. It costs no budget.

    Args:
        data: what ``flip`` published: a file or a frame, or a list of them, one for each device.
        certificate: of each, in the same order: a file, its content or the certificate itself. Each is verified first.
        confidence: of each interval by itself; they are for the true records that were sent.
        series: whether the series are wanted as well: what a model makes of what was sent.
        model: the chain that is assumed for the series; by default that of each certificate.
        progress: called with a few words before each step.
    """
    confidence, say = checks.probability(confidence, "confidence"), progress or silent
    sources = list(data) if isinstance(data, (list, tuple)) else [data]
    if isinstance(certificate, (SeriesCertificate, dict, str, os.PathLike)):
        certificate = [certificate]
    elif not isinstance(certificate, (list, tuple)):
        held = getattr(certificate, "certificate", certificate)  # a flip has one
        if not isinstance(held, SeriesCertificate):
            raise CertificateError(
                f"certificate is {a_kind(certificate)}; it must be the certificate of a flipped series, its content, "
                "the path of its file, or a list of them",
                value=type(certificate),
            )
        certificate = [held]
    stated = list(certificate)
    if len(sources) != len(stated) or not sources:
        raise ParameterError(
            f"there are {len(sources)} series and {len(stated)} certificates; give each series its certificate, in the "
            "same order",
            value=(len(sources), len(stated)),
        )
    _check_apart(sources)
    say("verifying certificates")
    certificates = [_verified(item, n) for n, item in enumerate(stated, start=1)]
    _check_together(certificates)
    say("reading")
    devices = [_read(source, c, n) for n, (source, c) in enumerate(zip(sources, certificates, strict=True), start=1)]
    say("estimating")
    found = replace(_pooled(devices, confidence), labels=tuple(certificates[0].labels))
    if series:
        say("smoothing")
        found = replace(found, series=tuple(device.smoothed(model) for device in devices))
    return found


def posterior_of_flips(
    data: object, certificate: SeriesCertificate | dict[str, Any], *, model: MarkovChain | None = None
) -> list[Floats]:
    """P(true state | whole privatised series), one array a chain and one row a record, under the certificate's model.

    A class has no one distribution: name the assumed chain as ``model``. Any start counts as a stationary one.
    """
    device = _read(data, _verified(certificate, 1), 1)
    return [probabilities for probabilities, _ in device.model_estimate(model)]


def estimate_series(
    chains: States, channel: Matrix, *, labels: tuple[str, ...] | None = None, confidence: float = 0.95
) -> FlipEstimate:
    """Counts, frequencies and transitions of the true series, from arrays of privatised states and a channel."""
    confidence = checks.probability(confidence, "confidence")
    inverse_of(channel)  # refused before anything is counted
    codes = tuple(np.asarray(chain, dtype=np.int64) for chain in chains)
    found = _pooled([Device(name="1", channel=np.asarray(channel, dtype=float), chains=codes)], confidence)
    return found if labels is None else replace(found, labels=labels)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Device:
    """A flipped series as it was read."""

    name: str
    channel: Matrix
    chains: tuple[npt.NDArray[np.int64], ...]
    """Pieces whose records are one step apart."""
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    certificate: SeriesCertificate | None = None
    source: object = None

    @cached_property
    def outputs(self) -> npt.NDArray[np.int64]:
        """How often each state was sent."""
        k = len(self.channel)
        return np.asarray(sum(np.bincount(chain, minlength=k) for chain in self.chains), dtype=np.int64)

    def model_estimate(self, model: Model | None) -> list[tuple[Floats, npt.NDArray[np.int64]]]:
        """For each piece the probabilities of the true states, and the likeliest series as a whole."""
        c = self.certificate
        assert c is not None
        prior = chain_of(model or model_from_dict(c.model))
        if prior is None:
            raise NotApplicableError(
                "the certificate is for a class of chains, which has no single distribution; name the assumed chain as "
                "model, or with model="
            )
        if prior.labels != tuple(c.labels):
            raise ParameterError(
                f"the model has the states {', '.join(prior.labels)}; the series has {', '.join(c.labels)}"
            )
        if c.data.part is True and prior.given_start is not None:
            raise NotApplicableError(
                "the model's start is for the first record of the series, and this is a later part of it; name a chain "
                'with the start "stationary" as model'
            )
        start = prior.stationary if prior.given_start is None else prior.given_start
        about = start, prior.transition, self.channel
        return [
            (posterior(chain, *about), np.asarray(best_path(chain, *about), dtype=np.int64)) for chain in self.chains
        ]

    def smoothed(self, model: Model | None) -> DeviceSeries:
        """The series that a model makes of it. Behind an unobserved step it begins anew."""
        pieces = self.model_estimate(model)
        c = self.certificate
        assert c is not None
        names = [name for name in (c.data.by, c.data.order) if name is not None]
        keys = key_columns(self.source, names)
        return DeviceSeries(
            name=self.name,
            rows=self.rows,
            published=np.concatenate(self.chains),
            probabilities=np.concatenate([probabilities for probabilities, _ in pieces]),
            path=np.concatenate([path for _, path in pieces]),
            keys=tuple((name, tuple(keys[name][row - 1] for row in self.rows.tolist())) for name in names),
        )


def _pooled(devices: Sequence[Device], confidence: float) -> FlipEstimate:
    """Estimates from all devices together; records that passed the same channel are taken as one."""
    k = len(devices[0].channel)
    channels: dict[bytes, list[Device]] = {}
    for device in devices:
        channels.setdefault(device.channel.tobytes(), []).append(device)
    groups = [
        ChannelOutputs(alike[0].channel, np.sum([device.outputs for device in alike], axis=0, dtype=np.int64))
        for alike in channels.values()
    ]
    records = sum(group.records for group in groups)
    if not records:
        raise ParameterError("the series is empty; at least one record is needed")
    counts = np.array([count_interval(groups, state, confidence) for state in range(k)]).T
    chains = ([chain for device in alike for chain in device.chains] for alike in channels.values())
    value, low, high = pair_sums(list(zip(groups, chains, strict=True))).interval(confidence)
    return FlipEstimate(
        labels=tuple(str(n) for n in range(k)),
        records=records,
        confidence=confidence,
        counts=Interval(value=counts[0], low=counts[1], high=counts[2]),
        frequencies=Interval.of_shares(*(counts / records)),
        transitions=Interval.of_shares(value, low, high),
        devices=len(devices),
    )


def _verified(stated: StatedCertificate, number: int) -> SeriesCertificate:
    """A certificate of a flipped series that holds, and whose channel can be inverted."""
    raw: Any = stated
    signature: object = None
    if isinstance(stated, (str, os.PathLike)):
        raw, signature = read_signed(stated)
    elif isinstance(stated, SeriesCertificate):
        raw = stated.to_dict()
    name = f"certificate {os.fspath(stated)!r}" if isinstance(stated, (str, os.PathLike)) else f"certificate {number}"
    if not isinstance(raw, dict) or raw.get("schema") != SERIES_SCHEMA:
        raise CertificateError(f"{name} is not one of a privatised series, as pufferdp flip writes it")
    problems = verify(raw, signature=signature).problems
    if problems:
        raise CertificateError(f"{name} does not hold, and nothing is estimated from it: {problems[0]}")
    certificate = SeriesCertificate.model_validate(raw)
    try:
        inverse_of(np.array(certificate.channel.matrix))
    except NotApplicableError as error:
        raise NotApplicableError(f"{name}: {error}") from None
    return certificate


def _check_apart(sources: Sequence[object]) -> None:
    """Refuse a file or a frame that is given twice.

    Certificates may be alike, of devices that sent as many records in the same second, and so may short series.
    """
    seen: dict[object, int] = {}
    for n, source in enumerate(sources, start=1):
        own: object = os.path.realpath(source) if isinstance(source, (str, os.PathLike)) else id(source)
        if own in seen:
            raise ParameterError(
                f"series {seen[own]} and {n} are the same; a series that is counted twice makes intervals too narrow: "
                "leave one out",
                value=n,
            )
        seen[own] = n


def _check_together(certificates: Sequence[SeriesCertificate]) -> None:
    """Refuse series of different states."""
    for n, c in enumerate(certificates, start=1):
        if c.labels != certificates[0].labels:
            raise ParameterError(
                f"series {n} has the states {', '.join(c.labels)}, and series 1 {', '.join(certificates[0].labels)}; "
                "series are pooled where they have the same states: estimate from each kind by itself"
            )


def _read(source: object, c: SeriesCertificate, number: int) -> Device:
    """The flipped series as pieces; the output names states, also where the model had bins."""
    where = Layout(
        column=c.data.column,
        order=c.data.order,
        rows_in_order=True,
        by=c.data.by,
        restart=c.data.gap,
        missing="refuse" if c.data.missing == "refuse" else "keep",
        step=c.data.step,
        independent=c.data.by is not None,
    )
    plain = where.order is None and where.by is None
    pieces = open_series(source, where, rows=not plain).rows_of_states(Coding(labels=tuple(c.labels)))
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else str(number)
    records = sum(len(rows) for rows, _ in pieces)
    if records != c.data.records:
        raise DataError(
            f"series {name!r} has {records:,} records, and its certificate is of one with {c.data.records:,}: give "
            "each series its own certificate, in the same order",
            value=records,
        )
    return Device(
        name=name,
        channel=np.array(c.channel.matrix),
        chains=tuple(codes for _, codes in pieces),
        rows=np.concatenate([rows for rows, _ in pieces]),
        certificate=c,
        source=source,
    )


def _reasons(value: Any) -> Any:
    """Why each number is None; None where it is there."""
    if isinstance(value, list):
        return [_reasons(item) for item in value]
    return NOT_ESTIMABLE if value is None else None


def _nullable(value: Any) -> Any:
    """Numbers or lists of them, None in place of nan."""
    if isinstance(value, list):
        return [_nullable(item) for item in value]
    return None if math.isnan(value) else value
