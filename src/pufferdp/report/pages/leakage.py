"""What there is to say of a DP loss, and the figure of leakage curves, with exact points on top."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, up_to
from pufferdp.models.units import Unit
from pufferdp.report.charts import Axis, Bar, Chart, Layer, Line, Panels, Rule, bar_chart, points
from pufferdp.report.page import Figure, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.assess.dp import Curves, LeakageReport

_NEIGHBOURS: Final = (
    "Assumes pure DP under substitution (change-one) neighbours. If your library uses add/remove neighbours, double "
    "its ε before entering it."
)

_APPROXIMATE_NEIGHBOURS: Final = (
    "Assumes substitution (change-one) neighbours. If your library uses add/remove neighbours, convert its pair to "
    "(2ε, (1 + e^ε)·δ) before entering it."
)

_UNIT_NEIGHBOURS: Final = (
    "Assumes pure DP where all {records:,} records of one {noun} may change at once. If your ε is for single records, "
    "multiply it by {records:,} before entering it."
)

_SERIES: Final = {
    "tight": 0,
    "gaussian-exact": 0,
    "ar1": 0,
    "pedigree": 0,
    "markov": 1,
    "gaussian": 1,
    "zhao": 2,
    "gaussian-class": 2,
    "general": 3,
    "independent": 4,
    "odds": 6,
    "quilt": 7,
}
"""A curve looks the same in every figure; those that apply to the same models look different."""
_CLAIM: Final = 5
_SHOWN: Final = 16
"""Records on each side that the figure of questions shows at most."""
_MOST_STATES: Final = 12


def curves_chart(curves: Curves, *, least: float = 0.01, most: float = 10.0) -> Chart:
    """Every curve that applies, between two DP losses."""
    from pufferdp.assess.dp import curve_lines  # a page with a figure needs it, and a plan in a terminal has none

    losses, lines = curve_lines(curves, least, most)
    return _chart("", losses, lines, (), f"Curves of leakage against DP loss: {', '.join(lines)}.")


def leakage_curves(leakage: dict[str, Any]) -> Chart:
    """The answer of ``leakage_of`` with its lines; the question is pale: a DP loss upright, a target across."""
    lines, exact, best = leakage["lines"], leakage["lines"]["exact"], leakage["best"]
    more: list[Layer] = []
    if exact:
        places = [(point["dp_epsilon"], point["leakage"]) for point in exact]
        more.append(points(places, label=f"exact, {leakage['query']}", hollow=True))
    over = f", {leakage['length']:,} records" if leakage["length"] else ""
    if "target" in leakage:
        more.append(Rule(at=leakage["target"], along="y", pale=True))
        question = f"leakage of at most {number(leakage['target'])}"
        spent = leakage["dp_epsilon"][best]
        answer = f"under this model a DP loss of {number(spent)} keeps it, by the {best} curve"
    else:
        more.append(Rule(at=leakage["spent"], along="x", pale=True))
        question = f"DP loss {number(leakage['spent'])}"
        answer = f"under this model it leaks at most {number(leakage['curves'][best])}, by the {best} curve"
    title = f"{question}{over}, adversary {leakage['adversary']}"
    alt = f"Leakage against DP loss, both logarithmic, by {', '.join(lines['curves'])}. {title}: {answer}."
    if leakage["exact"] is not None:
        alt += f" Exactly, under this model, for {leakage['query']}: {number(leakage['exact'])}."
    return _chart(
        title, tuple(lines["dp_epsilon"]), lines["curves"], tuple(more), alt, best, about=_leakage_axis(leakage)
    )


def _leakage_axis(leakage: Mapping[str, Any]) -> str:
    """The name of the axis that shows leakage."""
    unit = leakage.get("unit")
    return f"leakage about {'one record' if unit is None else Unit(**unit).words}, at most"


def leakage_figure(leakage: dict[str, Any], states: Sequence[str]) -> Chart | Panels:
    """The curves, and below them what the worst algorithm asks along the chain, where that is known."""
    curves = leakage_curves(leakage)
    if leakage["attack"] is None or not 2 <= len(states) <= _MOST_STATES:
        return curves
    asked = questions_chart(leakage["attack"], states)
    return Panels(title="", alt=f"{curves.alt} {asked.alt}", parts=(curves, asked))


def leakage_bars(leakage: dict[str, Any]) -> Chart:
    """The answer of ``leakage_of`` alone, without the model: a number for every curve, and the exact one."""
    inverse = "target" in leakage
    bars = {name: value for name, value in leakage["dp_epsilon" if inverse else "curves"].items() if value}
    if leakage["exact"]:
        bars[f"exact, {leakage['query']}"] = leakage["exact"]
    given = leakage["target"] if inverse else leakage["spent"]
    low = 10.0 ** math.floor(math.log10(min(*bars.values(), given)) - 0.1)
    high = low * (max(*bars.values(), given) / low) ** 1.3
    shown = [
        Bar(name=name, value=value, kind="full" if name == leakage["best"] else "pale", words=_safe(value, inverse))
        for name, value in reversed(bars.items())
    ]
    what = "leakage that is allowed" if inverse else "what DP itself claims"
    title = f"leakage of at most {number(given)}" if inverse else f"DP loss {number(given)}"
    return bar_chart(
        shown,
        Axis(name="DP loss to spend" if inverse else _leakage_axis(leakage), scale="log", low=low, high=high),
        Rule(at=given, along="x", series=1, label=what),
        title=f"{title}, adversary {leakage['adversary']}",
        alt=f"For a {title}, under this model, by curve",
        legend="outside",
    )


def questions_chart(attack: Mapping[str, Any], states: Sequence[str]) -> Chart:
    """The worst algorithm along the chain: which states of each record count as a yes, and which records are known."""
    known = [(sign * side["distance"], side["state"]) for sign, side in _both(attack) if side is not None]
    runs = [(sign, run) for sign, side in _both(attack["questions"]) for run in side]
    reach = [abs(d) for d, _ in known] + [run["to"] or _SHOWN for _, run in runs]
    shown, place = min(_SHOWN, max(reach, default=1)), {state: float(n) for n, state in enumerate(states)}
    yes = [(0, attack["likelier"])]
    for sign, run in runs:
        last = min(run["to"] or shown, shown)
        yes += [(sign * d, state) for d in range(run["from"], last + 1) for state in run["states"]]
    known = [(d, state) for d, state in known if abs(d) <= shown]
    layers: list[Layer] = [
        Rule(at=0.0, along="x", pale=True),
        points([(d, place[state]) for d, state in yes], label="counts as a yes", series=2),
    ]
    if known:
        layers.append(points([(d, place[state]) for d, state in known], label="known", series=1))
    words = f"The worst-case DP algorithm is evidence for {attack['likelier']} over {attack['other']}"
    return Chart(
        title=words,
        x=Axis(name="records before and after the target", low=-shown - 0.5, high=shown + 0.5, whole=True),
        y=Axis(scale="names", names=tuple(states)),
        layers=tuple(layers),
        alt=f"{words}. By record, from the target outwards, the states that count as a yes are marked; known records "
        "are crosses.",
        height=1.8 + 0.4 * len(states),
        legend="best",
    )


def _both(sides: Mapping[str, Any]) -> tuple[tuple[int, Any], tuple[int, Any]]:
    """Both sides, with the sign of their distances."""
    return (-1, sides["before"]), (1, sides["after"])


def leakage_page(report: LeakageReport) -> Page:
    """What a DP loss leaks by every curve, or the loss that may be spent."""
    content = report.to_dict()
    over = f" over {report.length:,} records" if report.length is not None else ""
    what = "A leakage of at most" if report.inverse else "A DP loss of"
    beside = _delta_beside(report)
    given = number(report.given)
    if report.unit is not None:
        over = f" about {report.unit.words}{over}" if report.inverse else f" for {report.unit.words}{over}"
    if report.aggregates is not None:
        over += f", {report.aggregates.words}, for ever"
        given = given if report.inverse else number(report.each)
    title = f"{what} {given}{beside}{over}, under this model, for an adversary who knows {report.adversary.knows}"
    reasons = {name: reason for name, reason in report.reasons.items() if name not in report.foreign}  # JSON has all
    shown = {name: value for name, value in report.curves.items() if name in reasons or name not in report.reasons}
    rows = [(name, "best" if name == report.best else "", _safe(v, report.inverse)) for name, v in shown.items()]
    if report.query is not None:
        rows.append((f"exact, {report.query}", "", _exact(report)))
    # With aggregates a record has the DP loss of all that read it.
    spend = "DP loss to spend" if report.aggregates is None else "DP loss per record"
    table = Table(
        caption=f"{what} {given}{beside}{over}, under this model, adversary {report.adversary}",
        head=("curve", "", spend if report.inverse else "leaks at most"),
        rows=tuple(rows),
        left=2,
    )
    none = tuple(f"{name}: {reason}." for name, reason in reasons.items())
    bars, sentences = Figure(make=lambda: leakage_bars(content)), Words(_sentences(report))
    absent = (Words(none, heading="No number:"),) if none else ()
    section = Section(title="What leaks", blocks=(table, bars, sentences, *_questions(report), *absent))
    return Page(title="What a DP loss leaks", opening=(title,), sections=(section,), data=content, kind="leakage")


def _questions(report: LeakageReport) -> tuple[Figure, ...]:
    attack = None if report.attack is None else report.attack.to_dict()
    states = report.states
    if attack is None or not 2 <= len(states) <= _MOST_STATES:
        return ()
    return (
        Figure(make=lambda: questions_chart(attack, states), caption="The questions of the worst-case DP algorithm."),
    )


def _sentences(report: LeakageReport) -> tuple[str, ...]:
    value = _safe(report.curves[report.best], report.inverse)
    about = "one record" if report.unit is None else f"one {report.unit.noun}"
    if report.approximate:
        answer = _approximate_answer(report, value)
    elif report.aggregates is not None:
        answer = _aggregates_answer(report, value, about)
    elif report.inverse:
        noun = "record" if report.unit is None else report.unit.noun
        answer = (
            f"Under this model, no {noun} leaks more than {number(report.given)} if the DP ε is at most {value} in "
        )
        answer += "total, with any DP library."
    else:
        which = "any DP algorithm with this ε" if report.universal else "an algorithm with this DP ε"
        answer = f"Under this model, {which} changes the odds between two values of {about} by at most a "
        answer += f"factor of e^{value}."
    if not report.universal:
        answer += f" This holds for {report.holds_for}."
    sentences = [answer]
    if report.exact is not None:
        leaks = "needs a DP ε of at most" if report.inverse else "leaks"
        sentences.append(f"{_laplace(report)} {leaks} {_safe(report.exact, report.inverse)}.")
    if report.between is not None:
        sentences.append(
            f"{_laplace(report)} leaks between {_safe(report.between[0], True)} and {_safe(report.between[1], False)}; "
            "a narrower interval would take too long."
        )
    neighbours = _APPROXIMATE_NEIGHBOURS if report.approximate else _NEIGHBOURS
    if report.unit is not None:
        neighbours = _UNIT_NEIGHBOURS.format(noun=report.unit.noun, records=report.unit.records)
        neighbours = " ".join(filter(None, (neighbours, report.unit.zone)))
    w = report.witness
    if w is not None:
        sentences.append(
            f"Worst-case adversary: knows {w.knows}. For this adversary, a noisy {report.query} of {number(w.output)} "
            f"over {w.over} is the strongest evidence that {w.record} is {w.likelier} and not {w.other}."
        )
    elif report.attack is not None:
        sentences += report.attack.sentences
    sentences += filter(None, (multiplied(report.multiplies),))
    return *sentences, *(f"{name}: {note}." for name, note in report.notes.items()), neighbours


def _laplace(report: LeakageReport) -> str:
    return (
        f"Under this model, {report.query} with Laplace noise of scale L/ε (L: how far one record can move the answer)"
    )


def _reads(report: LeakageReport) -> str:
    """How often aggregates read one record, and what their DP losses add up to."""
    assert report.aggregates is not None
    reads, noun = report.aggregates.reads, "record" if report.unit is None else report.unit.noun
    often = "once" if reads == 1 else f"{reads:,} times at most"
    return f"Each {noun} is read {often}, and DP losses add up {noun} by {noun}."


def _aggregates_answer(report: LeakageReport, value: str, about: str) -> str:
    """What aggregates leak together, for ever, or what each may spend."""
    assert report.aggregates is not None
    if report.inverse:
        return (
            f"{_reads(report)} Under this model, all aggregates together, for ever, leak no more than "
            f"{number(report.given)} about {about} if the DP ε of each is at most {up_to(report.each, down=True)}."
        )
    together = f" That makes {number(report.given)}." if report.aggregates.reads > 1 else ""
    return (
        f"{_reads(report)}{together} Under this model, all aggregates together, for ever, change the odds between two "
        f"values of {about} by at most a factor of e^{value}."
    )


def _delta_beside(report: LeakageReport) -> str:
    """The delta of the question, in words: whose it is follows from whose epsilon stands before it."""
    if not report.approximate:
        return ""
    failing = report.delta if report.inverse else report.dp_delta / report.reads
    return f" with a delta of {up_to(failing)}"


def _approximate_answer(report: LeakageReport, value: str) -> str:
    """Both pairs, and whose they are."""
    read = "" if report.aggregates is None else f"{_reads(report)} "
    if report.inverse:
        total = report.curves[report.best]
        spent = None if total is None else total / report.reads
        pair = f"a DP ε of {up_to(spent, down=True)} with a DP δ of {up_to(report.dp_delta / report.reads, down=True)}"
        where = "in total, with any DP library," if report.aggregates is None else "on each aggregate"
        return (
            f"{read}Under this model, {pair} {where} guarantees ε = {number(report.given)} with δ = "
            f"{up_to(report.delta)} against this adversary. The first δ is that of the DP algorithm, the second is "
            "against the adversary."
        )
    about = "a record" if report.unit is None else report.unit.words
    chosen = f" This pair of {report.privacy} gives the best bound." if report.privacy else ""
    own = "The pair of the DP algorithm" if report.reads == 1 else "The pair of all aggregates that read it"
    return (
        f"{read}{own} is ({number(report.given)}, {up_to(report.dp_delta)}); under this model it becomes ({value}, "
        f"{up_to(report.delta)}) against this adversary. Under this model, for any DP algorithm with this pair, the "
        f"probability of each set of outputs given one value of {about} is at most e^{value} times that given another "
        f"value, plus {up_to(report.delta)}.{chosen}"
    )


def multiplied(slopes: Mapping[str, float]) -> str:
    """How much correlation amplifies a small DP epsilon, in one sentence; empty where it is not known."""
    parts = []
    if "odds" in slopes:
        factor = f"at most {up_to(slopes['odds'])}× (odds bound)"
        parts.append(f"correlation amplifies the privacy loss of any DP algorithm by {factor}")
    if "tight" in slopes:
        parts.append(f"a DP ε of 0.01 leaks at most {up_to(0.01 * slopes['tight'])} (tight bound)")
    return f"Under this model, {'; for example, '.join(parts)}." if parts else ""


def _exact(report: LeakageReport) -> str:
    """The exact number, or between what it lies."""
    if report.between is None:
        return _safe(report.exact, report.inverse)
    return f"{_safe(report.between[0], True)} to {_safe(report.between[1], False)}"


def _safe(value: float | None, inverse: bool) -> str:
    return up_to(value, down=inverse)


def _chart(
    title: str,
    losses: tuple[float, ...],
    lines: Mapping[str, Any],
    more: tuple[Layer, ...],
    alt: str,
    best: str | None = None,
    about: str = "leakage about one record, at most",
) -> Chart:
    shown: list[Layer] = [
        Line(x=losses, y=tuple(values), label=name, series=_SERIES[name], bold=name == best)
        for name, values in lines.items()
    ]
    if "independent" not in lines:
        shown.append(Line(x=losses, y=losses, label="what DP itself claims", series=_CLAIM))
    return Chart(
        title=title,
        x=Axis(name="DP loss that is spent", scale="log", low=losses[0], high=losses[-1]),
        y=Axis(name=about, scale="log"),
        layers=(*shown, *more),
        alt=alt,
        height=4.6,
    )
