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


class PlanRequest(JobRequest):
    """Every mechanism on one problem."""

    model: Name
    data: Name | None = None
    reading: Reading | None = None
    id: Name | None = None
    query: Name
    clip: tuple[float, float] | None = None
    epsilon: float
    adversary: Name = "bdp"
    length: int | None = None
    theme: Theme = "light"


class ReleaseRequest(PlanRequest):
    """One private answer from the data; charged where ``dataset`` names one of the ledger."""

    data: Name
    reading: Reading
    mechanism: Name | None = None
    dataset: Name | None = None


class TablePlanRequest(JobRequest):
    """Several questions, on one budget."""

    model: Name
    data: Name | None = None
    reading: Reading | None = None
    queries: Annotated[list[Name], Field(min_length=1, max_length=50)]
    per: Annotated[list[Name], Field(max_length=2)] = []
    split: Annotated[list[float], Field(max_length=50)] | None = None
    clip: tuple[float, float] | None = None
    epsilon: float
    adversary: Name = "bdp"
    length: int | None = None
    theme: Theme = "light"


class TableRequest(TablePlanRequest):
    """A table from the data; charged where ``dataset`` names one of the ledger."""

    data: Name
    reading: Reading
    dataset: Name | None = None


class FlipPlanRequest(JobRequest):
    """The channel of a flipped series."""

    model: Name
    data: Name | None = None
    reading: Reading | None = None
    epsilon: float
    adversary: Name = "bdp"
    optimise: bool = False
    length: int | None = None
    theme: Theme = "light"


class FlipRequest(FlipPlanRequest):
    """A series flipped record by record."""

    data: Name
    reading: Reading
    dataset: Name | None = None


class EstimateRequest(JobRequest):
    """What a flipped series says of the true one."""

    data: Name
    certificate: Name
    confidence: float = 0.95
    theme: Theme = "light"


class FlowPlanRequest(JobRequest):
    """A request for the plan of a flow."""

    model: Name
    data: Name | None = None
    reading: Reading | None = None
    eta: float
    tau: float
    privacy: Literal["orbit", "record", "joint"] = "joint"
    length: int | None = None
    theme: Theme = "light"


class FlowRequest(FlowPlanRequest):
    """A request for a flow of data."""

    data: Name
    reading: Reading
    dataset: Name | None = None


class StreamRequest(JobRequest):
    """What a stream leaks, or what its steps may spend."""

    model: Name
    losses: Annotated[list[float], Field(min_length=1, max_length=10_000)] | None = None
    target: float | None = None
    length: int | None = None
    adversary: Name = "bdp"
    theme: Theme = "light"


class AuditRequest(JobRequest):
    """An attack on a mechanism of ours: the page runs nobody's code."""

    model: Name
    mechanism: Annotated[str, StringConstraints(max_length=1000, pattern=r"^(laplace|flip|redact):")]
    length: int | None = None
    dp_epsilon: float | None = None
    adversary: Name = "bdp"
    clip: tuple[float, float] | None = None
    seconds: Annotated[float, Field(ge=1, le=120)] = 10.0
    theme: Theme = "light"


class LeakageRequest(JobRequest):
    """What a DP loss leaks under a model, or under a chain with two states."""

    model: Name | None = None
    stay: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    length: int | None = None
    dp_epsilon: float
    adversary: Name = "bdp"
    query: Name | None = "count:1"
    theme: Theme = "light"


class SeriesRequest(JobRequest):
    """A request for the states of a series."""

    data: Name
    model: Name
    column: Name


class DesignRequest(JobRequest):
    """A redaction before it is drawn; with data, times may be named."""

    model: Name
    length: int
    data: Name | None = None
    column: Name | None = None
    order: Name | None = None
    private: Private
    epsilon: float
    adversary: Name = "bdp"
    theme: Theme = "light"


class RedactRequest(JobRequest):
    """A series but for what gives its private rows away; ``private`` counts rows from 1."""

    data: Name
    model: Name
    column: Name
    order: Name | None = None
    private: Private
    epsilon: float
    keep: Annotated[list[Name], Field(max_length=200)] = []
    adversary: Name = "bdp"
    dataset: Name | None = None
    theme: Theme = "light"


class LedgerRequest(JobRequest):
    """The ledger that the server was started with."""

    theme: Theme = "light"
