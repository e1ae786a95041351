"""A second engine for delta programs: base tables, changes and views in DuckDB, without a JVM.

It proves the algebra. The plain side of every comparison is the user's text translated directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import duckdb
import sqlglot

from hybridview.algebra.expressions import Named
from hybridview.algebra.plan import Project
from hybridview.compiler.batch import Batch
from hybridview.compiler.program import DeltaProgram, Method, compile_program
from hybridview.compiler.render import render, text
from hybridview.compiler.view import CompiledView, arguments, compile_view, plan_view
from hybridview.schema import WEIGHT, Column, TableSchema
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import resolve

Row = tuple[Any, ...]

SPARK_TYPES = {"HUGEINT": "decimal(38,0)", "INTEGER": "int", "VARCHAR": "string"}


def to_duck(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


@dataclass
class Duck:
    """Some base tables and one view over them."""

    schemas: dict[str, TableSchema]
    connection: Any = field(default_factory=lambda: duckdb.connect())

    def __post_init__(self) -> None:
        run = self.connection.execute
        # DuckDB computes INSERT values for matched rows too, so the alarm is a mark, not an error:
        # a mark that reaches a stored row shows up as a difference.
        run("CREATE MACRO raise_error(message) AS -999999")
        run("CREATE MACRO monotonically_increasing_id() AS (row_number() OVER ())")
        run("CREATE MACRO pmod(a, b) AS (((a % b) + b) % b)")
        for schema in self.schemas.values():
            columns = ", ".join(
                f'"{c.name}" {c.type.replace("string", "varchar")}' for c in schema.columns
            )
            run(f'CREATE TABLE "{schema.name}" ({columns})')
            run(f'CREATE VIEW "{schema.name}@new" AS SELECT * FROM "{schema.name}"')
            run(f'CREATE TABLE "{schema.name}@changes" ({columns}, {WEIGHT} BIGINT)')

    def create(self, name: str, sql: str) -> CompiledView:
        """Compile a view and load it from its text."""
        definition = parse_definition(sql)
        parsed = parse_query(definition)
        relation = resolve(parsed, self.schemas)
        shown = self.connection.execute(f"DESCRIBE {to_duck(sql)}").fetchall()
        plan = plan_view(relation, tuple(row[0] for row in shown))
        types = {}
        for key, (argument, below) in arguments(plan).items():
            query = to_duck(text(render(Project(below, (Named("a", argument),)))))
            found = self.connection.execute(f"DESCRIBE {query}").fetchall()[0][1]
            types[key] = SPARK_TYPES.get(found, found.lower())
        view = compile_view(name, definition.query, parsed, relation, plan, types)
        self.connection.execute(f'CREATE TABLE "{name}@target" AS {to_duck(view.load)}')
        return view

    def change(self, changes: dict[str, list[tuple[Row, int]]]) -> Batch:
        """Apply signed rows to the base tables and remember them as the batch."""
        appended = set()
        for table in self.schemas:
            self.connection.execute(f'DELETE FROM "{table}@changes"')
        for table, rows in changes.items():
            if all(weight > 0 for _, weight in rows):
                appended.add(table)
            for row, weight in rows:
                marks = ", ".join("?" for _ in row)
                self.connection.execute(
                    f'INSERT INTO "{table}@changes" VALUES ({marks}, {weight})', list(row)
                )
                if weight > 0:
                    self.connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', list(row))
                else:
                    self._delete_one(table, row)
        return Batch(frozenset(t for t, rows in changes.items() if rows), frozenset(appended))

    def _delete_one(self, table: str, row: Row) -> None:
        columns = self.schemas[table].names
        same = " AND ".join(f'"{c}" IS NOT DISTINCT FROM ?' for c in columns)
        self.connection.execute(
            f'DELETE FROM "{table}" WHERE rowid = '
            f'(SELECT min(rowid) FROM "{table}" WHERE {same})',
            list(row),
        )

    def refresh(self, view: CompiledView, batch: Batch, epoch: int) -> DeltaProgram:
        """Run the view's delta program as the engine would."""
        program = compile_program(view.compilable, batch, str(epoch))
        name = program.view
        change = to_duck(text(program.change))
        self.connection.execute(f'CREATE OR REPLACE TABLE "{name}@change" AS {change}')
        statement = program.apply
        if program.method is Method.PATCH:
            lost = self.connection.execute(
                f'SELECT count(*) FROM "{name}@change" WHERE {WEIGHT} < 0'
            ).fetchall()[0][0]
            if not lost and program.without_deletes:
                statement = program.without_deletes
        self.connection.execute(to_duck(statement))
        return program

    def difference(self, view: CompiledView, sql: str) -> tuple[list[Row], list[Row]]:
        """Return the rows the stored view misses and those it has too much."""
        layout = view.compilable.layout
        visible = ", ".join('"' + c.replace('"', '""') + '"' for c in layout.visible)
        stored = f'SELECT {visible} FROM "{view.compilable.view}@target"'
        fresh = to_duck(sql)
        missing = f"({fresh}) EXCEPT ALL ({stored})"
        extra = f"({stored}) EXCEPT ALL ({fresh})"
        run = self.connection.execute
        return run(missing).fetchall(), run(extra).fetchall()


def schema(name: str, **columns: str) -> TableSchema:
    return TableSchema(name, tuple(Column(n, t) for n, t in columns.items()))
