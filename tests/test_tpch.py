"""The 22 queries of TPC-H as views: which are maintained, and that their rows are right.

On DuckDB, whose average of decimals is a floating point number where Spark's is exact: the queries
with one are compared on Spark only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hybridview.algebra.plan import tables
from hybridview.compiler.batch import Batch
from hybridview.compiler.program import compile_program, refuses
from hybridview.compiler.view import arguments, compile_view, plan_view
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import resolve
from hybridview.sql.scope import NoRule
from tests.support.duck import Duck, connect
from tests.support.tpch import SCHEMAS, Stream, make, query

NOT_YET = {
    2: "LIMIT",
    3: "LIMIT",
    10: "LIMIT",
    11: "an aggregate without GROUP BY below another operator",
    15: "an aggregate without GROUP BY below another operator",
    18: "LIMIT",
    21: "LIMIT",
    22: "an aggregate without GROUP BY below another operator",
}
"""Queries that are refreshed by snapshot, and why."""

AVERAGES = {1, 17}
MAINTAINED = [n for n in range(1, 23) if n not in NOT_YET]
ROUNDS = 5


@pytest.mark.parametrize("number", range(1, 23))
def test_a_query_compiles_or_says_why_not(number: int) -> None:
    definition = parse_definition(query(number))
    parsed = parse_query(definition)
    try:
        relation = resolve(parsed, SCHEMAS)
    except NoRule as reason:
        assert reason.operator == NOT_YET[number]
        return
    plan = plan_view(relation, tuple(f"c{i}" for i in range(len(relation.columns))))
    types = dict.fromkeys(arguments(plan), "decimal(15,2)")
    view = compile_view("v", definition.query, parsed, relation, plan, types)
    refusal = refuses(view.compilable)
    if refusal:
        assert refusal.startswith(NOT_YET[number])
        return
    assert number not in NOT_YET
    compile_program(view.compilable, Batch(frozenset(tables(plan))))


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Duck, Stream]]:
    stream = Stream(make(tmp_path_factory.mktemp("tpch"), 0.001))
    found = Duck(SCHEMAS, connect())
    for name, rows in stream.now.items():
        found.load(name, rows)
    for number in MAINTAINED:
        if number not in AVERAGES:
            found.create(f"q{number}", query(number))
    yield found, stream


def test_every_query_follows_rounds_of_changes(duck: tuple[Duck, Stream]) -> None:
    store, stream = duck
    changed = set()
    for number in range(1, ROUNDS + 1):
        batch = store.change(stream.next())
        for name in [n for n in store.views if n.startswith("q")]:
            before = store.stored(name)
            store.refresh(store.views[name], batch, number)
            assert store.stored(name) == store.fresh(name), name
            if store.stored(name) != before:
                changed.add(name)
    assert len(changed) > 6, changed
