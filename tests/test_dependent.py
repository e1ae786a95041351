"""Subqueries for all values they take from outside: their plans, and their changes on DuckDB."""

from __future__ import annotations

from random import Random

import pytest
from sqlglot import parse_one

from hybridview.algebra.plan import Distinct, Plan, Semi, Window
from hybridview.algebra.walk import tables, walk
from hybridview.sql.resolve import NoRule, resolve
from tests.support.cases import Row
from tests.support.duck import Duck, connect, schema

SCHEMAS = {
    "r": schema("r", k="int", a="int", x="double"),
    "s": schema("s", k="int", b="int", y="double"),
    "t": schema("t", k="int", c="int"),
}
CONNECTION = connect()


def plan_of(query: str) -> Plan:
    return resolve(parse_one(query, dialect="spark"), SCHEMAS).plan


def looked_at(query: str) -> Plan:
    (found,) = (node for node in walk(plan_of(query)) if isinstance(node, Semi))
    return found.right


def test_values_inside_stand_for_those_outside() -> None:
    """`s.k = r.k` in an exact type: the groups of s need not know which values r has."""
    query = (
        "SELECT a FROM r WHERE EXISTS "
        "(SELECT b FROM s WHERE s.k = r.k GROUP BY b HAVING count(*) > 1)"
    )
    assert tables(looked_at(query)) == ("s",)


@pytest.mark.parametrize(
    "condition", ["s.y = r.x", "s.k < r.k", "s.k = r.k AND s.b = r.k", "s.k = r.k AND s.b > r.a"]
)
def test_values_outside_are_joined(condition: str) -> None:
    """0.0 equals -0.0; and where a value is compared in another way, nothing stands for it."""
    query = (
        f"SELECT a FROM r WHERE EXISTS "
        f"(SELECT b FROM s WHERE {condition} GROUP BY b HAVING count(*) > 1)"
    )
    below = looked_at(query)
    assert set(tables(below)) == {"r", "s"}
    assert any(isinstance(node, Distinct) for node in walk(below))


def test_a_limit_is_a_window_for_each_value() -> None:
    query = "SELECT (SELECT b FROM s WHERE s.k = r.k ORDER BY b LIMIT 1) AS b FROM r"
    (window,) = (node for node in walk(plan_of(query)) if isinstance(node, Window))
    assert len(window.partition) == 1


def test_a_nearer_name_wins() -> None:
    """The innermost r is s under another name; the values come from there, not from table r."""
    inner = "SELECT t.c FROM t WHERE t.k = r.k GROUP BY t.c"
    query = f"SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s AS r WHERE r.b IN ({inner}))"
    assert tables(looked_at_first(query)) == ("s", "t")


def looked_at_first(query: str) -> Plan:
    return next(node for node in walk(plan_of(query)) if isinstance(node, Semi)).right


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM r WHERE EXISTS (SELECT b AS a FROM s WHERE s.k = r.k GROUP BY a)",
        "SELECT k FROM r WHERE k IN (SELECT b AS a FROM s WHERE s.k = r.k GROUP BY b HAVING a > 1)",
    ],
)
def test_an_alias_like_a_column_outside_has_no_rule(query: str) -> None:
    with pytest.raises(NoRule, match="alias with the name of a column outside"):
        plan_of(query)


VIEWS = {
    "two levels": "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND EXISTS "
    "(SELECT 1 FROM t WHERE t.k = r.a AND t.c >= s.b))",
    "for all": "SELECT k FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE NOT EXISTS "
    "(SELECT 1 FROM t WHERE t.k = s.k AND t.c = r.k))",
    "two levels, values": "SELECT k FROM r WHERE a >= (SELECT min(s.b) FROM s WHERE s.k = "
    "(SELECT max(t.k) FROM t WHERE t.c < r.a))",
    "two levels, groups": "SELECT k FROM r WHERE a IN (SELECT s.b FROM s WHERE s.k IN "
    "(SELECT t.k FROM t WHERE t.c <= r.k GROUP BY t.k HAVING count(*) > 1))",
    "except": "SELECT k FROM r WHERE EXISTS "
    "(SELECT b FROM s WHERE s.k = r.k EXCEPT SELECT c FROM t WHERE t.k = r.a)",
    "left join": "SELECT k, (SELECT count(t.c) FROM s LEFT JOIN t ON s.b = t.k AND t.c > r.a "
    "WHERE s.k = r.k) AS n FROM r",
    "full join": "SELECT k, (SELECT count(*) FROM s FULL JOIN t ON s.b = t.k AND t.c > r.a) AS n "
    "FROM r",
    "full join of what is tied": "SELECT k, (SELECT sum(coalesce(q.b, 0) + coalesce(t.c, 0)) FROM "
    "(SELECT * FROM s WHERE s.k = r.k) AS q FULL JOIN t ON q.b = t.k) AS n FROM r",
    "groups outside": "SELECT k, sum(a) AS t FROM r GROUP BY k HAVING sum(a) >= "
    "(SELECT max(n) FROM (SELECT count(*) AS n FROM s WHERE s.k = r.k GROUP BY b))",
    "numbers": "SELECT k, (SELECT b FROM s WHERE s.y <= r.x ORDER BY b DESC LIMIT 1) AS b FROM r",
    "ranks": "SELECT k FROM r WHERE a IN (SELECT rank() OVER (ORDER BY b) FROM s WHERE s.k = r.k)",
}


@pytest.mark.parametrize("name", VIEWS)
def test_changes(name: str) -> None:
    """After every batch the view equals its query; every batch is applied by a program."""
    rng = Random(name)
    duck = Duck(SCHEMAS, CONNECTION)
    for table in SCHEMAS:
        duck.load(table, [random_row(rng, table) for _ in range(5)])
    view = duck.create("v", VIEWS[name])
    assert not view.parts
    for epoch in range(1, 13):
        changes = {}
        for table in rng.sample(sorted(SCHEMAS), rng.choice((1, 2, 3))):
            gone = rng.sample(duck.rows[table], min(len(duck.rows[table]), rng.randint(0, 2)))
            come = [random_row(rng, table) for _ in range(rng.randint(0, 2))]
            changes[table] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        batch = duck.change(changes)
        if batch.changed:
            duck.refresh(view, batch, epoch)
        assert duck.stored("v") == duck.fresh("v")


def random_row(rng: Random, table: str) -> Row:
    numbers = tuple(rng.choice((None, 0, 1, 1, 2, 3)) for _ in range(2))
    return numbers if table == "t" else (*numbers, rng.choice((None, 0.5, 1.5)))
