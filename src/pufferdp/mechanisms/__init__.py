"""One file a mechanism. Each turns a problem into a calibration, or says why it does not apply."""

from pufferdp.mechanisms.base import Calibration, Mechanism, Problem
from pufferdp.mechanisms.baselines import Group, PerRecord
from pufferdp.mechanisms.curve import CURVE_MECHANISMS
from pufferdp.mechanisms.exact import ExactLaplace
from pufferdp.mechanisms.inferential import Inferential
from pufferdp.mechanisms.quilt import QuiltApprox, QuiltExact
from pufferdp.mechanisms.wasserstein import Wasserstein

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
