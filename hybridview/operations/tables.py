"""Registering base tables: find them, check them, remember them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hybridview.catalog import Catalog, TableRecord, as_payload
from hybridview.deltalog import FEED_PROPERTY, FolderLog, LogGap, TableInfo
from hybridview.engine.session import quote, table_at
from hybridview.engine.spark_errors import first_line, spark_errors
from hybridview.errors import (
    InUseError,
    NameTakenError,
    NoChangeFeedError,
    NotDeltaError,
    command,
    run,
)
from hybridview.inside import is_folder
from hybridview.operations.context import TABLES, Context, table_named
from hybridview.operations.keys import (
    check_key,
    check_reference,
    read_key,
    read_reference,
)
from hybridview.operations.lock import changing, check_unchanged
from hybridview.operations.names import check_name, check_path
from hybridview.plan.links import links


class Feed(NamedTuple):
    """What to do about a table whose change feed is off: turn it on, or do without."""

    enable: bool
    without: bool


def add_table(
    context: Context,
    name: str,
    location: str | None,
    key: tuple[str, ...] = (),
    enable_change_feed: bool = False,
    replace: bool = False,
    without_change_feed: bool = False,
    references: tuple[str, ...] = (),
) -> TableRecord:
    """Register a Delta table by folder or catalog name; the store's tables/ folder if None."""
    check_name(name, "table")
    catalog = context.catalog()
    taken = catalog.schema(name) is not None
    if taken and not (replace and name.lower() in catalog.tables):
        table = name.lower() in catalog.tables
        again = run("table", "add", name, *([str(location)] if location else []), "--replace")
        raise NameTakenError(
            f'the name "{name}" is taken',
            detail=f"It is a {'table' if table else 'view'}.",
            hint=again if table else "Choose another name.",
        )
    path, catalog_name = _find(context, name, location)
    feed = Feed(enable_change_feed, without_change_feed)
    record = _checked(context, name, path, catalog_name, feed)
    _check_one_name(catalog, record)
    record = _with_keys(context, catalog, record, key, references)
    with changing(context) as now:
        check_unchanged(catalog, now, (name,))
        context.ledger.append("table", as_payload(record))
    return record


def _check_one_name(catalog: Catalog, table: TableRecord) -> None:
    """Refuse a table that is known by another name: what a view reflects is noted by table."""
    for other in catalog.tables.values():
        if other.table_id == table.table_id and other.name.lower() != table.name.lower():
            raise NameTakenError(
                f'table "{table.name}" is known already, as "{other.name}"',
                detail="Both have the same id: it is the same table, or a copy of its folder.",
                hint=f'Use "{other.name}", or copy the rows: CREATE TABLE ... AS SELECT.',
            )


def remove_table(context: Context, name: str) -> TableRecord:
    """Forget a base table that no view reads; its data stay."""
    with changing(context) as catalog:
        record = table_named(catalog, name)
        readers = catalog.dependents(name)
        if readers:
            raise InUseError(
                f'table "{record.name}" is read by views',
                detail=f"Views: {', '.join(readers)}.",
                hint=f"Drop them first: {command('drop', readers[0])}",
            )
        context.ledger.append("table_removed", {"name": record.name})
    return record


def discover(context: Context, catalog: Catalog, names: tuple[str, ...]) -> Catalog:
    """Register tables that a view names and that lie in the store's own tables/ folder."""
    for name in names:
        if catalog.schema(name) is not None or not is_folder(name):
            continue
        if FolderLog(context.root / TABLES / name).exists():
            add_table(context, name, None)
            catalog = context.catalog()
    return catalog


def _find(context: Context, name: str, location: str | None) -> tuple[Path, str]:
    if location is None:
        if not is_folder(name):
            raise NotDeltaError(
                f'"{name}" is not a folder of tables/ in the store',
                hint=run("table", "add", name, "PATH"),
            )
        return context.root / TABLES / name, ""
    path = Path(location)
    check_path(path)
    if path.exists() or "/" in location:
        return path, ""
    inside = context.root / location
    if inside.exists():
        return inside, ""
    return _from_catalog(context, location), location


def _from_catalog(context: Context, name: str) -> Path:
    """Ask Spark where a catalog table's files are."""
    parts = ".".join(quote(part) for part in name.split("."))
    try:
        detail = context.port().run(f"DESCRIBE DETAIL {parts}")
    except spark_errors() as error:
        raise NotDeltaError(
            f'"{name}" is neither a folder nor a Delta table of the catalog',
            detail=first_line(error),
            hint="Give the folder of a Delta table, such as ./warehouse/orders",
        ) from None
    form, location = str(detail[0][0]), str(detail[0][4])
    if form != "delta" or not location.startswith("file:"):
        raise NotDeltaError(
            f'"{name}" is not a Delta table in a local folder',
            detail=f"Its format is {form}, its location {location.split('?')[0]}.",
        )
    return Path(location.removeprefix("file:"))


def _checked(
    context: Context,
    name: str,
    path: Path,
    catalog_name: str,
    feed: Feed,
) -> TableRecord:
    check_path(path)
    log = FolderLog(path)
    if not log.exists():
        raise NotDeltaError(
            f'"{path}" is not a Delta table',
            detail="It has no _delta_log folder." if path.exists() else "There is no such folder.",
            hint="Write it with: df.write.format('delta').save(...)",
        )
    info = _with_feed(context, name, path, log, feed)
    return TableRecord(
        name, context.location_of(path), info.id, info.columns, catalog_name=catalog_name
    )


def _with_keys(
    context: Context,
    catalog: Catalog,
    table: TableRecord,
    key: tuple[str, ...],
    references: tuple[str, ...],
) -> TableRecord:
    """Add keys to a record; they exist, and the rows agree with them."""
    catalog_before = catalog
    table = replace(table, key=read_key(table.schema, key))
    # A table may refer to itself.
    catalog = replace(catalog, tables={**catalog.tables, table.name.lower(): table})
    found = tuple(read_reference(catalog, table.schema, text) for text in references)
    table = replace(table, references=found)
    if _is_known(catalog_before, table):
        return table
    catalog = replace(catalog, tables={**catalog.tables, table.name.lower(): table})
    path = str(context.path(catalog, table.name).resolve())
    if table.key:
        check_key(context.worker(), table.name, table_at(path), table.key)
    for link in links(catalog, tuple(catalog.tables)):
        if link.table.lower() == table.name.lower():
            other = str(context.path(catalog, link.target).resolve())
            check_reference(
                context.worker(), table.name, {link.table: path, link.target: other}, link
            )
    return table


def _is_known(catalog: Catalog, table: TableRecord) -> bool:
    """Say whether the same keys were declared of the same table: it was checked then, and moved."""
    known = catalog.tables.get(table.name.lower())
    return known is not None and (known.table_id, known.key, known.references) == (
        table.table_id,
        table.key,
        table.references,
    )


def _with_feed(context: Context, name: str, path: Path, log: FolderLog, feed: Feed) -> TableInfo:
    try:
        info = log.info()
    except LogGap as gap:
        raise NotDeltaError(f'"{path}" is not a Delta table', detail=str(gap)) from None
    if info.has_feed or feed.without:
        return info
    if not feed.enable:
        raise NoChangeFeedError(
            f'the change data feed of table "{name}" is off',
            detail="Without it changes are found by comparing versions, which is slower; "
            "--without-change-feed accepts that.",
            hint=run("table", "add", name, str(path), "--enable-change-feed"),
        )
    context.worker().run(
        f"ALTER TABLE {table_at(str(path.resolve()))} "
        f"SET TBLPROPERTIES ('{FEED_PROPERTY}' = 'true')"
    )
    return log.info()
