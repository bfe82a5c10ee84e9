"""What Spark needs that narwhals does not do: names with any letters in them, and time stamps as integers.

Nothing is imported from Spark unless a Spark frame is handed over, and no row leaves it but those of a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pick(native: Any, roles: Mapping[str, str]) -> Any:
    """The columns under the names of their roles."""
    # A bare a.b would be field b of column a.
    return native.selectExpr(*(f"{_identifier(name)} AS {_identifier(role)}" for role, name in roles.items()))


def with_ticks(native: Any, name: str) -> Any:
    """The column order as microseconds since 1970, in UTC where it has a time zone, under a new name."""
    kind = next(field.dataType.typeName() for field in native.schema if field.name == "order")
    day, time = "unix_date(CAST(`order` AS DATE)) * 86400000000L", ""
    if kind == "timestamp_ntz":
        # unix_micros would read the clock in the session's time zone, where an hour a year is there twice.
        time = " + hour(`order`) * 3600000000L + minute(`order`) * 60000000L"
        time += " + CAST(extract(SECOND FROM `order`) * 1000000 AS BIGINT)"
    ticks = "unix_micros(`order`)" if kind == "timestamp" else day + time
    others = [_identifier(column) for column in native.columns if column != "order"]
    return native.selectExpr(*others, f"{ticks} AS {_identifier(name)}")


def _identifier(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
