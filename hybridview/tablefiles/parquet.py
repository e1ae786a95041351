"""A Parquet file -> some columns of it as Spark would read them, or a ValueError."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hybridview.tablefiles.values import Kind

OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
UNFIT = (ValueError, OverflowError, KeyError, OSError, pa.ArrowException)
"""What a value, or a file, that is not as others are raises: then Spark does it."""


def read_columns(path: Path, kinds: Mapping[str, Kind], at_most: int | None = None) -> pa.Table:
    """Return columns of a file, and its number of rows even without any.

    Raises ValueError if the file has other types than these, or more rows than `at_most`.
    """
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as opened:
        found = opened.schema_arrow
        if any(key in (found.metadata or {}) for key in OLD_CALENDAR):
            raise ValueError(f"{path.name} has dates of an old calendar")
        if at_most is not None and opened.metadata.num_rows > at_most:
            raise ValueError(f"{path.name} has more than {at_most} rows")
        old_moments = {c.path for c in _leaves(opened) if c.physical_type == "INT96"}
        for name, kind in kinds.items():
            if not found.names.count(name) == 1:
                raise ValueError(f"{path.name} has no column {name}")
            if not _is(found.field(name).type, kind.arrow, name in old_moments):
                raise ValueError(f"{path.name} has another type in its column {name}")
        rows = opened.read(columns=list(kinds), use_threads=False)
    wanted = pa.schema([pa.field(name, kind.arrow) for name, kind in kinds.items()])
    return rows.select(list(kinds)).cast(wanted) if kinds else rows


def _leaves(opened: pq.ParquetFile) -> list[pq.ColumnSchema]:
    return [opened.schema.column(place) for place in range(len(opened.schema))]


def _is(found: pa.DataType, wanted: pa.DataType, old_moment: bool) -> bool:
    """Say whether values of a type are those of another one, however they are laid out."""
    if pa.types.is_dictionary(found):
        return _is(found.value_type, wanted, old_moment)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # Moments without a time zone are other values, unless they are of the type that has none.
        zoned = found.tz is not None or old_moment
        return found.unit in ("ms", "us") and zoned == (wanted.tz is not None)
    if pa.types.is_large_string(found) or pa.types.is_string_view(found):
        return bool(pa.types.is_string(wanted))
    if pa.types.is_large_binary(found) or pa.types.is_binary_view(found):
        return bool(pa.types.is_binary(wanted))
    return bool(found == wanted)
