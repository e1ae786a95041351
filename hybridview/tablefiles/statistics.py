"""A file's rows -> what Delta Lake's log says of them, as JSON text.

What a column's smallest and largest value are lets readers skip the file. Where they cannot be said
exactly, or only shortened, a bound is left out: then the file is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hybridview.tablefiles.values import day, kind_of, moment

LONGEST = 32
"""Characters of a text that are kept of a bound."""

Shown = Callable[[Any, bool], str | None]
"""A bound, and whether it is the largest -> JSON; None if it cannot be said."""


def _number(value: Any, largest: bool) -> str | None:
    return format(value, "f") if not isinstance(value, int) else str(value)


def _double(value: float, largest: bool) -> str | None:
    return repr(value) if math.isfinite(value) else None


def _text(value: str, largest: bool) -> str | None:
    if len(value) > LONGEST:
        # The beginning of a text is not larger than it; nothing as short is not smaller.
        return None if largest else json.dumps(value[:LONGEST])
    return json.dumps(value)


def _day(value: int, largest: bool) -> str | None:
    return json.dumps(day(value).isoformat())


def _moment(zone: str) -> Shown:
    def shown(value: int, largest: bool) -> str | None:
        # Milliseconds are kept; a bound that had to be rounded is rounded outwards.
        found = moment(-(-value // 1000) * 1000 if largest else value // 1000 * 1000)
        return json.dumps(found.isoformat(timespec="milliseconds") + zone)

    return shown


_SHOWN: dict[str, Shown] = {
    "tinyint": _number,
    "smallint": _number,
    "int": _number,
    "bigint": _number,
    "decimal": _number,
    "double": _double,
    "string": _text,
    "date": _day,
    "timestamp": _moment("Z"),
    "timestamp_ntz": _moment(""),
}


def _shown(type_name: str) -> Shown | None:
    return _SHOWN.get(type_name.lower().split("(")[0])


def statistics(rows: pa.Table, types: dict[str, str]) -> str:
    """Return the number of rows and, by column, the bounds and how many values are missing."""
    low: list[str] = []
    high: list[str] = []
    nulls: list[str] = []
    for name, type_name in types.items():
        column = rows.column(name)
        key = json.dumps(name)
        nulls.append(f"{key}:{column.null_count}")
        for found, largest in ((low, False), (high, True)):
            bound = _bound(column, type_name, largest)
            if bound is not None:
                found.append(f"{key}:{bound}")
    parts = [f'"numRecords":{rows.num_rows}']
    for title, listed in (("minValues", low), ("maxValues", high), ("nullCount", nulls)):
        parts.append(f'"{title}":{{{",".join(listed)}}}')
    return "{" + ",".join(parts) + "}"


def _bound(column: pa.ChunkedArray, type_name: str, largest: bool) -> str | None:
    kind, shown = kind_of(type_name), _shown(type_name)
    if kind is None or shown is None or column.null_count == len(column):
        return None
    plain = column.cast(kind.arrow).cast(kind.raw)
    if pa.types.is_floating(kind.raw) and pc.any(pc.is_nan(plain)).as_py():
        return None  # it is larger than all others for Spark, and in no order for Arrow
    found = pc.min_max(plain)["max" if largest else "min"].as_py()
    try:
        return shown(found, largest)
    except (ValueError, OverflowError):  # a year of five digits
        return None
