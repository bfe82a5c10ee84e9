"""The one order in which anything is published: check, expect, read, solve, charge, draw, certify.

Whatever can be refused without the data is refused before it is read. With a ledger, what is refused before the charge
follows from public facts alone, and values are rejected after it. The charge is on disk before anything is drawn: a
crash from there on loses the release, never the charge. Ctrl-C waits from the charge until the release is
made, nobody who listens to the progress can stop it any more, and whatever else goes wrong in between is a
DeliveryError, which says what was charged.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DeliveryError, ParameterError, PufferdpError, ValuesError
from pufferdp.basics.interrupts import held
from pufferdp.basics.progress import CHARGING, Progress, check_progress, silent
from pufferdp.basics.unexpected import describe_unexpected
from pufferdp.basics.words import a_kind
from pufferdp.data.layout import values_hidden
from pufferdp.ledger import charge_release, open_ledger
from pufferdp.models.base import Model
from pufferdp.models.units import Unit
from pufferdp.publish.kind import AnyKind, Made
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.publish.noise import Sampler, SystemSampler, load_noise
from pufferdp.publish.reading import Reading

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.charge import Charge
    from pufferdp.ledger.ledger import Ledger

P = TypeVar("P")
S = TypeVar("S")
E = TypeVar("E")
R = TypeVar("R")


@dataclass(frozen=True)
class Charged:
    """What the ledger says of a charge; nothing where there is none."""

    receipt: Receipt | None = None
    each: Mapping[str, Charged] = field(default_factory=dict)
    """Of a fleet: the same for each person."""
    assumptions: Sequence[str] = ()
    """What the total of the data set rests on besides the model."""

    @property
    def row(self) -> dict[str, Any] | None:
        """The row, as a certificate names it."""
        if self.receipt is None:
            return None
        return self.receipt.to_dict() | ({"assumptions": list(self.assumptions)} if self.assumptions else {})

    @property
    def words(self) -> str:
        """What was charged, in words; none where nothing was."""
        if self.each:
            return f"{len(self.each)} people were charged"
        if self.receipt is None:
            return ""
        return f"data set {self.receipt.dataset!r} was charged (row {self.receipt.position})"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say of whatever goes wrong inside that the charge was made and stays."""
        with self._telling(lambda reason: f"nothing was released: {reason}"):
            yield

    @contextmanager
    def certifying(self, released: object, words: Callable[[], str]) -> Iterator[None]:
        """Say of whatever goes wrong inside what was drawn by then: it was charged, and belongs to its owner."""
        with self._telling(lambda reason: f"no certificate could be made: {reason}; {words()}", released):
            yield

    @contextmanager
    def _telling(self, words: Callable[[str], str], released: object = None) -> Iterator[None]:
        try:
            yield
        except DeliveryError:
            raise
        except Exception as error:
            if not self.words:
                raise
            raise DeliveryError(f"{self.words}, and then {words(reason_of(error))}", value=released) from None


def reason_of(error: Exception) -> str:
    """Why something failed: our own words, and of any other error what kind and where."""
    return str(error) if isinstance(error, PufferdpError) else describe_unexpected(error)


@dataclass(frozen=True)
class Account:
    """Where a publication is charged, if at all."""

    ledger: Ledger | str | os.PathLike[str] | None = None
    dataset: str | None = None

    @property
    def has_ledger(self) -> bool:
        """Whether there is a ledger."""
        return self.ledger is not None

    @property
    def file(self) -> str | None:
        """The file of the ledger; None where there is none, or where it is on a server."""
        if self.ledger is None:
            return None
        place = os.fspath(self.ledger) if isinstance(self.ledger, (str, os.PathLike)) else self.ledger.store.place
        return None if "://" in place else place

    def ask(self, question: Callable[[Ledger, str], None]) -> None:
        """Ask the ledger, where there is one; refuses a data set without a ledger, and the reverse."""
        with open_ledger(self.ledger, self.dataset) as ledger:
            if ledger is not None and self.dataset is not None:
                question(ledger, self.dataset)

    def charge(self, charge: Callable[[], Charge]) -> Charged:
        """Charge before anything random is drawn; when this returns the charge is on disk."""
        assumptions: list[str] = []

        def made() -> Charge:
            what = charge()
            assumptions.extend(what.assumptions(str(self.dataset)))
            return what

        return Charged(charge_release(self.ledger, self.dataset, made), assumptions=assumptions)

    def charge_each(self, charges: Callable[[], Mapping[str, Charge]]) -> Charged:
        """Charge a data set for each person, below this one, in one transaction: all of them, or none."""
        with open_ledger(self.ledger, self.dataset) as ledger:
            if ledger is None:
                return Charged()
            made = {name: (f"{self.dataset}/{name}", charge) for name, charge in charges().items()}
            assumptions = [charge.assumptions(own) for own, charge in made.values()]
            rows = zip(made, ledger.charge_many(list(made.values())), assumptions, strict=True)
            return Charged(each={name: Charged(row, assumptions=prior) for name, row, prior in rows})


@dataclass(frozen=True, kw_only=True)
class Publication(ABC, Generic[P, S, E, R]):
    """One thing to be published. ``publish`` takes the steps in their order."""

    data: object
    account: Account
    sampler: Sampler = field(default_factory=SystemSampler)
    progress: Progress = silent
    accept_misfit: bool = False
    """Whether to publish although the data contradict the model; the certificate states it."""

    kind: ClassVar[AnyKind]
    draws_numbers: ClassVar[bool] = True
    """Whether noise is added to numbers; flips and redactions are drawn from bytes."""

    def _check_tools(self) -> None:
        """Refuse what cannot draw or be told, before anything is charged."""
        if not hasattr(self.sampler, "warning"):
            raise ParameterError(
                f"sampler is {a_kind(self.sampler)}; it must be a sampler, such as SeededSampler(7) for experiments",
                value=self.sampler,
            )
        check_progress(self.progress)

    def publish(self) -> R:
        """Check, expect, read, solve, charge, draw and certify."""
        self._check_tools()
        self.check()
        if self.checked is not None:
            self.checked.refuse(checks.flag(self.accept_misfit, "accept_misfit"))
        self.account.ask(self.expect)
        exact, rejected = self._read()
        problem = self.problem(exact)
        solution = self.solve(problem, exact)
        if self.account.has_ledger and self.draws_numbers:
            load_noise(self.sampler)
        with self.reserved_space(exact), held():
            if self.account.has_ledger:
                self.progress(CHARGING)
            charged = self.charge(problem, solution)
            with charged.told():
                if rejected is not None:
                    raise rejected
                return self.draw(problem, solution, exact, charged)

    @property
    def checked(self) -> CheckedGuarantee | None:
        """The guarantee beside what the data said about the model; None for a release without such a guarantee."""
        return None

    def _read(self) -> tuple[E, ValuesError | None]:
        """What is needed of the data, and why its values are rejected.

        With a ledger, values are rejected after the charge, which follows from public facts: otherwise requests that
        are never charged would tell which values the data have.
        """
        try:
            return self.read(), None
        except ValuesError as error:
            if not self.account.has_ledger:
                raise
            with values_hidden():
                return replace(self, progress=silent).read(), error

    @abstractmethod
    def check(self) -> None:
        """Refuse whatever can be refused without the data."""

    @abstractmethod
    def expect(self, ledger: Ledger, dataset: str) -> None:
        """Refuse what the ledger would refuse later."""

    @abstractmethod
    def read(self) -> E:
        """What is needed of the data. It never leaves the publication."""

    @abstractmethod
    def problem(self, exact: E) -> P:
        """What is to be solved; nothing of it is secret."""

    def solve(self, problem: P, exact: E) -> S:
        """The noise or the design. ``exact`` may refuse it, and decides nothing else."""
        solution: S = self.kind.solve(problem, self.progress)
        return solution

    def reserved_space(self, exact: E) -> AbstractContextManager[object]:
        """Space on disk for what will be written, from before the charge until it is; refused where there is none."""
        return nullcontext()

    def charge(self, problem: P, solution: S) -> Charged:
        """Charge it, before anything is drawn."""
        return self.account.charge(lambda: self.kind.charge(problem, solution))

    @abstractmethod
    def draw(self, problem: P, solution: S, exact: E, charged: Charged) -> R:
        """Draw the noise, write the result and certify it."""

    def announce(self, words: str) -> None:
        """Progress behind the charge: a listener that fails, or would stop the work, comes too late."""
        with suppress(Exception):
            self.progress(words)

    def made(
        self,
        data: Mapping[str, Any],
        charged: Charged,
        released: object = None,
        more: Sequence[str] = (),
    ) -> Made:
        """What the certificate says that does not follow from the problem, with a warning about the noise.

        Args:
            data: how the data was read.
            charged: what the ledger says.
            released: the released numbers.
            more: warnings that a verifier cannot work out.
        """
        warnings = [text for text in (self.sampler.warning, *more) if text]
        return Made(data=data, released=released, warnings=warnings, ledger=charged.row)


@dataclass(frozen=True, kw_only=True)
class OddsPublication(Publication[P, S, E, R]):
    """A publication whose guarantee bounds how far odds change, for an adversary who uses a model."""

    model: Model
    reading: Reading
    epsilon: float
    adversary: Adversary

    widens: ClassVar[bool] = False
    """Whether its noise is made wider where the model was calibrated on data."""

    @property
    def checked(self) -> CheckedGuarantee:
        """The guarantee beside what the data said about the model."""
        return CheckedGuarantee(
            model=self.model, epsilon=self.epsilon, adversary=self.adversary, unit=self.period, widens=self.widens
        )

    @property
    def period(self) -> Unit | None:
        """The period whose records are one secret together; None where each record is one."""
        return None

    @property
    def may_fail(self) -> float:
        """The delta of the guarantee; 0 where it has none."""
        return 0.0

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must be for this model, this adversary and this delta."""
        ledger.expect(dataset, model=self.model, adversary=self.adversary, delta=self.may_fail)
