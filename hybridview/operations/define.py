"""A view's text -> its record: checked by us, analysed by Spark, recorded when it is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlglot import exp

from hybridview.catalog import Catalog, ViewRecord, as_payload
from hybridview.engine.session import literal, table_at
from hybridview.errors import (
    CycleError,
    NameTakenError,
    UnknownColumnError,
    UnknownTableError,
    UnsupportedSourceError,
    UsageError,
    command,
)
from hybridview.operations.analyse import Analyst
from hybridview.operations.context import Context
from hybridview.operations.hidden import with_hidden
from hybridview.operations.lock import changing, check_unchanged
from hybridview.operations.names import check_name
from hybridview.operations.suggest import closest
from hybridview.operations.tables import discover
from hybridview.schema import TableSchema
from hybridview.sql.parse import Definition, parse_definition, parse_query
from hybridview.sql.resolve import NoRule, UnknownTable, Unresolved, resolve, sources

SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""Session settings that change a query's answer; kept with the view."""


def create_view(
    context: Context, name: str | None, sql: str, replace: bool = False, source: str = "<sql>"
) -> ViewRecord:
    """Check, analyse and record a view; the first refresh loads it."""
    definition = parse_definition(sql, source)
    wanted = name or definition.name or (Path(source).stem if source != "<sql>" else None)
    if not wanted:
        raise UsageError(
            "the view has no name",
            hint="Write CREATE MATERIALIZED VIEW name AS ..., or give a name.",
        )
    check_name(wanted, "view")
    catalog = context.catalog()
    old = _check_free(catalog, wanted, replace)
    parsed = parse_query(definition)
    tables = _sources(definition, parsed)
    catalog = discover(context, catalog, tables)
    schemas = _schemas(context, catalog, definition, parsed, tables, wanted)
    _check_columns(definition, parsed, schemas)
    _check_cycle(catalog, wanted, tuple(schemas))
    settings = {key: context.port().setting(key) for key in SETTINGS}
    context.worker().set(settings)
    analyst = Analyst(context.worker(), catalog, settings)
    record = analyst.view(definition, wanted, schemas)
    records = with_hidden(analyst, record, schemas)
    entries = [("view", as_payload(r)) for r in records]
    left = catalog.hidden(old) if old is not None else ()
    kept = {r.name.lower() for r in records}
    entries += [("view_dropped", {"name": r.name}) for r in left if r.name.lower() not in kept]
    with changing(context) as now:
        check_unchanged(catalog, now, (wanted, *schemas))
        _check_cycle(now, wanted, tuple(schemas))  # others may have closed one with it
        context.ledger.append_all(entries)
    if old is not None and old.comment != record.comment and context.log(catalog, wanted).exists():
        table = table_at(str(context.view_path(record).resolve()))
        context.worker().run(f"COMMENT ON TABLE {table} IS {literal(record.comment)}")
    return records[-1]


def _check_free(catalog: Catalog, name: str, replace: bool) -> ViewRecord | None:
    old = catalog.views.get(name.lower())
    if catalog.schema(name) is None:
        return None
    if old is not None and replace:
        return old
    hint = "Add --replace to the same command, or choose another name."
    hint = hint if old else "Choose another name."
    raise NameTakenError(
        f'the name "{name}" is taken', detail=f"It is a {'view' if old else 'table'}.", hint=hint
    )


def _sources(definition: Definition, parsed: exp.Query) -> tuple[str, ...]:
    found: list[str] = []
    for table in sources(parsed):
        parts = [part.name for part in table.parts]
        if len(parts) > 1:
            files = parts[0].lower() in ("parquet", "csv", "json", "orc")
            name, location = parts[-1], ".".join(parts)
            if parts[0].lower() == "delta":
                name, location = Path(parts[-1]).name, parts[-1]
            hint = f"Register it: {command('table', 'add', name, location)}"
            raise UnsupportedSourceError(
                f'"{".".join(parts)}" is not a table of the store',
                where=definition.place(table),
                detail="A view reads the tables and views of its store.",
                hint="Write the files as a Delta table, and register that." if files else hint,
            )
        found.append(parts[0])
    return tuple(dict.fromkeys(found))


def _schemas(
    context: Context,
    catalog: Catalog,
    definition: Definition,
    parsed: exp.Query,
    names: tuple[str, ...],
    view: str,
) -> dict[str, TableSchema]:
    """Return the sources' columns under their registered names."""
    found: dict[str, TableSchema] = {}
    for name in names:
        schema = context.schema(catalog, name)
        if name.lower() == view.lower():
            raise CycleError(
                f'view "{view}" would read itself', where=_place(definition, parsed, name)
            )
        if schema is None:
            known = list(catalog.schemas())
            raise UnknownTableError(
                f'there is no table or view "{name}"',
                where=_place(definition, parsed, name),
                detail=closest(name, known, "tables and views"),
                hint=f"Register it: {command('table', 'add', name, 'PATH')}",
            )
        found.setdefault(schema.name, schema)
    return found


def _place(definition: Definition, parsed: exp.Query, name: str) -> str:
    node = next((t for t in sources(parsed) if t.name.lower() == name.lower()), None)
    return definition.place(node)


def _check_columns(
    definition: Definition, parsed: exp.Query, schemas: Mapping[str, TableSchema]
) -> None:
    """Report a misspelt column with its place, where our own resolution is sure of it."""
    try:
        resolve(parsed, schemas)
    except Unresolved as miss:
        if not miss.certain:
            return  # Spark's analysis will say
        raise UnknownColumnError(
            f'there is no column "{miss.node.sql(dialect="spark")}"',
            where=definition.place(miss.node),
            detail=closest(miss.node.name, list(miss.candidates), "columns"),
        ) from None
    except (NoRule, UnknownTable):
        return


def _check_cycle(catalog: Catalog, name: str, reads: tuple[str, ...]) -> None:
    """Refuse a view that reads something which reads it."""
    path = [name]

    def visit(current: str) -> None:
        view = catalog.views.get(current.lower())
        for source in view.sources if view is not None else ():
            path.append(source)
            if source.lower() == name.lower():
                raise CycleError(
                    f'view "{name}" would read itself',
                    detail=f"The circle is {' -> '.join(path)}.",
                    hint="Take one of these views out of the circle.",
                )
            visit(source)
            path.pop()

    for source in reads:
        path.append(source)
        visit(source)
        path.pop()
