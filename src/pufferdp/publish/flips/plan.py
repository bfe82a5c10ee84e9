"""Local release of a series: the channel every record goes through, chosen for a model, a guarantee and a length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.basics.paged import Paged
from pufferdp.basics.words import a_kind
from pufferdp.bounds.channels.design import best_flips, expected_noise, least_response, upper_loss
from pufferdp.bounds.channels.two_states import Flips, class_loss
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, SeriesModel, series_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.hidden import is_hidden
from pufferdp.publish.noise import drawn_channel, thresholds

FLIPS: Final = "flips"
RESPONSE: Final = "randomised-response"
THEOREMS: Final = {
    FLIPS: "exact: largest and smallest likelihood ratio over all outputs, for every known record (two states)",
    RESPONSE: "upper bound: cone of attainable ratio vectors, k-ary randomised response",
}


@dataclass(frozen=True, kw_only=True)
class ConstantAnswer:
    """One state published for every record. It leaks nothing, and is wrong wherever a record is in another state."""

    state: str
    error: float
    """The share of records that it is wrong about, in the long run; for a class where that is largest."""

    @classmethod
    def best(cls, model: SeriesModel) -> ConstantAnswer:
        """The state that is wrong least often, whichever chain of the class is true."""
        errors = 1 - np.min([chain.stationary for chain in model.chains], axis=0)
        return cls(state=model.labels[int(errors.argmin())], error=float(errors.min()))


@dataclass(frozen=True, kw_only=True)
class FlipDesign(Paged):
    """A channel and what it guarantees. No data was read."""

    model: SeriesModel
    epsilon: float
    adversary: Adversary
    length: int | None
    """Records of the longest chain; None: the guarantee holds for any number."""
    mechanism: str
    thresholds: tuple[tuple[int, ...], ...]
    """The channel in whole 2^-64ths, as it is drawn."""
    loss: float
    """How much one record leaks at most: exact for two states, an upper bound otherwise."""
    dp_loss: float
    """The largest log-ratio of the channel."""
    expected_noise: float
    """The share of records that change, in the long run; for a class where it is largest."""

    @property
    def channel(self) -> Matrix:
        """The distribution of the output of a record, one row a state."""
        return drawn_channel(self.thresholds)

    @property
    def constant(self) -> ConstantAnswer:
        """What any series of one state would do as well, without a look at the data."""
        return ConstantAnswer.best(self.model)

    @property
    def rho(self) -> list[float] | list[list[float]]:
        """Probabilities of a flip of either state; with more than two states the channel."""
        rows: list[list[float]] = self.channel.tolist()
        return [rows[0][1], rows[1][0]] if len(rows) == 2 else rows

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp flip --length N --json`` prints."""
        return {
            "rho": self.rho,
            "loss": self.loss,
            "expected_noise": self.expected_noise,
            "dp_loss": self.dp_loss,
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "adversary": str(self.adversary),
            "length": self.length,
            "labels": list(self.model.labels),
            "constant": {"state": self.constant.state, "error": self.constant.error},
        }


def design_flips(
    model: ModelLike,
    epsilon: float,
    *,
    length: int | None = None,
    adversary: str = "bdp",
) -> FlipDesign:
    """The least noise on each record that keeps the guarantee.

    Args:
        model: a chain or a list of chains.
        epsilon: the guarantee.
        length: records of the longest chain; None for series of any length.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
    """
    model = as_model(model)
    epsilon, adversary = checks.epsilon(epsilon), checks.adversary(adversary)
    length = None if length is None else checks.length(length)
    series = flippable(model)
    chains = series.chains
    if series.size == 2:
        weights = np.mean([chain.stationary for chain in chains], axis=0)
        rho0, rho1 = best_flips(chains, epsilon, length, adversary, (float(weights[0]), float(weights[1])))
        name, channel = FLIPS, np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])
    else:
        name, channel = RESPONSE, least_response(chains, epsilon, length, adversary)
    shares = thresholds(channel)
    return describe(series, epsilon, adversary, length, name, shares)


def describe(
    model: SeriesModel,
    epsilon: float,
    adversary: Adversary,
    length: int | None,
    mechanism: str,
    shares: tuple[tuple[int, ...], ...],
) -> FlipDesign:
    """What a channel guarantees; refuses one that does not keep the guarantee."""
    chains, drawn = flip_chains(model), drawn_channel(shares)
    loss = flip_bound(chains, drawn, length, adversary)
    if not loss <= epsilon:
        raise NotApplicableError(f"the channel leaks up to {loss:.6g}, more than {epsilon:g}; it needs more noise")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(drawn)
        dp_loss = float(np.nanmax(logs[:, None, :] - logs[None, :, :]))
    return FlipDesign(
        model=model,
        epsilon=epsilon,
        adversary=adversary,
        length=length,
        mechanism=mechanism,
        thresholds=shares,
        loss=loss,
        dp_loss=dp_loss,
        expected_noise=expected_noise(chains, drawn),
    )


def flip_bound(chains: tuple[MarkovChain, ...], channel: Matrix, length: int | None, adversary: Adversary) -> float:
    """The loss of a channel for the worst chain: exact for two states, an upper bound otherwise."""
    if len(channel) == 2:
        return class_loss(chains, Flips.of(float(channel[0, 1]), float(channel[1, 0])), length, adversary).worst
    return upper_loss(chains, channel, length, adversary)


def flip_chains(model: Model) -> tuple[MarkovChain, ...]:
    """The chains of a model; refuses what has none, or infinitely many."""
    return flippable(model).chains


def flippable(model: Model) -> SeriesModel:
    """The model, if it is a chain or a list of chains; otherwise a refusal with the way out."""
    series, what = series_of(model), a_kind(model)
    if series is None:
        raise NotApplicableError(
            f"the model is {what}; only series of states are flipped record by record: use a chain"
        )
    if series.rhythm is not None:
        raise NotApplicableError(
            "the model is a clock, and flips are worked out for one transition table; fit a markov_chain without "
            "clock=, or release statistics"
        )
    if is_hidden(series):
        raise NotApplicableError(
            f"the model is {what}, and {series.not_listed}: how flips leak is worked out for chains; "
            "fit one and flip under it"
        )
    if not series.chains:
        raise NotApplicableError(
            f"the model is {what}, infinitely many chains, and no one of them is proved to be the worst for flips; "
            "list the chains that matter in a markov_class"
        )
    if series.size < 2:
        raise ModelError("the chain has one state; there is nothing to flip")
    return series
