"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferdp.answering import AnswerLaw, answer_law
    from pufferdp.audit.attack_report import AttackReport
    from pufferdp.audit.attackers import Attacker, CorrelationAware, SingleBit, Viterbi
    from pufferdp.audit.attacking import attack_file, attack_series, attack_simulated
    from pufferdp.audit.audit_report import AuditAttack, AuditReport
    from pufferdp.audit.auditing import audit_mechanism
    from pufferdp.audit.commands import CommandMechanism
    from pufferdp.audit.guard import GuardedFunction, RunBudget
    from pufferdp.audit.learned import Learned
    from pufferdp.audit.mechanism import AuditedMechanism
    from pufferdp.audit.outside import outside_mechanism
    from pufferdp.audit.success import Success
    from pufferdp.beliefs import Robustness, robustness
    from pufferdp.certificate import Certificate, read_certificate
    from pufferdp.checks import Adversary
    from pufferdp.denoising import Denoised
    from pufferdp.errors import (
        BudgetError,
        CertificateError,
        DataError,
        InputError,
        LedgerError,
        MechanismError,
        ModelError,
        NotApplicableError,
        ParameterError,
        PufferdpError,
        QueryError,
        RefusedError,
    )
    from pufferdp.estimating import FlipEstimate, Interval, denoise_flips, estimate_flips, estimate_series
    from pufferdp.fitting import Fit, fit
    from pufferdp.fleets import Fleet, release_fleet
    from pufferdp.flipping import Flip, flip, flip_stream
    from pufferdp.flow_certificate import FlowCertificate
    from pufferdp.flow_estimates import FlowEstimates
    from pufferdp.flowing import FlowPlan, FlowRelease, flow, plan_flow
    from pufferdp.leakage.bounds import best_curve, curves
    from pufferdp.leakage.curves import Curve
    from pufferdp.leakage.orbits import dobrushin, least_favourable
    from pufferdp.leaking import LeakageReport, leakage_of
    from pufferdp.ledger.accounts import Ledger
    from pufferdp.ledger.charges import Charge
    from pufferdp.ledger.checking import LedgerCheck
    from pufferdp.ledger.standing import DataSet, Receipt
    from pufferdp.ledger.variation import FlowBudget
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
        load_models,
        save_model,
    )
    from pufferdp.planning import Candidate, Plan, plan
    from pufferdp.queries import Query
    from pufferdp.redacting import plan_redaction, redact
    from pufferdp.redaction_certificate import RedactionCertificate
    from pufferdp.redaction_result import Redaction
    from pufferdp.releasing import Release, release
    from pufferdp.report.html import write_report
    from pufferdp.secrets import Secret, Secrets, load_secrets
    from pufferdp.series_certificate import SeriesCertificate
    from pufferdp.stream_report import StreamBudget, StreamReport
    from pufferdp.streaming import stream_budget, stream_leakage
    from pufferdp.tilting import tilted_model
    from pufferdp.verification import Verification, verify

_HOME = {
    "answering": ("AnswerLaw", "answer_law"),
    "audit.attackers": ("Attacker", "CorrelationAware", "SingleBit", "Viterbi"),
    "audit.attack_report": ("AttackReport",),
    "audit.attacking": ("attack_file", "attack_series", "attack_simulated"),
    "audit.audit_report": ("AuditAttack", "AuditReport"),
    "audit.auditing": ("audit_mechanism",),
    "audit.commands": ("CommandMechanism",),
    "audit.guard": ("GuardedFunction", "RunBudget"),
    "audit.learned": ("Learned",),
    "audit.mechanism": ("AuditedMechanism",),
    "audit.outside": ("outside_mechanism",),
    "audit.success": ("Success",),
    "beliefs": ("Robustness", "robustness"),
    "certificate": ("Certificate", "read_certificate"),
    "checks": ("Adversary",),
    "denoising": ("Denoised",),
    "errors": (
        "BudgetError",
        "CertificateError",
        "DataError",
        "InputError",
        "LedgerError",
        "MechanismError",
        "ModelError",
        "NotApplicableError",
        "ParameterError",
        "PufferdpError",
        "QueryError",
        "RefusedError",
    ),
    "estimating": ("FlipEstimate", "Interval", "denoise_flips", "estimate_flips", "estimate_series"),
    "fitting": ("Fit", "fit"),
    "flow_certificate": ("FlowCertificate",),
    "flow_estimates": ("FlowEstimates",),
    "flowing": ("FlowPlan", "FlowRelease", "flow", "plan_flow"),
    "fleets": ("Fleet", "release_fleet"),
    "flipping": ("Flip", "flip", "flip_stream"),
    "leakage.bounds": ("best_curve", "curves"),
    "leakage.curves": ("Curve",),
    "leakage.orbits": ("dobrushin", "least_favourable"),
    "leaking": ("LeakageReport", "leakage_of"),
    "ledger.accounts": ("Ledger",),
    "ledger.charges": ("Charge",),
    "ledger.checking": ("LedgerCheck",),
    "ledger.standing": ("DataSet", "Receipt"),
    "ledger.variation": ("FlowBudget",),
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
        "load_models",
        "save_model",
    ),
    "planning": ("Candidate", "Plan", "plan"),
    "queries": ("Query",),
    "redacting": ("plan_redaction", "redact"),
    "redaction_certificate": ("RedactionCertificate",),
    "redaction_result": ("Redaction",),
    "releasing": ("Release", "release"),
    "report.html": ("write_report",),
    "secrets": ("Secret", "Secrets", "load_secrets"),
    "stream_report": ("StreamBudget", "StreamReport"),
    "streaming": ("stream_budget", "stream_leakage"),
    "tilting": ("tilted_model",),
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
    "AuditAttack",
    "AuditReport",
    "AuditedMechanism",
    "BayesianNetwork",
    "BinaryInterval",
    "BudgetError",
    "Calibration",
    "Candidate",
    "Certificate",
    "CertificateError",
    "Charge",
    "CommandMechanism",
    "CorrelationAware",
    "Curve",
    "DataError",
    "DataSet",
    "Denoised",
    "Fit",
    "Fleet",
    "Flip",
    "FlipDesign",
    "FlipEstimate",
    "FlowBudget",
    "FlowCertificate",
    "FlowEstimates",
    "FlowPlan",
    "FlowRelease",
    "Gaussian",
    "Groups",
    "GuardedFunction",
    "InputError",
    "Interval",
    "JointTable",
    "LeakageReport",
    "Learned",
    "Ledger",
    "LedgerCheck",
    "LedgerError",
    "Limit",
    "LimitedCorrelation",
    "MarkovChain",
    "MarkovClass",
    "MarkovInterval",
    "MechanismError",
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
    "Receipt",
    "Redaction",
    "RedactionCertificate",
    "RefusedError",
    "Release",
    "Robustness",
    "RunBudget",
    "Secret",
    "Secrets",
    "SeriesCertificate",
    "SingleBit",
    "StreamBudget",
    "StreamReport",
    "Success",
    "Verification",
    "Viterbi",
    "answer_law",
    "attack_file",
    "attack_series",
    "attack_simulated",
    "audit_mechanism",
    "best_curve",
    "curves",
    "denoise_flips",
    "design_flips",
    "dobrushin",
    "estimate_flips",
    "estimate_series",
    "fit",
    "flip",
    "flip_stream",
    "flow",
    "leakage_of",
    "least_favourable",
    "load_model",
    "load_models",
    "load_secrets",
    "outside_mechanism",
    "plan",
    "plan_flow",
    "plan_redaction",
    "read_certificate",
    "redact",
    "release",
    "release_fleet",
    "robustness",
    "save_model",
    "stream_budget",
    "stream_leakage",
    "tilted_model",
    "verify",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pufferdp' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pufferdp.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
