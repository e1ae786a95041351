"""Values of a column: as texts, as Spark's SQL shows them; as plain values; as Arrow arrays.

Plain values are None, int, bool, float, str, bytes or Decimal, and two of them are equal where
Spark holds them for the same. Dates are days and timestamps microseconds since 1970, so that no
calendar stands between them. A value that cannot be carried raises ValueError or OverflowError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

_DAYS = date(1970, 1, 1).toordinal()
_START = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Kind(NamedTuple):
    """How values of one type are carried."""

    arrow: pa.DataType
    raw: pa.DataType
    """What an array of plain values is made as, before it is taken for `arrow`."""
    parse: Callable[[str], Any]
    show: Callable[[Any], str]


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - _DAYS


def _moment(text: str) -> int:
    return (datetime.fromisoformat(text) - _START) // _MICROSECOND


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def day(value: int) -> date:
    """Return a day; raises ValueError or OverflowError beyond the years 1 to 9999."""
    return date.fromordinal(value + _DAYS)


def moment(value: int) -> datetime:
    """Return a moment, without a time zone; raises OverflowError beyond the years 1 to 9999."""
    return _START + value * _MICROSECOND


def _kind(arrow: pa.DataType, parse: Any = int, show: Any = str, raw: Any = None) -> Kind:
    return Kind(arrow, raw or arrow, parse, show)


_KINDS = {
    "tinyint": _kind(pa.int8()),
    "smallint": _kind(pa.int16()),
    "int": _kind(pa.int32()),
    "bigint": _kind(pa.int64()),
    "double": _kind(pa.float64(), float, _double),
    "boolean": _kind(pa.bool_(), _bool, lambda v: str(v).lower()),
    "string": _kind(pa.string(), str),
    "binary": _kind(pa.binary(), bytes.fromhex, lambda v: v.hex().upper()),
    "date": _kind(pa.date32(), _day, lambda v: day(v).isoformat(), pa.int32()),
    "timestamp": _kind(pa.timestamp("us", tz="UTC"), raw=pa.int64()),
    "timestamp_ntz": _kind(
        pa.timestamp("us"), _moment, lambda v: moment(v).isoformat(" "), pa.int64()
    ),
}
"""Not `float`: its shortest text, read as a double first, may be rounded to another one."""


def kind_of(type_name: str) -> Kind | None:
    """Return how values of a type are carried; None if they are not."""
    plain = type_name.lower()
    found = _DECIMAL.fullmatch(plain)
    if found:
        precision, scale = int(found[1]), int(found[2])
        return _kind(pa.decimal128(precision, scale), Decimal, lambda v: format(v, "f"))
    return _KINDS.get(plain)


def identifies(type_name: str) -> bool:
    """Say whether rows may be told apart by plain values of a type: not by NaN, or -0.0."""
    return kind_of(type_name) is not None and type_name.lower() != "double"


def to_array(kind: Kind, values: Sequence[Any]) -> pa.Array:
    """Return plain values as a column."""
    return pa.array(values, kind.raw).cast(kind.arrow)


def to_values(kind: Kind, column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return a column as plain values."""
    found: list[Any] = column.cast(kind.arrow).cast(kind.raw).to_pylist()
    return found
