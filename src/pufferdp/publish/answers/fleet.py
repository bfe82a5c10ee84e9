"""A model for each person: everybody's answer in one reading, each with its own noise and certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DataError, DeliveryError, ModelError, ParameterError, ValuesError
from pufferdp.basics.paged import Paged
from pufferdp.basics.words import a_kind
from pufferdp.data.layout import Coding, Counts, hides_values
from pufferdp.data.series import open_series
from pufferdp.models.base import Lengths, Model
from pufferdp.models.bins import with_bins
from pufferdp.models.chain import SeriesModel, chain_of, series_of
from pufferdp.models.files.json import ModelLike, as_model, model_digest
from pufferdp.publish.answers.kind import KIND, AnswerProblem
from pufferdp.publish.answers.mechanisms.baselines import CurveNoise, PerRecord
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace, leaks_its_loss
from pufferdp.publish.answers.problem import Calibration, Mechanism, Problem
from pufferdp.publish.answers.publication import AnswerPublication, Release
from pufferdp.publish.answers.queries import FunctionQuery, Query
from pufferdp.publish.pipeline import Account, Charged, Publication
from pufferdp.publish.reading import (
    Exact,
    check_moves_of_people,
    check_people,
    coding_of,
    exact_of,
)
from pufferdp.publish.series import ReleaseOptions, as_asked

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Fleet(Paged):
    """The releases of a fleet, by person."""

    releases: Mapping[str, Release]
    absent: tuple[str, ...]
    """People with a model and without a record; nothing was released for them."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp release --models --json`` prints."""
        each = [{"person": person, **release.to_dict()} for person, release in self.releases.items()]
        return {"releases": each, "absent": list(self.absent)}


def release_fleet(
    data: object,
    *,
    models: Mapping[str, ModelLike],
    query: Query | str,
    epsilon: float,
    adversary: str = "bdp",
    clip: tuple[float, float] | None = None,
    mechanism: str | None = None,
    beta: float = 0.05,
    **options: Unpack[ReleaseOptions],
) -> Fleet:
    """Release an answer for each person, each with the noise that their own model needs.

    Args:
        data: a file, a table or a frame, as for ``release``.
        models: a chain or a class of chains for each person (see ``load_models``).
        query: a Query, or its name as on the command line.
        epsilon: the guarantee to each person.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        clip: range of the numbers of a sum or mean.
        mechanism: a mechanism by name; by default the best that applies to each person. People with equal models and
            series share one calibration.
        beta: accuracy is certified at probability 1−beta.
        options: how the data are read, as for ``Series``; ``sampler``, ``ledger``, ``dataset``, ``accept_misfit`` and
            ``progress``, as for ``release``.
    """
    parsed_query = Query.of(query, clip=clip)
    series, run = as_asked(data, options)
    if not isinstance(models, Mapping):
        raise ParameterError(
            f"models is {a_kind(models)}; it must be a dict with a model for each person", value=type(models)
        )
    if series.id is not None:
        raise ParameterError("id is for models that are not series, and a fleet takes series: leave it out")
    named = {str(person): as_model(model, f"the model of {person!r}") for person, model in models.items()}
    prior = {person: with_bins(model, series.bins) for person, model in named.items()}
    if series.by is None:
        raise ParameterError("by is missing; a fleet needs the column that tells people apart: by=")
    if not prior:
        raise ParameterError("there is no model; a fleet needs one for each person")
    each = AnswerPublication(
        data=series.data,
        model=next(iter(prior.values())),
        reading=series.reading(next(iter(prior.values()))),
        query=parsed_query,
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        mechanism=mechanism,
        beta=beta,
        account=Account(),
        sampler=run["sampler"],
    )
    return FleetPublication(
        data=series.data,
        models=prior,
        each=each,
        **run,
    ).publish()


Each = dict[str, AnswerProblem]
Noises = dict[str, Calibration]


@dataclass(frozen=True, kw_only=True)
class FleetPublication(Publication[Each, Noises, dict[str, Exact], Fleet]):
    """The answers of all people on their way out."""

    models: Mapping[str, Model]
    each: AnswerPublication
    """What is asked of everybody; the model is each person's own."""

    kind = KIND

    def publication_of(self, person: str) -> AnswerPublication:
        """What is asked of one person."""
        return replace(self.each, model=self.models[person])

    def check(self) -> None:
        """Refuse what would be refused for any one person."""
        if isinstance(self.each.query, FunctionQuery):
            raise ParameterError(
                "a function of your own needs the records themselves; release it for one person at a time"
            )
        seen = set[int]()
        for person, model in self._chains().items():
            if id(model) not in seen:  # people may share one
                seen.add(id(model))
                self.publication_of(person).check()
                self.publication_of(person).checked.refuse(self.accept_misfit)
        _coding(self._chains())
        steps = {model.step: person for person, model in self.models.items()}
        if len(steps) > 1:
            raise ModelError(
                f"the models of {' and '.join(map(repr, [*steps.values()][:2]))} have different steps; the models of a "
                "fleet must have the same, or none"
            )

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """Nothing yet: who has records is known when they are read, and each person has a data set of their own."""

    def _chains(self) -> dict[str, SeriesModel]:
        out: dict[str, SeriesModel] = {}
        for person, model in self.models.items():
            series = series_of(model)
            if series is None:
                raise ModelError(
                    f"the model of {person!r} is not about a series of states; a fleet takes chains and classes of "
                    "them",
                    value=model,
                )
            out[person] = series
        return out

    def read(self) -> dict[str, Exact]:
        """Everybody's counts, in one reading."""
        self.progress("reading")
        chains, layout = self._chains(), self.each.reading
        coding = _coding(chains)
        clip = self.each.query.clip if _reads_numbers(chains, self.each.query) else None
        series = open_series(self.data, layout)
        people = series.people(coding, clip=clip)
        _check_people(people, chains, str(self.each.reading.by))
        check_people(next(iter(chains.values())), series, sum(counts.records for counts in people.values()))
        exact = {
            person: exact_of(chains[person], _own_counts(person, counts, coding, chains[person]), layout)
            for person, counts in people.items()
        }
        check_moves_of_people({person: chains[person] for person in people}, series, coding)
        return exact

    def problem(self, exact: dict[str, Exact]) -> Each:
        """A problem for each person with records."""
        return {person: self.publication_of(person).problem(read) for person, read in exact.items()}

    def solve(self, problem: Each, exact: dict[str, Exact]) -> Noises:
        """The noise of each person; people with equal models and series share one calibration."""
        out: Noises = {}
        shared: dict[tuple[str, Lengths, bool], Calibration] = {}
        for n, (person, person_problem) in enumerate(problem.items(), 1):
            own = person_problem.problem
            key = model_digest(self.models[person]), own.lengths, own.unobserved
            if key not in shared:
                self.progress(f"calibrating person {n:,} of {len(problem):,}")
                mechanism = _best_mechanism(own) if self.each.mechanism is None else None
                if mechanism is None:
                    shared[key] = self.publication_of(person).solve(person_problem, exact[person])
                else:
                    shared[key] = mechanism.calibrate(own.widened)
            out[person] = shared[key]
        return out

    def charge(self, problem: Each, solution: Noises) -> Charged:
        """Everybody in one transaction."""
        return self.account.charge_each(lambda: {p: self.kind.charge(problem[p], solution[p]) for p in problem})

    def draw(self, problem: Each, solution: Noises, exact: dict[str, Exact], charged: Charged) -> Fleet:
        """Everybody's answer with a certificate of its own."""
        self.announce("drawing noise")
        releases: dict[str, Release] = {}
        lost: list[str] = []
        for person, person_problem in problem.items():
            own = charged.each.get(person, Charged())
            try:
                with own.told():
                    releases[person] = self.publication_of(person).draw(
                        person_problem, solution[person], exact[person], own
                    )
            except DeliveryError as error:  # the others are charged too, and get their answers
                lost.append(str(error))
        fleet = Fleet(releases=releases, absent=tuple(person for person in self.models if person not in exact))
        if lost:
            raise DeliveryError("; ".join(lost), result=fleet)
        return fleet


def _coding(models: Mapping[str, SeriesModel]) -> Coding:
    """One way to code everybody's values: the states of all models together, or the bins they share."""
    codings = {coding_of(model): person for person, model in models.items()}
    first, *others = codings
    for other in others:
        if other.bins != first.bins or (first.bins is not None and other.labels != first.labels):
            raise ModelError(
                f"the models of {codings[first]!r} and {codings[other]!r} have different bins; the models of a "
                f"fleet must "
                "have the same, or none",
                value=other.bins,
            )
    return Coding(labels=tuple(dict.fromkeys(name for coding in codings for name in coding.labels)), bins=first.bins)


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


def _own_counts(person: str, counts: Counts, coding: Coding, model: SeriesModel) -> Counts:
    """The counts of the states of the person's own model, in its order."""
    names = coding_of(model).labels
    if names == coding.labels:
        return counts
    tally = dict(zip(coding.labels, counts.histogram, strict=True))
    for name, count in tally.items():
        if count and name not in names and not hides_values():
            raise ValuesError(f"a record of {person!r} is {name!r}, which is not a state of their model", value=person)
    return replace(counts, histogram=tuple(tally[name] for name in names))


def _best_mechanism(problem: Problem) -> Mechanism | None:
    """The mechanism of least noise, where it is known without a comparison of all of them.

    Where records attract each other the tight bound is the leakage of a noisy count (docs/theory/tight.md), so that no
    noise is smaller, except in two cases. Further chains blur a count for an adversary who knows no record, and group
    privacy counts the records of a part of a series alone.
    """
    if problem.adversary is Adversary.DP:
        return PerRecord()
    if leaks_its_loss(problem) and not problem.unobserved:
        return ExactLaplace()
    chain = chain_of(problem.model)
    if chain is None or chain.size != 2 or chain.any_start or chain.given_start is not None or problem.endless:
        return None
    (a, b), (c, d) = chain.transition.tolist()
    blurred = problem.adversary is Adversary.PUFFERFISH and problem.lengths != ((problem.longest, 1),)
    return CurveNoise("tight") if a * d >= b * c and not blurred else None
