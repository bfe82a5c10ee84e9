"""A kind of publication: what is made, certified, verified, charged and rechecked by the ledger in one way.

The class of its certificates declares each field once (``publish/fields.py``). A verifier solves the stated problem
again, makes the certificate again and compares both.
"""

from __future__ import annotations

import importlib.metadata
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from pydantic import ValidationError

from pufferdp.basics.errors import CertificateError, PufferdpError
from pufferdp.basics.files import canonical_json, found_text
from pufferdp.basics.plugins import plugins
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.hash_chain import link
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of
from pufferdp.models.files.json import model_digest, model_from_dict, model_to_dict, plain_errors
from pufferdp.publish.certificate import KINDS, SCHEMA, CertificatePart, content_hash
from pufferdp.publish.fields import NEAR, Exact, Near, declared_checks, differences, unprovable_fields
from pufferdp.publish.model_checks import CheckedGuarantee, fitted_warning
from pufferdp.publish.reading import assumptions, check_stated
from pufferdp.publish.stated_reading import reading_problems


@cache
def version() -> str:
    """The installed version of pufferdp, as certificates name it."""
    return importlib.metadata.version("pufferdp")


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a certificate says that does not follow from its problem: who read what, when, and what came out."""

    data: Mapping[str, Any]
    """How the data was read, as the part ``data`` states it."""
    released: Any = None
    """The numbers themselves, where the certificate has them."""
    warnings: Sequence[str] = ()
    ledger: Mapping[str, Any] | None = None
    """The row that it was charged as."""
    stated: Mapping[str, Any] | None = None
    """The whole certificate, where it is being verified."""
    pufferdp: str = field(default_factory=version)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


P = TypeVar("P")
S = TypeVar("S")
C = TypeVar("C", bound=CertificatePart)


class Kind(ABC, Generic[P, S, C]):
    """How one kind of publication is solved, certified and charged."""

    schema: ClassVar[str]
    """Of its certificate; empty for a kind that has none of its own, because a model file says what it is."""
    certificate: type[C]
    """The class of its certificates, which declares each field with its type, its meaning and how it is checked."""
    ledger_kinds: ClassVar[tuple[str, ...]]
    """Names of the charges that it makes."""
    released: ClassVar[str | None] = None
    """The field of the certificate with the released numbers."""
    row_unprovable: ClassVar[Mapping[str, str]] = {}
    """Fields of the charge in a ledger that nobody can recompute, and why."""
    cut_where_unobserved: ClassVar[bool] = False
    """Whether missing records cut chains, so that pieces are counted in place of chains."""

    @property
    def unprovable(self) -> dict[str, str]:
        """Fields of the certificate that nobody can recompute, and why."""
        return unprovable_fields(self.certificate)

    @abstractmethod
    def problem(self, certificate: C, **more: Any) -> P:
        """The problem that a certificate states; refuses one that cannot be.

        ``more`` is what a certificate cannot hold and a verifier hands over, such as a function of one's own.
        """

    @abstractmethod
    def solve(self, problem: P, progress: Progress) -> S:
        """The noise or the design: what the problem states, or the best."""

    @abstractmethod
    def content(self, problem: P, solution: S, made: Made) -> dict[str, Any]:
        """The content of the certificate. A verifier compares it with what is stated, as each field declares."""

    @abstractmethod
    def charge(self, problem: P, solution: S) -> Charge:
        """What a ledger is charged for it, with the facts from which that follows."""

    @abstractmethod
    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """The charge that follows from the facts of one; None where it rests on its author's word."""

    def streamed(self, certificate: Mapping[str, Any]) -> bool:
        """Whether a certificate may be of a stream, which states the ranges that were requested."""
        return False

    def vouched(self, certificate: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The numbers that a certificate which holds is about, with their labels; of a series its number of records."""
        if self.released is None:
            return {"records": certificate["data"]["records"]}
        return {name: certificate[name] for name in ("labels", self.released, "estimate") if name in certificate}

    def beside(self, certificate: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
        """What the output of its verb repeats beside the certificate, or works out from it."""
        return self.vouched(certificate)

    def differences_beside(self, certificate: dict[str, Any], output: Mapping[str, Any]) -> list[str]:
        """Where an output does not follow from the certificate in it; nothing where the certificate is not whole."""
        try:
            self.certificate.model_validate(certificate)
            true = self.beside(certificate, output)
        except (ValidationError, LookupError, TypeError):
            return []
        except (PufferdpError, ValueError) as error:  # what is beside it cannot follow from it
            return [str(error)]
        stated = {key: value for key, value in output.items() if key not in ("certificate", "signature", "out")}
        return differences(stated, {key: value for key, value in true.items() if key in stated}, {"": NEAR})

    def as_stated(self, solution: S, stated: Mapping[str, Any]) -> S:
        """The solution with the numbers that a certificate states, as far as they are charged."""
        return solution

    def certify(self, problem: P, solution: S, made: Made) -> C:
        """The certificate, in which every field that was declared must be."""
        return self.certificate.seal(self.content(problem, solution, made))

    def verify(self, raw: dict[str, Any], head: str | None = None, **more: Any) -> tuple[list[str], list[str]]:
        """What is wrong with a certificate, and its warnings. With ``head`` it must name that row of a ledger."""
        try:
            certificate = self.certificate.model_validate(raw)
            canonical_json(raw)
        except ValidationError as error:
            return plain_errors(error)[:5], []
        except ValueError:
            return ["a number is infinite or nan; every number of a certificate must be finite"], []
        problems = []
        if content_hash(raw) != raw["sha256"]:
            problems.append("the hash does not match: the certificate was changed after it was made")
        try:
            problems += self._differences(certificate, raw, more)
        except ValidationError as error:  # what is made again is no certificate
            problems += plain_errors(error)[:5]
        except (PufferdpError, ValueError) as error:
            problems.append(str(error))
        row = raw["ledger"]
        if head is not None and row is None:
            problems.append("the release was not charged to a ledger: the certificate names no row")
        elif head is not None and head != row["head"]:
            problems.append(f"the release was charged as the row {row['head']}, not as {found_text(head)}")
        return problems, list(raw["warnings"])

    def _differences(self, certificate: C, raw: Mapping[str, Any], more: Mapping[str, Any]) -> list[str]:
        """Where a certificate is not what it is when it is made again from what it states."""
        model, parts = model_from_dict(raw["model"]), cast(Any, certificate)
        check_stated(parts.data, model)
        problem = self.problem(certificate, **more)
        impossible = reading_problems(raw["data"], model, pieces=self.cut_where_unobserved, streamed=self.streamed(raw))
        if impossible:
            return impossible
        made = Made(
            data=raw["data"],
            released=None if self.released is None else raw[self.released],
            warnings=raw["warnings"],
            ledger=raw["ledger"],
            stated=raw,
            pufferdp=raw["pufferdp"],
            created=raw["created"],
        )
        again = self.certify(problem, self.solve(problem, silent), made).model_dump(by_alias=True)
        stated, true = ({k: v for k, v in part.items() if k != "sha256"} for part in (raw, again))
        return differences(stated, true, declared_checks(self.certificate))

    def recheck(self, charge: Charge, model: Model | None) -> list[str] | None:
        """What is wrong with a charge as a ledger keeps it; None where nothing but its author's word can be had."""
        true = self.recompute(charge, model)
        if true is None:
            return None
        return differences(json.loads(charge.content), json.loads(true.content), _CHARGE_CHECKS)

    def common(
        self,
        problem: P,
        solution: S,
        made: Made,
        model: Model,
        *,
        checked: CheckedGuarantee | None = None,
        within_bins: bool = False,
        implied: Mapping[str, bool] | None = None,
    ) -> dict[str, Any]:
        """The fields that every certificate has.

        Args:
            problem: the problem.
            solution: its solution.
            made: what does not follow from them.
            model: the model.
            checked: what the data said about the model.
            within_bins: whether numbers are released of which the model knows no more than their bins.
            implied: warnings, and whether each follows from the rest; where it does not it must not be there.
        """
        fitted = fitted_warning(model.fitted)
        follows = {**({} if fitted is None else {fitted: True}), **(implied or {})}
        warnings = [text for text in made.warnings if follows.get(text, True)]
        total = sum(length * count for length, count in made.data["lengths"])
        kept = {"dropped": 0, "unobserved": 0} if made.data["missing"] == "refuse" else {}
        return {
            "schema": self.schema,
            "pufferdp": made.pufferdp,
            "created": made.created,
            "model": model_to_dict(model),
            "model_sha256": model_digest(model),
            **({} if checked is None else {"model_checks": checked.to_dict()}),
            "data": {
                **made.data,
                **kept,
                "records": total,
                "assumptions": assumptions(made.data, series_of(model) or ar1_of(model), within_bins),
            },
            "warnings": warnings + [text for text, holds in follows.items() if holds and text not in warnings],
            "ledger": self._row(problem, solution, made),
        }

    def _row(self, problem: P, solution: S, made: Made) -> dict[str, Any] | None:
        """The row of a ledger, whose hash must be over the charge of this very publication."""
        row = made.ledger
        if row is None:
            return None
        # What was charged is what was written down: another machine may round a number that is near otherwise.
        charge = self.charge(problem, solution if made.stated is None else self.as_stated(solution, made.stated))
        head = link(row["previous"], row["position"], row["charged"], charge.problem, row["identity"])
        prior = {"assumptions": charge.assumptions(row["dataset"])} if "assumptions" in row else {}
        return {**row, "head": head, **prior}


AnyKind = Kind[Any, Any, Any]
_CHARGE_CHECKS: Final[Mapping[str, Exact]] = {"": NEAR, "dp_delta": Near(rel=1e-6)}
"""A delta falls fast as its loss grows: rounding of the loss shows in it some hundred times as much."""


def stated_ranges(data: Any) -> Ranges:
    """Which records were read, as the part ``data`` of a certificate states it."""
    return EVERYTHING if data.ranges is None else Ranges.from_dict(data.ranges.model_dump(by_alias=True))


def kinds() -> tuple[AnyKind, ...]:
    """Every kind there is, also those of other packages."""
    return tuple(kind for kind in plugins(KINDS).values() if isinstance(kind, Kind))


def kind_of(schema: object) -> AnyKind:
    """The kind whose certificates have a schema; where none has, that of answers, which says what is wrong."""
    known = {kind.schema: kind for kind in kinds() if kind.schema}
    if SCHEMA not in known:
        raise CertificateError("no kind of publication is registered, so nothing can be verified: reinstall pufferdp")
    return known.get(str(schema), known[SCHEMA])
