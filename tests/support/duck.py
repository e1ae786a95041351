"""A second engine for delta programs: base tables, changes and views in DuckDB, without a JVM.

It proves the algebra. The plain side of every comparison is the user's text translated directly,
never SQL rebuilt from a plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import duckdb
from sqlglot import exp

from hybridview.algebra.expressions import Named
from hybridview.algebra.plan import GONE, KEPT, Project, Scan
from hybridview.algebra.walk import tables
from hybridview.compiler.batch import Batch
from hybridview.compiler.kinds import Recorded
from hybridview.compiler.links import part_of
from hybridview.compiler.margin import USED_UP
from hybridview.compiler.program import DeltaProgram, Method, NotIncremental
from hybridview.compiler.relevant import relevant
from hybridview.compiler.render import render, text
from hybridview.compiler.state import SUFFIX
from hybridview.compiler.view import (
    CompiledView,
    arguments,
    compile_view,
    delta_program,
    needs_state,
    plan_view,
)
from hybridview.schema import WEIGHT, Column, TableSchema
from hybridview.sql.canonical import canonical
from hybridview.sql.grouping import has_sets, sets_of
from hybridview.sql.load import with_list
from hybridview.sql.parse import parse_definition, parse_query, parse_text
from hybridview.sql.resolve import resolve
from tests.support.cases import Refresh, Row, Script, comparable

SPARK_TYPES = {"HUGEINT": "bigint", "INTEGER": "int", "VARCHAR": "string"}

ALARM = -999999
EVERY = "@every"
"""What the tables are called that hold all rows of a change."""

SETUP = f"""
-- DuckDB computes INSERT values for matched rows too, so the alarm is a mark, not an error:
-- a mark that reaches a stored row shows up as a difference.
CREATE OR REPLACE MACRO raise_error(message) AS {ALARM};
CREATE OR REPLACE MACRO monotonically_increasing_id() AS (row_number() OVER ());
CREATE OR REPLACE MACRO pmod(a, b) AS (((a % b) + b) % b);
-- Spark interpolates percentiles of all numbers, takes the smallest of several modes, may find a
-- NULL beside the largest value, and collects nothing into an empty list.
CREATE OR REPLACE MACRO quantile(x, p) AS quantile_cont(CAST(x AS DOUBLE), p);
CREATE OR REPLACE MACRO mode(x, smallest) AS map_keys(histogram(x))[
    list_position(map_values(histogram(x)), list_max(map_values(histogram(x))))];
CREATE OR REPLACE MACRO arg_max(x, y) AS arg_max_null(x, y);
CREATE OR REPLACE MACRO arg_min(x, y) AS arg_min_null(x, y);
CREATE OR REPLACE MACRO array_to_string(l, d) AS coalesce(system.main.array_to_string(l, d), '');
CREATE OR REPLACE MACRO timestamp_micros(x) AS make_timestamp(x);
CREATE OR REPLACE MACRO try_sum(x) AS sum(x);
CREATE OR REPLACE MACRO try_avg(x) AS avg(x);
"""

Signed = Sequence[tuple[Row, int]]
"""Rows with weights: +1 comes, -1 goes."""

Outcome = DeltaProgram | NotIncremental | None
"""What a refresh did to a view: ran a program, recomputed it for a reason, or nothing."""


def connect() -> Any:
    """Return a connection for small tables: one thread, because handing work out costs more.

    DuckDB 2.0.0 drops rows of a left join with an empty table on conditions such as `l.a IS NULL
    AND r.c IS DISTINCT FROM 1` below a filter; not without its statistics_propagation. And its
    row_group_pruner looks for the first rows of `ORDER BY x LIMIT n` where deleted rows were.
    """
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET disabled_optimizers = 'statistics_propagation,row_group_pruner'")
    return connection


@lru_cache(maxsize=1000)
def to_duck(sql: str) -> str:
    """Translate Spark SQL.

    No rows have no groups in Spark, not even the one of an empty grouping set; and grouping_id()
    without arguments is over all keys.
    """
    tree = parse_text(sql)[0]
    assert tree is not None
    tree = (
        tree.transform(_keep_rows)
        .transform(_joined)
        .transform(_windowed)
        .transform(_present)
        .transform(_ranged)
    )
    for select in list(tree.find_all(exp.Select)):
        group = select.args.get("group")
        if group is not None and has_sets(group):
            keys = sets_of(group, partial(_listed, select)).keys
            for call in [c for e in select.expressions for c in e.find_all(exp.GroupingId)]:
                call.set("expressions", call.expressions or [key.copy() for key in keys])
            select.having("count(*) > 0", copy=False)
    return tree.sql(dialect="duckdb")


def _listed(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """Return what a position or an alias in GROUP BY stands for."""
    if isinstance(key, exp.Literal):
        return select.expressions[int(key.name) - 1].unalias()
    aliased = [e for e in select.expressions if isinstance(e, exp.Alias) and e.alias == key.sql()]
    return aliased[0].unalias() if aliased else key


def _joined(node: exp.Expr) -> exp.Expr:
    """Put nothing between the values of listagg where nothing is said; sqlglot puts a comma."""
    if isinstance(node, exp.GroupConcat) and node.args.get("separator") in (None, exp.Null()):
        node.set("separator", exp.Literal.string(""))
    return node


def _windowed(node: exp.Expr) -> exp.Expr:
    """Compute window(time, ...) in front of its SELECT, by DuckDB's own time_bucket."""
    calls = [c for c in node.find_all(exp.Anonymous) if c.name.lower() == "window"]
    if not isinstance(node, exp.Select) or not calls or calls[0].parent_select is not node:
        return node
    time, *lengths = (e.sql(dialect="duckdb") for e in calls[0].expressions)
    width, slide, offset = [*lengths, *(lengths[0], lengths[0], "'0 days'")[len(lengths) :]]
    origin = f"TIMESTAMP '1970-01-01' + INTERVAL {offset}"
    bucket = f"time_bucket(INTERVAL {slide}, {time}, {origin})"
    windows = (
        f"list_transform(range(50), i -> {{'start': {bucket} - i * INTERVAL {slide}, "
        f"'end': {bucket} - i * INTERVAL {slide} + INTERVAL {width}}})"
    )
    rows = exp.select("*", f'unnest({windows}) AS "window"', dialect="duckdb")
    for clause in ("from_", "joins", "where"):
        rows.set(clause, node.args.get(clause))
        node.set(clause, None)
    rows = rows.where(f"{time} IS NOT NULL", dialect="duckdb")
    name = exp.column(exp.to_identifier("window", quoted=True))
    for call in calls:
        call.replace(name.copy())
    for word in node.find_all(exp.Identifier):
        word.set("quoted", word.quoted or word.name in ("window", "end"))
    found = node.from_(rows.subquery("windowed"))
    return found.where(f'{time} < "window"."end"', dialect="duckdb")


def _present(node: exp.Expr) -> exp.Expr:
    """Leave out of UNPIVOT the rows without any value; DuckDB leaves out those that lack one."""
    from_ = node.args.get("from_") if isinstance(node, exp.Select) else None
    for pivot in from_.this.args.get("pivots") or () if from_ is not None else ():
        several = [e for e in pivot.expressions if isinstance(e, exp.Tuple)]
        if pivot.args.get("unpivot") and several and not pivot.args.get("include_nulls"):
            assert isinstance(node, exp.Select)
            pivot.set("include_nulls", True)
            values = [f"{part.name} IS NOT NULL" for part in several[0].expressions]
            node = node.where(exp.or_(*values))
    return node


def _ranged(node: exp.Expr) -> exp.Expr:
    """Call the column of range(...) id, as Spark does."""
    call = node.this if isinstance(node, exp.Table) else None
    if isinstance(call, exp.Anonymous) and call.name.lower() == "range":
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier("range_"))
        alias = alias.copy()
        alias.set("columns", alias.columns or [exp.to_identifier("id")])
        node.set("alias", alias)
    return node


def _keep_rows(node: exp.Expr) -> exp.Expr:
    """Make LATERAL VIEW OUTER explode(xs) and explode_outer(xs) keep rows; sqlglot drops OUTER."""
    outer = isinstance(node, exp.Lateral) and node.args.get("outer")
    call = node.this if outer else node
    if isinstance(call, exp.Explode) and (outer or isinstance(call, exp.ExplodeOuter)):
        assert not isinstance(call, exp.Posexplode), "the position of a kept row is NULL"
        some = exp.func("cardinality", call.this.copy()) > 0
        one = exp.Array(expressions=[exp.Null()])
        plain = exp.Explode(this=exp.Case().when(some, call.this.copy()).else_(one))
        if not outer:
            return plain
        node.set("this", plain)
    return node


def schema(name: str, **columns: str) -> TableSchema:
    """Return a table's schema; types are Spark's."""
    return TableSchema(name, tuple(Column(n, t) for n, t in columns.items()))


def bag(rows: Iterable[Row]) -> Counter[Row]:
    """Return rows with the number of their copies, in a form that compares across engines."""
    return Counter(tuple(comparable(value) for value in row) for row in rows)


@dataclass(frozen=True)
class Prepared:
    """A program and its statements in DuckDB's SQL."""

    program: DeltaProgram
    kept: list[str]
    change: str
    apply: str
    without_deletes: str | None


@dataclass
class Duck:
    """Base tables, and views over them or over each other.

    A given connection is emptied first, so that one connection can serve many cases.
    """

    schemas: dict[str, TableSchema]
    connection: Any = field(default_factory=connect)
    views: dict[str, CompiledView] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """The rows of each base table."""
    prepared: dict[tuple[str, Batch], Prepared] = field(default_factory=dict)
    shown: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """By which conditions and keys the change of each table is shown now."""
    show_every: bool = False
    """Whether programs always get all rows of a change, be they relevant or not."""
    cut: bool = True
    """Whether views may keep parts of themselves in tables of their own."""

    def __post_init__(self) -> None:
        self.schemas = dict(self.schemas)
        self.connection.execute("DROP SCHEMA IF EXISTS store CASCADE; CREATE SCHEMA store")
        self.connection.execute("USE store;" + SETUP)
        for table in self.schemas.values():
            self.rows[table.name] = []
            columns = _columns(table)
            self.connection.execute(f"CREATE TABLE {_quote(table.name)} ({columns})")
            self._add_source(table.name, f"SELECT * FROM {_quote(table.name)}", columns)

    def load(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows to a base table before any view is made of it."""
        added = list(rows)
        self.rows[table] += added
        self._insert(table, added)

    def create(self, name: str, sql: str, needed: int = 0) -> CompiledView:
        """Compile a view, load it from its text, and let later views read it."""
        shown = self._fetch(f"DESCRIBE {to_duck(sql)}")
        definition = parse_definition(
            canonical(parse_definition(sql).query, len(shown), self.schemas)
        )
        parsed = parse_query(definition)
        relation = resolve(parsed, self.schemas)
        plan = plan_view(relation, tuple(row[0] for row in shown), self.schemas)
        types = {}
        for key, (argument, below) in arguments(plan).items():
            query = to_duck(text(render(Project(below, (Named("a", argument),)))))
            types[key] = _spark_type(self._fetch(f"DESCRIBE {query}")[0][1])

        def compiled(with_state: bool = False) -> CompiledView:
            sources = {
                t.name.lower(): {c.name.lower(): c.type for c in t.columns}
                for t in self.schemas.values()
            }
            recorded = Recorded(sources, {row[0]: _spark_type(row[1]) for row in shown}, types)
            stored = frozenset(n.lower() for n in self.views) if self.cut else None
            return compile_view(
                name,
                definition.query,
                parsed,
                relation,
                plan,
                types,
                with_state,
                recorded,
                stored,
                needed,
            )

        view = compiled()
        cut = self.cut and not needed
        state = needs_state(parsed, relation, plan, types) if cut else None
        if state is not None and not (view.whole and not view.parts):
            self.create(f"{name}{SUFFIX}", with_list(definition.query, state.columns, state.keys))
            view = compiled(with_state=True)
        elif view.parts:
            for part in view.parts:
                self.create(part.name, part.query(), part.needed)
            view = compiled()
        sql = definition.query
        self._load(view)
        self.views[name], self.texts[name] = view, sql
        columns = tuple(Column(row[0], _spark_type(row[1])) for row in shown)
        self.schemas[name] = TableSchema(name, columns)
        visible = ", ".join(_quote(column.name) for column in columns)
        stored = f"SELECT {visible} FROM {_quote(name, '@target')}"
        self.connection.execute(f"CREATE VIEW {_quote(name)} AS {stored}")
        self._add_source(name, stored, _columns(self.schemas[name]))
        return view

    def change(self, changes: Mapping[str, Signed]) -> Batch:
        """Apply signed rows to the base tables, and let them be the changes of the next refresh."""
        for name in self.schemas:
            self.connection.execute(f"DELETE FROM {_quote(name, EVERY)}")
        batch = Batch(frozenset(), frozenset())
        for table, signed in changes.items():
            for row, weight in signed:
                if weight > 0:
                    self.rows[table].append(row)
                else:
                    self.rows[table].remove(row)
            self.connection.execute(f"DELETE FROM {_quote(table)}")
            self._insert(table, self.rows[table])
            batch = self._record(table, signed, batch)
        return batch

    def refresh(self, view: CompiledView, batch: Batch, epoch: int) -> DeltaProgram:
        """Run a view's delta program as the engine would."""
        name = view.compilable.view
        reads = frozenset(tables(view.compilable.plan))
        batch = replace(batch, changed=batch.changed & reads, appended=batch.appended & reads)
        ready = self.prepared.get((name, batch)) or self._prepare(view, batch)
        self.prepared[name, batch] = ready
        self._show_changes(view, batch, relevant_only=bool(epoch % 2) and not self.show_every)
        self.connection.execute(f"SET VARIABLE epoch = {epoch}")
        for statement in (*ready.kept, ready.change):
            self.connection.execute(statement)
        if view.margin is not None:
            alarm = f"SELECT count(*) FROM {_quote(name, '@change')} WHERE {WEIGHT} = {ALARM}"
            if self._fetch(alarm)[0][0]:
                raise NotIncremental(USED_UP)
        statement = ready.apply
        if ready.without_deletes:
            lost = f"SELECT count(*) FROM {_quote(name, '@change')} WHERE {WEIGHT} < 0"
            if not self._fetch(lost)[0][0]:
                statement = ready.without_deletes
        self.connection.execute(statement)
        return ready.program

    def _prepare(self, view: CompiledView, batch: Batch) -> Prepared:
        """Compile and translate a program; it depends on which tables changed, not on the rows."""
        program = delta_program(view, batch, "getvariable('epoch')")
        self._show_changes(view, batch, relevant_only=False)
        for scan in program.near:
            self._add_near(scan)
        change = to_duck(text(program.change, pretty=False))
        kept = [(part.symbol, to_duck(text(part.query, pretty=False))) for part in program.kept]
        insert = program.without_deletes if program.method is Method.PATCH else None
        return Prepared(
            program,
            [f"CREATE OR REPLACE TABLE {_quote(symbol)} AS {query}" for symbol, query in kept],
            f"CREATE OR REPLACE TABLE {_quote(program.view, '@change')} AS {change}",
            to_duck(program.apply),
            to_duck(insert) if insert else None,
        )

    def _show_changes(self, view: CompiledView, batch: Batch, relevant_only: bool) -> None:
        """Make `t@changes`, and its parts by what became of keys: all rows, or those that matter.

        The engine shows a program either, so every other refresh does.
        """
        compilable = view.compilable
        conditions = relevant(compilable.plan, compilable.recorded) if relevant_only else {}
        keys = {link.target: link.key for link in batch.links}
        for table in tables(view.compilable.plan):
            wanted = f" WHERE {conditions[table]}" if table in conditions else ""
            key = keys.get(table, ())
            if self.shown.get(table) == (wanted, key):
                continue
            self.shown[table] = wanted, key
            columns = [column.name for column in self.schemas[table].columns]
            every = f"`{table}{EVERY}`"
            queries = {"changes": f"SELECT * FROM {every}"}
            if key:
                queries |= {part: part_of(every, columns, key, part) for part in (KEPT, GONE)}
            for part, query in queries.items():
                shown = to_duck(f"SELECT * FROM ({query}) AS q{wanted}")
                self.connection.execute(
                    f"CREATE OR REPLACE VIEW {_quote(table, f'@{part}')} AS {shown}"
                )

    def _add_near(self, scan: Scan) -> None:
        """Make a relation of the rows of a table that are near the changes, and no others."""
        assert scan.near is not None
        column = _quote(scan.near.column)
        lists = [f"SELECT {_quote(c)} FROM {_quote(s)}" for s, c in scan.near.found_in]
        near = " OR ".join(
            f"EXISTS (FROM ({values}) AS v(x) WHERE v.x IS NOT DISTINCT FROM {column})"
            for values in lists
        )
        table = _quote(scan.table, "@new")
        self.connection.execute(
            f"CREATE OR REPLACE VIEW {_quote(scan.symbol)} AS SELECT * FROM {table} WHERE {near}"
        )

    def refresh_all(self, batch: Batch, epoch: int) -> dict[str, Outcome]:
        """Refresh all views, parents first, and say of each what was done.

        A view whose program does not exist is recomputed. A child's change is its parent's netted
        change, each copy a row of its own, whatever was done to the parent.
        """
        done: dict[str, Outcome] = {}
        for name, view in self.views.items():
            before = Counter(self._rows(name))
            done[name] = None
            if batch.changed & set(tables(view.compilable.plan)):
                try:
                    done[name] = self.refresh(view, batch, epoch)
                except NotIncremental as reason:
                    done[name] = reason
                    self._load(view)
            after = Counter(self._rows(name))
            gained = [(row, 1) for row in (after - before).elements()]
            lost = [(row, -1) for row in (before - after).elements()]
            batch = self._record(name, [*gained, *lost], batch)
        return done

    def stored(self, view: str) -> Counter[Row]:
        """Return the rows of a view's table, without hidden columns."""
        return bag(self._rows(view))

    def fresh(self, view: str) -> Counter[Row]:
        """Return the rows the view's own text gives now."""
        return bag(self._fetch(to_duck(self.texts[view])))

    def difference(self, view: CompiledView, sql: str) -> tuple[list[Row], list[Row]]:
        """Return the rows the stored view misses and those it has too much."""
        stored, fresh = self.stored(view.compilable.view), bag(self._fetch(to_duck(sql)))
        return list((fresh - stored).elements()), list((stored - fresh).elements())

    def _load(self, view: CompiledView) -> None:
        target = _quote(view.compilable.view, "@target")
        self.connection.execute(f"CREATE OR REPLACE TABLE {target} AS {to_duck(view.load)}")

    def _rows(self, view: str) -> list[Row]:
        return self._fetch(f"SELECT * FROM {_quote(view)}")

    def _add_source(self, name: str, new: str, columns: str) -> None:
        self.connection.execute(f"CREATE VIEW {_quote(name, '@new')} AS {new}")
        self.connection.execute(
            f"CREATE TABLE {_quote(name, EVERY)} ({columns}, {WEIGHT} BIGINT);"
            f"CREATE VIEW {_quote(name, '@changes')} AS FROM {_quote(name, EVERY)}"
        )

    def _record(self, name: str, signed: Signed, batch: Batch) -> Batch:
        """Store a relation's change, and return the batch that has it too."""
        if not signed:
            return batch
        self._insert(f"{name}{EVERY}", [(*row, weight) for row, weight in signed])
        grows = all(weight > 0 for _, weight in signed)
        appended = batch.appended | ({name} if grows else set())
        return replace(batch, changed=batch.changed | {name}, appended=appended)

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
            self.connection.execute(f"INSERT INTO {_quote(table)} VALUES {values}")

    def _fetch(self, sql: str) -> list[Row]:
        found = self.connection.execute(sql).fetchall()
        return [tuple(_hashable(value) for value in row) for row in found]


def open_script(script: Script, connection: Any) -> Duck:
    """Return an engine with a script's tables, without rows, and no views yet."""
    schemas = {
        table.name: TableSchema(table.name, tuple(Column(n, t) for n, t in table.columns))
        for table in script.tables
    }
    return Duck(schemas, connection)


def signed_rows(refresh: Refresh) -> dict[str, list[tuple[Row, int]]]:
    """Return a refresh's changes as `Duck.change` takes them."""
    changes: dict[str, list[tuple[Row, int]]] = {}
    for change in refresh.changes:
        rows = changes.setdefault(change.table, [])
        rows += [(row.values, row.weight) for row in change.rows]
    return changes


def _quote(name: str, suffix: str = "") -> str:
    return '"' + (name + suffix).replace('"', '""') + '"'


def _hashable(value: Any) -> Any:
    """Return a list as a tuple, so that rows can be counted."""
    return tuple(_hashable(v) for v in value) if isinstance(value, list) else value


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def _columns(table: TableSchema) -> str:
    """Return a table's columns as DuckDB declares them."""
    return ", ".join(
        f"{_quote(c.name)} {c.type.replace('string', 'varchar')}" for c in table.columns
    )


def _spark_type(duck_type: str) -> str:
    # DuckDB widens every decimal sum to 38 digits, where Spark adds ten.
    wide = re.fullmatch(r"DECIMAL\(38,(\d+)\)", duck_type)
    return f"decimal(30,{wide[1]})" if wide else SPARK_TYPES.get(duck_type, duck_type.lower())
