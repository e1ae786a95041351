"""A view's text -> its record: checked by us, analysed by Spark, recorded when it is right."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeGuard

from sqlglot import exp

from hybridview.algebra.expressions import Named
from hybridview.algebra.plan import Project
from hybridview.catalog import Catalog, ViewRecord, as_payload
from hybridview.compiler.identity import read_type
from hybridview.compiler.render import render, text
from hybridview.compiler.state import SUFFIX
from hybridview.compiler.view import arguments, needs_state, plan_view
from hybridview.engine.session import Session, literal, quote, table_at, temp_view
from hybridview.engine.spark_errors import as_query_error, spark_errors
from hybridview.errors import (
    ColumnNamesError,
    CycleError,
    NameTakenError,
    ReservedNameError,
    UnknownColumnError,
    UnknownTableError,
    UnstorableTypeError,
    UnsupportedSourceError,
    UsageError,
    command,
)
from hybridview.operations.context import Context
from hybridview.operations.names import check_name, folder_name
from hybridview.operations.suggest import closest
from hybridview.operations.tables import discover
from hybridview.plan.compiled import known_types
from hybridview.schema import HIDDEN, RESERVED_COLUMNS, Column, TableSchema
from hybridview.sql.load import with_list
from hybridview.sql.parse import Definition, parse_definition, parse_query
from hybridview.sql.resolve import NoRule, UnknownTable, Unresolved, resolve, sources
from hybridview.sql.uses import used_columns

SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""Session settings that change a query's answer; kept with the view."""

UNSTORABLE = re.compile(r"\b(void|interval)\b")
TYPE_CHECK = "spark.databricks.delta.schema.typeCheck.enabled"


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
    record = _analyse(context.worker(), definition, parsed, wanted, schemas, settings, old)
    records = _with_state(context.worker(), record, parsed, schemas, catalog)
    entries = [("view", as_payload(r)) for r in records]
    if old is not None and old.state and not records[-1].state:
        entries.append(("view_dropped", {"name": old.state}))
    context.ledger.append_all(entries)
    if old is not None and old.comment != record.comment and context.log(catalog, wanted).exists():
        table = table_at(str(context.view_path(record).resolve()))
        context.worker().run(f"COMMENT ON TABLE {table} IS {literal(record.comment)}")
    return records[-1]


def _with_state(
    session: Session,
    view: ViewRecord,
    parsed: exp.Query,
    schemas: Mapping[str, TableSchema],
    catalog: Catalog,
) -> tuple[ViewRecord, ...]:
    """Return a view's record, after that of its state table if it needs one."""
    try:
        relation = resolve(parsed, schemas)
    except (NoRule, Unresolved, UnknownTable):
        return (view,)
    if len(relation.columns) != len(view.columns):
        return (view,)
    plan = plan_view(relation, tuple(c.name for c in view.columns))
    found = needs_state(parsed, relation, plan, known_types(view))
    if found is None:
        return (view,)
    name = f"{view.name}{SUFFIX}"
    definition = Definition(name, with_list(view.query, found.columns), source=view.source)
    old = catalog.views.get(name.lower())
    parsed = parse_query(definition)
    kept = _analyse(session, definition, parsed, name, schemas, view.settings, old)
    kept = dataclasses.replace(kept, state_of=view.name)
    return (kept, dataclasses.replace(view, state=name))


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


def _analyse(
    session: Session,
    definition: Definition,
    parsed: exp.Query,
    name: str,
    schemas: Mapping[str, TableSchema],
    settings: Mapping[str, str],
    old: ViewRecord | None,
) -> ViewRecord:
    """Let Spark name and type the view's columns, over empty tables of the same columns."""
    for schema in schemas.values():
        for symbol in (schema.name, f"{schema.name}@new"):
            session.run(temp_view(symbol, _empty(schema)))
    try:
        described = session.describe(definition.query)
    except spark_errors() as error:
        raise as_query_error(error, definition.source) from None
    columns = tuple(Column(column, kind) for column, kind in described)
    _check_output(definition, columns)
    _check_collations(session, definition, columns)
    _check_cluster(definition, columns)
    record = ViewRecord(
        # A view keeps its id over redefinition, and with it its history and its table.
        old.id if old else str(uuid.uuid4()),
        old.name if old else name,
        old.folder if old else folder_name(name),
        definition.query,
        definition.comment,
        definition.cluster_by,
        definition.properties,
        columns,
        {s.name: s.columns for s in schemas.values()},
        _argument_types(session, parsed, schemas, columns),
        settings,
        definition.source,
        datetime.now(UTC).isoformat(timespec="seconds"),
        line=definition.position(None).line,
        column=definition.position(None).column,
        program=_program(definition.query, columns),
    )
    return dataclasses.replace(record, program=old.program) if _same(old, record) else record


def _program(query: str, columns: tuple[Column, ...]) -> str:
    """Name a way to compute rows; a definition made anew is another one, even if it reads alike."""
    parts = (str(uuid.uuid4()), query, *(f"{c.name}:{c.type}" for c in columns))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _same(old: ViewRecord | None, new: ViewRecord) -> TypeGuard[ViewRecord]:
    """Say whether a definition computes and lays out what the old one did: then its rows stay."""
    return old is not None and _meaning(old) == _meaning(new)


def _meaning(view: ViewRecord) -> tuple[object, ...]:
    uses = used_columns(view.query, parse_query(Definition(view.name, view.query)), view.sources)
    return (view.query, view.columns, uses, view.cluster_by, dict(view.settings))


def _empty(schema: TableSchema) -> str:
    columns = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in schema.columns)
    return f"SELECT {columns} WHERE FALSE"


def _check_output(definition: Definition, columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        lowered = column.name.lower()
        if lowered in seen:
            raise ColumnNamesError(
                f'the view has two columns "{column.name}"',
                where=definition.source,
                hint=f"Name one of them: SELECT ... AS {column.name}_2",
            )
        if lowered.startswith(HIDDEN) or lowered in RESERVED_COLUMNS:
            raise ReservedNameError(
                f'"{column.name}" cannot be the name of a column',
                where=definition.source,
                detail=f"Names starting with {HIDDEN} and the change feed's columns are reserved.",
                hint="Name it differently with AS.",
            )
        if "`" in column.name:
            raise ReservedNameError(
                f'"{column.name}" cannot be the name of a column',
                where=definition.source,
                detail="Delta Lake cannot merge into a table with a backtick in a column's name.",
                hint="Name it differently with AS.",
            )
        if UNSTORABLE.search(column.type.lower()):
            raise UnstorableTypeError(
                f'column "{column.name}" has type {column.type}, which a table cannot store',
                where=definition.source,
                hint=f"Cast it: CAST(... AS STRING) AS {quote(column.name)}",
            )
        seen.add(lowered)


def _check_collations(
    session: Session, definition: Definition, columns: tuple[Column, ...]
) -> None:
    """Refuse collated strings, which Delta Lake does not store unless its check is off."""
    found = next((c for c in columns if read_type(c.type).holds("collated")), None)
    if found is not None and session.setting(TYPE_CHECK).lower() != "false":
        raise UnstorableTypeError(
            f'column "{found.name}" has type {found.type}, which Delta Lake does not store',
            where=definition.source,
            hint=f"Cast it: CAST(... AS STRING) AS {quote(found.name)}",
        )


def _check_cluster(definition: Definition, columns: tuple[Column, ...]) -> None:
    known = {c.name.lower() for c in columns}
    for name in definition.cluster_by:
        if name.lower() not in known:
            raise UnknownColumnError(
                f'CLUSTER BY names "{name}", which is no column of the view',
                where=definition.source,
                detail=closest(name, [c.name for c in columns], "columns"),
            )


def _argument_types(
    session: Session,
    parsed: exp.Query,
    schemas: Mapping[str, TableSchema],
    columns: tuple[Column, ...],
) -> dict[str, str]:
    """Ask Spark for the type of every aggregate argument: exact sums depend on it."""
    try:
        relation = resolve(parsed, schemas)
    except (NoRule, Unresolved, UnknownTable):
        return {}
    if len(relation.columns) != len(columns):
        return {}
    plan = plan_view(relation, tuple(c.name for c in columns))
    types: dict[str, str] = {}
    for key, (argument, below) in arguments(plan).items():
        query = text(render(Project(below, (Named("argument", argument),))))
        types[key] = session.describe(query)[0][1]
    return types
