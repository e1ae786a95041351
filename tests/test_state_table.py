"""Aggregates without GROUP BY that cannot be added up: their state table, in DuckDB."""

from __future__ import annotations

import random

import pytest

from hybridview.compiler.state import SUFFIX, read_state, state
from hybridview.compiler.view import CompiledView, compile_view, needs_state, plan_view
from hybridview.sql.load import with_list
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import resolve
from tests.support.duck import Duck, schema, to_duck

SCHEMAS = {"r": schema("r", k="int", a="int", x="decimal(10,2)")}
TYPES = {"`r.a`": "int", "`r.x`": "decimal(10,2)", "`r.k`": "int"}

VIEWS = (
    "SELECT min(a) AS lo, max(x) AS hi FROM r",
    "SELECT max(a) - min(a) AS spread, count(*) AS n, count(x) AS c FROM r WHERE k > 1",
    "SELECT count(DISTINCT a) AS d, sum(x) AS s FROM r",
    "SELECT sum(DISTINCT a) AS d, count(a) AS c FROM r",
)


def relation_of(sql: str):  # type: ignore[no-untyped-def]
    parsed = parse_query(parse_definition(sql))
    return parsed, resolve(parsed, SCHEMAS)


@pytest.mark.parametrize("sql", VIEWS)
@pytest.mark.parametrize("seed", range(4))
def test_the_row_follows_its_state(sql: str, seed: int) -> None:
    """The state is maintained as a grouped view; the view's row is computed from it alone."""
    rng = random.Random(seed)
    duck = Duck(SCHEMAS)
    rows = [_row(rng) for _ in range(6)]
    duck.change({"r": [(row, 1) for row in rows]})
    parsed, relation = relation_of(sql)
    names = tuple(c.name for c in relation.columns)
    plan = plan_view(relation, names)
    found = needs_state(parsed, relation, plan, TYPES)
    assert found is not None
    kept = duck.create(f"v{SUFFIX}", with_list(sql, found.columns, found.keys))
    view = compile_view("v", sql, parsed, relation, plan, TYPES, with_state=True)
    duck.connection.execute(f'CREATE OR REPLACE TABLE "v@target" AS {to_duck(view.load)}')
    for epoch in range(1, 5):
        changes = [(rows.pop(rng.randrange(len(rows))), -1) for _ in range(min(3, len(rows)))]
        for _ in range(rng.randint(0, 2)):
            rows.append(_row(rng))
            changes.append((rows[-1], 1))
        duck.refresh(kept, duck.change({"r": changes}), epoch)
        _compute(duck, view)
        fresh = duck.connection.execute(to_duck(sql)).fetchall()
        columns = ", ".join(f'"{name}"' for name in names)
        assert duck.connection.execute(f'SELECT {columns} FROM "v@target"').fetchall() == fresh


def _compute(duck: Duck, view: CompiledView) -> None:
    assert view.state is not None
    program = read_state("v", view.compilable.layout, view.state)
    change = to_duck(program.change.sql(dialect="spark"))
    duck.connection.execute(f'CREATE OR REPLACE TABLE "v@change" AS {change}')
    duck.connection.execute(to_duck(program.apply))


def _row(rng: random.Random) -> tuple[object, ...]:
    return (
        rng.choice([None, 1, 2, 3]),
        rng.choice([None, -1, 0, 5, 9]),
        rng.choice([None, "1.50", "-2.25", "7.00"]),
    )


@pytest.mark.parametrize(
    "sql",
    (
        "SELECT sum(a) AS s, count(*) AS n FROM r",  # adds up: no state needed
        "SELECT k, min(a) AS lo FROM r GROUP BY k",  # has a key to restrict by
        "SELECT min(a) AS lo FROM r HAVING count(*) > 1",  # may have no row at all
    ),
)
def test_no_state_without_need(sql: str) -> None:
    _, relation = relation_of(sql)
    plan = plan_view(relation, tuple(c.name for c in relation.columns))
    assert state(plan, TYPES, relation.spelling) is None
