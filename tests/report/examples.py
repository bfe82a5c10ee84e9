"""One of everything that a figure or a report can show. Small, and made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pufferdp
from pufferdp.assess.audit.audit import audit_mechanism
from pufferdp.assess.dp import leakage_lines
from pufferdp.publish.noise import SeededSampler
from pufferdp.report.charts import Chart, Panels
from pufferdp.report.html import report_html

EVIL = '</script><script src="http://evil.example/x.js">$x_&"</script><!--'
"""A state that would break out of a page that does not escape it, and that matplotlib would take for mathematics."""
CHAIN = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
STATES = ["rest", "rest", "active", "rest", "active", "active", "rest", "rest", "rest", "active"] * 6


def chain(evil: bool = False) -> pufferdp.MarkovChain:
    return pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", EVIL]) if evil else CHAIN


def _made(make: Callable[..., Any], evil: bool, **options: Any) -> Any:
    """Something made from a file, whose column is called like the state."""
    active = EVIL if evil else "active"
    with TemporaryDirectory() as folder:
        path = Path(folder, "series.csv")
        cells = [f'"{(active if s == "active" else s).replace(chr(34), chr(34) * 2)}"' for s in STATES]
        path.write_text("activity\n" + "\n".join(cells) + "\n", encoding="utf-8")
        out = {"out": str(Path(folder, "out.csv"))} if make in (pufferdp.flip, pufferdp.redact) else {}
        return make(str(path), model=chain(evil), column="activity", sampler=SeededSampler(1), **out, **options)


def _queries(evil: bool) -> list[str]:
    return ["histogram", f"count:{EVIL if evil else 'active'}"]


SUBJECTS: dict[str, Callable[[bool], Any]] = {
    "plan": lambda evil: pufferdp.plan(chain(evil), "histogram", epsilon=1, length=60),
    "release": lambda evil: _made(pufferdp.release, evil, query="histogram", epsilon=1),
    "table": lambda evil: _made(pufferdp.release, evil, query=_queries(evil), epsilon=1),
    "table plan": lambda evil: pufferdp.plan_table(chain(evil), _queries(evil), epsilon=1, length=60),
    "flip": lambda evil: _made(pufferdp.flip, evil, epsilon=3),
    "redaction": lambda evil: _made(pufferdp.redact, evil, private=[30], epsilon=1),
    "flow": lambda evil: _made(pufferdp.flow, evil, eta=0.05, tau=0.3),
    "flow plan": lambda evil: pufferdp.plan_flow(chain(evil), length=60, eta=0.05, tau=0.3),
    "flip design": lambda evil: pufferdp.design_flips(chain(evil), 3, length=60),
    "audit": lambda evil: audit_mechanism(
        chain(evil), f"laplace:{_queries(evil)[1]}", length=4, dp_epsilon=0.5, calls=6000
    ),
    "redaction design": lambda evil: pufferdp.plan_redaction(chain(evil), length=60, private=[30], epsilon=1),
}
CERTIFIED = ("release", "table", "flip", "redaction", "flow")


@cache
def subject(name: str, evil: bool = False) -> Any:
    """By name; with a name of a state that must be escaped, if asked for."""
    return SUBJECTS[name](evil)


@cache
def report(name: str) -> str:
    """The report of something whose state has the worst name."""
    return report_html(subject(name, evil=True))


@cache
def leakage(target: bool = False) -> dict[str, Any]:
    question = {"target": 1.0} if target else {"dp_epsilon": 0.1}
    found = pufferdp.leakage_of(CHAIN, **question, length=20, query="count:active")
    return {**found.to_dict(), "lines": leakage_lines(CHAIN, found, "count:active")}


@cache
def attacked() -> Any:
    return pufferdp.attack_simulated(CHAIN, length=20, epsilon=2, channel="dp", runs=20)


def figures() -> dict[str, Chart | Panels]:
    """The six figures that there must be, and the others."""
    from pufferdp.report.pages.answers import plan_comparison, release_chart
    from pufferdp.report.pages.assess import attack_success, audit_panels
    from pufferdp.report.pages.flows import flow_map, flow_maps
    from pufferdp.report.pages.leakage import leakage_bars, leakage_curves
    from pufferdp.report.pages.ledger import budget_over_time
    from pufferdp.report.pages.redaction import redaction_map
    from pufferdp.report.pages.tables import table_chart

    flow = subject("flow").certificate.to_dict()
    found = {"dataset": "week", "releases": 3, "budget": 2.0, "leakage": 1.5}
    rows = [
        {"release": n, "charged": "2026-01-01T00:00:00+00:00", "kind": "dp", "spent_dp": 0.1 * n, "leakage": 0.5 * n}
        for n in (1, 2, 3)
    ]
    return {
        "plan": plan_comparison(subject("plan").to_dict()),
        "plan of a flow": plan_comparison(subject("flow plan").to_dict()),
        "leakage": leakage_curves(leakage()),
        "target": leakage_curves(leakage(target=True)),
        "bars": leakage_bars(leakage()),
        "attacks": attack_success(attacked().to_dict()),
        "audit": audit_panels(subject("audit").to_dict()),
        "redaction": redaction_map(subject("redaction")),
        "flow": flow_map(flow),
        "flows": flow_maps({"ours": flow["flow"], "theirs": flow["flow"]}, flow["labels"], "two flows"),
        "budget": budget_over_time(found, rows),
        "table": table_chart(subject("table").certificate.to_dict()),
        "release": release_chart(subject("release").certificate.to_dict()),
    }
