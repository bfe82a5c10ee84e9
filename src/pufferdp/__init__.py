"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick. They are listed once, in imports that
only type checkers carry out; which names there are and where they live is read from there.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes a while to load
if TYPE_CHECKING:
    from pufferdp.assess.attack.attack import (
        AttackReport as AttackReport,
        Success as Success,
        attack_file as attack_file,
        attack_series as attack_series,
        attack_simulated as attack_simulated,
    )
    from pufferdp.assess.attack.attackers import (
        Attacker as Attacker,
        CorrelationAware as CorrelationAware,
        Learned as Learned,
        SingleBit as SingleBit,
        Viterbi as Viterbi,
    )
    from pufferdp.assess.audit.audit import (
        AuditAttack as AuditAttack,
        AuditReport as AuditReport,
        audit_mechanism as audit_mechanism,
    )
    from pufferdp.assess.audit.mechanisms.command import CommandMechanism as CommandMechanism
    from pufferdp.assess.audit.mechanisms.function import GuardedFunction as GuardedFunction, RunBudget as RunBudget
    from pufferdp.assess.audit.mechanisms.ours import AuditedMechanism as AuditedMechanism
    from pufferdp.assess.audit.mechanisms.outside import outside_mechanism as outside_mechanism
    from pufferdp.assess.dp import LeakageReport as LeakageReport, leakage_of as leakage_of
    from pufferdp.assess.losses import LossesReport as LossesReport, leakage_of_losses as leakage_of_losses
    from pufferdp.assess.privacy import ZCdp as ZCdp, read_profile as read_profile
    from pufferdp.assess.robustness import Robustness as Robustness, robustness as robustness
    from pufferdp.assess.secrets import SecretReport as SecretReport, secret_leakage as secret_leakage
    from pufferdp.assess.streams import (
        StreamBudget as StreamBudget,
        StreamReport as StreamReport,
        stream_budget as stream_budget,
        stream_leakage as stream_leakage,
    )
    from pufferdp.basics.adversary import Adversary as Adversary
    from pufferdp.basics.errors import (
        BudgetError as BudgetError,
        CertificateError as CertificateError,
        DataError as DataError,
        DeliveryError as DeliveryError,
        InputError as InputError,
        LedgerError as LedgerError,
        MechanismError as MechanismError,
        ModelError as ModelError,
        NotApplicableError as NotApplicableError,
        ParameterError as ParameterError,
        PufferdpError as PufferdpError,
        QueryError as QueryError,
        RefusedError as RefusedError,
        UnknownChargeError as UnknownChargeError,
    )
    from pufferdp.data.ranges import Range as Range, Ranges as Ranges
    from pufferdp.leakage.curves import Curve as Curve, best_curve as best_curve, curves as curves
    from pufferdp.leakage.tight.approximate import PrivacyProfile as PrivacyProfile
    from pufferdp.leakage.orbits import dobrushin as dobrushin, least_favourable as least_favourable
    from pufferdp.ledger.balance import DataSet as DataSet, Receipt as Receipt
    from pufferdp.ledger.charge import Charge as Charge, flip_charge as flip_charge
    from pufferdp.ledger.flow_budget import FlowBudget as FlowBudget
    from pufferdp.ledger.history import history as history
    from pufferdp.ledger.ledger import Ledger as Ledger
    from pufferdp.ledger.verify import LedgerCheck as LedgerCheck
    from pufferdp.models.ar1 import Ar1 as Ar1
    from pufferdp.models.chain import MarkovChain as MarkovChain
    from pufferdp.models.chain_classes import (
        BinaryInterval as BinaryInterval,
        MarkovClass as MarkovClass,
        MarkovInterval as MarkovInterval,
    )
    from pufferdp.models.clock import MarkovClock as MarkovClock
    from pufferdp.models.files.fleet import load_models as load_models
    from pufferdp.models.files.json import load_model as load_model, save_model as save_model
    from pufferdp.models.gaussian import Gaussian as Gaussian, LimitedCorrelation as LimitedCorrelation
    from pufferdp.models.groups import AnyGroups as AnyGroups, Groups as Groups
    from pufferdp.models.hidden import HiddenMarkov as HiddenMarkov, from_hmmlearn as from_hmmlearn
    from pufferdp.models.joint import JointTable as JointTable
    from pufferdp.models.memory import MemoryChain as MemoryChain
    from pufferdp.models.model_class import ModelClass as ModelClass
    from pufferdp.models.network import BayesianNetwork as BayesianNetwork, Node as Node
    from pufferdp.models.pedigree import Member as Member, Pedigree as Pedigree
    from pufferdp.publish.answers.certificate import Certificate as Certificate
    from pufferdp.publish.answers.denoise import Denoised as Denoised
    from pufferdp.publish.answers.fleet import Fleet as Fleet, release_fleet as release_fleet
    from pufferdp.publish.answers.laws import AnswerLaw as AnswerLaw, answer_law as answer_law
    from pufferdp.publish.answers.limits import Limit as Limit
    from pufferdp.publish.answers.plan import Candidate as Candidate, Plan as Plan, plan as plan
    from pufferdp.publish.answers.problem import Calibration as Calibration, Problem as Problem
    from pufferdp.publish.answers.queries import Query as Query
    from pufferdp.publish.answers.release import Release as Release
    from pufferdp.publish.answers.secrets import Secret as Secret, Secrets as Secrets, load_secrets as load_secrets
    from pufferdp.publish.certificate import read_certificate as read_certificate
    from pufferdp.publish.fits.fit import Fit as Fit, fit as fit
    from pufferdp.publish.flips.certificate import SeriesCertificate as SeriesCertificate
    from pufferdp.publish.flips.design import FlipDesign as FlipDesign, design_flips as design_flips
    from pufferdp.publish.flips.estimate import (
        FlipEstimate as FlipEstimate,
        Interval as Interval,
        denoise_flips as denoise_flips,
        estimate as estimate,
        estimate_flips as estimate_flips,
        estimate_series as estimate_series,
    )
    from pufferdp.publish.flips.flip import Flip as Flip, flip as flip, flip_stream as flip_stream
    from pufferdp.publish.flows.certificate import FlowCertificate as FlowCertificate
    from pufferdp.publish.flows.estimate import FlowEstimates as FlowEstimates
    from pufferdp.publish.flows.flow import (
        FlowPlan as FlowPlan,
        FlowRelease as FlowRelease,
        flow as flow,
        plan_flow as plan_flow,
    )
    from pufferdp.publish.measurements.certificate import MeasurementCertificate as MeasurementCertificate
    from pufferdp.publish.measurements.release import MeasurementRelease as MeasurementRelease
    from pufferdp.publish.redaction.certificate import RedactionCertificate as RedactionCertificate
    from pufferdp.publish.redaction.redact import plan_redaction as plan_redaction, redact as redact
    from pufferdp.publish.redaction.result import Redaction as Redaction
    from pufferdp.publish.redaction.tilt import tilted_model as tilted_model
    from pufferdp.publish.release import release as release
    from pufferdp.publish.tables.certificate import TableCertificate as TableCertificate
    from pufferdp.publish.tables.plan import TablePlan as TablePlan, plan_table as plan_table
    from pufferdp.publish.tables.release import TableRelease as TableRelease
    from pufferdp.publish.tables.table import ReleasedTable as ReleasedTable, read_released as read_released
    from pufferdp.publish.verify import Verification as Verification, verify as verify
    from pufferdp.report.draw.transport import transport_figure as transport_figure
    from pufferdp.report.html import write_report as write_report
    from pufferdp.report.pages.answers import (
        denoising_chart as denoising_chart,
        plan_comparison as plan_comparison,
        release_chart as release_chart,
    )
    from pufferdp.report.pages.assess import attack_success as attack_success, audit_panels as audit_panels
    from pufferdp.report.pages.flows import flow_map as flow_map, flow_maps as flow_maps
    from pufferdp.report.pages.leakage import (
        curves_chart as curves_chart,
        leakage_bars as leakage_bars,
        leakage_curves as leakage_curves,
    )
    from pufferdp.report.pages.ledger import budget_over_time as budget_over_time
    from pufferdp.report.pages.redaction import redaction_map as redaction_map

_names: dict[str, tuple[str, str]] = {}


def _public_names() -> dict[str, tuple[str, str]]:
    """The module of each public name, and what it is called there."""
    if not _names:
        import ast
        from pathlib import Path

        typed = next(node for node in ast.parse(Path(__file__).read_bytes()).body if isinstance(node, ast.If))
        imports = (node for node in typed.body if isinstance(node, ast.ImportFrom))
        _names.update(
            (alias.asname or alias.name, (str(node.module), alias.name)) for node in imports for alias in node.names
        )
    return _names


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_public_names())
    if name not in _public_names():
        raise AttributeError(f"module 'pufferdp' has no attribute {name!r}")
    import importlib

    module, original = _public_names()[name]
    value = getattr(importlib.import_module(module), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_public_names())
