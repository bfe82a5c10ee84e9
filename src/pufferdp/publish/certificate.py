"""Certificates: what was guaranteed, under which model, by which mechanism, at which parameters, from which version."""

from __future__ import annotations

import hashlib
import math
import os
import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import JsonRuleError, canonical_json, found_text, parse_json, read_text
from pufferdp.basics.paged import Paged
from pufferdp.basics.plugins import plugins
from pufferdp.basics.words import a_kind
from pufferdp.ledger.hash_chain import can_be_identity, can_be_name
from pufferdp.publish.fields import Exact, Near, Stated

KINDS: Final = "pufferdp.kinds"
"""The entry points under which kinds of publications are registered."""
SCHEMA: Final = "pufferdp-certificate/2"
FLOW_SCHEMA: Final = "pufferdp-flow-certificate/2"
MEASUREMENT_SCHEMA: Final = "pufferdp-measurement-certificate/2"
REDACTION_SCHEMA: Final = "pufferdp-redaction-certificate/2"
SERIES_SCHEMA: Final = "pufferdp-series-certificate/2"
TABLE_SCHEMA: Final = "pufferdp-table-certificate/2"
LARGEST: Final = 2**25
"""Characters of a file that is read as a certificate: a stranger's must not fill the memory."""
SECRETS: Final = "each record's value: any two values of positive probability remain indistinguishable up to epsilon"


GOES_ON: Final = "The records used are part of a longer series; the guarantee covers every record of that series."
"""What a guarantee says that was made from a part of a series."""


def factor_text(epsilon: float) -> str:
    """An epsilon as a factor on odds."""
    return f"e^{epsilon:g} = {math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:g}"


def adversary_text(knows: str, *, single: bool = True) -> str:
    """Which adversary a guarantee is for, by what is known to them; ``single`` is false for a class of models."""
    uses = "this correlation model" if single else "any model of the class, if it is the true one,"
    return f"This holds against an adversary who uses {uses} and knows {knows}."


def odds_guarantee(sees: str, between: str, epsilon: float, knows: str, *, single: bool = True) -> str:
    """The guarantee of a release in two sentences: a bound on the change of odds, and the adversary."""
    return (
        f"Seeing {sees} changes the odds between {between} by at most a factor of {factor_text(epsilon)}. "
        + adversary_text(knows, single=single)
    )


def guarantee_part(adversary: Adversary, epsilon: float, statement: str, secrets: str = SECRETS) -> dict[str, Any]:
    """The fields of ``Guarantee``, for secrets that are values of single records."""
    return {
        "adversary": str(adversary),
        "knows": adversary.knows,
        "epsilon": epsilon,
        "secrets": secrets,
        "framework": None,
        "statement": statement,
    }


class CertificatePart(BaseModel):
    """Nothing more and nothing else than what is declared."""

    # Prepared when it is first read or written: one run needs the parts of one kind.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    @classmethod
    def seal(cls, content: dict[str, Any]) -> Self:
        """The part from its content."""
        return cls.model_validate(content)

    @model_serializer(mode="wrap")
    def _without_absent(self, content: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A field that need not be there is left out, with no null in its place."""
        optional = {name for name, field in type(self).model_fields.items() if not field.is_required()}
        return {key: value for key, value in content(self).items() if value is not None or key not in optional}


class Guarantee(CertificatePart):
    """The guarantee of a release, and the adversary it is for."""

    adversary: str = Field(description="bdp, pufferfish or dp")
    knows: str = Field(description="what the adversary knows of the other records")
    epsilon: float = Field(description="bound on the log of how far odds change")
    secrets: str = Field(description="what is protected")
    framework: dict[str, Any] | None = Field(description="secrets of one's own and their pairs, as in a secrets file")
    statement: str = Field(description="the guarantee and its assumptions in words")


class ModelChecksPart(CertificatePart):
    """What the data said about the model, from the checks in the model file."""

    statement: str = Field(description="the checks in words")
    accepted_misfit: bool = Field(description="true where the data contradict the model, and this was accepted")


class MechanismPart(CertificatePart):
    """How the noise was chosen."""

    name: str = Field(description="the mechanism")
    theorem: str = Field(description="what its guarantee rests on")


class NoisePart(CertificatePart):
    """The noise that was drawn."""

    kind: str = Field(description="the distribution of the noise")
    scale: Annotated[float, Near()] = Field(description="its scale; of Gaussian noise the standard deviation")


class AccuracyPart(CertificatePart):
    """With probability 1−beta every coordinate errs by less than alpha."""

    alpha: Annotated[float, Near()] = Field(description="the error bound, for all numbers together")
    beta: Annotated[float, Stated("the probability that was chosen; alpha must follow from it")]


class RangePart(CertificatePart):
    """A segment of the order column, both ends included."""

    from_: str | int | float | None = Field(alias="from", description="first place; null: no column says the order")
    to: str | int | float | None = Field(description="last place")
    by: list[str] | None = Field(description="the people whose segment it is, sorted; null: everybody's")


class RangesPart(CertificatePart):
    """Which records were read, by time and by person."""

    order: str | None = Field(description="the column of places")
    unit: str = Field(description="number, time (no time zone) or utc")
    by: str | None = Field(description="the column of people")
    parts: list[RangePart]


_COLUMN: Final = Stated("the name of a column")


class DataPart(CertificatePart):
    """What was read, and how. All of it is public."""

    column: Annotated[str, _COLUMN]
    id: Annotated[str | None, _COLUMN] = Field(
        description="the column that says which record a row is, for models that are not series"
    )
    order: Annotated[str | None, _COLUMN]
    rows_in_order: Annotated[
        Literal[True] | None, Stated("an assumption: the rows are in time order; the guarantee states it")
    ] = Field(default=None, description="only where the rows are stated to be in time order")
    by: Annotated[str | None, _COLUMN]
    gap: Annotated[
        str | float | None,
        Stated("how the data was read; it must be possible with the model, the columns and the other numbers"),
    ]
    missing: Annotated[str, Stated("how the data was read; it must go with the model")]
    records: int = Field(description="how many records were read")
    lengths: Annotated[
        list[list[int]],
        Stated("how long the chains are; they must fit into the ranges, and the noise must be enough for them"),
    ] = Field(description="chain length, how many chains")
    dropped: Annotated[int, Stated("how many values were missing; 0 where they were refused")] = Field(
        ge=0, description="records dropped because their value is missing"
    )
    ranges: Annotated[
        RangesPart | None,
        Stated("which records were read; they must go with the columns and the chains, and be those charged"),
    ] = Field(default=None, description="which records were read; only where a column says the order or whose they are")
    part: Annotated[
        Literal[True] | None,
        Stated("whether the series goes on before and after what was read; the noise must be enough for it"),
    ] = Field(default=None, description="only where the series goes on before and after what was read")
    unobserved: Annotated[
        int,
        Stated("how many records are missing inside chains; they must fit, and the noise must be enough for it"),
    ] = Field(ge=0, description="records that are missing inside chains")
    step: Annotated[
        str | float | None, Stated("the model's step, which rows were compared with where a column says the order")
    ] = Field(
        default=None, description="the model's step, with which rows are compared; only where a column says the order"
    )
    independent: Annotated[
        Literal[True] | None,
        Stated("an assumption: many short chains are independent of each other; the guarantee states it"),
    ] = Field(
        default=None, description="only where it is assumed that chains are independent although many of them are short"
    )
    assumptions: list[str] = Field(
        description="what the guarantee rests on besides the model, because of how the data was read"
    )


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


_VERSION: Final = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")
_MOMENT: Final = "it must be a time in UTC, such as 2026-11-16T04:17:00+00:00"


class LedgerPart(CertificatePart):
    """The row of the ledger that this release was charged to, before its noise was drawn."""

    dataset: Annotated[str, Stated(form=can_be_name, wrong="it must be the name of a data set")] = Field(
        description="the data set that was charged"
    )
    position: int = Field(ge=1, description="the row, counted from 1")
    previous: Annotated[str, Stated(form=is_digest, wrong="it must be the hash of a row")] = Field(
        description="hash of the row before"
    )
    head: Annotated[str, Exact(wrong="it is not the hash of a row that charges this release")] = Field(
        description="hash of the row: the head of the ledger when it was charged"
    )
    charged: Annotated[str, Stated(form=_is_moment, wrong=_MOMENT)] = Field(description="when it was charged")
    identity: Annotated[str, Stated(form=can_be_identity, wrong="it must be the token of a charge")] = Field(
        description="the charge's own token"
    )
    assumptions: list[str] | None = Field(
        default=None, description="what the total of the data set rests on, where it was charged on some records"
    )


class SealedCertificate(CertificatePart, Paged):
    """Everything needed to check a release later, without the data; its last part, sha256, is a hash over the rest.

    These fields are in the certificates of every release type.
    """

    schema_: str = Field(alias="schema")
    pufferdp: Annotated[
        str, Stated("which version made it", form=_is_version, wrong="it must be a version, such as 0.1.0")
    ] = Field(description="package version")
    created: Annotated[str, Stated("when it was made", form=_is_moment, wrong=_MOMENT)]
    model: dict[str, Any] = Field(description="the model or class by value, as in a model file")
    model_sha256: Annotated[str, Exact(wrong="it is not the digest of the model")] = Field(description="its SHA-256")
    model_checks: ModelChecksPart | None = Field(default=None, description="what the data said about the model")
    mechanism: MechanismPart
    data: DataPart
    public: list[str] = Field(description="what is taken to be known to everyone")
    warnings: Annotated[
        list[str],
        Stated("where the noise came from: nobody can prove that there was no seed; what follows must be there"),
    ]
    ledger: Annotated[
        LedgerPart | None,
        Stated("which row it was charged as; its hash must be that of a row that charges this very publication"),
    ] = Field(description="null where no budget was kept")
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")

    @classmethod
    def seal(cls, content: dict[str, Any]) -> Self:
        """A certificate from its content, with its hash."""
        draft = cls.model_validate({**content, "sha256": ""})
        return draft.model_copy(update={"sha256": content_hash(draft.to_dict())})

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sha256={str(getattr(self, 'sha256', ''))[:12]}…)"

    def to_dict(self) -> dict[str, Any]:
        """As in its JSON file, with the hash at the end."""
        content = self.model_dump(by_alias=True)
        sealed = content.pop("sha256")
        return {**content, "sha256": sealed}


def content_hash(content: dict[str, Any]) -> str:
    """SHA-256 over the canonical form of everything but the hash itself."""
    return hashlib.sha256(canonical_json({k: v for k, v in content.items() if k != "sha256"}).encode()).hexdigest()


def content_of(held: object, name: str) -> dict[str, Any]:
    """The content of a certificate, of a release that has one, of a dict, or of the file of either."""
    if isinstance(held, (str, os.PathLike)):
        return read_certificate(held)
    certificate = getattr(held, "certificate", held)
    if isinstance(certificate, SealedCertificate):
        return certificate.to_dict()
    if isinstance(held, dict):
        return held
    raise CertificateError(
        f"{name} is {a_kind(held)}; it must be a certificate, a release that has one, its content as a dict, or the "
        "path of its file",
        value=type(held),
    )


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a certificate file; of a ``release --json`` output or an HTML report its certificate."""
    return read_signed(path)[0]


def read_signed(path: str | os.PathLike[str]) -> tuple[dict[str, Any], object]:
    """The content of a certificate file, and the signature beside it; None where there is none."""
    text = read_text(path, "certificate", CertificateError, LARGEST)
    try:
        raw = parse_certificate(text, f"certificate {str(path)!r}")
    except JsonRuleError as error:
        raise CertificateError(f"certificate {str(path)!r}: {error}", value=path) from None
    except (ValueError, RecursionError):  # bad JSON is a ValueError, and so is a number that is too long
        raise CertificateError(f"certificate {str(path)!r} is not JSON", value=path) from None
    signature = raw.get("signature") if isinstance(raw, dict) and "schema" not in raw else None
    raw = unwrapped(raw)
    schemas = [getattr(kind, "schema", "") for kind in plugins(KINDS).values()]
    if isinstance(raw, dict) and "schema" not in raw and isinstance(raw.get("releases"), list):
        many = len(raw["releases"])
        raise CertificateError(
            f"{str(path)!r} has the certificates of {many} {'person' if many == 1 else 'people'}; one is checked at a "
            "time: release into a folder that exists, where each person gets a file",
            value=path,
        )
    if not isinstance(raw, dict) or raw.get("schema") not in filter(None, schemas):
        schema = raw.get("schema") if isinstance(raw, dict) else None
        schema_text = "no schema" if schema is None else f"schema {found_text(schema)}"
        known = " or ".join(repr(name) for name in schemas if name)
        raise CertificateError(
            f"{str(path)!r} is not a certificate: it has {schema_text}; a certificate has {known}", value=path
        )
    return raw, signature


def unwrapped(raw: Any) -> Any:
    """The certificate in the output of a release; refuses an output whose own numbers are not the certificate's.

    A reader of the file sees the numbers that come first, and ``verify`` vouches for those inside.
    """
    if not (isinstance(raw, dict) and isinstance(raw.get("certificate"), dict) and "schema" not in raw):
        return raw
    certificate = raw["certificate"]
    kind = next((k for k in plugins(KINDS).values() if getattr(k, "schema", "") == certificate.get("schema")), None)
    compare = getattr(kind, "differences_beside", None)
    problems: list[str] = [] if compare is None else compare(certificate, raw)
    if problems:
        raise CertificateError(
            f"what stands beside the certificate does not follow from it ({problems[0]}): one of them was changed "
            "after it was made"
        )
    return certificate


def parse_certificate(text: str, what: str) -> Any:
    """The JSON of a certificate's file, or of a report that carries one. Raises ValueError where it is none."""
    if len(text) > LARGEST:
        raise CertificateError(f"{what} is longer than {LARGEST:,} characters; no certificate is")
    return parse_json(embedded_certificate(text) if is_report(text) else text)


def is_report(text: str) -> bool:
    """Whether a text is an HTML report and not JSON."""
    return text.lstrip()[:9].lower() == "<!doctype"


_SCRIPT: Final = re.compile(r"<script\b([^<>]*)>([^<]*)", re.IGNORECASE)
_NAMED: Final = re.compile(r"""\sid\s*=\s*(["']?)certificate\1(?=[\s/]|$)""", re.IGNORECASE)


def embedded_certificate(text: str) -> str:
    """The JSON inside the one ``script`` element of a report whose id is ``certificate``; it has no ``<`` in it.

    Found by patterns that read each letter once or twice: Python's own reader of HTML takes hours and gigabytes for
    what a stranger can write into a file of this size.
    """
    texts = [found[2] for found in _SCRIPT.finditer(text) if _NAMED.search(found[1])]
    if len(texts) != 1:
        some = "several certificates" if texts else "no certificate"
        raise CertificateError(f"the report holds {some}; a report of a release holds one")
    return texts[0]
