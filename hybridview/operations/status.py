"""Where a store stands: views against their tables. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from hybridview.catalog import Catalog, RefreshRecord, ViewRecord
from hybridview.deltalog import FolderLog, LogGap
from hybridview.engine.warm.use import EngineStatus, engine_status
from hybridview.operations.context import Context
from hybridview.operations.duration import seconds
from hybridview.operations.retention import Need, needs, retention
from hybridview.plan.compiled import compile_record
from hybridview.schema import TROUBLE
from hybridview.watermark import stored_state


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """One view: what it reflects, how far behind it is, and whether anything is wrong."""

    name: str
    state: str
    """new, fresh, behind, failed, stale, foreign, blocked or missing"""
    epoch: int | None
    executed: str
    rows: int | None
    behind: int
    """Commits that changed rows of what it reads, directly or through views, since."""
    detail: str = ""
    lag: float = 0.0
    """Seconds since the oldest of these commits."""
    late: bool = False
    """Whether that is more than its property hybridview.target_lag allows."""
    readable: float | None = None
    """Seconds for which the changes it has not seen stay readable; None if it has seen all."""
    warning: str = ""
    """What threatens these changes, or has befallen them."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One base table: its newest version, or what is wrong with it."""

    name: str
    location: str
    version: int | None
    detail: str = ""
    kept: float | None = None
    """Seconds for which its changes stay readable."""
    needed_by: tuple[str, ...] = ()
    """The views that have not seen all of them; the one with the least time left first."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The whole store."""

    root: str
    epoch: int
    tables: tuple[TableStatus, ...]
    views: tuple[ViewStatus, ...]
    engine: EngineStatus | None = None
    """The warm engine, if it is up."""

    @property
    def stale(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.views if v.state != "fresh")


def status(context: Context) -> StoreStatus:
    """Compare every view with the newest versions of what it reads."""
    catalog = context.catalog()
    needed = {
        view.name: needs(context, catalog, view) for view in catalog.ordered() if not view.state_of
    }
    every = sorted((need for found in needed.values() for need in found), key=lambda n: n.until)
    tables = tuple(_table(context, catalog, name, every) for name in sorted(catalog.tables))
    views: dict[str, ViewStatus] = {}
    for view in catalog.ordered():
        if view.state_of:
            continue
        views[view.name.lower()] = _view(context, catalog, view, views, needed[view.name])
    engine = engine_status(context.root, context.spark_settings)
    return StoreStatus(str(context.root), catalog.epoch, tables, tuple(views.values()), engine)


def _table(context: Context, catalog: Catalog, name: str, needed: Sequence[Need]) -> TableStatus:
    record = catalog.tables[name]
    path = context.table_path(record)
    try:
        info = FolderLog(path).info()
    except LogGap:
        return TableStatus(record.name, record.location, None, "gone")
    detail = ""
    if info.id != record.table_id:
        detail = "replaced by another table"
    elif not info.has_feed:
        detail = "change feed is off"
    views = tuple(need.view for need in needed if need.table == record.name)
    kept = retention(info.properties).changes
    return TableStatus(record.name, record.location, info.version, detail, kept, views)


def _view(
    context: Context,
    catalog: Catalog,
    view: ViewRecord,
    done: dict[str, ViewStatus],
    needed: tuple[Need, ...],
) -> ViewStatus:
    state = catalog.state(view)
    last = catalog.published()
    found = last.of(view.id) if last else None
    if state is None:
        failed = found is not None and found.error
        return ViewStatus(
            view.name,
            "failed" if failed else "new",
            None,
            "",
            None,
            0,
            found.error if found else "",
        )
    log = context.log(catalog, view.name)
    if not log.exists():
        return ViewStatus(view.name, "missing", None, state.executed, None, 0, "its table is gone")
    unseen, detail = _unseen(context, catalog, view)
    first = min(needed, key=lambda need: need.until, default=None)
    if first is not None and first.gone:
        detail = ""  # a log with gaps is no obstacle: the warning says what follows
    what = "behind" if unseen or first is not None else "fresh"
    if any(done[s.lower()].state != "fresh" for s in view.sources if s.lower() in done):
        what = "behind" if what == "fresh" else what
    stored = stored_state(log)
    if stored is not None and stored.foreign is not None:
        what, detail = "foreign", f"commit {stored.foreign.version} is not ours"
    if state.executed in TROUBLE:
        what = state.executed
        detail = state.reason
    if detail and not unseen and what == "fresh":
        what = "blocked"
    rows = log.row_count(state.version) if state.version is not None else None
    now = time.time()
    lag = max((now - at / 1000 for at in unseen.values()), default=0.0)
    target = view.properties.get("hybridview.target_lag", "")
    late = bool(target) and lag > (seconds(target) or 0.0)
    if late and not detail:
        detail = f"later than its target lag of {target}"
    return ViewStatus(
        view.name,
        what,
        catalog.epoch,
        state.executed,
        rows,
        len(unseen),
        detail,
        lag,
        late,
        first.left(now) if first is not None else None,
        first.warning(now) if first is not None else "",
    )


Unseen = dict[tuple[str, int], int]
"""Commits by table id and version, with their time in milliseconds."""


def _unseen(context: Context, catalog: Catalog, view: ViewRecord) -> tuple[Unseen, str]:
    """Find the row-changing commits a view does not reflect, and what hinders looking."""
    state = catalog.state(view)
    inputs = state.inputs if state is not None else {}
    found: Unseen = {}
    for source in view.sources:
        parent = catalog.views.get(source.lower())
        published = catalog.state(parent) if parent is not None else None
        if parent is not None:
            # What the parent has not seen, the child has not seen either.
            found.update(_unseen(context, catalog, parent)[0])
        elif source.lower() not in catalog.tables:
            continue
        log = context.log(catalog, source)
        table = catalog.tables.get(source.lower())
        table_id = published.table_id if published else table.table_id if table else ""
        start = inputs.get(table_id)
        try:
            if start is None:
                return found, f"{source} was replaced"
            newest = published.version if published else None
            end = log.latest() if newest is None else newest
            for version in range(start + 1, end + 1):
                commit = log.commit(version)
                if commit.changes_rows:
                    found[table_id, version] = commit.timestamp
        except LogGap as gap:
            return found, str(gap)
    return found, ""


def history(context: Context, limit: int | None = None) -> tuple[RefreshRecord, ...]:
    """Return the published refreshes, newest first."""
    return tuple(islice(context.catalog().refreshes.newest_first(), limit or None))


__all__ = ["StoreStatus", "compile_record", "history", "status"]
