"""What a certificate says about its model: where it was fitted, and what the data said about it.

Both follow from the model alone, never from the data that are released. Whether a model was fitted on the very records
that are released is a fact about those records, and a warning that depended on it would reveal one bit of them without
noise. The warning is therefore conditional, every fitted model has it, and ``verify`` demands it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, RefusedError
from pufferdp.basics.files import found_text
from pufferdp.models.base import Model
from pufferdp.models.units import Unit

FITTED: Final = (
    "the model was fitted without differential privacy; if on this data, it leaks too, and the guarantee is weaker"
)
KEY: Final = "effective_leakage"
"""The name of the effective leakage among the checks of a model file."""


def fitted_warning(fitted: Mapping[str, Any] | None) -> str | None:
    """The sentence about the fit of a model, where it was fitted."""
    if not fitted:
        return None
    if "dp_epsilon" not in fitted:
        return FITTED
    loss = fitted["dp_epsilon"]
    spent = f"{loss:g}" if isinstance(loss, (int, float)) else found_text(loss)
    return (
        f"the model was fitted with a DP loss of {spent}; if it was fitted on this data, that loss counts as a release "
        "too: charge it to the same ledger"
    )


@dataclass(frozen=True, kw_only=True)
class EffectiveLeakage:
    """What the noise for a guarantee reveals on data, for an adversary who knows how the data behave."""

    epsilon: float = 1.0
    """The guarantee under the model, for which the noise was planned."""
    estimate: float | None = None
    """What 99 % of the held-out records stay below under the richer family; None where no richer family is better."""
    interval: tuple[float, float] | None = None
    """A confidence interval of 95 % for the estimate, given the richer family."""
    windows: dict[str, float] | None = None
    """The estimate by the number of unknown records on either side of the target."""
    proven: float | None = None
    """A lower bound without a model; None where the data have too few blocks."""
    half_window: int | None = None
    """Unknown records on either side of the target, for the adversary of the lower bound."""
    confidence: float = 0.95
    """The probability that the lower bound is not above the truth."""
    records: int = 0
    blocks: int = 0
    """Days, nights, people or parts of equal length, which the error bars treat as independent."""
    query: str = ""
    """The count that reveals most; the proven bound where there is one, otherwise the estimate."""
    scale: float | None = None
    """The scale of the noise of this count."""
    family: str = ""
    """The richer family that the model was compared with."""
    gain: float | None = None
    """The bits that the richer family saves on each held-out record."""
    z: float | None = None
    """The gain divided by its standard error over blocks; the estimate counts above 2."""
    coverage: float | None = None
    """The share of simulated releases of held-out blocks whose credible interval of 95 % contains the truth."""
    adversary: str = "knows the records outside a window around the target, and how the data behave"
    reason: str = ""
    """Why there are no numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The object in a model file, without what is not known."""
        content = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        return content | ({"interval": list(self.interval)} if self.interval is not None else {})

    @classmethod
    def from_dict(cls, raw: object) -> EffectiveLeakage:
        """From a model file; rejects names and numbers that cannot be."""
        known = {field.name: field for field in fields(cls)}
        if not isinstance(raw, Mapping) or not raw.keys() <= known.keys():
            raise ModelError(
                f"checks.{KEY} is {found_text(raw)}; it must be an object with some of {', '.join(known)}", value=raw
            )
        for name, value in raw.items():
            default = known[name].default
            right = isinstance(value, str) if isinstance(default, str) else _is_amount(value, name)
            if not right:
                raise ModelError(f"checks.{KEY}.{name} is {found_text(value)}; it must be as `check` writes it")
        if "interval" in raw:
            return cls(**{**raw, "interval": tuple(raw["interval"])})
        return cls(**raw)

    @property
    def largest(self) -> float:
        """The larger of what is estimated and what is proven, as a multiple of the guarantee."""
        return max(self.estimate or 0.0, self.proven or 0.0) / self.epsilon

    @property
    def coverage_sentence(self) -> str:
        """How often estimates by the model were right on held-out data; empty where it was not simulated."""
        if self.coverage is None:
            return ""
        return (
            "Model-based estimates: on held-out data their 95 % credible intervals contained the truth in "
            f"{100 * self.coverage:.0f} % of simulated releases."
        )

    def scaled(self, value: float, epsilon: float) -> float:
        """A leakage at another epsilon, in proportion."""
        return value * epsilon / self.epsilon

    def sentence(self, epsilon: float) -> str:
        """What the data said, in one sentence."""
        if self.reason:
            return f"Not checked against data: {self.reason}."
        estimated, proven = "no richer family is significantly better", "too few blocks for a lower bound"
        if self.estimate is not None:
            estimated = f"estimated e^{round(self.scaled(self.estimate, epsilon), 2):g}"
        if self.proven is not None:
            shown = math.floor(100 * self.scaled(self.proven, epsilon)) / 100
            proven = f"proven at least e^{shown:g} ({100 * self.confidence:g} %)"
        at = "" if math.isclose(epsilon, self.epsilon) else f", in proportion to epsilon {self.epsilon:g}"
        return f"On held-out data{at}: {estimated}; {proven}."


@dataclass(frozen=True)
class ModelChecks:
    """What the data said about a model, for the noise that follows from it and for noise that was widened."""

    effective: EffectiveLeakage | None = None
    widened: EffectiveLeakage | None = None
    """After calibration on data; None where the noise was not calibrated."""
    factor: float = 1.0
    """The noise of counts, histograms, sums and means is planned for epsilon divided by this."""

    @classmethod
    def of(cls, model: Model) -> ModelChecks:
        """The checks in a model file, of a list of models the worst; none where it has none."""
        members = [cls.of(member) for member in getattr(model, "models", ())]
        if members:
            return max(members, key=lambda found: -1.0 if found.effective is None else found.effective.largest)
        checks = getattr(model, "checks", None) or {}
        effective = EffectiveLeakage.from_dict(checks[KEY]) if KEY in checks else None
        if "calibrated" not in checks:
            return cls(effective)
        calibrated = checks["calibrated"]
        factor = calibrated.get("factor") if isinstance(calibrated, Mapping) else None
        if not isinstance(factor, (int, float)) or not 1 <= factor < math.inf:
            raise ModelError(f"checks.calibrated is {found_text(calibrated)}; its factor must be 1 or more")
        return cls(effective, EffectiveLeakage.from_dict(calibrated.get(KEY, {})), float(factor))


@dataclass(frozen=True, kw_only=True)
class CheckedGuarantee:
    """The guarantee of one release beside what the data said about its model."""

    model: Model
    epsilon: float
    adversary: Adversary
    unit: Unit | None = None
    widens: bool = False
    """Whether the noise follows a calibration on data."""
    tolerated: ClassVar[float] = 1.25
    """A model is rejected where the data prove a leakage of more than this many times the guaranteed epsilon."""

    @property
    def checks(self) -> ModelChecks:
        """What the data said about the model."""
        return ModelChecks.of(self.model)

    @property
    def widened(self) -> bool:
        """Whether the noise is wider than the model asks for, because it was calibrated on data."""
        return self.widens and self.checks.widened is not None and self.checks.factor > 1

    @property
    def effective(self) -> EffectiveLeakage | None:
        """The effective leakage of the noise that is drawn; None where it was not computed."""
        return self.checks.widened if self.widened else self.checks.effective

    @property
    def sentence(self) -> str:
        """The guarantee and what the data said about it, in one line."""
        guarantee, effective = f"Guarantee e^{self.epsilon:g} under this model", self.effective
        if effective is None:
            return f"{guarantee}, not checked against data."
        if self.adversary is Adversary.DP:
            return f"{guarantee}, and without it: this adversary knows all other records."
        if self.unit is not None and not self.rejected:
            return f"{guarantee}, for {self.unit.words}. Not checked against data: checks are about single records."
        wider = ""
        if self.widened:
            wider = f" Noise widened for the data, as for e^{self.epsilon / self.checks.factor:.3g} under this model."
        return f"{guarantee}.{wider} {effective.sentence(self.epsilon)}"

    @property
    def rejected(self) -> bool:
        """Whether the data prove clearly more than the guarantee.

        An adversary who knows all other records needs no model, and a secret as long as the window is protected whole.
        """
        effective = self.effective
        if effective is None or effective.proven is None or self.adversary is Adversary.DP:
            return False
        if self.unit is not None and self.unit.records > 2 * (effective.half_window or 0):
            return False
        return effective.proven > self.tolerated * effective.epsilon

    @property
    def misfit(self) -> str:
        """What the guarantee adds where the data contradict the model, and the release was made nevertheless."""
        return f" Warning: the data contradict the model, which was accepted: {self.sentence}" if self.rejected else ""

    def to_dict(self) -> dict[str, Any]:
        """The field of a certificate."""
        return {"statement": self.sentence, "accepted_misfit": self.rejected}

    def refuse(self, accepted: bool) -> None:
        """Stop before anything is charged where the data contradict the model, unless the misfit is accepted."""
        if accepted or not self.rejected:
            return
        family = self.checks.effective.family if self.checks.effective is not None else ""
        better = f" ({family})" if family else ""
        best = f"the family that predicts the data best{better} with family='auto'"
        ways = [f"publish counts or a table instead, and fit {best}"]
        if self.widens:
            ways = [
                f"fit {best}",
                "widen the noise for the data with check(calibrate='data')",
                "protect longer periods with unit='day', or whole people with unit='person'",
            ]
        raise RefusedError(
            f"the data contradict the model. {self.sentence} Ways out: {'; '.join(ways)}; or release nevertheless "
            "with accept_misfit=True, which the certificate states",
            value=self.model,
        )


def _is_amount(value: object, name: str) -> bool:
    """Whether a value is a finite number that is not negative, or made of such numbers where two or more are due."""
    if name == "interval":
        return isinstance(value, (list, tuple)) and len(value) == 2 and all(_is_amount(v, "") for v in value)
    if name == "windows":
        return isinstance(value, Mapping) and all(isinstance(k, str) and _is_amount(v, "") for k, v in value.items())
    if name in ("gain", "z"):
        return isinstance(value, (int, float)) and math.isfinite(value)
    kinds = int if name in ("records", "blocks", "half_window") else (int, float)
    known = isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < math.inf
    return known and (value != 0 or name != "epsilon")
