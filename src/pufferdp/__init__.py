"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferdp.assess.attack.attack import AttackReport, Success, attack_file, attack_series, attack_simulated
    from pufferdp.assess.attack.attackers import Attacker, CorrelationAware, Learned, SingleBit, Viterbi
    from pufferdp.assess.audit.audit import AuditAttack, AuditReport, audit_mechanism
    from pufferdp.assess.audit.mechanisms.command import CommandMechanism
    from pufferdp.assess.audit.mechanisms.function import GuardedFunction, RunBudget
    from pufferdp.assess.audit.mechanisms.ours import AuditedMechanism
    from pufferdp.assess.audit.mechanisms.outside import outside_mechanism
    from pufferdp.assess.dp import LeakageReport, leakage_of
    from pufferdp.assess.robustness import Robustness, robustness
    from pufferdp.assess.streams import StreamBudget, StreamReport, stream_budget, stream_leakage
    from pufferdp.basics.adversary import Adversary
    from pufferdp.basics.errors import (
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
    from pufferdp.leakage.curves import Curve, best_curve, curves
    from pufferdp.leakage.orbits import dobrushin, least_favourable
    from pufferdp.ledger.balance import DataSet, Receipt
    from pufferdp.ledger.charge import Charge
    from pufferdp.ledger.flow_budget import FlowBudget
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.ledger.verify import LedgerCheck
    from pufferdp.models.chain import MarkovChain
    from pufferdp.models.chain_classes import BinaryInterval, MarkovClass, MarkovInterval
    from pufferdp.models.files.fleet import load_models
    from pufferdp.models.files.json import load_model, save_model
    from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
    from pufferdp.models.groups import AnyGroups, Groups
    from pufferdp.models.joint import JointTable
    from pufferdp.models.model_class import ModelClass
    from pufferdp.models.network import BayesianNetwork, Node
    from pufferdp.models.pedigree import Member, Pedigree
    from pufferdp.publish.answers.certificate import Certificate
    from pufferdp.publish.answers.denoise import Denoised
    from pufferdp.publish.answers.fleet import Fleet, release_fleet
    from pufferdp.publish.answers.laws import AnswerLaw, answer_law
    from pufferdp.publish.answers.limits import Limit
    from pufferdp.publish.answers.plan import Candidate, Plan, plan
    from pufferdp.publish.answers.problem import Calibration
    from pufferdp.publish.answers.queries import Query
    from pufferdp.publish.answers.release import Release, release
    from pufferdp.publish.answers.secrets import Secret, Secrets, load_secrets
    from pufferdp.publish.certificate import read_certificate
    from pufferdp.publish.fits.fit import Fit, fit
    from pufferdp.publish.flips.certificate import SeriesCertificate
    from pufferdp.publish.flips.design import FlipDesign, design_flips
    from pufferdp.publish.flips.estimate import FlipEstimate, Interval, denoise_flips, estimate_flips, estimate_series
    from pufferdp.publish.flips.flip import Flip, flip, flip_stream
    from pufferdp.publish.flows.certificate import FlowCertificate
    from pufferdp.publish.flows.estimate import FlowEstimates
    from pufferdp.publish.flows.flow import FlowPlan, FlowRelease, flow, plan_flow
    from pufferdp.publish.redaction.certificate import RedactionCertificate
    from pufferdp.publish.redaction.redact import plan_redaction, redact
    from pufferdp.publish.redaction.result import Redaction
    from pufferdp.publish.redaction.tilt import tilted_model
    from pufferdp.publish.verify import Verification, verify
    from pufferdp.report.html import write_report


_HOME = {
    "assess.attack.attack": (
        "AttackReport",
        "Success",
        "attack_file",
        "attack_series",
        "attack_simulated",
    ),
    "assess.attack.attackers": (
        "Attacker",
        "CorrelationAware",
        "Learned",
        "SingleBit",
        "Viterbi",
    ),
    "assess.audit.audit": (
        "AuditAttack",
        "AuditReport",
        "audit_mechanism",
    ),
    "assess.audit.mechanisms.command": ("CommandMechanism",),
    "assess.audit.mechanisms.function": (
        "GuardedFunction",
        "RunBudget",
    ),
    "assess.audit.mechanisms.ours": ("AuditedMechanism",),
    "assess.audit.mechanisms.outside": ("outside_mechanism",),
    "assess.dp": (
        "LeakageReport",
        "leakage_of",
    ),
    "assess.robustness": (
        "Robustness",
        "robustness",
    ),
    "assess.streams": (
        "StreamBudget",
        "StreamReport",
        "stream_budget",
        "stream_leakage",
    ),
    "basics.adversary": ("Adversary",),
    "basics.errors": (
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
    "leakage.curves": (
        "Curve",
        "best_curve",
        "curves",
    ),
    "leakage.orbits": (
        "dobrushin",
        "least_favourable",
    ),
    "ledger.balance": (
        "DataSet",
        "Receipt",
    ),
    "ledger.charge": ("Charge",),
    "ledger.flow_budget": ("FlowBudget",),
    "ledger.ledger": ("Ledger",),
    "ledger.verify": ("LedgerCheck",),
    "models.chain": ("MarkovChain",),
    "models.chain_classes": (
        "BinaryInterval",
        "MarkovClass",
        "MarkovInterval",
    ),
    "models.files.fleet": ("load_models",),
    "models.files.json": (
        "load_model",
        "save_model",
    ),
    "models.gaussian": (
        "Gaussian",
        "LimitedCorrelation",
    ),
    "models.groups": (
        "AnyGroups",
        "Groups",
    ),
    "models.joint": ("JointTable",),
    "models.model_class": ("ModelClass",),
    "models.network": (
        "BayesianNetwork",
        "Node",
    ),
    "models.pedigree": (
        "Member",
        "Pedigree",
    ),
    "publish.answers.denoise": ("Denoised",),
    "publish.answers.certificate": ("Certificate",),
    "publish.answers.fleet": (
        "Fleet",
        "release_fleet",
    ),
    "publish.answers.laws": (
        "AnswerLaw",
        "answer_law",
    ),
    "publish.answers.limits": ("Limit",),
    "publish.answers.plan": (
        "Candidate",
        "Plan",
        "plan",
    ),
    "publish.answers.problem": ("Calibration",),
    "publish.answers.queries": ("Query",),
    "publish.answers.release": (
        "Release",
        "release",
    ),
    "publish.answers.secrets": (
        "Secret",
        "Secrets",
        "load_secrets",
    ),
    "publish.certificate": ("read_certificate",),
    "publish.fits.fit": (
        "Fit",
        "fit",
    ),
    "publish.flips.certificate": ("SeriesCertificate",),
    "publish.flips.design": (
        "FlipDesign",
        "design_flips",
    ),
    "publish.flips.estimate": (
        "FlipEstimate",
        "Interval",
        "denoise_flips",
        "estimate_flips",
        "estimate_series",
    ),
    "publish.flips.flip": (
        "Flip",
        "flip",
        "flip_stream",
    ),
    "publish.flows.certificate": ("FlowCertificate",),
    "publish.flows.estimate": ("FlowEstimates",),
    "publish.flows.flow": (
        "FlowPlan",
        "FlowRelease",
        "flow",
        "plan_flow",
    ),
    "publish.redaction.certificate": ("RedactionCertificate",),
    "publish.redaction.redact": (
        "plan_redaction",
        "redact",
    ),
    "publish.redaction.result": ("Redaction",),
    "publish.redaction.tilt": ("tilted_model",),
    "publish.verify": (
        "Verification",
        "verify",
    ),
    "report.html": ("write_report",),
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
