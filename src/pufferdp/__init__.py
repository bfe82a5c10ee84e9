"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferdp.answering import AnswerLaw, answer_law
    from pufferdp.audit.attackers import Attacker, CorrelationAware, SingleBit, Viterbi
    from pufferdp.audit.attacking import AttackReport, attack_file, attack_series, attack_simulated
    from pufferdp.audit.learned import Learned
    from pufferdp.audit.success import Success
    from pufferdp.beliefs import Robustness, robustness
    from pufferdp.certificate import Certificate, read_certificate
    from pufferdp.checks import Adversary
    from pufferdp.denoising import Denoised
    from pufferdp.errors import (
        CertificateError,
        DataError,
        InputError,
        ModelError,
        NotApplicableError,
        ParameterError,
        PufferdpError,
        QueryError,
        RefusedError,
    )
    from pufferdp.estimating import FlipEstimate, Interval, denoise_flips, estimate_flips, estimate_series
    from pufferdp.fitting import Fit, fit
    from pufferdp.flipping import Flip, flip, flip_stream
    from pufferdp.leakage.bounds import best_curve, curves
    from pufferdp.leakage.curves import Curve
    from pufferdp.leaking import LeakageReport, leakage_of
    from pufferdp.limits import Limit
    from pufferdp.mechanisms import Calibration
    from pufferdp.mechanisms.flips import FlipDesign, design_flips
    from pufferdp.models import (
        AnyGroups,
        BayesianNetwork,
        BinaryInterval,
        Gaussian,
        Groups,
        JointTable,
        LimitedCorrelation,
        MarkovChain,
        MarkovClass,
        MarkovInterval,
        Member,
        ModelClass,
        Node,
        Pedigree,
        load_model,
        save_model,
    )
    from pufferdp.planning import Candidate, Plan, plan
    from pufferdp.queries import Query
    from pufferdp.releasing import Release, release
    from pufferdp.secrets import Secret, Secrets, load_secrets
    from pufferdp.series_certificate import SeriesCertificate
    from pufferdp.verification import Verification, verify

_HOME = {
    "answering": ("AnswerLaw", "answer_law"),
    "audit.attackers": ("Attacker", "CorrelationAware", "SingleBit", "Viterbi"),
    "audit.attacking": ("AttackReport", "attack_file", "attack_series", "attack_simulated"),
    "audit.learned": ("Learned",),
    "audit.success": ("Success",),
    "beliefs": ("Robustness", "robustness"),
    "certificate": ("Certificate", "read_certificate"),
    "checks": ("Adversary",),
    "denoising": ("Denoised",),
    "errors": (
        "CertificateError",
        "DataError",
        "InputError",
        "ModelError",
        "NotApplicableError",
        "ParameterError",
        "PufferdpError",
        "QueryError",
        "RefusedError",
    ),
    "estimating": ("FlipEstimate", "Interval", "denoise_flips", "estimate_flips", "estimate_series"),
    "fitting": ("Fit", "fit"),
    "flipping": ("Flip", "flip", "flip_stream"),
    "leakage.bounds": ("best_curve", "curves"),
    "leakage.curves": ("Curve",),
    "leaking": ("LeakageReport", "leakage_of"),
    "limits": ("Limit",),
    "mechanisms": ("Calibration",),
    "mechanisms.flips": ("FlipDesign", "design_flips"),
    "models": (
        "AnyGroups",
        "BayesianNetwork",
        "BinaryInterval",
        "Gaussian",
        "Groups",
        "JointTable",
        "LimitedCorrelation",
        "MarkovChain",
        "MarkovClass",
        "MarkovInterval",
        "Member",
        "ModelClass",
        "Node",
        "Pedigree",
        "load_model",
        "save_model",
    ),
    "planning": ("Candidate", "Plan", "plan"),
    "queries": ("Query",),
    "releasing": ("Release", "release"),
    "secrets": ("Secret", "Secrets", "load_secrets"),
    "series_certificate": ("SeriesCertificate",),
    "verification": ("Verification", "verify"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Adversary",
    "AnswerLaw",
    "AnyGroups",
    "AttackReport",
    "Attacker",
    "BayesianNetwork",
    "BinaryInterval",
    "Calibration",
    "Candidate",
    "Certificate",
    "CertificateError",
    "CorrelationAware",
    "Curve",
    "DataError",
    "Denoised",
    "Fit",
    "Flip",
    "FlipDesign",
    "FlipEstimate",
    "Gaussian",
    "Groups",
    "InputError",
    "Interval",
    "JointTable",
    "LeakageReport",
    "Learned",
    "Limit",
    "LimitedCorrelation",
    "MarkovChain",
    "MarkovClass",
    "MarkovInterval",
    "Member",
    "ModelClass",
    "ModelError",
    "Node",
    "NotApplicableError",
    "ParameterError",
    "Pedigree",
    "Plan",
    "PufferdpError",
    "Query",
    "QueryError",
    "RefusedError",
    "Release",
    "Robustness",
    "Secret",
    "Secrets",
    "SeriesCertificate",
    "SingleBit",
    "Success",
    "Verification",
    "Viterbi",
    "answer_law",
    "attack_file",
    "attack_series",
    "attack_simulated",
    "best_curve",
    "curves",
    "denoise_flips",
    "design_flips",
    "estimate_flips",
    "estimate_series",
    "fit",
    "flip",
    "flip_stream",
    "leakage_of",
    "load_model",
    "load_secrets",
    "plan",
    "read_certificate",
    "release",
    "robustness",
    "save_model",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pufferdp' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pufferdp.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
