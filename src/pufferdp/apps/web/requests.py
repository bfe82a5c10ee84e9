"""What may be asked of the page: the fields of each job, checked before any work is done."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, create_model

from pufferdp.data.reading_options import MissingValues, parse_distance

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
OwnMechanism = Annotated[str, StringConstraints(max_length=1000, pattern=r"^(laplace|flip|redact):")]
"""What the page audits: it runs nobody's code."""


class JobRequest(BaseModel):
    """Base: unknown keys are refused, numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """What the job is given, by name."""
        return self.model_dump()


_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("adversary", "bins", "by", "certificate", "column", "data", "dataset", "id"), Name),
    **dict.fromkeys(("mechanism", "model", "order", "query"), Name),
    **dict.fromkeys(("confidence", "dp_epsilon", "epsilon", "eta", "target", "tau"), float),
    "clip": tuple[float, float],
    "independent": bool,
    "keep": Annotated[list[Name], Field(max_length=200)],
    "length": int,
    "losses": Annotated[list[float], Field(min_length=1, max_length=10_000)],
    "missing": MissingValues,
    "per": Annotated[list[Name], Field(max_length=2)],
    "privacy": Literal["orbit", "record", "joint"],
    "private": Annotated[list[int | Name], Field(min_length=1, max_length=1000)],  # rows from 1, times, ranges of times
    "queries": Annotated[list[Name], Field(min_length=1, max_length=50)],
    "restart": Annotated[float | str | None, BeforeValidator(parse_distance)],
    "seconds": Annotated[float, Field(ge=1, le=120)],
    "split": Annotated[list[float], Field(max_length=50)],
    "stay": Annotated[list[float], Field(min_length=2, max_length=2)],
    "theme": Literal["light", "dark"],
}
_DEFAULTS: Final[dict[str, Any]] = {
    **{"adversary": "bdp", "independent": False, "keep": [], "missing": "refuse"},
    **{"per": [], "privacy": "joint", "seconds": 10.0, "theme": "light"},
}


def _request(fields: str, **others: Any) -> type[JobRequest]:
    """A request with these fields; one that ends in a question mark may be left out. ``others`` come with types."""
    for field in fields.split():
        name = field.rstrip("?")
        needed = _TYPES[name], _DEFAULTS.get(name, ...)
        others[name] = needed if name == field else (_TYPES[name] | None, None)
    return create_model("Request", __base__=JobRequest, **others)


_TYPES["reading"] = _request("column order? by? restart? missing independent")
_PLAN, _RELEASE = "model theme length? data? reading?", "model theme length? data reading dataset?"
_ANSWER, _TABLE = "query clip? epsilon adversary id?", "queries per split? clip? epsilon adversary"
_REDACTION = "model theme private order? epsilon adversary"

REQUESTS: Final[dict[str, type[JobRequest]]] = {
    "values": _request("data column"),
    "fit": _request("data reading bins? confidence?"),
    "plan": _request(f"{_PLAN} {_ANSWER}"),
    "errors": _request(f"{_PLAN} {_ANSWER}"),
    "release": _request(f"{_RELEASE} {_ANSWER} mechanism?"),
    "leakage": _request("model? theme stay? length? dp_epsilon adversary", query=(Name | None, "count:1")),
    "series": _request("data model column"),
    "design": _request(f"{_REDACTION} length data? column?"),
    "redact": _request(f"{_REDACTION} data column keep dataset?"),
    "table_plan": _request(f"{_PLAN} {_TABLE}"),
    "table": _request(f"{_RELEASE} {_TABLE}"),
    "flip_plan": _request(f"{_PLAN} epsilon adversary"),
    "flip": _request(f"{_RELEASE} epsilon adversary"),
    "estimate": _request("data certificate theme", confidence=(float, 0.95)),
    "flow_plan": _request(f"{_PLAN} eta tau privacy"),
    "flow": _request(f"{_RELEASE} eta tau privacy"),
    "stream": _request("model theme length? losses? target? adversary"),
    "audit": _request("model theme length? dp_epsilon? adversary clip? seconds", mechanism=(OwnMechanism, ...)),
    "ledger": _request("theme"),
    "ledger_verify": _request("theme"),
}
"""What the request of each job holds."""
