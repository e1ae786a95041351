"""Consistency levels: which states of its tables a view must show, and proof of which it did.

strong: every published state of a view is its query at some state of its tables, and these states
follow each other in order. complete: besides, none is left out: each commit that changed rows has
an epoch of its own, ordered by commit time and table id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hybridview.catalog import Catalog, RefreshRecord, ViewRecord, ViewState
from hybridview.deltalog import DeltaLog, LogGap
from hybridview.operations.context import Context

PROPERTY = "hybridview.consistency"


def is_complete(view: ViewRecord) -> bool:
    return view.properties.get(PROPERTY) == "complete"


@dataclass(frozen=True, slots=True, order=True)
class _Step:
    """One commit that changed rows; in the order in which commits are replayed."""

    time: int
    table_id: str
    version: int
    name: str


def cuts(
    context: Context, catalog: Catalog, views: tuple[str, ...], newest: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the states of base tables that lie between what views reflect and `newest`.

    Each differs from the one before by one commit that changed rows. The last one, `newest`
    itself, is not among them: the refresh ends there anyway. Views that have no rows yet begin at
    the newest state.
    """
    now: dict[str, int] = {}
    for name in views:
        found = base_inputs(catalog, catalog.views[name.lower()])
        for table, version in (found or {}).items():
            if table in newest:
                now[table] = min(version, now.get(table, version))
    steps: list[_Step] = []
    for table, start in now.items():
        record = catalog.tables[table]
        log = context.log(catalog, table)
        steps += _steps(log, table, record.table_id, start, newest[table])
    state = {**newest, **now}
    for step in sorted(steps)[:-1]:
        state[step.name] = step.version
        yield dict(state)


def _steps(log: DeltaLog, name: str, table_id: str, start: int, end: int) -> list[_Step]:
    """Return the row-changing commits of one table; their times never go back."""
    found: list[_Step] = []
    time = 0
    try:
        for version in range(start + 1, end + 1):
            commit = log.commit(version)
            time = max(time, commit.timestamp)
            if commit.changes_rows:
                found.append(_Step(time, table_id, version, name))
    except LogGap:
        # What is gone cannot be replayed: the refresh says so when it meets the gap.
        return []
    return found


def base_inputs(
    catalog: Catalog, view: ViewRecord, record: RefreshRecord | None = None
) -> dict[str, int] | None:
    """Return the version of every base table a view reflects, through the views it reads."""
    record = record or catalog.published()
    state = record.of(view.id) if record else None
    if state is None or state.version is None:
        return None
    return _resolve(catalog, state)


def _resolve(catalog: Catalog, state: ViewState) -> dict[str, int]:
    tables = {t.table_id: t.name.lower() for t in catalog.tables.values()}
    found: dict[str, int] = {}
    for table_id, version in state.inputs.items():
        if table_id in tables:
            found[tables[table_id]] = version
            continue
        parent = _state_at(catalog, table_id, version)
        for name, seen in (_resolve(catalog, parent) if parent else {}).items():
            found[name] = min(seen, found.get(name, seen))
    return found


def _state_at(catalog: Catalog, table_id: str, version: int) -> ViewState | None:
    """Return the newest published state of a view whose table had this id and version."""
    for record in sorted(catalog.refreshes, key=lambda r: -r.epoch):
        for state in record.views:
            if (state.table_id, state.version) == (table_id, version):
                return state
    return None
