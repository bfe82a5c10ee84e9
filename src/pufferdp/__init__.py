"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick. They are listed once, in imports that
only type checkers carry out; which names there are and where they live is read from there: first those that people
use, then what those are made of.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes a while to load
# What people use: dir() and * have these.
if TYPE_CHECKING:
    from pufferdp.assess.attack.attack import attack_file as attack_file, attack_series as attack_series
    from pufferdp.assess.audit.audit import audit_mechanism as audit_mechanism
    from pufferdp.assess.dp import leakage_of as leakage_of
    from pufferdp.assess.losses import leakage_of_losses as leakage_of_losses
    from pufferdp.assess.robustness import robustness as robustness
    from pufferdp.assess.secrets import secret_leakage as secret_leakage
    from pufferdp.assess.streams import stream_budget as stream_budget, stream_leakage as stream_leakage
    from pufferdp.basics.errors import (
        BudgetError as BudgetError,
        InputError as InputError,
        PufferdpError as PufferdpError,
        RefusedError as RefusedError,
    )
    from pufferdp.ledger.ledger import Ledger as Ledger
    from pufferdp.models.ar1 import Ar1 as Ar1
    from pufferdp.models.chain import MarkovChain as MarkovChain
    from pufferdp.models.chain_classes import (
        BinaryInterval as BinaryInterval,
        MarkovClass as MarkovClass,
        MarkovInterval as MarkovInterval,
    )
    from pufferdp.models.clock import MarkovClock as MarkovClock
    from pufferdp.models.files.json import load_model as load_model, save_model as save_model
    from pufferdp.models.gaussian import Gaussian as Gaussian
    from pufferdp.models.groups import Groups as Groups
    from pufferdp.models.hidden import HiddenMarkov as HiddenMarkov
    from pufferdp.models.hidden_states import HiddenStates as HiddenStates
    from pufferdp.models.network import BayesianNetwork as BayesianNetwork
    from pufferdp.models.pedigree import Pedigree as Pedigree
    from pufferdp.publish.answers.fleet import release_fleet as release_fleet
    from pufferdp.publish.answers.plan import plan as plan
    from pufferdp.publish.answers.queries import Query as Query
    from pufferdp.publish.answers.secrets import load_secrets as load_secrets
    from pufferdp.publish.certificate import read_certificate as read_certificate
    from pufferdp.publish.fits.check import check as check
    from pufferdp.publish.fits.publication import fit as fit
    from pufferdp.publish.flips.plan import design_flips as design_flips
    from pufferdp.publish.flips.estimate import estimate as estimate
    from pufferdp.publish.flips.publication import flip as flip
    from pufferdp.publish.flows.plan import plan_flow as plan_flow
    from pufferdp.publish.flows.publication import flow as flow
    from pufferdp.publish.redaction.plan import plan_redaction as plan_redaction
    from pufferdp.publish.redaction.publication import redact as redact
    from pufferdp.publish.release import release as release
    from pufferdp.publish.tables.plan import plan_table as plan_table
    from pufferdp.publish.tables.table import read_released as read_released
    from pufferdp.publish.series import Series as Series
    from pufferdp.publish.verify import verify as verify
    from pufferdp.report.html import write_report as write_report
# Parts and helpers of these, for those who name types or look into proofs.
if TYPE_CHECKING:
    from pufferdp.assess.attack.attack import (
        AttackReport as AttackReport,
        Success as Success,
        attack_simulated as attack_simulated,
    )
    from pufferdp.assess.attack.attackers import (
        Attacker as Attacker,
        CorrelationAware as CorrelationAware,
        Learned as Learned,
        SingleBit as SingleBit,
        Viterbi as Viterbi,
    )
    from pufferdp.assess.audit.audit import AuditAttack as AuditAttack, AuditReport as AuditReport
    from pufferdp.assess.audit.mechanisms.process import OutsideMechanism as OutsideMechanism
    from pufferdp.assess.audit.mechanisms.process import RunBudget as RunBudget
    from pufferdp.assess.audit.mechanisms.ours import AuditedMechanism as AuditedMechanism
    from pufferdp.assess.audit.mechanisms.outside import outside_mechanism as outside_mechanism
    from pufferdp.assess.dp import LeakageReport as LeakageReport
    from pufferdp.assess.losses import LossesReport as LossesReport
    from pufferdp.assess.privacy import ZCdp as ZCdp, read_profile as read_profile
    from pufferdp.assess.robustness import Robustness as Robustness
    from pufferdp.assess.secrets import SecretReport as SecretReport
    from pufferdp.assess.streams import StreamBudget as StreamBudget, StreamReport as StreamReport
    from pufferdp.basics.adversary import Adversary as Adversary
    from pufferdp.basics.errors import (
        CertificateError as CertificateError,
        DataError as DataError,
        DeliveryError as DeliveryError,
        LedgerError as LedgerError,
        MechanismError as MechanismError,
        ModelError as ModelError,
        NotApplicableError as NotApplicableError,
        ParameterError as ParameterError,
        QueryError as QueryError,
        UnknownChargeError as UnknownChargeError,
    )
    from pufferdp.data.ranges import Range as Range, Ranges as Ranges
    from pufferdp.bounds.curve_forms import Curve as Curve
    from pufferdp.bounds.curves import best_curve as best_curve, curves as curves
    from pufferdp.bounds.approximate import PrivacyProfile as PrivacyProfile
    from pufferdp.bounds.orbits import dobrushin as dobrushin, least_favourable as least_favourable
    from pufferdp.ledger.balance import DataSet as DataSet, Receipt as Receipt
    from pufferdp.ledger.charge import Charge as Charge, flip_charge as flip_charge
    from pufferdp.ledger.flow_budget import FlowBudget as FlowBudget
    from pufferdp.ledger.history import history as history
    from pufferdp.ledger.verify import LedgerCheck as LedgerCheck
    from pufferdp.models.files.fleet import load_models as load_models
    from pufferdp.models.gaussian import LimitedCorrelation as LimitedCorrelation
    from pufferdp.models.groups import AnyGroups as AnyGroups
    from pufferdp.models.hidden import from_hmmlearn as from_hmmlearn
    from pufferdp.models.joint import JointTable as JointTable
    from pufferdp.models.model_class import ModelClass as ModelClass
    from pufferdp.models.network import Node as Node
    from pufferdp.models.pedigree import Member as Member
    from pufferdp.publish.answers.certificate import Certificate as Certificate
    from pufferdp.publish.answers.estimate import ModelEstimate as ModelEstimate
    from pufferdp.publish.answers.fleet import Fleet as Fleet
    from pufferdp.publish.answers.distributions import (
        AnswerDistribution as AnswerDistribution,
        answer_distribution as answer_distribution,
    )
    from pufferdp.publish.answers.limits import Limit as Limit
    from pufferdp.publish.answers.plan import Candidate as Candidate, Plan as Plan
    from pufferdp.publish.answers.problem import Calibration as Calibration, Problem as Problem
    from pufferdp.publish.answers.publication import Release as Release
    from pufferdp.publish.answers.secrets import Secret as Secret, Secrets as Secrets
    from pufferdp.publish.fits.check import ModelCheck as ModelCheck
    from pufferdp.publish.fits.publication import Fit as Fit
    from pufferdp.publish.flips.certificate import SeriesCertificate as SeriesCertificate
    from pufferdp.publish.flips.plan import FlipDesign as FlipDesign
    from pufferdp.publish.flips.estimate import (
        FlipEstimate as FlipEstimate,
        Interval as Interval,
        posterior_of_flips as posterior_of_flips,
        estimate_series as estimate_series,
    )
    from pufferdp.publish.flips.publication import Flip as Flip, flip_stream as flip_stream
    from pufferdp.publish.flows.certificate import FlowCertificate as FlowCertificate
    from pufferdp.publish.flows.estimate import FlowEstimates as FlowEstimates
    from pufferdp.publish.flows.plan import FlowPlan as FlowPlan
    from pufferdp.publish.flows.publication import FlowRelease as FlowRelease
    from pufferdp.publish.measurements.certificate import MeasurementCertificate as MeasurementCertificate
    from pufferdp.publish.measurements.publication import MeasurementRelease as MeasurementRelease
    from pufferdp.publish.model_checks import EffectiveLeakage as EffectiveLeakage
    from pufferdp.publish.redaction.certificate import RedactionCertificate as RedactionCertificate
    from pufferdp.publish.redaction.result import Redaction as Redaction
    from pufferdp.publish.redaction.tilt import tilted_model as tilted_model
    from pufferdp.publish.tables.certificate import TableCertificate as TableCertificate
    from pufferdp.publish.tables.plan import TablePlan as TablePlan
    from pufferdp.publish.tables.publication import TableRelease as TableRelease
    from pufferdp.publish.tables.table import ReleasedTable as ReleasedTable
    from pufferdp.publish.verify import Verification as Verification
    from pufferdp.report.draw.transport import transport_figure as transport_figure
    from pufferdp.report.pages.answers import (
        posterior_chart as posterior_chart,
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
_used: list[str] = []


def _public_names() -> dict[str, tuple[str, str]]:
    """The module of each public name, and what it is called there."""
    if not _names:
        import ast
        from pathlib import Path

        blocks = [node for node in ast.parse(Path(__file__).read_bytes()).body if isinstance(node, ast.If)]
        for block in blocks:
            imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
            _names.update(
                (alias.asname or alias.name, (str(node.module), alias.name)) for node in imports for alias in node.names
            )
            _used[:] = _used or sorted(["__version__", *_names])  # those of the first block
    return _names


def __getattr__(name: str) -> object:
    import importlib

    if name == "__version__":  # of the package that is installed; pyproject.toml alone says it
        import importlib.metadata

        return importlib.metadata.version("pufferdp")
    known = _public_names()
    if name == "__all__":
        return list(_used)
    if name not in known:
        from difflib import get_close_matches

        # The command line has leakage, audit and attack where Python has longer names.
        near = [other for other in _used if other.startswith(name)] or get_close_matches(name, _used, n=1)
        hint = f"; did you mean {near[0]}?" if near and not name.startswith("_") else ""
        raise AttributeError(f"module 'pufferdp' has no attribute {name!r}{hint}")
    module, original = known[name]
    value = getattr(importlib.import_module(module), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    _public_names()
    return list(_used)
