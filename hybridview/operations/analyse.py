"""A view's text -> its record, with the names and types that Spark's own analysis gives it."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeGuard

from sqlglot import exp

from hybridview.algebra.expressions import Named
from hybridview.algebra.plan import Project
from hybridview.catalog import Catalog, ViewRecord
from hybridview.compiler.identity import read_type
from hybridview.compiler.render import render, text
from hybridview.compiler.view import arguments, plan_view
from hybridview.engine.session import Session, quote, temp_view
from hybridview.engine.spark_errors import as_query_error, spark_errors
from hybridview.errors import (
    ColumnNamesError,
    HybridviewError,
    ReservedNameError,
    UnknownColumnError,
    UnstorableTypeError,
)
from hybridview.operations.names import free_folder
from hybridview.operations.suggest import closest
from hybridview.schema import HIDDEN, RESERVED_COLUMNS, Column, TableSchema
from hybridview.sql.canonical import canonical
from hybridview.sql.kept_names import with_names
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.resolve import NoRule, UnknownTable, Unresolved, resolve
from hybridview.sql.uses import used_columns

UNSTORABLE = re.compile(r"\b(void|interval)\b")
TYPE_CHECK = "spark.databricks.delta.schema.typeCheck.enabled"

Schemas = Mapping[str, TableSchema]


@dataclass(frozen=True, slots=True)
class Analyst:
    """Asks Spark what a query's columns are, over empty tables of the sources' columns."""

    session: Session
    catalog: Catalog
    settings: Mapping[str, str]

    def view(
        self, definition: Definition, name: str, schemas: Schemas, state_of: str = ""
    ) -> ViewRecord:
        """Return the record of a view that reads `schemas`; a view keeps its id and its folder."""
        columns = self._columns(definition, schemas)
        closed = self._closed(definition, columns, schemas)
        parsed = parse_query(replace(definition, query=closed or definition.query))
        old = self.catalog.views.get(name.lower())
        # A view keeps its id over redefinition, and with it its history and its table.
        view_id = old.id if old else str(uuid.uuid4())
        taken = {view.folder for view in self.catalog.views.values()}
        record = ViewRecord(
            view_id,
            old.name if old else name,
            old.folder if old else free_folder(name, view_id, taken),
            definition.query,
            definition.comment,
            definition.cluster_by,
            definition.properties,
            columns,
            {s.name: s.columns for s in schemas.values()},
            self._argument_types(parsed, schemas, columns),
            self.settings,
            definition.source,
            datetime.now(UTC).isoformat(timespec="seconds"),
            line=definition.position(None).line,
            column=definition.position(None).column,
            program=_program(definition.query, columns),
            state_of=state_of,
            canonical=closed,
            over=tuple(s.name for s in schemas.values() if not self._is_table(s.name)),
        )
        return replace(record, program=old.program) if _same(old, record) else record

    def _is_table(self, name: str) -> bool:
        return name.lower() in self.catalog.tables

    def _columns(self, definition: Definition, schemas: Schemas) -> tuple[Column, ...]:
        for schema in schemas.values():
            for symbol in (schema.name, f"{schema.name}@new"):
                self.session.run(temp_view(symbol, _empty(schema)))
        try:
            described = self.session.describe(definition.query)
        except spark_errors() as error:
            raise as_query_error(error, definition.source) from None
        columns = _as_declared([Column(c, kind) for c, kind in described], definition, schemas)
        _check_output(definition, columns)
        _check_collations(self.session, definition, columns)
        _check_cluster(definition, columns)
        return columns

    def _closed(self, definition: Definition, columns: tuple[Column, ...], schemas: Schemas) -> str:
        """Return the text with its ties closed; empty if there are none, or they cannot be."""
        closed = canonical(definition.query, len(columns), schemas)
        if closed == definition.query:
            return ""
        try:
            parse_query(replace(definition, query=closed))
            described = self.session.describe(closed)
            named = with_names(closed, [n for n, _ in described], [c.name for c in columns])
            if named != closed:
                closed = named
                parse_query(replace(definition, query=closed))
                described = self.session.describe(closed)
        except HybridviewError:
            return ""
        except spark_errors():
            return ""  # a column that cannot be sorted by, such as a map
        return closed if described == [(c.name, c.type) for c in columns] else ""

    def _argument_types(
        self, parsed: exp.Query, schemas: Schemas, columns: tuple[Column, ...]
    ) -> dict[str, str]:
        """Ask Spark for the type of every aggregate argument: exact sums depend on it."""
        try:
            relation = resolve(parsed, schemas)
        except (NoRule, Unresolved, UnknownTable):
            return {}
        if len(relation.columns) != len(columns):
            return {}
        plan = plan_view(relation, tuple(c.name for c in columns), schemas)
        types: dict[str, str] = {}
        for key, (argument, below) in arguments(plan).items():
            query = text(render(Project(below, (Named("argument", argument),))))
            types[key] = self.session.describe(query)[0][1]
        return types


def _program(query: str, columns: tuple[Column, ...]) -> str:
    """Name a way to compute rows; a definition made anew is another one, even if it reads alike."""
    parts = (str(uuid.uuid4()), query, *(f"{c.name}:{c.type}" for c in columns))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _same(old: ViewRecord | None, new: ViewRecord) -> TypeGuard[ViewRecord]:
    """Say whether a definition computes and lays out what the old one did: then its rows stay."""
    return old is not None and _meaning(old) == _meaning(new)


def _meaning(view: ViewRecord) -> tuple[object, ...]:
    uses = used_columns(view.query, parse_query(Definition(view.name, view.query)), view.sources)
    # What an earlier version of this program did not note, it took for nothing.
    known = {n: [replace(c, declared=c.declared or "") for c in cs] for n, cs in uses.items()}
    columns = [replace(c, declared=c.declared or "") for c in view.columns]
    return (view.query, columns, known, view.cluster_by, dict(view.settings))


def _as_declared(
    columns: Sequence[Column], definition: Definition, schemas: Schemas
) -> tuple[Column, ...]:
    """Note which columns may be padded when they are compared: Spark does not say.

    Any string may be that is made from sources with such a column.
    """
    read = {schema.name: schema.columns for schema in schemas.values()}
    used = used_columns(definition.query, parse_query(definition), read)
    if not any(column.padded for found in used.values() for column in found):
        return tuple(columns)
    return tuple(
        replace(column, declared="char") if "string" in column.type.lower() else column
        for column in columns
    )


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
