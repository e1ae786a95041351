"""LATERAL subqueries -> joins; what has no rule; subqueries that only look like others."""

from __future__ import annotations

import pytest

from hybridview.algebra.plan import Aggregate, Join, Outer
from hybridview.algebra.walk import walk
from hybridview.sql.scope import NoRule, Unresolved
from tests.test_resolve import outputs, relation


def test_a_plain_one_is_a_join() -> None:
    plan = relation("SELECT r.k, l.b FROM r, LATERAL (SELECT b FROM s WHERE s.k = r.k) AS l").plan
    join = next(node for node in walk(plan) if isinstance(node, Join))
    assert join.condition is not None
    assert join.condition.sql(dialect="spark").replace("`", "") == "s.k = r.k"


def test_names() -> None:
    query = "SELECT * FROM r JOIN LATERAL (SELECT * FROM s WHERE s.k = r.k) AS l(p, q)"
    assert outputs(query) == ["k", "a", "x", "p", "q"]
    assert outputs("SELECT l.* FROM r, LATERAL (SELECT b, r.a + b AS t FROM s) AS l") == ["b", "t"]
    assert outputs("SELECT l.* FROM r, LATERAL (SELECT DISTINCT b FROM s) AS l") == ["b"]
    with pytest.raises(Unresolved):
        relation("SELECT 1 AS one FROM r, LATERAL (SELECT b FROM s WHERE s.k = missing) AS l")


def test_one_that_aggregates_has_one_row_always() -> None:
    query = (
        "SELECT r.k, l.n, l.m FROM r, LATERAL "
        "(SELECT count(*) AS n, max(b) AS m FROM s WHERE s.k = r.k) AS l"
    )
    plan = relation(query).plan
    assert sum(isinstance(node, Outer) for node in walk(plan)) == 2
    assert all(node.keys for node in walk(plan) if isinstance(node, Aggregate))


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        (
            "SELECT r.k FROM r, LATERAL (SELECT DISTINCT b FROM s WHERE s.k = r.k) AS l",
            "correlated subquery",
        ),
        (
            "SELECT r.k FROM r, LATERAL (SELECT b FROM s WHERE s.k = r.k LIMIT 1) AS l",
            None,
        ),
        (
            "SELECT r.k FROM r, LATERAL (SELECT b FROM s WHERE s.k = r.k GROUP BY b) AS l",
            "correlated subquery",
        ),
        (
            "SELECT r.k FROM r LEFT JOIN LATERAL (SELECT 1 AS one FROM s WHERE s.k = r.k) AS l",
            "LEFT JOIN LATERAL with computed columns",
        ),
        (
            "SELECT r.k FROM r LEFT JOIN LATERAL (SELECT b FROM s WHERE s.k = r.k) l ON l.b > 1",
            "this join with LATERAL",
        ),
        (
            "SELECT r.k FROM r, LATERAL (SELECT s.b FROM s JOIN u ON u.k = r.a) AS l",
            "correlated subquery",
        ),
        # An aggregate without GROUP BY always has a row.
        ("SELECT k FROM r WHERE EXISTS (SELECT max(b) FROM s WHERE s.k = r.k)", "aggregate in"),
        ("SELECT k FROM r WHERE a NOT IN (SELECT max(b) FROM s WHERE s.k = r.k)", "aggregate in"),
        ("SELECT k FROM r WHERE a IN (SELECT count(*) FROM s WHERE s.k = r.k)", "aggregate in"),
        ("SELECT k, a IN (SELECT max(b) FROM s WHERE s.k = r.k) AS i FROM r", "aggregate in"),
        # Equal rows are one row here, and more than one would be an error.
        ("SELECT (SELECT DISTINCT b FROM s WHERE s.k = r.k) AS d FROM r", "correlated subquery"),
    ],
)
def test_no_rule(query: str, operator: str | None) -> None:
    with pytest.raises(NoRule) as caught:
        relation(query)
    assert caught.value.operator.startswith(operator or "")
