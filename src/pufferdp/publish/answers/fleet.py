"""A model for each person: everybody's answer in one reading and one calibration, each with its own certificate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DataError, ModelError, ParameterError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress
from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.series import open_series
from pufferdp.leakage.quilts.fleet import worst_of_each
from pufferdp.ledger import opened
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, SeriesModel
from pufferdp.publish.answers.mechanisms.quilt import QuiltExact
from pufferdp.publish.answers.plan import Candidate
from pufferdp.publish.answers.problem import Finding, Problem
from pufferdp.publish.answers.queries import Query, QueryKind
from pufferdp.publish.answers.release import Release, charge_of, check_mechanism, choose, finish
from pufferdp.publish.noise import Sampler, SystemSampler
from pufferdp.publish.reading import check_reading, coding_of, exact_of, refuse_impossible

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Fleet(Paged):
    """The releases of a fleet, by person."""

    releases: Mapping[str, Release]
    absent: tuple[str, ...]
    """People with a model and without a record; nothing was released for them."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp release --models --json`` prints."""
        each = [{"person": person, **one.to_dict()} for person, one in self.releases.items()]
        return {"releases": each, "absent": list(self.absent)}


def release_fleet(
    data: object,
    *,
    models: Mapping[str, Model],
    column: str,
    by: str,
    query: Query | str,
    epsilon: float,
    adversary: str = "bdp",
    order: str | None = None,
    gap: str | float | None = None,
    missing: str = "refuse",
    clip: tuple[float, float] | None = None,
    mechanism: str | None = None,
    beta: float = 0.05,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> Fleet:
    """Release an answer for each person, each with the noise that their own model needs.

    Args:
        data: a file, a table or a frame, as for ``release``.
        models: a chain or a class of chains for each person (see ``load_models``).
        column: the column with states or numbers.
        by: the column that says whose record a row is.
        query: a Query, or its name as on the command line.
        epsilon: the promise to each person.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        order: the column to sort by; without it a file is taken in row order.
        gap: a longer step in ``order`` starts a new chain.
        missing: ``"refuse"`` or ``"break"`` (a missing value ends a chain).
        clip: range of the numbers of a sum or mean.
        mechanism: a mechanism by name. By default ``quilt-exact`` for chains, all of them in one pass, and the best
            that applies for classes.
        beta: accuracy is certified at probability 1−beta.
        sampler: where noise comes from; the operating system by default.
        ledger: a ledger, or where it is: everybody is charged in one transaction, before any noise is drawn.
        dataset: everybody's data set is called so in the ledger, then a slash and the person.
        progress: called with a few words before each step.
    """
    tell, sampler = progress or (lambda words: None), sampler or SystemSampler()
    query = Query.parse(query, clip=clip) if isinstance(query, str) else query
    who = checks.adversary(adversary)
    checks.probability(beta, "beta")
    check_mechanism(mechanism)
    if query.kind is QueryKind.FUNCTION:
        raise ParameterError(
            "a function of one's own needs the records themselves; release it for one person at a time"
        )
    layout = Layout(column=column, order=order, by=by, gap=gap, missing=missing)
    beliefs = _checked(models, query, layout, epsilon, who)
    coding = _coding(beliefs)
    tell("reading")
    series = open_series(data, layout)
    people = series.people(coding, clip=query.clip if _reads_numbers(beliefs, query) else None)
    _check_people(people, beliefs, by)
    problems, read = {}, {}
    for person, counts in people.items():
        model = beliefs[person]
        read[person] = exact_of(model, _own(person, counts, coding, model), layout)
        problems[person] = Problem(model=model, query=query, lengths=counts.lengths, epsilon=epsilon, adversary=who)
    tell(f"calibrating {len(problems)} people")
    candidates = _candidates(problems, mechanism, beta)
    for person, problem in problems.items():
        calibration = candidates[person].calibration
        if calibration is not None and calibration.scale == 0:
            refuse_impossible(problem.model, read[person])
    receipts: dict[str, Receipt] = {}
    with opened(ledger, dataset) as books:
        if books is not None:
            tell("charging")
            charges = [(f"{dataset}/{person}", charge_of(problems[person], candidates[person])) for person in problems]
            receipts = dict(zip(problems, books.charge_many(charges), strict=True))
    tell("drawing noise")
    releases = {
        person: finish(problem, candidates[person], read[person], sampler, lambda words: None, receipts.get(person))
        for person, problem in problems.items()
    }
    return Fleet(releases=releases, absent=tuple(person for person in models if person not in people))


def _checked(
    models: Mapping[str, Model], query: Query, layout: Layout, epsilon: float, adversary: Adversary
) -> dict[str, SeriesModel]:
    """The models, once everything that can be refused before any data is read has been."""
    if not models:
        raise ParameterError("there is no model; a fleet needs one for each person")
    out, seen = dict[str, SeriesModel](), set[int]()
    ways = {"order": layout.order, "by": layout.by, "gap": layout.gap}
    for person, model in models.items():
        if not isinstance(model, SeriesModel):
            raise ModelError(
                f"the model of {person!r} is not about a series; a fleet takes chains and classes of them", value=model
            )
        out[person] = model
        if id(model) not in seen:  # people may share one
            seen.add(id(model))
            check_reading(model, ways, layout.missing, None)
            Problem(model=model, query=query, lengths=((1, 1),), epsilon=epsilon, adversary=adversary)
    return out


def _coding(models: Mapping[str, SeriesModel]) -> Coding:
    """One way to code everybody's values: the states of all models together, or the bins they share."""
    codings = {coding_of(model): person for person, model in models.items()}
    first, *others = codings
    for other in others:
        if other.bins != first.bins or (first.bins is not None and other.labels != first.labels):
            raise ModelError(
                f"the models of {codings[first]!r} and {codings[other]!r} have other bins; the models of a fleet must "
                "have the same, or none",
                value=other.bins,
            )
    return Coding(labels=tuple(dict.fromkeys(name for one in codings for name in one.labels)), bins=first.bins)


def _reads_numbers(models: Mapping[str, SeriesModel], query: Query) -> bool:
    reading = {query.reads_numbers(model): person for person, model in models.items()}
    if len(reading) > 1:
        raise ModelError(
            f"the model of {reading[False]!r} has values for its states and that of {reading[True]!r} has none; give "
            "values to all models of a fleet, or to none"
        )
    return next(iter(reading))


def _check_people(people: Mapping[str, Counts], models: Mapping[str, SeriesModel], by: str) -> None:
    without = [person for person in people if person not in models]
    if without:
        raise DataError(
            f"{len(without)} of {len(people)} people in {by!r} have no model, first {without[0]!r}; give each one, or "
            "leave their rows out",
            value=without[0],
        )
    for person, counts in people.items():
        if not counts.lengths:
            raise DataError(f"every value of {person!r} is missing; leave their rows out", value=person)


def _own(person: str, counts: Counts, coding: Coding, model: SeriesModel) -> Counts:
    """The counts of the states of the person's own model, in its order."""
    names = coding_of(model).labels
    if names == coding.labels:
        return counts
    found = dict(zip(coding.labels, counts.histogram, strict=True))
    for name, count in found.items():
        if count and name not in names:
            raise DataError(f"a record of {person!r} is {name!r}, which is not a state of their model", value=person)
    return counts.with_histogram(tuple(found[name] for name in names))


def _candidates(problems: Mapping[str, Problem], mechanism: str | None, beta: float) -> dict[str, Candidate]:
    quilt, out = QuiltExact(), dict[str, Candidate]()
    chains = {person: p.model for person, p in problems.items() if isinstance(p.model, MarkovChain)}
    if mechanism in (None, quilt.name) and chains:
        first = problems[next(iter(chains))]
        adversary = Adversary.PUFFERFISH if first.adversary is Adversary.PUFFERFISH else Adversary.BDP
        lengths = [problems[person].longest for person in chains]
        found = worst_of_each(list(chains.values()), lengths, first.epsilon, adversary)
        for person, worst in zip(chains, found, strict=True):
            calibration = quilt.with_finding(problems[person], Finding(sigma=worst.value, quilt=worst))
            out[person] = Candidate(
                mechanism=quilt.name,
                applies=True,
                reason=None,
                calibration=calibration,
                accuracy=calibration.law.accuracy(beta),
                epsilon=first.epsilon,
            )
    for person, problem in problems.items():
        if person not in out:
            out[person] = choose(problem, mechanism, beta, lambda words: None)
    return out
