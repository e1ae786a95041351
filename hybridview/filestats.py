"""The statistics that a Delta log keeps of a table's files -> sizes, and bounds of a column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Size:
    """How much some files hold; `rows` is None if the log does not say."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0

    def __add__(self, other: Size) -> Size:
        known = self.rows is not None and other.rows is not None
        rows = (self.rows or 0) + (other.rows or 0) if known else None
        return Size(self.files + other.files, self.bytes + other.bytes, rows)


@dataclass(frozen=True, slots=True)
class FileBounds:
    """What the log says of one column in one file; None where it says nothing.

    Texts are bytes here, as they are compared.
    """

    rows: int
    low: Any
    high: Any
    nulls: int | None
    bytes: int = 0


def size_of(actions: Any) -> Size:
    """Return the size of all files; `actions` are what delta-rs says of them."""
    sizes: list[Any] = column_values(actions, "size_bytes")
    names = actions.schema.names
    counts = column_values(actions, "num_records") if "num_records" in names else [None]
    rows = (
        None if sizes and any(count is None for count in counts) else sum(counts if sizes else ())
    )
    return Size(len(sizes), sum(sizes), rows)


def bounds_of(actions: Any, column: str) -> tuple[FileBounds, ...] | None:
    """Return the bounds of a column in every file; None if the log has none of it."""
    names = {name.lower(): name for name in actions.schema.names}
    wanted = ("num_records", *(f"{what}.{column.lower()}" for what in ("min", "max")))
    if any(name not in names for name in wanted):
        return None
    nulls = names.get(f"null_count.{column.lower()}")
    columns = [_values(actions, names[name]) for name in wanted]
    columns.append(_values(actions, nulls) if nulls else [None] * len(columns[0]))
    columns.append(column_values(actions, "size_bytes"))
    return tuple(
        FileBounds(rows or 0, low, high, none, size)
        for rows, low, high, none, size in zip(*columns, strict=True)
    )


def total(files: Iterable[FileBounds]) -> Size:
    """Return the size of some files."""
    listed = list(files)
    return Size(len(listed), sum(f.bytes for f in listed), sum(f.rows for f in listed))


def column_values(actions: Any, name: str) -> list[Any]:
    return [value.as_py() for value in actions.column(name)]


def _values(actions: Any, name: str) -> list[Any]:
    return [_bound(value) for value in actions.column(name)]


def _bound(value: Any) -> Any:
    """Return a statistic as it is compared; None for a date of a year that Python has not."""
    try:
        found = value.as_py()
    except (ValueError, OverflowError):
        return None
    return found.encode("utf-8") if isinstance(found, str) else found
