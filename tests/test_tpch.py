"""The 22 queries of TPC-H as views: which are maintained, and that their rows are right.

On DuckDB, whose average of decimals is a floating point number where Spark's is exact: the queries
with one are compared on Spark only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hybridview.algebra.walk import tables
from hybridview.compiler.batch import Batch
from hybridview.compiler.program import NotIncremental, refuses
from hybridview.compiler.view import arguments, compile_view, delta_program, plan_view
from hybridview.sql.canonical import canonical
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import resolve
from tests.support.duck import Duck, connect
from tests.support.tpch import SCHEMAS, Stream, make, query

PARTS = {2: 1, 3: 1, 10: 1, 11: 2, 15: 3, 18: 1, 21: 1, 22: 2}
"""Queries that keep parts of themselves in tables of their own: how many."""

AVERAGES = {1, 17, 22}
ROUNDS = 5


@pytest.mark.parametrize("number", range(1, 23))
def test_every_query_is_maintained(number: int) -> None:
    """No operator reads a base table without a key of the change to restrict it by."""
    width = len(parse_query(parse_definition(query(number))).selects)
    definition = parse_definition(canonical(query(number), width, SCHEMAS))
    parsed = parse_query(definition)
    relation = resolve(parsed, SCHEMAS)
    plan = plan_view(relation, tuple(f"c{i}" for i in range(len(relation.columns))))
    types = dict.fromkeys(arguments(plan), "decimal(15,2)")
    stored: frozenset[str] = frozenset()
    view = compile_view("v", definition.query, parsed, relation, plan, types, stored=stored)
    assert refuses(view.compilable, view.whole) is None
    assert len(view.parts) == PARTS.get(number, 0)
    if view.whole:
        assert set(tables(view.compilable.plan)) <= {part.name for part in view.parts}
    delta_program(view, Batch(frozenset(tables(view.compilable.plan))))


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Duck, Stream]]:
    stream = Stream(make(tmp_path_factory.mktemp("tpch"), 0.001))
    found = Duck(SCHEMAS, connect())
    for name, rows in stream.now.items():
        found.load(name, rows)
    for number in range(1, 23):
        if number not in AVERAGES:
            found.create(f"q{number}", query(number))
    yield found, stream


def test_every_query_follows_rounds_of_changes(duck: tuple[Duck, Stream]) -> None:
    store, stream = duck
    changed = set()
    for number in range(1, ROUNDS + 1):
        batch = store.change(stream.next())
        before = {name: store.stored(name) for name in store.views}
        done = store.refresh_all(batch, number)
        for name, outcome in done.items():
            assert not isinstance(outcome, NotIncremental), (name, str(outcome))
            assert store.stored(name) == store.fresh(name), name
            if store.stored(name) != before[name]:
                changed.add(name)
    assert len([name for name in changed if "@" not in name]) > 12, changed
