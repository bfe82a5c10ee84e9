"""One file a mechanism. Each turns a problem into a calibration, or says why it does not apply."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, overload

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.plugins import plugins
from pufferdp.publish.answers.mechanisms.baselines import CURVE_MECHANISMS, Group, PerRecord
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace, LaplaceHidden
from pufferdp.publish.answers.mechanisms.gaussian import GaussianTight
from pufferdp.publish.answers.mechanisms.gk16 import Gk16
from pufferdp.publish.answers.mechanisms.quilt import QuiltApprox, QuiltExact
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Calibration, Mechanism, Problem

GROUP: Final = "pufferdp.mechanisms"
"""The entry points under which other packages register mechanisms: the name, and an object or a class."""
OURS: Final[tuple[Mechanism, ...]] = (
    PerRecord(),
    Group(),
    Gk16(),
    Wasserstein(),
    QuiltApprox(),
    QuiltExact(),
    ExactLaplace(),
    LaplaceHidden(),
    *CURVE_MECHANISMS,
    GaussianTight(),
)


class Mechanisms(Sequence[Mechanism]):
    """Ours, and behind them those of other packages, which are looked for when first asked for.

    A mechanism from outside is trusted like one of ours: its guarantee is what its author proved.
    """

    @cached_property
    def _all(self) -> tuple[Mechanism, ...]:
        known = {mechanism.name: mechanism for mechanism in OURS}
        for name, registered in plugins(GROUP).items():
            made = registered() if isinstance(registered, type) else registered
            if not isinstance(made, Mechanism) or made.name != name:
                raise ParameterError(
                    f"{name!r} of {GROUP} is {made!r}; it must be a Mechanism whose name is {name!r}", value=name
                )
            if name in known:
                raise ParameterError(
                    f"{name!r} of {GROUP} has the name of one of our mechanisms; choose another", value=name
                )
            known[name] = made
        return tuple(known.values())

    @overload
    def __getitem__(self, place: int) -> Mechanism: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Mechanism, ...]: ...
    def __getitem__(self, place: int | slice) -> Mechanism | tuple[Mechanism, ...]:
        return self._all[place]

    def __len__(self) -> int:
        return len(self._all)


MECHANISMS: Final = Mechanisms()
"""Every mechanism a plan tries, in the order it shows those that do not apply."""

__all__ = ["GROUP", "MECHANISMS", "OURS", "Calibration", "Mechanism", "Mechanisms", "Problem"]
