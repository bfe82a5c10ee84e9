"""What there is to say of a DP loss, and the figure of leakage curves, with exact points on top."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, up_to
from pufferdp.models.units import Unit
from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Line, Panels, Points, Rule, Text
from pufferdp.report.page import Figure, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.assess.dp import Curves, LeakageReport

_NEIGHBOURS: Final = (
    "DP here is pure, and one record changes its value; an epsilon for records added or removed counts twice."
)

_APPROXIMATE_NEIGHBOURS: Final = (
    "One record changes its value here; a pair for records added or removed is doubled first, to (2 epsilon, "
    "(1 + e^epsilon) delta)."
)

_UNIT_NEIGHBOURS: Final = (
    "DP here is pure, and all records of one {noun} ({records:,}) may change at once; a loss for single records counts "
    "{records:,} times."
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
    lines, points, best = leakage["lines"], leakage["lines"]["exact"], leakage["best"]
    more: list[Layer] = []
    if points:
        places, leakages = (tuple(p[key] for p in points) for key in ("dp_epsilon", "leakage"))
        more.append(Points(x=places, y=leakages, label=f"exact, {leakage['query']}", hollow=True))
    over = f", {leakage['length']:,} records" if leakage["length"] else ""
    if "target" in leakage:
        more.append(Rule(at=leakage["target"], along="y", pale=True))
        question = f"leakage of at most {number(leakage['target'])}"
        spent = leakage["dp_epsilon"][best]
        answer = f"by the {best} curve a DP loss of {number(spent)} may be spent"
    else:
        more.append(Rule(at=leakage["spent"], along="x", pale=True))
        question = f"DP loss {number(leakage['spent'])}"
        answer = f"by the {best} curve it leaks at most {number(leakage['curves'][best])}"
    title = f"{question}{over}, adversary {leakage['adversary']}"
    alt = f"Leakage against DP loss, both logarithmic, by {', '.join(lines['curves'])}. {title}: {answer}."
    if leakage["exact"] is not None:
        alt += f" Exactly, for {leakage['query']}: {number(leakage['exact'])}."
    return _chart(
        title, tuple(lines["dp_epsilon"]), lines["curves"], tuple(more), alt, best, about=_leakage_axis(leakage)
    )


def _leakage_axis(leakage: Mapping[str, Any]) -> str:
    """What leaks, for an axis."""
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
    names = tuple(reversed(bars))
    layers: list[Layer] = []
    for y, name in enumerate(names):
        kind: BarKind = "full" if name == leakage["best"] else "pale"
        layers.append(Bars(at=(y,), values=(bars[name],), kind=kind, start=low))
        layers.append(Text(x=bars[name], y=y, words=_safe(bars[name], inverse), align="left", right=5))
    what = "leakage that is allowed" if inverse else "what DP itself claims"
    layers.append(Rule(at=given, along="x", series=1, label=what))
    title = f"leakage of at most {number(given)}" if inverse else f"DP loss {number(given)}"
    bar_words = "; ".join(f"{name} {_safe(value, inverse)}" for name, value in bars.items())
    return Chart(
        title=f"{title}, adversary {leakage['adversary']}",
        x=Axis(
            name="DP loss to spend" if inverse else _leakage_axis(leakage),
            scale="log",
            low=low,
            high=low * (max(*bars.values(), given) / low) ** 1.3,
        ),
        y=Axis(scale="names", names=names),
        layers=tuple(layers),
        alt=f"For a {title}, by curve: {bar_words}.",
        height=1.7 + 0.42 * len(names),
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
        Points(x=tuple(float(d) for d, _ in yes), y=tuple(place[s] for _, s in yes), label="counts as a yes", series=2),
    ]
    if known:
        layers.append(
            Points(x=tuple(float(d) for d, _ in known), y=tuple(place[s] for _, s in known), label="known", series=1)
        )
    words = f"The worst algorithm speaks for {attack['likelier']} and against {attack['other']}"
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
    title = f"{what} {given}{beside}{over}, for an adversary who knows {report.adversary.knows}"
    reasons = {name: reason for name, reason in report.reasons.items() if name not in report.foreign}  # JSON has all
    shown = {name: value for name, value in report.curves.items() if name in reasons or name not in report.reasons}
    rows = [(name, "best" if name == report.best else "", _safe(v, report.inverse)) for name, v in shown.items()]
    if report.query is not None:
        rows.append((f"exact, {report.query}", "", _exact(report)))
    table = Table(
        caption=f"{what} {given}{beside}{over}, adversary {report.adversary}",
        head=("curve", "", "DP loss to spend" if report.inverse else "leaks at most"),
        rows=tuple(rows),
        left=2,
    )
    none = tuple(f"{name}: {reason}." for name, reason in reasons.items())
    return Page(
        title="What a DP loss leaks",
        opening=(title,),
        sections=(
            Section(
                title="What leaks",
                blocks=(
                    table,
                    Figure(make=lambda: leakage_bars(content)),
                    Words(_sentences(report)),
                    *_questions(report),
                    *((Words(none, heading="No number:"),) if none else ()),
                ),
            ),
        ),
        data=content,
        kind="leakage",
    )


def _questions(report: LeakageReport) -> tuple[Figure, ...]:
    attack = None if report.attack is None else report.attack.to_dict()
    states = report.states
    if attack is None or not 2 <= len(states) <= _MOST_STATES:
        return ()
    return (Figure(make=lambda: questions_chart(attack, states), caption="What the worst algorithm asks."),)


def _sentences(report: LeakageReport) -> tuple[str, ...]:
    value = _safe(report.curves[report.best], report.inverse)
    about = "one record" if report.unit is None else f"one {report.unit.noun}"
    if report.approximate:
        answer = _approximate_answer(report, value)
    elif report.aggregates is not None:
        answer = _aggregates_answer(report, value, about)
    elif report.unit is not None and report.inverse:
        answer = (
            f"Spend a DP epsilon of {value} in all, where all records of {about} change, and no {report.unit.noun} "
        )
        answer += f"leaks more than {number(report.given)}."
    elif report.inverse:
        answer = f"Spend a DP epsilon of {value} in all, with any DP library, and no record leaks more than "
        answer += f"{number(report.given)}."
    else:
        start = "Whatever the DP algorithm, the" if report.universal else "The"
        answer = f"{start} odds about {about} shift by at most e^{value}."
    if not report.universal:
        answer += f" This holds for {report.holds_for}."
    sentences = [answer]
    if report.exact is not None:
        noise = f"For {report.query} with Laplace noise of scale L/epsilon, L its largest move, "
        noise += "this DP epsilon suffices" if report.inverse else "the leakage is"
        sentences.append(f"{noise}: {_safe(report.exact, report.inverse)}.")
    if report.between is not None:
        sentences.append(
            f"For {report.query} with Laplace noise of scale L/epsilon, L its largest move, the leakage lies between "
            f"{_safe(report.between[0], True)} and {_safe(report.between[1], False)}; more would take too long."
        )
    neighbours = _APPROXIMATE_NEIGHBOURS if report.approximate else _NEIGHBOURS
    if report.unit is not None:
        neighbours = _UNIT_NEIGHBOURS.format(noun=report.unit.noun, records=report.unit.records)
    w = report.witness
    if w is not None:
        sentences.append(
            f"Most is learnt by someone who knows {w.knows}. A noisy {report.query} of {number(w.output)} over "
            f"{w.over} then speaks for {w.record} being {w.likelier} and not {w.other}."
        )
    elif report.attack is not None:
        sentences += report.attack.sentences
    sentences += filter(None, (multiplied(report.multiplies),))
    return *sentences, *(f"{name}: {note}." for name, note in report.notes.items()), neighbours


def _aggregates_answer(report: LeakageReport, value: str, about: str) -> str:
    """What aggregates leak together, for ever, or what each may spend."""
    assert report.aggregates is not None
    reads, noun = report.aggregates.reads, "record" if report.unit is None else report.unit.noun
    often = "once" if reads == 1 else f"{reads:,} times at most"
    read = f"Each {noun} is read {often}, and losses add up {noun} by {noun}."
    if report.inverse:
        each = up_to(report.each, down=True)
        return f"Spend a DP epsilon of {each} on each, and all of them together, for ever, leak no more. {read}"
    together = f"That makes {number(report.given)}. " if reads > 1 else ""
    return f"{read} {together}Whatever the aggregates, the odds about {about} shift by at most e^{value}, for ever."


def _delta_beside(report: LeakageReport) -> str:
    """The delta of the question, in words: whose it is follows from whose epsilon stands before it."""
    if not report.approximate:
        return ""
    failing = report.delta if report.inverse else report.dp_delta
    return f" with a delta of {up_to(failing)}"


def _approximate_answer(report: LeakageReport, value: str) -> str:
    """Both pairs, and whose they are."""
    if report.inverse:
        return (
            f"Spend a DP epsilon of {value} with a DP delta of {up_to(report.dp_delta, down=True)} in all, with any DP "
            f"library: towards this adversary that makes an epsilon of {number(report.given)} with a delta of "
            f"{up_to(report.delta)}. The first delta is the algorithm's, the second the one towards the adversary."
        )
    about = "a record" if report.unit is None else report.unit.words
    chosen = f" Of {report.privacy} this pair serves best." if report.privacy else ""
    return (
        f"The algorithm's own pair is ({number(report.given)}, {up_to(report.dp_delta)}); towards this adversary it "
        f"makes ({value}, {up_to(report.delta)}). Whatever the DP algorithm, each set of outputs has under one value "
        f"of {about} a probability of at most e^{value} times that under another, plus {up_to(report.delta)}.{chosen}"
    )


def multiplied(slopes: Mapping[str, float]) -> str:
    """What correlation does to a small epsilon, in one line; empty where it is not known."""
    if not slopes:
        return ""
    exact = slopes.get("tight")
    sentences = []
    if "odds" in slopes:
        bound = up_to(slopes["odds"])
        sentences.append(f"Correlation multiplies a small epsilon by at most {bound} (odds curve, any DP algorithm).")
    if exact is not None:
        sentences.append(f"Here an epsilon of 0.01 becomes at most {up_to(0.01 * exact)} (tight curve).")
    return " ".join(sentences)


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
