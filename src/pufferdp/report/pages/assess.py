"""Pages for audits, attacks, streams and alternative models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import interval_text, number, up_to
from pufferdp.report.charts import (
    Axis,
    Bar,
    BarKind,
    Chart,
    Line,
    Panels,
    Rule,
    Text,
    bar_chart,
    interval_chart,
    points,
)
from pufferdp.report.page import Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.common import DP, single_page
from pufferdp.report.pages.losses import along_records, reached, shown_records

if TYPE_CHECKING:
    from pufferdp.assess.attack.attack import AttackReport
    from pufferdp.assess.audit.audit import AuditAttack, AuditReport
    from pufferdp.assess.robustness import Robustness
    from pufferdp.assess.streams import StreamBudget, StreamReport


def audit_page(audit: AuditReport) -> Page:
    """What a mechanism claims, what was proved about it, and who learns that much."""
    content, claim = audit.to_dict(), audit.dp_epsilon
    if claim is None:
        question = "The mechanism claims no DP ε. The audit says what it leaks about one record."
    else:
        question = (
            f"Claim: a DP ε of {_beside(claim, audit.dp_delta)}, against an adversary who knows all other records. The "
            f"audit asks what leaks under this model to an adversary who knows {audit.adversary.knows}."
        )
    table = _audit_table(audit)
    verdict, learners = _verdict(audit), (*_learners(audit), _account(audit))
    words = Words((verdict, *learners), Medium.TERMINAL)
    drawn = Figure(make=lambda: audit_panels(content), caption="Striped: the claim.")
    return Page(
        title=f"Audit: {audit.mechanism}",
        lead=f"{audit.records:,} records, {audit.calls:,} runs of the mechanism",
        opening=(
            f"{audit.mechanism} over {audit.records:,} records, under this model, for an adversary who knows "
            f"{audit.adversary.knows}",
        ),
        sections=(
            Section(title="The claim", blocks=(Words((question, DP), Medium.PAGES),)),
            Section(title="What was found", blocks=(Words((verdict,), Medium.PAGES), table, words, drawn)),
            Section(title="The best attacks", blocks=(Words(learners, Medium.PAGES),)),
        ),
        words=(
            "The lower bounds hold for this mechanism, under this model and for this adversary, with the stated "
            "confidence. An audit proves leakage, never its absence.",
        ),
        facts=(
            ("adversary", f"{audit.adversary}: knows {audit.adversary.knows}"),
            ("tested on fresh runs", f"{audit.tests:,} events"),
            ("adversaries tried", f"{audit.tried:,}"),
            ("the upper bound holds for", audit.holds_for or ""),
        ),
        warnings=_audit_warnings(audit),
        data=content,
        kind="audit",
    )


def _audit_table(audit: AuditReport) -> Table:
    """One column for the adversary that was audited, and one for the adversary of the DP claim."""
    claim, apart = audit.dp_epsilon, audit.dp_epsilon is not None and audit.adversary is not Adversary.DP
    claim_lower = "" if audit.claim_lower is None else _beside(audit.claim_lower, audit.dp_delta)
    proved = f"proved by attack, with {100 * audit.confidence:g} % confidence"
    rows = [("lower bound", proved, _beside(audit.counted, audit.upper_delta), claim_lower)]
    if audit.lower > audit.counted:
        rows.append(("lower bound", "computed for one output of this mechanism", number(audit.lower), ""))
    if audit.exact is not None:
        rows.append(("exact", "computed", number(audit.exact), ""))
    if audit.upper is not None:
        rows.append(("upper bound", _upper_source(audit), _beside(audit.upper, audit.upper_delta), ""))
    if claim is not None:
        claimed = _beside(claim, audit.dp_delta)
        words = "DP, against an adversary who knows all other records"
        rows.append(("claim", words, "" if apart else claimed, claimed))
    columns = ("the adversary", "the DP claim") if apart else ("about one record",)
    shown = tuple(row[: 2 + len(columns)] for row in rows)
    return Table(caption="Leakage about one record", head=("leakage", "", *columns), rows=shown, left=2)


def _audit_warnings(audit: AuditReport) -> tuple[str, ...]:
    warnings = [] if audit.complete else ["the time limit ended the audit early"]
    if audit.refuted:
        warnings.append("the claim is proved wrong")
    elif not audit.responds:
        warnings.append("the output never depended on the data")
    return tuple(warnings)


def _beside(value: float, delta: float) -> str:
    """A leakage, and the delta beside it where there is one."""
    return f"{number(value)}, delta {up_to(delta)}" if delta > 0 else number(value)


def _upper_source(audit: AuditReport) -> str:
    if audit.curve is None:
        return "by theory"
    only = "" if audit.universal else ", for clipped sums and their like"
    return f"any mechanism that satisfies the claim ({audit.curve} bound{only})"


def _verdict(audit: AuditReport) -> str:
    claim, claimed = audit.claim_lower, audit.dp_epsilon
    if claim is not None and claimed is not None and claim > claimed:
        return (
            f"The claim is wrong: to an adversary who knows all other records the mechanism leaks at least "
            f"{_beside(claim, audit.dp_delta)}, and it claims {_beside(claimed, audit.dp_delta)}."
        )
    if audit.upper is not None and audit.lower > audit.upper:
        return (
            f"The claim is wrong: under this model, no mechanism that satisfies it leaks more than "
            f"{_beside(audit.upper, audit.upper_delta)}."
        )
    if not audit.responds:
        return (
            "The output never depended on the data: data sets that differ in every record are indistinguishable by it. "
            "So this audit says nothing in favour of the mechanism. Check that it reads the records in the form in "
            "which it gets them: states by their names, as the data has them."
        )
    if claimed is None:
        return (
            "The mechanism claims no DP ε, so there is no upper bound."
            if audit.exact is None
            else f"Under this model it leaks at least {number(audit.lower)}, and exactly {number(audit.exact)}."
        )
    if audit.tests == 0 and not audit.complete:
        return "The time limit ended the audit before an event was tested: it says nothing for or against the claim."
    held = f"Nothing was found against the claim of {_beside(claimed, audit.dp_delta)}"
    if audit.lower <= claimed:
        if audit.exact is None or audit.exact <= claimed * (1 + 1e-9):
            return f"{held}, and no attack proved more than that."
        return (
            f"{held}, and no attack proved more than that. But the records are correlated: under this model the "
            f"mechanism leaks exactly {number(audit.exact)}."
        )
    return (
        f"{held}, which is about an adversary who knows all other records. But the records are correlated: under this "
        f"model the mechanism leaks at least {number(audit.lower)}."
    )


def _learners(audit: AuditReport) -> tuple[str, ...]:
    counted = [attack for attack in audit.attacks if not attack.computed][:1]
    shown = counted if audit.worst is None or not audit.worst.computed else [*counted, audit.worst]
    if audit.refuted and audit.claim_attack is not None and audit.claim_attack not in shown:
        shown.append(audit.claim_attack)
    return tuple(_learner(attack) for attack in shown)


def _account(audit: AuditReport) -> str:
    tests = "1 event was tested" if audit.tests == 1 else f"{audit.tests} events were tested"
    sure = f"with {100 * audit.confidence:g} % confidence" + (" together" if audit.tests > 1 else "")
    account = (
        f"The search tried {audit.tried:,} adversaries with few runs each; then {tests} on fresh runs, {sure}. "
        f"{audit.calls:,} run{'s' * (audit.calls != 1)} in total, assumed to be independent."
    )
    if audit.complete:
        return account
    return f"{account} The time limit ended the audit early: the bounds are valid, and more time may prove more."


def audit_attack_page(attack: AuditAttack) -> Page:
    """What the adversary knows, guesses and proves."""
    return single_page("An attack", "The attack", Words((_learner(attack),)), data=attack.to_dict(), kind="attack")


def _learner(attack: AuditAttack) -> str:
    attacker = (
        f"Best attack {'computed' if attack.computed else 'found'}: the target is {attack.record}. The adversary knows "
        f"{attack.knows}. The adversary guesses {attack.concludes} when {attack.event}."
    )
    if attack.computed:
        return (
            f"{attacker} The probability of that is {number(attack.shares[0])} if the record is {attack.concludes} and "
            f"{number(attack.shares[1])} if it is {attack.instead}: computed, not counted."
        )
    return (
        f"{attacker} That happened in {number(attack.shares[0])} of the runs where the record is {attack.concludes}, "
        f"and in {number(attack.shares[1])} where it is {attack.instead}. The guess is right with probability at least "
        f"{number(attack.right)}; before the release, {attack.concludes} had probability {number(attack.before)}."
    )


def audit_panels(report: dict[str, Any]) -> Panels:
    """Above, what is proved, known, bounded and claimed; below, the event that proves most, under both values."""
    title = f"{report['mechanism']}, {report['records']:,} records, adversary {report['adversary']}"
    claim, others = report["claim"], report["adversary"] != str(Adversary.DP)
    knows = Adversary(report["adversary"]).knows
    rows: list[tuple[str, float | None, BarKind]] = [
        ("upper bound", report["upper"], "pale"),
        ("exact", report["exact"], "pale"),
        ("lower bound, computed", report["lower"] if report["lower"] != report["counted"] else None, "pale"),
        ("lower bound, by attack", report["counted"], "full"),
    ]
    tested: list[tuple[str, float | None, BarKind]] = [
        ("DP claim", claim["dp_epsilon"], "hatched"),
        ("lower bound, by attack", claim["lower"], "full"),
    ]
    if others:
        parts = [_leakage(rows, knows)]
        if claim["dp_epsilon"] is not None:
            parts.append(_leakage(tested, Adversary.DP.knows))
    else:
        parts = [_leakage([*tested[:1], *rows], knows)]
    counted = [attack for attack in report["attacks"] if not attack["computed"]]
    if counted:
        parts.append(_event(counted[0], report["confidence"]))
    return Panels(title=title, parts=tuple(parts), alt=f"{title}. {' '.join(part.alt for part in parts)}")


def _leakage(rows: list[tuple[str, float | None, BarKind]], knows: str) -> Chart:
    bars = [Bar(name=name, value=value, kind=kind) for name, value, kind in rows if value is not None]
    name = f"leakage about one record to an adversary who knows {knows}"
    axis = Axis(name=name, low=0.0, high=1.2 * max(bar.value for bar in bars) or 1.0)
    return bar_chart(bars, axis, alt=f"{name[0].upper()}{name[1:]}")


def _event(attack: dict[str, Any], confidence: float) -> Chart:
    """How often the event is seen for either value, on a logarithmic axis, with the bounds that carry the proof."""
    shares, edges = attack["shares"][::-1], (attack["high"], attack["low"])  # the first value stands above
    least = min(share for share in (*shares, *edges) if share > 0) / 3
    names = (f"{attack['record']} is {attack[value]}" for value in ("instead", "concludes"))
    bars = [
        Bar(name=name, value=max(share, least), words=number(share), place=max(share, edge, least))
        for name, share, edge in zip(names, shares, edges, strict=True)
    ]
    bounds = [(max(edge, least), y) for y, edge in enumerate(edges)]
    words = (
        f"Event: {attack['event']}. The guess {attack['concludes']} is then right with probability at least "
        f"{number(attack['right'])} ({number(attack['before'])} before the release), with {100 * confidence:g} % "
        "confidence."
    )
    return bar_chart(
        bars,
        Axis(name="how often the event is seen", scale="log", low=least, high=3.0),
        points(bounds, series=3, label="bound used in the proof"),
        title=words,
        alt=f"{words} Share of the runs in which it is seen",
        legend="lower right",
    )


def attack_page(report: AttackReport) -> Page:
    """How often each attacker is right, beside what the channel's loss allows."""
    content = report.to_dict()
    sure = report.attacks[0].low is not None
    interval = (f"{100 * report.confidence:g} % interval",) if sure else ()
    rows = tuple(
        (
            a.attacker,
            number(a.success),
            *((interval_text(a.low, a.high),) if a.low is not None and a.high is not None else ()),
            number(a.charged) if math.isfinite(a.charged) else "no bound",
        )
        for a in report.attacks
    )
    table = Table(caption="Share of records guessed right", head=("attacker", "right", *interval, "charges"), rows=rows)
    blocks = (table, Figure(make=lambda: attack_success(content)), Words(_attack_sentences(report)))
    return single_page("How often attackers are right", "What was found", *blocks, data=content, kind="attack")


def _attack_sentences(report: AttackReport) -> tuple[str, ...]:
    own, whole = report.bounds["dp"], report.bounds["pufferfish"]
    what = "exactly" if report.exact is not None else "at most"
    allowed = (
        f"The channel's DP loss is {number(report.losses['dp'])}: from a record's own output nobody is right more "
        f"often than {number(own)}. The whole series leaks {what} {number(report.upper)} to an adversary who knows no "
        f"record, so no such adversary is right more often than {number(whole)}; to one who knows some it "
        f"leaks {what} {number(report.losses['bdp'])}."
    )
    if report.lower is None:
        return allowed, "The true series was not given: the numbers are what the model expects of these outputs."
    proved = (
        f"The attacks prove a loss of at least {number(report.lower)}, with {100 * report.confidence:g} % confidence."
    )
    if report.lower <= report.upper:
        return allowed, proved
    return (
        allowed,
        proved,
        "Warning: that is more than the model allows. The data does not follow the model, and a guarantee made "
        "under it does not hold.",
    )


def attack_success(report: dict[str, Any]) -> Chart:
    """A bar for each attacker with its interval; what the record's own output and the series allow, across."""
    attacks, bounds = report["attacks"], report["bounds"]
    intervals = None
    if attacks[0]["low"] is not None:
        # An interval at an effective number of records need not hold the rate to the last digit.
        low, high = ([pick(a["success"], a[end]) for a in attacks] for pick, end in ((min, "low"), (max, "high")))
        intervals = low, high
    charges = (
        Text(x=place, y=0.0, words=f"charges {number(attack['charged'])}", up=9)
        for place, attack in enumerate(attacks)
        if attack["charged"] is not None
    )
    shares = "; ".join(f"{a['attacker']} {number(a['success'])}" for a in attacks)
    title = f"{report['runs']:,} series of {report['length']:,} records"
    return interval_chart(
        [a["attacker"] for a in attacks],
        [a["success"] for a in attacks],
        intervals,
        Axis(name="right, share of records", low=0.0, high=1.25),
        *charges,
        Rule(at=bounds["dp"], series=1, label="bound from the record's own output (DP)"),
        Rule(at=bounds["pufferfish"], label="bound from the whole series"),
        title=title,
        alt=f"How often attackers are right on {title}: {shares}. A record's own output allows {number(bounds['dp'])}, "
        f"the whole series {number(bounds['pufferfish'])}.",
        legend="upper left",
    )


def stream_page(stream: StreamReport) -> Page:
    """What a stream leaks about the record of each step."""
    content, losses = stream.to_dict(), stream.losses
    same = bool((losses == losses[0]).all())
    spent = f"{number(float(losses[0]))} of DP at each step" if same else "a DP loss of its own at each step"
    over = "without end" if stream.length is None else f"of {stream.length:,} step{'s' * (stream.length != 1)}"
    columns = (losses, stream.backward, stream.forward, stream.total)
    shown = [("any, at most", 0)]
    if stream.length is not None and stream.worst is not None:
        shown = shown_records(stream.length, stream.worst - 1)
    rows = tuple((name, *(number(float(part[at])) for part in columns)) for name, at in shown)
    table = Table(
        caption="Leakage about the record of a step under this model, at most",
        head=("step", "spends", "backward", "forward", "total"),
        rows=rows,
    )
    title = f"A stream {over}, {spent}, under this model, for an adversary who knows {stream.adversary.knows}"
    figures = () if stream.length is None else (Figure(make=lambda: stream_chart(content)),)
    blocks = (table, *figures, Words(_stream_sentences(stream)))
    return single_page(title, "What leaks", *blocks, data=content, kind="leakage", opening=True)


def _stream_sentences(stream: StreamReport) -> tuple[str, ...]:
    worst = None if stream.attack is None else stream.worst
    where = "any record" if worst is None else f"record {worst:,}"
    own = float(stream.losses.max() if worst is None else stream.losses[worst - 1])
    leaks = (
        f"Under this model, any such stream changes the odds between two values of {where} by at most a factor of "
        f"e^{up_to(stream.upper)}; the record's own output alone by at most e^{number(own)}."
    )
    if stream.upper > 0:
        leaks += f" {reached(stream.lower, stream.exact)}"
    sentences = [leaks, *(() if stream.attack is None else stream.attack.sentences)]
    if stream.curve is not None and bool((stream.losses < stream.losses.max()).any()):
        sentences.append(
            f"Under this model, a record would leak up to {up_to(stream.curve)} if every step had the largest of these "
            f"DP losses, {number(float(stream.losses.max()))}."
        )
    return tuple(sentences)


def stream_budget_page(budget: StreamBudget) -> Page:
    """What each step may spend so that no record leaks more than the target."""
    over = "a stream without end" if budget.length is None else f"a stream of {budget.length:,} steps"
    sentences = [
        f"A leakage of at most {number(budget.target)} from {over}, under this model, for an adversary who knows "
        f"{budget.adversary.knows}.",
        f"Under this model, a DP ε of {up_to(budget.constant, down=True)} at each step keeps it, with any DP library "
        "that uses the step's record alone.",
    ]
    if budget.ends is not None and max(budget.ends) > budget.ends[1]:
        first, middle, last = (up_to(e, down=True) for e in budget.ends)
        sentences.append(
            f"Under this model, a DP ε of {first} at the first step, {middle} at those between and {last} at the last "
            "keeps it too, whatever the number of steps."
        )
    words = Words(tuple(sentences))
    return single_page("What each step may spend", "The budget", words, data=budget.to_dict(), kind="budget")


def robustness_page(left: Robustness) -> Page:
    """What a guarantee is worth against an adversary who uses another model."""
    title, words = "The guarantee under another model", Words(_robustness_sentences(left))
    return single_page(title, "Against another model", words, data=left.to_dict(), kind="robustness")


def _robustness_sentences(left: Robustness) -> tuple[str, ...]:
    guaranteed = number(left.guaranteed)
    sentences = [f"Guarantee under the model: ε = {guaranteed}."]
    if math.isinf(left.delta):
        sentences.append(
            "Any mechanism: no guarantee follows against an adversary who uses the alternative model. Reason: "
            f"{left.reason}."
        )
    elif left.delta == 0:
        sentences.append(
            f"Any mechanism: the guarantee of ε = {guaranteed} holds in full against an adversary who uses the "
            "alternative model, because the class contains it."
        )
    else:
        sentences.append(
            "Any mechanism: against an adversary who uses the alternative model, the guarantee weakens from ε = "
            f"{guaranteed} to ε = {number(left.epsilon)} ({guaranteed} + 2 × {number(left.delta)})."
        )
    if left.leakage_under_other is None:
        sentences.append(f"DP noise: no bound under the alternative model, because {left.leakage_reason}.")
    else:
        spent, leaks = up_to(left.dp_epsilon, down=True), up_to(left.leakage_under_other)
        only = "" if left.holds_for is None else f", for {left.holds_for}"
        sentences += [
            f"DP noise with ε = {spent}: leaks at most {leaks} under the alternative model{only}.",
            f"Guarantee of that noise against this adversary: ε = {up_to(left.guarantee)}, the smaller of the two.",
        ]
    if 0 < left.delta < math.inf:
        given = (
            f"record {left.record} is {left.value}" if left.secret is None else f"the secret {left.secret!r} is true"
        )
        power = f"e^{number(left.delta)}" + (f" = {number(math.exp(left.delta))}" if left.delta < 300 else "")
        sentences.append(
            f"Distance: given that {given}, some outcome is {'' if left.exact else 'at most '}{power} times as likely "
            "under one model as under the other."
        )
        if not left.exact:
            sentences.append("The distance is an upper bound: another model of the class may be nearer.")
    return *sentences, f"Adversary: knows {Adversary.PUFFERFISH.knows}."


def stream_chart(stream: dict[str, Any]) -> Chart:
    """Leakage over time, beside the DP loss of each step."""
    parts = {
        "all outputs": stream["total"],
        "outputs so far": stream["backward"],
        "outputs from then on": stream["forward"],
        "DP loss of the step": stream["dp_epsilon"],
    }
    title = f"{stream['length']:,} steps, adversary {stream['adversary']}"
    alt = (
        f"Leakage over {title}: at most {number(max(stream['total']))} from all outputs, "
        f"{number(max(stream['backward']))} from those so far, {number(max(stream['forward']))} from those later."
    )
    return along_records(title, ("step", "leakage about the step's record, at most"), stream["steps"], parts, alt)


def drift_chart(drift: dict[str, Any]) -> Chart:
    """A curve over the probability; the model is where it touches the guarantee, the alternative a point on it."""
    drawn = [p for p in drift["points"] if p["epsilon"] is not None]
    alternative, guaranteed = drift["alternative"], drift["guaranteed"]
    layers: list[Line | Rule | Text] = [
        Line(x=tuple(p["probability"] for p in drawn), y=tuple(p["epsilon"] for p in drawn)),
        Rule(at=guaranteed, pale=True, series=1),
        points([(drift["probability"], guaranteed)], label="the model", hollow=True),
    ]
    title = f"guarantee ε = {guaranteed:g} under the model, {drift['length']:,} records, adversary pufferfish"
    alt = f"The bound for every mechanism while one probability drifts: {title}."
    if alternative is not None and alternative["epsilon"] is not None:
        at, epsilon_kept = alternative["probability"], alternative["epsilon"]
        layers.append(points([(at, epsilon_kept)], label="the alternative model", series=3))
        layers.append(Text(x=at, y=epsilon_kept, words=number(epsilon_kept), align="left", right=8, up=-7))
        alt += f" The alternative model, at {number(at)}, has {number(epsilon_kept)}."
    return Chart(
        title=title,
        x=Axis(name=f"probability that {drift['to']} follows {drift['from']}"),
        y=Axis(name="Effective ε under the alternative model", low=0.0),
        layers=tuple(layers),
        alt=alt,
    )
