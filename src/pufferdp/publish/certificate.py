"""Certificates: what was promised, under which model, by which mechanism, at which parameters, from which version."""

from __future__ import annotations

import hashlib
import json
import math
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import canonical_json, found_text
from pufferdp.basics.paged import Paged
from pufferdp.ledger.hash_chain import link
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import NumberModel
from pufferdp.models.gaussian import Gaussian
from pufferdp.models.groups import AnyGroups
from pufferdp.models.model_class import ModelClass
from pufferdp.publish.answers.problem import Problem

if TYPE_CHECKING:
    from pufferdp.ledger.charge import Charge


SCHEMA = "pufferdp-certificate/1"
FLOW_SCHEMA = "pufferdp-flow-certificate/1"
REDACTION_SCHEMA = "pufferdp-redaction-certificate/1"
SERIES_SCHEMA = "pufferdp-series-certificate/1"
SCHEMAS = (SCHEMA, FLOW_SCHEMA, REDACTION_SCHEMA, SERIES_SCHEMA)
"""Of an answer, of a flow, of a redacted series, of a flipped one. ``verify`` knows them all."""
SECRETS = "each record's value: for every record, any two values of positive probability are kept hard to tell apart"
EXACT_ANSWER = (
    "the answer is exact: under the model it does not depend on any secret, so no noise is needed for this promise"
)
Answer = int | float | list[int] | list[float]


class CertificatePart(BaseModel):
    """Nothing more and nothing else than what is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Guarantee(CertificatePart):
    """The promise."""

    adversary: str
    knows: str
    epsilon: float
    secrets: str
    framework: dict[str, Any] | None = Field(description="secrets of one's own and their pairs, as in a secrets file")
    statement: str


class QueryPart(CertificatePart):
    """What was asked."""

    name: str
    clip: list[float] | None
    lipschitz: float
    coordinates: int


class MechanismPart(CertificatePart):
    """How the noise was chosen."""

    name: str
    theorem: str


class QuiltPart(CertificatePart):
    """The record that decides and its active quilt: positions counted from 1 in a series, names otherwise."""

    node: int | str
    ends: list[int] | list[str]
    nearby: int | float = Field(description="records inside the quilt, weighed by how far each can move the answer")
    influence: float
    skipped: int = Field(ge=0, description="quilts left out because they are too large for exact inference")


class TransportPart(CertificatePart):
    """The pair of secrets that is hardest to hide, and how far apart the laws of the answer are."""

    distance: float
    first: str | None
    second: str | None


class CalibrationPart(CertificatePart):
    """What the noise rests on."""

    sigma: float
    quilt: QuiltPart | None
    transport: TransportPart | None


class NoisePart(CertificatePart):
    """The noise that was drawn."""

    kind: str
    scale: float


class AccuracyPart(CertificatePart):
    """With probability 1−beta every coordinate errs by less than alpha."""

    alpha: float
    beta: float


class DenoisedPart(CertificatePart):
    """The posterior of the true answer under the model: mean and credible interval. Follows from what is public."""

    mean: float | list[float | None] | None = Field(description="null where the answer lies too far out to say")
    low: float | list[float | None] | None
    high: float | list[float | None] | None
    probability: float = Field(description="what the interval from low to high holds at least, both ends included")
    surprise: float | list[float] = Field(description="probability, under the model, of an answer this far out")


class DataPart(CertificatePart):
    """What was read, and how. All of it is public."""

    column: str
    id: str | None = Field(description="the column that says which record a row is, for models that are not series")
    order: str | None
    by: str | None
    gap: str | float | None
    missing: str
    records: int
    lengths: list[list[int]] = Field(description="chain length, how many chains")
    dropped: int = Field(ge=0, description="records dropped because their value is missing")


class LedgerPart(CertificatePart):
    """The row of the ledger that this release was charged to, before its noise was drawn."""

    dataset: str
    position: int = Field(ge=1, description="the row, counted from 1")
    previous: str = Field(description="hash of the row before")
    head: str = Field(description="hash of the row: the head of the ledger when it was charged")
    charged: str


class SealedCertificate(CertificatePart, Paged):
    """Everything needed to check a release later, without the data; its last part, sha256, is a hash over the rest."""

    @classmethod
    def seal(cls, content: dict[str, Any]) -> Self:
        """A certificate from its content, with its hash."""
        return cls.model_validate({**content, "sha256": content_hash(content)})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON content."""
        return self.model_dump(by_alias=True)


class Certificate(SealedCertificate):
    """Everything needed to check a release later, without the data."""

    schema_: Literal["pufferdp-certificate/1"] = Field(alias="schema")
    pufferdp: str = Field(description="package version")
    created: str
    guarantee: Guarantee
    model: dict[str, Any] = Field(description="the model or class by value, as in a model file")
    model_sha256: str
    query: QueryPart
    mechanism: MechanismPart
    calibration: CalibrationPart
    noise: NoisePart
    expected_l1_error: float
    accuracy: AccuracyPart
    data: DataPart
    public: list[str]
    labels: list[str]
    answer: Answer
    estimate: Answer
    denoised: DenoisedPart | None = Field(description="null where the answer has no one law under the model")
    warnings: list[str]
    ledger: LedgerPart | None = Field(description="null where no budget was kept")
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")


def row_problems(row: LedgerPart | None, charge: Charge, head: str | None) -> list[str]:
    """The hash of the row in the ledger must be over the charge of this very release; with ``head`` it is that row."""
    if row is None:
        return [] if head is None else ["the release was not charged to a ledger: the certificate names no row"]
    problems = []
    if link(row.previous, row.position, row.charged, charge.problem) != row.head:
        problems.append("ledger.head is not the hash of a row that charges this release")
    if head is not None and head != row.head:
        problems.append(f"the release was charged as the row {row.head}, not as {found_text(head)}")
    return problems


def content_hash(content: dict[str, Any]) -> str:
    """SHA-256 over the canonical form of everything but the hash itself."""
    return hashlib.sha256(canonical_json({k: v for k, v in content.items() if k != "sha256"}).encode()).hexdigest()


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a certificate file; of a ``release --json`` output or an HTML report its certificate."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        raw = json.loads(embedded_certificate(text) if is_report(text) else text)
    except FileNotFoundError:
        raise CertificateError(f"certificate {str(path)!r} does not exist", value=path) from None
    except IsADirectoryError:
        raise CertificateError(f"certificate {str(path)!r} is a folder; name the JSON file in it", value=path) from None
    except (ValueError, RecursionError):  # bad UTF-8 and bad JSON are ValueErrors, and so is a number that is too long
        raise CertificateError(f"certificate {str(path)!r} is not JSON", value=path) from None
    except OSError as error:
        raise CertificateError(f"certificate {str(path)!r} cannot be read: {error.strerror}", value=path) from None
    if isinstance(raw, dict) and isinstance(raw.get("certificate"), dict) and "schema" not in raw:
        raw = raw["certificate"]
    if not isinstance(raw, dict) or raw.get("schema") not in SCHEMAS:
        schema = raw.get("schema") if isinstance(raw, dict) else None
        found = "no schema" if schema is None else f"schema {found_text(schema)}"
        known = " or ".join(repr(name) for name in SCHEMAS)
        raise CertificateError(f"{str(path)!r} is not a certificate: it has {found}, not {known}", value=path)
    return raw


def is_report(text: str) -> bool:
    """Whether a text is an HTML report and not JSON."""
    return text.lstrip()[:9].lower() == "<!doctype"


def embedded_certificate(text: str) -> str:
    """The JSON inside the one ``script`` element of a report whose id is ``certificate``."""
    found = _Embedded()
    found.feed(text)
    found.close()
    if len(found.texts) != 1:
        some = "several certificates" if found.texts else "no certificate"
        raise CertificateError(f"the report holds {some}; a report of a release holds one")
    return found.texts[0]


class _Embedded(HTMLParser):
    """Collects what stands in ``script`` elements with the id ``certificate``. Nothing is run."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and ("id", "certificate") in attrs
        if self._inside:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def secrets_text(problem: Problem) -> str:
    """What the promise protects, in words."""
    if isinstance(problem.model, NumberModel):
        return (
            f"each record's value: for every record, any two values that differ by at most {_width(problem)}, the "
            "width of the clipping range, are kept hard to tell apart"
        )
    if problem.secrets is None:
        return SECRETS
    pairs = "; ".join(f"{a} against {b}" for a, b in problem.secrets.pairs)
    return f"secrets of one's own, kept hard to tell apart in pairs: {pairs}"


def _width(problem: Problem) -> str:
    low, high = problem.bound.range or (0.0, 0.0)
    return f"{high - low:.15g}"


def public_facts(problem: Problem) -> list[str]:
    """What a release takes to be known to everyone."""
    if isinstance(problem.model, (RecordModel, ModelClass)):
        facts = [f"which records there are ({problem.records})"]
    elif isinstance(problem.model, AnyGroups):
        facts = [f"how many records there are ({problem.records}), and their groups where --by names them"]
    elif isinstance(problem.model, NumberModel):
        facts = [f"how many records there are ({problem.records}), and which of them are a family"]
    else:
        facts = [
            f"how many records there are ({problem.records}) and how they fall into chains",
            "where gaps and missing values lie",
        ]
    facts.append("the model, the query and every number in this certificate but the records")
    if problem.model.bins is not None and problem.bound.range is not None:
        facts.append("given its state, a number is taken to be independent of all other records")
    return facts


def statement(problem: Problem) -> str:
    """The promise in one sentence."""
    one = isinstance(problem.model, (MarkovChain, RecordModel, Gaussian))
    several = "" if one else ", whichever model of the class is true"
    factor = math.exp(problem.epsilon) if problem.epsilon < 700 else math.inf
    between = "two values of any one record" if problem.secrets is None else "the two secrets of any pair"
    if isinstance(problem.model, NumberModel):
        between += f" that differ by at most {_width(problem)} (the clipping width)"
    return (
        f"Whoever believes the model{several}, knows {problem.adversary.knows} and sees this answer can shift their "
        f"odds between {between} by a factor of at most e^{problem.epsilon:g} = {factor:.4g}."
    )
