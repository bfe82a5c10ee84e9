"""One file a mechanism. Each turns a problem into a calibration, or says why it does not apply."""

from __future__ import annotations

from pufferdp.publish.answers.mechanisms.baselines import CURVE_MECHANISMS, Group, PerRecord
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace
from pufferdp.publish.answers.mechanisms.gk16 import Inferential
from pufferdp.publish.answers.mechanisms.quilt import QuiltApprox, QuiltExact
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Calibration, Mechanism, Problem

MECHANISMS: tuple[Mechanism, ...] = (
    PerRecord(),
    Group(),
    Inferential(),
    Wasserstein(),
    QuiltApprox(),
    QuiltExact(),
    ExactLaplace(),
    *CURVE_MECHANISMS,
)
"""Every mechanism a plan tries, in the order it shows those that do not apply."""

__all__ = ["MECHANISMS", "Calibration", "Mechanism", "Problem"]
