"""A kind of publication: what is made, certified, verified, charged and rechecked by the ledger in one way.

A kind writes each field of its certificate as a claim, and the same claims check it: a verifier solves the stated
problem again and compares leaf by leaf. What nobody can recompute is ``Stated``, and the kind lists it in
``unprovable`` with the reason; a field that is neither claimed nor listed cannot be made.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, ClassVar, Final, Generic, TypeVar, Union

from pydantic import ValidationError

from pufferdp.basics.errors import CertificateError, PufferdpError
from pufferdp.basics.files import canonical_json, found_text
from pufferdp.basics.plugins import plugins
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.hash_chain import can_be_identity, can_be_name, link
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of
from pufferdp.models.files.json import model_digest, model_from_dict, model_to_dict, plain_errors
from pufferdp.publish.certificate import KINDS, SCHEMA, CertificatePart, content_hash
from pufferdp.publish.model_checks import CheckedGuarantee, fitted_warning
from pufferdp.publish.noise import ROUNDING
from pufferdp.publish.reading import assumptions
from pufferdp.publish.stated_reading import reading_problems


@dataclass(frozen=True)
class Claim(ABC):
    """What a field of a certificate must be, and the sentence where it is not."""

    value: Any
    """What ``certify`` writes, and what verifying compares the field with."""
    words: str | None = field(default=None, kw_only=True)
    """What is wrong where it does not hold; ``{stated}`` and ``{true}`` stand for the numbers."""

    rank: ClassVar[int] = 1
    """Numbers and digests have 0: they are told first, because the words follow from them."""

    @abstractmethod
    def holds(self, stated: Any, true: Any) -> bool:
        """Whether one leaf is as it must be."""

    def difference(self, path: str, stated: Any) -> str | None:
        """The first leaf that is not as it must be, in words."""
        return self._first(path, stated, self.value)

    def _first(self, path: str, stated: Any, true: Any) -> str | None:
        if isinstance(stated, dict) and isinstance(true, dict):
            odd = next(iter(stated.keys() ^ true.keys()), None)
            if odd is not None:
                there = "is missing" if odd in true else "does not belong there"
                return self.words or f"{path}.{odd} {there}"
            return _find(self._first(f"{path}.{key}", stated[key], true[key]) for key in true)
        if isinstance(stated, list) and isinstance(true, (list, tuple)):
            if len(stated) != len(true):
                return self.words or f"{path} has {len(stated)} entries; it should have {len(true)}"
            return _find(self._first(path, a, b) for a, b in zip(stated, true, strict=True))
        if self.holds(stated, true):
            return None
        if self.words is not None:
            return self.words.replace("{stated}", _text(stated)).replace("{true}", _text(true))
        should = "recomputed it is" if _is_number(true) else "it should be"
        return f"{path} is {_text(stated)}; {should} {_text(true)}"


class Exact(Claim):
    """A field that must have the same canonical JSON, since that is what is hashed."""

    def holds(self, stated: Any, true: Any) -> bool:
        """Whether both have the same text: 1, 1.0 and true are three."""
        return canonical_json(stated) == canonical_json(true)


class Digest(Exact):
    """A digest of what everything else is recomputed for."""

    rank = 0


@dataclass(frozen=True)
class Near(Claim):
    """Numbers that must agree up to rounding; whatever is no number must be the same."""

    rank = 0
    rel: float = field(default=ROUNDING, kw_only=True)
    abs: float = field(default=0.0, kw_only=True)

    def holds(self, stated: Any, true: Any) -> bool:
        """Whether two numbers are close."""
        if _is_number(stated) and _is_number(true):
            return math.isclose(stated, true, rel_tol=self.rel, abs_tol=self.abs)
        return canonical_json(stated) == canonical_json(true)


class Simulated(Near):
    """A number that another simulation gives within an error: the kind lists it, because small changes do not show."""


@dataclass(frozen=True)
class AtLeast(Claim):
    """A number that is no less than another."""

    least: float = field(kw_only=True)

    def holds(self, stated: Any, true: Any) -> bool:
        """Whether the stated number is large enough."""
        return _is_number(stated) and stated >= self.least


@dataclass(frozen=True)
class Includes(Claim):
    """A list of sentences: those that follow from the rest must be in it, the rest is stated."""

    must: Sequence[str] = field(kw_only=True, default=())
    never: Sequence[str] = field(kw_only=True, default=())

    def difference(self, path: str, stated: Any) -> str | None:
        """The sentence that is missing, or too much."""
        wrong = next((s for s in self.must if s not in stated), None) or next(
            (s for s in self.never if s in stated), None
        )
        return None if wrong is None else f"{path} must say where, and only where, it is so: {wrong}"

    def holds(self, stated: Any, true: Any) -> bool:
        """Whether every sentence is there."""
        return self.difference("", stated) is None


class Stated(Claim):
    """What nobody can recompute."""

    def difference(self, path: str, stated: Any) -> str | None:
        """Nothing: the field is on the list of the kind."""
        return None

    def holds(self, stated: Any, true: Any) -> bool:
        """True: nothing is known that it could be compared with."""
        return True


@dataclass(frozen=True)
class Formed(Stated):
    """What nobody can recompute, and what can only be written in one way."""

    form: Callable[[Any], bool] = field(kw_only=True)
    must: str = field(kw_only=True)
    """What it must be, in words."""

    def difference(self, path: str, stated: Any) -> str | None:
        """Something else that stands in its place."""
        return None if self.form(stated) else f"{path} is {_text(stated)}; it must be {self.must}"


Claims = Mapping[str, Union["Claim", "Claims"]]
"""A claim for each field of a certificate, nested as it is."""


@dataclass(frozen=True)
class Part(Claim):
    """A part that is there or null, as a whole."""

    claims: Claims | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, claims: Claims | None, words: str) -> Part:
        """From the claims of its fields; None where the part must be null."""
        return cls(None if claims is None else written(claims), words=words, claims=claims)

    def difference(self, path: str, stated: Any) -> str | None:
        """The first field that does not hold."""
        if (stated is None) != (self.claims is None):
            return self.words
        return None if self.claims is None else next(iter(differences(self.claims, stated, path)), None)

    def holds(self, stated: Any, true: Any) -> bool:
        """Whether the part is there where it must be."""
        return (stated is None) == (true is None)


def written(claims: Claims) -> dict[str, Any]:
    """The content that the claims are about."""
    return {key: claim.value if isinstance(claim, Claim) else written(claim) for key, claim in claims.items()}


def differences(claims: Claims, stated: Mapping[str, Any], path: str = "") -> list[str]:
    """Where a content is not as claimed, what decides first. A field without a claim is one of them."""
    return [text for _, text in sorted(_differences(claims, stated, path), key=lambda found: found[0])]


def _differences(claims: Claims, stated: Mapping[str, Any], path: str) -> Iterator[tuple[int, str]]:
    for key in stated.keys() - claims.keys():
        yield 1, f"{_join(path, key)} is a field that nothing is known about"
    for key, claim in claims.items():
        at = _join(path, key)
        if key not in stated:
            yield 1, f"{at} is missing; it is needed"
        elif isinstance(claim, Claim):
            text = claim.difference(at, stated[key])
            if text is not None:
                yield claim.rank, text
        elif not isinstance(stated[key], Mapping):
            yield 1, f"{at} is {_text(stated[key])}; it must have {', '.join(claim)}"
        else:
            yield from _differences(claim, stated[key], at)


def stated_paths(claims: Claims, path: str = "") -> Iterator[str]:
    """The fields that are stated and not claimed."""
    for key, claim in claims.items():
        if isinstance(claim, (Stated, Includes, Simulated)):
            yield _join(path, key)
        elif isinstance(claim, Part):
            yield from stated_paths(claim.claims or {}, _join(path, key))
        elif not isinstance(claim, Claim):
            yield from stated_paths(claim, _join(path, key))


def is_listed(path: str, listed: Mapping[str, str]) -> bool:
    """Whether a field, or a part that it is in, is on a list of unprovable fields."""
    return any(path == name or path.startswith(f"{name}.") for name in listed)


@cache
def version() -> str:
    """The installed version of pufferdp, as certificates name it."""
    return importlib.metadata.version("pufferdp")


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a certificate says that does not follow from its problem: who read what, when, and what came out."""

    data: Mapping[str, Any]
    """How the data was read."""
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

UNPROVABLE: Final = {
    "pufferdp": "which version made it",
    "created": "when it was made",
    "data.column": "the name of a column",
    "data.order": "the name of a column",
    "data.by": "the name of a column",
    "data.gap": "how the data was read; it must be possible with the model, the columns and the other numbers",
    "data.missing": "how the data was read; it must go with the model",
    "data.id": "the name of a column",
    "data.lengths": "how long the chains are; they must fit into the ranges, and the noise must be enough for them",
    "data.ranges": "which records were read; they must go with the columns and the chains, and be those charged",
    "data.part": "whether the series goes on before and after what was read; the noise must be enough for it",
    "data.rows_in_order": "an assumption: the rows are in time order; the guarantee states it",
    "data.unobserved": "how many records are missing inside chains; they must fit, and the noise must be enough for it",
    "data.step": "the model's step, which rows were compared with where a column says the order",
    "data.independent": "an assumption: many short chains are independent of each other; the guarantee states it",
    "data.dropped": "how many values were missing; 0 where they were refused",
    "warnings": "where the noise came from: nobody can prove that there was no seed; what follows must be there",
    "ledger": "which row it was charged as; its hash must be that of a row that charges this very publication",
}
"""What no kind of publication can prove, and why."""


class Kind(ABC, Generic[P, S, C]):
    """How one kind of publication is solved, certified and charged."""

    schema: ClassVar[str]
    """Of its certificate; empty for a kind that has none of its own, because a model file says what it is."""
    certificate: type[C]
    """The class of its certificates, which checks their shape."""
    ledger_kinds: ClassVar[tuple[str, ...]]
    """Names of the charges that it makes."""
    released: ClassVar[str | None] = None
    """The field of the certificate with the released numbers."""
    unprovable: ClassVar[Mapping[str, str]] = UNPROVABLE
    """Fields of the certificate that nobody can recompute, and why."""
    row_unprovable: ClassVar[Mapping[str, str]] = {}
    """Fields of the charge in a ledger that nobody can recompute, and why."""
    row_words: ClassVar[Mapping[str, str]] = {}
    """What is wrong where a field of a charge does not follow from the rest."""
    cut_where_unobserved: ClassVar[bool] = False
    """Whether missing records cut chains, so that pieces are counted in place of chains."""

    @abstractmethod
    def problem(self, certificate: C, **more: Any) -> P:
        """The problem that a certificate states; refuses one that cannot be.

        ``more`` is what a certificate cannot hold and a verifier hands over, such as a function of one's own.
        """

    @abstractmethod
    def solve(self, problem: P, progress: Progress) -> S:
        """The noise or the design: what the problem states, or the best."""

    @abstractmethod
    def claims(self, problem: P, solution: S, made: Made) -> Claims:
        """Every field of the certificate, in its order."""

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
        """The numbers that a certificate which holds is about; of a series, how many records it has."""
        return {"records": certificate["data"]["records"]}

    def beside(self, certificate: Mapping[str, Any]) -> Claims:
        """What the output of its verb repeats beside the certificate."""
        return {}

    def differences_beside(self, certificate: dict[str, Any], output: Mapping[str, Any]) -> list[str]:
        """Where an output does not follow from the certificate in it; nothing where the certificate is not whole."""
        try:
            self.certificate.model_validate(certificate)
            claims = self.beside(certificate)
        except (ValidationError, LookupError, TypeError):
            return []
        except (PufferdpError, ValueError) as error:  # what is beside it cannot follow from it
            return [str(error)]
        stated = {key: value for key, value in output.items() if key not in ("certificate", "signature")}
        return differences({key: claim for key, claim in claims.items() if key in stated}, stated)

    def as_stated(self, solution: S, stated: Mapping[str, Any]) -> S:
        """The solution with the numbers that a certificate states, as far as they are charged."""
        return solution

    def certify(self, problem: P, solution: S, made: Made) -> C:
        """The certificate: every field claimed, or listed as unprovable."""
        claims = self.claims(problem, solution, made)
        for path in stated_paths(claims):
            if not is_listed(path, self.unprovable):
                raise CertificateError(f"{path} is stated, and it is not on the list of what nobody can recompute")
        return self.certificate.seal(written(claims))

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
        except (PufferdpError, ValueError) as error:
            problems.append(str(error))
        row = raw["ledger"]
        if head is not None and row is None:
            problems.append("the release was not charged to a ledger: the certificate names no row")
        elif head is not None and head != row["head"]:
            problems.append(f"the release was charged as the row {row['head']}, not as {found_text(head)}")
        return problems, list(raw["warnings"])

    def _differences(self, certificate: C, raw: Mapping[str, Any], more: Mapping[str, Any]) -> list[str]:
        """Where a certificate does not follow from what it states."""
        problem = self.problem(certificate, **more)
        model = model_from_dict(raw["model"])
        impossible = reading_problems(raw["data"], model, pieces=self.cut_where_unobserved, streamed=self.streamed(raw))
        if impossible:
            return impossible
        solution = self.solve(problem, silent)
        made = Made(
            data=raw["data"],
            released=None if self.released is None else raw[self.released],
            warnings=raw["warnings"],
            ledger=raw["ledger"],
            stated=raw,
            pufferdp=raw["pufferdp"],
            created=raw["created"],
        )
        return differences(self.claims(problem, solution, made), {k: v for k, v in raw.items() if k != "sha256"})

    def recheck(self, charge: Charge, model: Model | None) -> list[str] | None:
        """What is wrong with a charge as a ledger keeps it; None where nothing but its author's word can be had."""
        true = self.recompute(charge, model)
        if true is None:
            return None
        claims, stated = self._row_claims(json.loads(true.content)), json.loads(charge.content)
        return differences(claims, stated)

    def _row_claims(self, content: Mapping[str, Any], path: str = "") -> Claims:
        out: dict[str, Claim | Claims] = {}
        for key, value in content.items():
            at = _join(path, key)
            # A delta falls fast as its loss grows: rounding of the loss shows in it some hundred times as much.
            near = Near(value, words=self.row_words.get(at), rel=1e-6 if at == "dp_delta" else ROUNDING)
            out[key] = self._row_claims(value, at) if at == "facts" else near
        return out

    def head_claims(self, made: Made) -> dict[str, Claim | Claims]:
        """What every certificate begins with."""
        return {
            "schema": Exact(self.schema),
            "pufferdp": Formed(made.pufferdp, form=_is_version, must="a version, such as 0.1.0"),
            "created": Formed(made.created, form=_is_moment, must=_MOMENT),
        }

    def warning_claims(self, made: Made, model: Model, must: Sequence[str] = (), never: Sequence[str] = ()) -> Includes:
        """The warnings: what follows from the rest must be there, that of a model that was fitted too."""
        fitted = fitted_warning(model.fitted)
        return Includes(list(made.warnings), must=[*must, *([] if fitted is None else [fitted])], never=never)

    def row_claims(self, problem: P, solution: S, made: Made) -> Claim:
        """The row of a ledger: its hash must be over the charge of this very publication."""
        row = made.ledger
        if row is None:
            return Stated(None)
        # What was charged is what was written down: another machine may round a claim that is near otherwise.
        charged = solution if made.stated is None else self.as_stated(solution, made.stated)
        charge = self.charge(problem, charged)
        head = link(row["previous"], row["position"], row["charged"], charge.problem, row["identity"])
        claims: dict[str, Claim | Claims] = {key: Stated(value) for key, value in row.items()}
        claims["dataset"] = Formed(row["dataset"], form=can_be_name, must="the name of a data set")
        claims["charged"] = Formed(row["charged"], form=_is_moment, must=_MOMENT)
        claims["previous"] = Formed(row["previous"], form=is_digest, must="the hash of a row")
        claims["identity"] = Formed(row["identity"], form=can_be_identity, must="the token of a charge")
        claims["head"] = Exact(head, words="ledger.head is not the hash of a row that charges this release")
        if "assumptions" in row:
            claims["assumptions"] = Exact(charge.assumptions(row["dataset"]))
        return Part.of(claims, "ledger")


AnyKind = Kind[Any, Any, Any]


def stated_ranges(data: Any) -> Ranges:
    """Which records were read, as the part ``data`` of a certificate states it."""
    return EVERYTHING if data.ranges is None else Ranges.from_dict(data.ranges.model_dump(by_alias=True))


def data_claims(data: Mapping[str, Any], model: Model, within_bins: bool = False) -> dict[str, Claim | Claims]:
    """How the data was read, which must be possible (``reading_problems``), and what follows from it."""
    claims: dict[str, Claim | Claims] = {key: Stated(value) for key, value in data.items()}
    total = sum(length * count for length, count in data["lengths"])
    claims["records"] = Exact(total, words="data.records is {stated}; the chain lengths add up to {true}")
    if data["missing"] == "refuse":
        claims["dropped"] = Exact(0, words="data.dropped is {stated}, and missing values were refused")
        claims["unobserved"] = Exact(0, words="data.unobserved is {stated}, and missing records were refused")
    claims["assumptions"] = Exact(assumptions(data, series_of(model) or ar1_of(model), within_bins))
    return claims


def kinds() -> tuple[AnyKind, ...]:
    """Every kind there is, also those of other packages."""
    return tuple(kind for kind in plugins(KINDS).values() if isinstance(kind, Kind))


def kind_of(schema: object) -> AnyKind:
    """The kind whose certificates have a schema; where none has, that of answers, which says what is wrong."""
    known = {kind.schema: kind for kind in kinds() if kind.schema}
    if SCHEMA not in known:
        raise CertificateError("no kind of publication is registered, so nothing can be verified: reinstall pufferdp")
    return known.get(str(schema), known[SCHEMA])


def model_claims(model: Model, checked: CheckedGuarantee | None = None) -> dict[str, Claim | Claims]:
    """The model by value, as it is written, its digest, and what the data said about it."""
    digest = Digest(model_digest(model), words="model_sha256 is not the digest of the model")
    facts = None if checked is None else checked.to_dict()
    checks = {} if facts is None else {"model_checks": Exact(facts)}
    return {"model": Exact(model_to_dict(model)), "model_sha256": digest, **checks}


_MOMENT: Final = "a time in UTC, such as 2026-11-16T04:17:00+00:00"
_VERSION: Final = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")


def _is_version(text: str) -> bool:
    """Whether a version can be called so (PEP 440)."""
    return len(text) <= 100 and _VERSION.fullmatch(text) is not None


def _is_moment(text: str) -> bool:
    """Whether a text is a time in UTC, written as certificates and ledgers write it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.utcoffset() == timedelta(0) and moment.isoformat(timespec="seconds") == text


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 in hexadecimal digits."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _find(texts: Iterator[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: object) -> str:
    if _is_number(value):
        return f"{value:.10g}"
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
