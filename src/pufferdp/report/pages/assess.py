"""What there is to say of audits, attacks, streams and other beliefs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, up_to
from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Line, Panels, Points, Range, Rule, Text
from pufferdp.report.page import Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.common import DP
from pufferdp.report.pages.losses import reached

if TYPE_CHECKING:
    from pufferdp.assess.attack.attack import AttackReport
    from pufferdp.assess.audit.audit import AuditAttack, AuditReport
    from pufferdp.assess.robustness import Robustness
    from pufferdp.assess.streams import StreamBudget, StreamReport


def audit_page(audit: AuditReport) -> Page:
    """What a mechanism claims, what was proved about it, and who learns that much."""
    content, claim = audit.to_dict(), audit.dp_epsilon
    if claim is None:
        question = "The mechanism claims no DP loss. The audit says what it leaks about one record."
    else:
        question = (
            f"The mechanism claims a DP loss of {_beside(claim, audit.dp_delta)}: somebody who knows all other records "
            "learns no more than that about the last one. The audit asks what somebody learns who knows "
            f"{audit.adversary.knows}, and how records are correlated."
        )
    table = _audit_table(audit)
    verdict, learners = _verdict(audit), (*_learners(audit), _account(audit))
    return Page(
        title=f"Audit: {audit.mechanism}",
        lead=f"{audit.records:,} records, {audit.calls:,} runs of the mechanism",
        opening=(
            f"{audit.mechanism} over {audit.records:,} records, for an adversary who knows {audit.adversary.knows}",
        ),
        sections=(
            Section(title="The claim", blocks=(Words((question, DP), Medium.PAGES),)),
            Section(
                title="What was found",
                blocks=(
                    Words((verdict,), Medium.PAGES),
                    table,
                    Words((verdict, *learners), Medium.TERMINAL),
                    Figure(make=lambda: audit_panels(content), caption="Striped: what is claimed."),
                ),
            ),
            Section(title="Who learns that much", blocks=(Words(learners, Medium.PAGES),)),
        ),
        words=(
            "What is proved holds for this mechanism, this model and this adversary, with the confidence "
            "that is said. What was not found may still leak: an audit proves leakage, never its absence.",
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
    """Two promises, two columns: what the adversary learns who was played, and what the DP claim is about."""
    claim, apart = audit.dp_epsilon, audit.dp_epsilon is not None and audit.adversary is not Adversary.DP
    claim_lower = "" if audit.claim_lower is None else _beside(audit.claim_lower, audit.dp_delta)
    proved = f"proved by attack, with {100 * audit.confidence:g} % confidence"
    rows = [("at least", proved, _beside(audit.counted, audit.upper_delta), claim_lower)]
    if audit.lower > audit.counted:
        rows.append(("at least", "computed for one output, from the mechanism's law", number(audit.lower), ""))
    if audit.exact is not None:
        rows.append(("exactly", "computed", number(audit.exact), ""))
    if audit.upper is not None:
        rows.append(("at most", _upper_source(audit), _beside(audit.upper, audit.upper_delta), ""))
    if claim is not None:
        claimed = _beside(claim, audit.dp_delta)
        words = "DP, towards someone who knows all other records"
        rows.append(("claimed", words, "" if apart else claimed, claimed))
    head = ("leakage", "", "the adversary", "the DP claim")
    if apart:
        return Table(caption="Leakage about one record", head=head, rows=tuple(rows), left=2)
    return Table(
        caption="Leakage about one record",
        head=("leakage", "", "about one record"),
        rows=tuple(row[:3] for row in rows),
        left=2,
    )


def _audit_warnings(audit: AuditReport) -> tuple[str, ...]:
    if audit.refuted:
        return ("the claim is proved wrong",)
    return () if audit.responds else ("the output never depended on the data",)


def _beside(value: float, delta: float) -> str:
    """A leakage, and the delta beside it where there is one."""
    return f"{number(value)}, delta {up_to(delta)}" if delta > 0 else number(value)


def _upper_source(audit: AuditReport) -> str:
    if audit.curve is None:
        return "by theory"
    only = "" if audit.universal else ", for clipped sums and their like"
    return f"whatever keeps the claim ({audit.curve} curve{only})"


def _verdict(audit: AuditReport) -> str:
    claim, claimed = audit.claim_lower, audit.dp_epsilon
    if claim is not None and claimed is not None and claim > claimed:
        return (
            f"The claim is wrong: to someone who knows all other records the mechanism leaks at least "
            f"{_beside(claim, audit.dp_delta)}, and it claims {_beside(claimed, audit.dp_delta)}."
        )
    if audit.upper is not None and audit.lower > audit.upper:
        return (
            f"The claim is wrong: no mechanism that keeps it leaks more than {_beside(audit.upper, audit.upper_delta)}."
        )
    if not audit.responds:
        return (
            "The output never depended on the data: not even data sets that differ in every record could be told "
            "apart by it. So this audit says nothing in favour of the mechanism. See whether it reads the "
            "records as they are "
            "handed over: states by their names, as the data has them."
        )
    if claimed is None:
        return (
            "The mechanism claims no DP loss, so theory sets no upper bound."
            if audit.exact is None
            else f"It leaks at least {number(audit.lower)}, and exactly {number(audit.exact)}."
        )
    held = f"Nothing was found against the claim of {_beside(claimed, audit.dp_delta)}"
    if audit.lower <= claimed:
        more = audit.exact is not None and audit.exact > claimed * (1 + 1e-9)
        found = "no attack got more than that"
        if not more:
            return f"{held}, and {found}."
        return (
            f"{held}, and {found}. But the records are correlated, and what is known of the mechanism says more: the "
            f"adversary can learn exactly {number(audit.exact)}."
        )
    return (
        f"{held}: DP bounds what one record adds for someone who knows all others. But the records are correlated, and "
        f"someone who knows the model learns more: at least {number(audit.lower)}."
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
    return (
        f"{audit.tried:,} adversaries were tried with few runs each to find the worst; then {tests} on fresh runs, "
        f"{sure}. {audit.calls:,} runs in all, which are taken to be independent."
    )


def audit_attack_page(attack: AuditAttack) -> Page:
    """Somebody who learns much, and from what."""
    return Page(
        title="An attack",
        sections=(Section(title="Who learns that much", blocks=(Words((_learner(attack),)),)),),
        data=attack.to_dict(),
        kind="attack",
    )


def _learner(attack: AuditAttack) -> str:
    if attack.computed:
        return (
            f"Someone wants {attack.record} and knows {attack.knows}. They look whether {attack.event}. By the law of "
            f"the mechanism that has probability {number(attack.shares[0])} where the record is {attack.concludes}, "
            f"and {number(attack.shares[1])} where it is {attack.instead}: computed, not counted."
        )
    return (
        f"Someone wants {attack.record} and knows {attack.knows}. They look whether {attack.event}. Where the record "
        f"is {attack.concludes} that happened in {number(attack.shares[0])} of the runs, where it is {attack.instead} "
        f"in {number(attack.shares[1])}. When they see it and say {attack.concludes}, they are right at least "
        f"{number(attack.right)} of the time; before the release it was {number(attack.before)}."
    )


def audit_panels(report: dict[str, Any]) -> Panels:
    """Above, what is proved, known, bounded and claimed; below, the event that proves most, under both values."""
    title = f"{report['mechanism']}, {report['records']:,} records, adversary {report['adversary']}"
    claim, others = report["claim"], report["adversary"] != str(Adversary.DP)
    knows = Adversary(report["adversary"]).knows
    rows: list[tuple[str, float | None, BarKind]] = [
        ("at most, by theory", report["upper"], "pale"),
        ("exactly", report["exact"], "pale"),
        ("at least, computed", report["lower"] if report["lower"] != report["counted"] else None, "pale"),
        ("at least, by attack", report["counted"], "full"),
    ]
    tested: list[tuple[str, float | None, BarKind]] = [
        ("claimed as DP", claim["dp_epsilon"], "hatched"),
        ("at least, by attack", claim["lower"], "full"),
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
    shown = [(name, value, kind) for name, value, kind in rows if value is not None]
    layers: list[Layer] = []
    for place, (_, value, kind) in enumerate(shown):
        layers.append(Bars(at=(place,), values=(value,), kind=kind))
        layers.append(Text(x=value, y=place, words=number(value), align="left", right=5))
    event_words = "; ".join(f"{name} {number(value)}" for name, value, _ in reversed(shown))
    axis = f"leakage about one record to someone who knows {knows}"
    return Chart(
        title="",
        x=Axis(name=axis, low=0.0, high=1.2 * max(value for _, value, _ in shown) or 1.0),
        y=Axis(scale="names", names=tuple(name for name, _, _ in shown)),
        layers=tuple(layers),
        alt=f"{axis[0].upper()}{axis[1:]}: {event_words}.",
        height=1.0 + 0.42 * len(shown),
    )


def _event(attack: dict[str, Any], confidence: float) -> Chart:
    """How often the event is seen for either value, on a logarithmic axis, with the bounds that carry the proof."""
    shares, edges = attack["shares"][::-1], (attack["high"], attack["low"])  # the first value stands above
    least = min(share for share in (*shares, *edges) if share > 0) / 3
    values = (attack["instead"], attack["concludes"])
    layers: list[Layer] = []
    for place, (share, edge) in enumerate(zip(shares, edges, strict=True)):
        layers.append(Bars(at=(place,), values=(max(share, least),), kind="pale", start=least))
        layers.append(Text(x=max(share, edge, least), y=place, words=number(share), align="left", right=9))
    bounds = tuple(max(edge, least) for edge in edges)
    layers.append(Points(x=bounds, y=(0.0, 1.0), series=3, label="bound used in the proof"))
    event_words = f"Event: {attack['event']}. Seen, they say {attack['concludes']} and are right at least "
    event_words += f"{number(attack['right'])} of the time ({number(attack['before'])} before), "
    event_words += f"with {100 * confidence:g} % confidence."
    return Chart(
        title=event_words,
        x=Axis(name="how often the event is seen", scale="log", low=least, high=3.0),
        y=Axis(scale="names", names=tuple(f"{attack['record']} is {value}" for value in values)),
        layers=tuple(layers),
        alt=f"{event_words} It is seen in {number(shares[1])} of the runs where {attack['record']} is {values[1]}, in "
        f"{number(shares[0])} where it is {values[0]}.",
        height=2.6,
        legend="lower right",
    )


def attack_page(report: AttackReport) -> Page:
    """How often each attacker is right, beside what the channel's loss allows."""
    content = report.to_dict()
    sure = report.attacks[0].low is not None
    between = (f"{100 * report.confidence:g} % between", "and") if sure else ()
    rows = tuple(
        (
            a.attacker,
            number(a.success),
            *((number(a.low), number(a.high)) if sure else ()),
            number(a.implied_epsilon) if math.isfinite(a.implied_epsilon) else "no bound",
        )
        for a in report.attacks
    )
    table = Table(caption="Share of records guessed right", head=("attacker", "right", *between, "charges"), rows=rows)
    blocks = (table, Figure(make=lambda: attack_success(content)), Words(_attack_sentences(report)))
    return Page(
        title="How often attackers are right",
        sections=(Section(title="What was found", blocks=blocks),),
        data=content,
        kind="attack",
    )


def _attack_sentences(report: AttackReport) -> tuple[str, ...]:
    own, whole = report.bounds["dp"], report.bounds["pufferfish"]
    what = "exactly" if report.exact is not None else "at most"
    allowed = (
        f"The channel's DP loss is {number(report.losses['dp'])}: from a record's own output nobody is right more "
        f"often than {number(own)}. The whole series leaks {what} {number(report.upper)} to someone who knows no "
        f"record, so nobody of that kind is right more often than {number(whole)}; to someone who knows some it "
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
        "Warning: that is more than the model allows. The data does not follow the model, and a promise made "
        "under it does not hold.",
    )


def attack_success(report: dict[str, Any]) -> Chart:
    """A bar for each attacker with its interval; what the record's own output and the series allow, across."""
    attacks, bounds = report["attacks"], report["bounds"]
    places = tuple(float(n) for n in range(len(attacks)))
    layers: list[Layer] = [Bars(at=places, values=tuple(a["success"] for a in attacks), kind="pale", width=0.55)]
    if attacks[0]["low"] is not None:
        # An interval at an effective number of records need not hold the rate to the last digit.
        low, high = (tuple(pick(a["success"], a[end]) for a in attacks) for pick, end in ((min, "low"), (max, "high")))
        layers.append(Range(at=places, low=low, high=high))
    for place, attack in zip(places, attacks, strict=True):
        if attack["charged"] is not None:
            layers.append(Text(x=place, y=0.0, words=f"charges {number(attack['charged'])}", up=9))
    layers.append(Rule(at=bounds["dp"], series=1, label="bound from the record's own output (DP)"))
    layers.append(Rule(at=bounds["pufferfish"], label="bound from the whole series"))
    shares = "; ".join(f"{a['attacker']} {number(a['success'])}" for a in attacks)
    title = f"{report['runs']:,} series of {report['length']:,} records"
    return Chart(
        title=title,
        x=Axis(scale="names", names=tuple(a["attacker"] for a in attacks)),
        y=Axis(name="right, share of records", low=0.0, high=1.25),
        layers=tuple(layers),
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
    rows = tuple((name, *(number(float(part[at])) for part in columns)) for name, at in _stream_rows(stream))
    table = Table(
        caption="Leakage about the record of a step, at most",
        head=("step", "spends", "backward", "forward", "total"),
        rows=rows,
    )
    title = f"A stream {over}, {spent}, for an adversary who knows {stream.adversary.knows}"
    figures = () if stream.length is None else (Figure(make=lambda: stream_chart(content)),)
    return Page(
        title=title,
        opening=(title,),
        sections=(Section(title="What leaks", blocks=(table, *figures, Words(_stream_sentences(stream)))),),
        data=content,
        kind="leakage",
    )


def _stream_rows(stream: StreamReport) -> list[tuple[str, int]]:
    """The steps that a table shows: both ends, the middle and the worst."""
    if stream.length is None or stream.worst is None:
        return [("any, at most", 0)]
    n, worst = stream.length, stream.worst - 1
    steps = sorted({0, 1, worst, n // 2, n - 2, n - 1} & set(range(n)) if n > 8 else set(range(n)))
    return [(f"{t + 1:,}" + (" worst" if t == worst else ""), t) for t in steps]


def _stream_sentences(stream: StreamReport) -> tuple[str, ...]:
    where = "any record" if stream.worst is None else f"record {stream.worst:,}"
    own = float(stream.losses[0 if stream.worst is None else stream.worst - 1])
    leaks = (
        f"Whatever the algorithm, the odds about {where} shift by at most e^{up_to(stream.upper)}; its own output "
        f"alone shifts them by e^{number(own)}."
    )
    if stream.upper > 0:
        leaks += f" {reached(stream.lower, stream.exact)}"
    sentences = [leaks, *stream.attack.sentences]
    if stream.curve is not None and bool((stream.losses < stream.losses.max()).any()):
        sentences.append(
            f"If every step spent as much as the one that spends most, {number(float(stream.losses.max()))}, a record "
            f"would leak up to {up_to(stream.curve)}."
        )
    return tuple(sentences)


def stream_budget_page(budget: StreamBudget) -> Page:
    """What each step may spend so that no record leaks more than the target."""
    over = "a stream without end" if budget.length is None else f"a stream of {budget.length:,} steps"
    sentences = [
        f"A leakage of at most {number(budget.target)} from {over}, for an adversary who knows "
        f"{budget.adversary.knows}.",
        f"Spend a DP epsilon of {up_to(budget.constant, down=True)} at each step, with any DP library that uses "
        "the step's record alone.",
    ]
    if budget.ends is not None and max(budget.ends) > budget.ends[1]:
        first, middle, last = (up_to(e, down=True) for e in budget.ends)
        sentences.append(
            f"Or spend {first} at the first step, {middle} at those between and {last} at the last: whatever the "
            "number of steps, no record leaks more."
        )
    return Page(
        title="What each step may spend",
        sections=(Section(title="The budget", blocks=(Words(tuple(sentences)),)),),
        data=budget.to_dict(),
        kind="budget",
    )


def robustness_page(left: Robustness) -> Page:
    """What is left of a promise against one belief."""
    sentences = [f"Promised to whoever believes the model: epsilon {number(left.promised)}."]
    if math.isinf(left.delta):
        sentences += ["Kept towards this belief: nothing.", f"Why: {left.reason}."]
    elif left.delta == 0:
        sentences.append(
            f"Kept towards this belief: epsilon {number(left.promised)}, all of it. The class contains it."
        )
    else:
        most = "" if left.exact else "at most "
        given = f"Record {left.record} decides: given that it is {left.value}"
        if left.secret is not None:
            given = f"The secret {left.secret!r} decides: given it"
        power = f"e^{number(left.delta)}" + (f" = {number(math.exp(left.delta))}" if left.delta < 300 else "")
        sentences += [
            f"Kept towards this belief: epsilon {number(left.epsilon)}, which is {number(left.promised)} + 2·"
            f"{number(left.delta)}.",
            f"{given}, some outcome is {most}{power} times as likely to one of the two as to the other.",
        ]
        if not left.exact:
            sentences.append("This is an upper bound: some model of the class may be nearer to the belief.")
    sentences.append(f"This is for an adversary who knows {Adversary.PUFFERFISH.knows}.")
    return Page(
        title="What is left of a promise",
        sections=(Section(title="Against another belief", blocks=(Words(tuple(sentences)),)),),
        data=left.to_dict(),
        kind="robustness",
    )


_NAMES: Final = {
    "total": "all outputs",
    "backward": "outputs so far",
    "forward": "outputs from then on",
    "dp_epsilon": "DP loss of the step",
}


def stream_chart(stream: dict[str, Any]) -> Chart:
    """Leakage over time, beside the DP loss of each step."""
    steps, few = tuple(map(float, stream["steps"])), len(stream["steps"]) <= 40
    lines = [
        Line(x=steps, y=tuple(map(float, stream[part])), label=label, series=n, marked=few, bold=part == "total")
        for n, (part, label) in enumerate(_NAMES.items())
    ]
    title = f"{stream['length']:,} steps, adversary {stream['adversary']}"
    return Chart(
        title=title,
        x=Axis(name="step", whole=True),
        y=Axis(name="leakage about the step's record, at most", low=0.0),
        layers=tuple(lines),
        alt=f"Leakage over {title}: at most {number(max(stream['total']))} from all outputs, "
        f"{number(max(stream['backward']))} from those so far, {number(max(stream['forward']))} from those later.",
        height=4.2,
        legend="outside",
    )


def drift_chart(drift: dict[str, Any]) -> Chart:
    """A curve over the probability; the model is where it touches the promise, the belief a point on it."""
    points = [p for p in drift["points"] if p["epsilon"] is not None]
    belief, promised = drift["belief"], drift["promised"]
    layers: list[Layer] = [
        Line(x=tuple(p["probability"] for p in points), y=tuple(p["epsilon"] for p in points)),
        Rule(at=promised, pale=True, series=1),
        Points(x=(drift["probability"],), y=(promised,), label="the model", hollow=True),
    ]
    title = f"epsilon {promised:g} was promised, {drift['length']:,} records, adversary pufferfish"
    alt = f"What is kept of the promise while one probability drifts: {title}."
    if belief is not None and belief["epsilon"] is not None:
        at, epsilon_kept = belief["probability"], belief["epsilon"]
        layers.append(Points(x=(at,), y=(epsilon_kept,), label="the belief", series=3))
        layers.append(Text(x=at, y=epsilon_kept, words=number(epsilon_kept), align="left", right=8, up=-7))
        alt += f" The belief, at {number(at)}, keeps {number(epsilon_kept)}."
    return Chart(
        title=title,
        x=Axis(name=f"probability that {drift['to']} follows {drift['from']}"),
        y=Axis(name="epsilon kept towards a belief at this place", low=0.0),
        layers=tuple(layers),
        alt=alt,
    )
