"""Where a store stands: views against their tables. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass

from hybridview.catalog import Catalog, RefreshRecord, ViewRecord
from hybridview.deltalog import CommitKind, FolderLog, LogGap
from hybridview.operations.context import Context
from hybridview.plan.compiled import compile_record
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
    """Commits of its tables that it does not reflect and that changed rows."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One base table: its newest version, or what is wrong with it."""

    name: str
    location: str
    version: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The whole store."""

    root: str
    epoch: int
    tables: tuple[TableStatus, ...]
    views: tuple[ViewStatus, ...]

    @property
    def stale(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.views if v.state != "fresh")


def status(context: Context) -> StoreStatus:
    """Compare every view with the newest versions of what it reads."""
    catalog = context.catalog()
    tables = tuple(_table(context, catalog, name) for name in sorted(catalog.tables))
    views: dict[str, ViewStatus] = {}
    for view in catalog.ordered():
        if view.state_of:
            continue
        views[view.name.lower()] = _view(context, catalog, view, views)
    return StoreStatus(str(context.root), catalog.epoch, tables, tuple(views.values()))


def _table(context: Context, catalog: Catalog, name: str) -> TableStatus:
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
    return TableStatus(record.name, record.location, info.version, detail)


def _view(
    context: Context, catalog: Catalog, view: ViewRecord, done: dict[str, ViewStatus]
) -> ViewStatus:
    state = catalog.state(view)
    last = catalog.published()
    found = last.view(view.name) if last else None
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
    behind, detail = _behind(context, catalog, view, dict(state.inputs))
    what = "behind" if behind else "fresh"
    if any(done[s.lower()].state != "fresh" for s in view.sources if s.lower() in done):
        what = "behind" if what == "fresh" else what
    stored = stored_state(log)
    if stored is not None and stored.foreign is not None:
        what, detail = "foreign", f"commit {stored.foreign.version} is not ours"
    if state.executed in ("failed", "stale"):
        what = state.executed
        detail = state.reason
    if detail and not behind and what == "fresh":
        what = "blocked"
    rows = log.row_count(state.version) if state.version is not None else None
    return ViewStatus(view.name, what, catalog.epoch, state.executed, rows, behind, detail)


def _behind(
    context: Context, catalog: Catalog, view: ViewRecord, inputs: dict[str, int]
) -> tuple[int, str]:
    """Count the row-changing commits of base tables that a view does not reflect."""
    count = 0
    for source in view.sources:
        record = catalog.tables.get(source.lower())
        if record is None:
            continue
        log = FolderLog(context.table_path(record))
        start = inputs.get(record.table_id)
        try:
            latest = log.latest()
            if start is None:
                return count, f"{source} was replaced"
            for version in range(start + 1, latest + 1):
                if log.commit(version).kind is not CommitKind.DATA_FREE:
                    count += 1
        except LogGap as gap:
            return count, str(gap)
    return count, ""


def history(context: Context, limit: int | None = None) -> tuple[RefreshRecord, ...]:
    """Return the published refreshes, newest first."""
    records = sorted(context.catalog().refreshes, key=lambda r: -r.epoch)
    return tuple(records[:limit] if limit else records)


__all__ = ["StoreStatus", "compile_record", "history", "status"]
