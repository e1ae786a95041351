"""Reading views and tables at one moment: the newest published epoch, an older one, or latest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hybridview.catalog import Catalog, RefreshRecord, TableRecord, ViewRecord, ViewState
from hybridview.deltalog import FolderLog, LogGap
from hybridview.engine.session import quote, table_at
from hybridview.errors import (
    EpochGoneError,
    NotRefreshedError,
    TableMissingError,
    UsageError,
    run,
)
from hybridview.operations.context import Context, view_named
from hybridview.schema import HIDDEN


@dataclass(frozen=True, slots=True)
class Moment:
    """When to read: one reading of the catalog, so that no two views belong to two epochs."""

    catalog: Catalog
    epoch: int | None = None
    """An older epoch; else the newest published one."""
    latest: bool = False
    """Each table's newest commit instead, published or not."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A table at one version, as a query, and whether that is its newest version."""

    query: str
    newest: bool


def moment(context: Context, epoch: int | None, latest: bool) -> Moment:
    """Read the catalog once; refuse an epoch that does not exist, or two moments at once."""
    if latest and epoch is not None:
        raise UsageError(
            "a query is read at an epoch or at the latest commits, not both",
            hint="Give --epoch or --latest, one of them.",
        )
    catalog = context.catalog()
    if epoch is not None:
        _record(catalog, epoch)
    return Moment(catalog, epoch, latest)


def read(context: Context, name: str, epoch: int | None = None, latest: bool = False) -> Any:
    """Return a view's rows as a DataFrame with exactly the columns it has, or had then."""
    when = moment(context, epoch, latest)
    found = view_at(context, when, view_named(when.catalog, name))
    # Delta lets a session of ours read versions that it keeps from others for their age; and in
    # the user's own session a path with "${...}" in it would be a variable.
    own = not found.newest or "${" in found.query
    return (context.port().writer() if own else context.port()).frame(found.query)


def view_at(context: Context, when: Moment, view: ViewRecord) -> Stored:
    """Return a view's rows at a moment; its columns are those its table had then."""
    log = context.log(when.catalog, view.name)
    state = None if when.latest else published(when.catalog, view, when.epoch)
    if not log.exists():
        never = when.latest and when.catalog.state(view) is None
        raise NotRefreshedError(
            f'view "{view.name}" has no rows yet'
            if never
            else f'the table of view "{view.name}" is gone',
            hint=run("refresh", view.name),
        )
    version = log.latest() if state is None or state.version is None else state.version
    table_id = "" if state is None else state.table_id
    columns, newest = _at(log, version, table_id, f'view "{view.name}"', when)
    shown = ", ".join(quote(c) for c in columns if not c.startswith(HIDDEN))
    path = str(context.view_path(view).resolve())
    return Stored(f"SELECT {shown} FROM {table_at(path, version)}", newest)


def table_at_moment(context: Context, when: Moment, table: TableRecord, version: int) -> Stored:
    """Return a base table's rows: at a pinned version, or at the one an older epoch saw."""
    log = FolderLog(context.table_path(table))
    table_id = ""
    if when.epoch is not None:
        version, table_id = _seen(when.catalog, table, when.epoch), table.table_id
    columns, newest = _at(log, version, table_id, f'table "{table.name}"', when)
    path = str(context.table_path(table).resolve())
    shown = ", ".join(quote(c) for c in columns)
    return Stored(f"SELECT {shown} FROM {table_at(path, version)}", newest)


def newest_version(context: Context, table: TableRecord) -> int:
    """Return a base table's newest version, or say that the table is gone."""
    try:
        return FolderLog(context.table_path(table)).latest()
    except LogGap:
        raise TableMissingError(
            f'table "{table.name}" is gone',
            detail=f"There is no Delta table in {context.table_path(table)}.",
            hint=run("table", "add", table.name, "NEW_PATH", "--replace"),
        ) from None


def _at(
    log: FolderLog, version: int, table_id: str, what: str, when: Moment
) -> tuple[tuple[str, ...], bool]:
    """Return a table's columns at a version, and whether it is the newest; or say it is gone."""
    newest = log.exists() and version == log.latest()
    try:
        info = log.info(version)
    except LogGap as gap:
        raise _gone(what, version, when, str(gap).splitlines()[0]) from None
    if table_id and info.id != table_id:
        raise _gone(what, version, when, "Its folder holds another table by now.")
    if not newest and not log.readable(version):
        raise _gone(what, version, when, "Files of it were removed, by VACUUM or by hand.")
    return tuple(c.name for c in info.columns), newest


def _gone(what: str, version: int, when: Moment, detail: str) -> EpochGoneError:
    epoch = when.epoch if when.epoch is not None else when.catalog.epoch
    return EpochGoneError(
        f"{what} can no longer be read at epoch {epoch}",
        detail=f"That was version {version} of its table. {detail}",
        hint=run("refresh") if when.epoch is None else "Read a newer epoch: hybridview history",
    )


def _seen(catalog: Catalog, table: TableRecord, epoch: int) -> int:
    """Return the version of a base table that an epoch saw."""
    record = _record(catalog, epoch)
    # A refresh of some views pins their tables only; what the others reflect, they say themselves.
    known = [v.inputs[table.table_id] for v in record.views if table.table_id in v.inputs]
    version = record.pins.get(table.table_id, max(known, default=None))
    if version is None:
        raise EpochGoneError(
            f'epoch {epoch} knows nothing of table "{table.name}"',
            detail="No view of that epoch reads it, so no version of it was noted.",
            hint="Leave --epoch out to read its newest version.",
        )
    return version


def _record(catalog: Catalog, epoch: int) -> RefreshRecord:
    """Return an epoch's record, or say that it does not exist, or no longer."""
    record = catalog.published(epoch)
    if record is None:
        raise UsageError(
            f"there is no epoch {epoch}",
            detail=f"The newest is {catalog.epoch}.",
            hint="List them with: hybridview history",
        )
    if record.expired:
        oldest = min(catalog.refreshes.readable_epochs)
        raise EpochGoneError(
            f"epoch {epoch} has expired",
            detail=f"Its files are no longer kept; those of epoch {oldest} and later are.",
            hint="List them with: hybridview history",
        )
    return record


def published(catalog: Catalog, view: ViewRecord, epoch: int | None = None) -> ViewState:
    """Return a view's state in an epoch, or say that it has none."""
    if epoch is not None:
        _record(catalog, epoch)
    state = catalog.state(view, epoch)
    if state is not None:
        return state
    if epoch is not None and catalog.state(view) is not None:
        raise NotRefreshedError(
            f'view "{view.name}" has no rows in epoch {epoch}',
            detail="It was loaded later.",
            hint="List the epochs with: hybridview history",
        )
    when = f" in epoch {epoch}" if epoch is not None else ""
    raise NotRefreshedError(
        f'view "{view.name}" has no rows yet{when}', hint=run("refresh", view.name)
    )


def select(context: Context, view: ViewRecord, state: ViewState) -> str:
    """Return the query of the columns a definition of a view has, at a published version."""
    columns = ", ".join(quote(c.name) for c in view.columns)
    path = str(context.view_path(view).resolve())
    return f"SELECT {columns} FROM {table_at(path, state.version)}"
