"""What a view reads: base tables at pinned versions, and whether their columns still fit."""

from __future__ import annotations

from dataclasses import dataclass

from hybridview.deltalog import DeltaLog, TableInfo
from hybridview.errors import BlockedError, HybridviewError
from hybridview.schema import Column


@dataclass(frozen=True, slots=True)
class BasePin:
    """A base table at its pinned version; `problem` if it cannot be used."""

    name: str
    table_id: str
    version: int
    log: DeltaLog
    info: TableInfo | None = None
    """The table at that version; None if there is a problem."""
    problem: HybridviewError | None = None


def changed_column(used: tuple[Column, ...], now: tuple[Column, ...]) -> str:
    """Say which column a view uses is not what it was when the view was created; empty if none."""
    known = {c.name.lower(): c for c in now}
    for column in used:
        found = known.get(column.name.lower())
        if found is None:
            return f'column "{column.name}" is gone'
        if found.type != column.type:
            return f'column "{column.name}" has type {found.type} now, and had {column.type}'
        # What was not noted is only missed where values are padded.
        same = found.declared == column.declared
        if not same and (column.declared is not None or found.padded):
            # A view's table has the declared type too: longer values would not fit.
            before, after = column.declared or column.type, found.declared or found.type
            return f'column "{column.name}" has type {after} now, and had {before}'
    return ""


def check_columns(source: str, used: tuple[Column, ...], now: tuple[Column, ...]) -> None:
    problem = changed_column(used, now)
    if problem:
        raise BlockedError(
            f"{problem} in {source}",
            detail="The view keeps its rows, and waits for a definition that fits.",
            hint="Change the view's .sql file where needed, then run: hybridview apply",
        )
