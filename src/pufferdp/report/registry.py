"""Which page belongs to what: plans, releases, series, flows, their certificates, audits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pufferdp.basics.errors import ParameterError
from pufferdp.publish.certificate import FLOW_SCHEMA, REDACTION_SCHEMA, SCHEMA, SERIES_SCHEMA
from pufferdp.report.page import Page
from pufferdp.report.pages.answers import answer_page, plan_page
from pufferdp.report.pages.assess import audit_page
from pufferdp.report.pages.flips import flip_design_page, redaction_of, redaction_page, series_page
from pufferdp.report.pages.flows import flow_page, flow_plan_page


def page_of(subject: object, brief: bool = False) -> Page:
    """What there is to say about something; in brief, without what leaks otherwise."""
    from pufferdp.assess.audit.audit import AuditReport
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.answers.release import Release
    from pufferdp.publish.flips.design import FlipDesign
    from pufferdp.publish.flips.flip import Flip
    from pufferdp.publish.flows.flow import FlowPlan, FlowRelease
    from pufferdp.publish.redaction.result import Redaction

    if isinstance(subject, Plan):
        return plan_page(subject, brief)
    if isinstance(subject, FlowPlan):
        return flow_plan_page(subject, brief)
    if isinstance(subject, FlipDesign):
        return flip_design_page(subject, brief)
    if isinstance(subject, AuditReport):
        return audit_page(subject)
    if isinstance(subject, Redaction):
        return redaction_page(subject, brief)
    if isinstance(subject, Release | Flip | FlowRelease):
        return _certified(subject.certificate.to_dict(), brief)
    if isinstance(subject, dict):
        return _certified(subject, brief)
    if hasattr(subject, "to_dict"):
        return _certified(subject.to_dict(), brief)
    raise ParameterError(
        f"there is no report of a {type(subject).__name__}; hand over a plan, a release or a certificate"
    )


def _certified(certificate: dict[str, Any], brief: bool) -> Page:
    pages: dict[str, Callable[[dict[str, Any], bool], Page]] = {
        SCHEMA: answer_page,
        SERIES_SCHEMA: series_page,
        FLOW_SCHEMA: flow_page,
        REDACTION_SCHEMA: _redaction_page,
    }
    schema = certificate.get("schema")
    if schema not in pages:
        raise ParameterError(f"schema is {schema!r}; a certificate has one of {', '.join(pages)}", value=schema)
    return pages[schema](certificate, brief)


def _redaction_page(certificate: dict[str, Any], brief: bool) -> Page:
    return redaction_page(redaction_of(certificate), brief)
