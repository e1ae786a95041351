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
            "SELECT r.k FROM r, LATERAL (SELECT b FROM s WHERE s.k = r.k LIMIT 1) AS l",
            "LIMIT in an order that leaves ties open",
        ),
        (
            "SELECT r.k FROM r RIGHT JOIN LATERAL (SELECT b FROM s) AS l",
            "this join with LATERAL",
        ),
        (
            "SELECT r.k FROM r, LATERAL (SELECT x FROM VALUES (r.a), (r.k) AS v(x)) AS l",
            "VALUES of columns from outside a subquery",
        ),
    ],
)
def test_no_rule(query: str, operator: str) -> None:
    with pytest.raises(NoRule) as caught:
        relation(query)
    assert caught.value.operator.startswith(operator)
