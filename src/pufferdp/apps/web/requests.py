"""What may be asked of the page, checked before any work is done."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from pufferdp.data.reading_options import MissingValues, parse_distance

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Theme = Literal["light", "dark"]
Private = Annotated[list[int | Name], Field(min_length=1, max_length=1000)]
"""Rows, counted from 1, and times or ranges of times."""


class JobRequest(BaseModel):
    """Base: unknown keys are refused, numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """What the job is given, by name."""
        return self.model_dump()


class Reading(JobRequest):
    """How rows of a file become series."""

    column: Name
    order: Name | None = None
    by: Name | None = None
    restart: Annotated[float | str | None, BeforeValidator(parse_distance)] = None
    missing: MissingValues = "refuse"
    independent: bool = False


class Drawn(JobRequest):
    """Work whose result has a figure."""

    theme: Theme = "light"


class OfModel(Drawn):
    """Work about a model and a number of records."""

    model: Name
    length: int | None = None


class OfData(OfModel):
    """Work about a model, and about a file of data or a number of records."""

    data: Name | None = None
    reading: Reading | None = None


class FromData(OfData):
    """What is released from data; charged where ``dataset`` names one of the ledger."""

    data: Name
    reading: Reading
    dataset: Name | None = None


class ValuesRequest(JobRequest):
    """What stands in a column: states or a range of numbers."""

    data: Name
    column: Name


class FitRequest(JobRequest):
    """A request for a model fitted to data."""

    data: Name
    reading: Reading
    bins: Name | None = None
    confidence: float | None = None


class PlanRequest(OfData):
    """Every mechanism on one problem."""

    id: Name | None = None
    query: Name
    clip: tuple[float, float] | None = None
    epsilon: float
    adversary: Name = "bdp"


class ReleaseRequest(FromData, PlanRequest):
    """One private answer from the data."""

    mechanism: Name | None = None


class TablePlanRequest(OfData):
    """Several questions, on one budget."""

    queries: Annotated[list[Name], Field(min_length=1, max_length=50)]
    per: Annotated[list[Name], Field(max_length=2)] = []
    split: Annotated[list[float], Field(max_length=50)] | None = None
    clip: tuple[float, float] | None = None
    epsilon: float
    adversary: Name = "bdp"


class TableRequest(FromData, TablePlanRequest):
    """A table of answers from the data."""


class FlipPlanRequest(OfData):
    """The channel of a flipped series."""

    epsilon: float
    adversary: Name = "bdp"


class FlipRequest(FromData, FlipPlanRequest):
    """A series flipped record by record."""


class EstimateRequest(Drawn):
    """What a flipped series says of the true one."""

    data: Name
    certificate: Name
    confidence: float = 0.95


class FlowPlanRequest(OfData):
    """A request for the plan of a flow."""

    eta: float
    tau: float
    privacy: Literal["orbit", "record", "joint"] = "joint"


class FlowRequest(FromData, FlowPlanRequest):
    """A request for a flow of data."""


class StreamRequest(OfModel):
    """What a stream leaks, or what its steps may spend."""

    losses: Annotated[list[float], Field(min_length=1, max_length=10_000)] | None = None
    target: float | None = None
    adversary: Name = "bdp"


class AuditRequest(OfModel):
    """An attack on a mechanism of ours: the page runs nobody's code."""

    mechanism: Annotated[str, StringConstraints(max_length=1000, pattern=r"^(laplace|flip|redact):")]
    dp_epsilon: float | None = None
    adversary: Name = "bdp"
    clip: tuple[float, float] | None = None
    seconds: Annotated[float, Field(ge=1, le=120)] = 10.0


class LeakageRequest(Drawn):
    """What a DP loss leaks under a model, or under a chain with two states."""

    model: Name | None = None
    stay: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    length: int | None = None
    dp_epsilon: float
    adversary: Name = "bdp"
    query: Name | None = "count:1"


class SeriesRequest(JobRequest):
    """A request for the states of a series."""

    data: Name
    model: Name
    column: Name


class Hidden(Drawn):
    """Which rows are hidden, in which order of the data and from whom; rows are counted from 1."""

    model: Name
    order: Name | None = None
    private: Private
    epsilon: float
    adversary: Name = "bdp"


class DesignRequest(Hidden):
    """A redaction before it is drawn; with data, times may be named."""

    length: int
    data: Name | None = None
    column: Name | None = None


class RedactRequest(Hidden):
    """A series but for what gives its private rows away."""

    data: Name
    column: Name
    keep: Annotated[list[Name], Field(max_length=200)] = []
    dataset: Name | None = None


class LedgerRequest(Drawn):
    """The ledger that the server was started with."""
