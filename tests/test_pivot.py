"""PIVOT and UNPIVOT -> plans with the columns Spark gives; what has no rule."""

from __future__ import annotations

import pytest

from hybridview.algebra.plan import Aggregate, Filter, Flatten, Project
from hybridview.algebra.walk import walk
from hybridview.schema import Column, TableSchema
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import Relation, resolve
from hybridview.sql.scope import NoRule

KINDS = {"y": "int", "k": "string", "x": "int", "z": "double", "n": "int"}
SCHEMAS = {
    "t": TableSchema("t", tuple(Column(n, kind) for n, kind in KINDS.items())),
    "s": TableSchema("s", (Column("y", "int"), Column("e", "int"))),
}


def relation(query: str) -> Relation:
    return resolve(parse_query(parse_definition(query)), SCHEMAS)


def outputs(query: str) -> list[str]:
    return [column.name for column in relation(query).columns]


def test_pivot_shows_the_other_columns_first() -> None:
    assert outputs("SELECT * FROM t PIVOT (sum(x) AS s FOR k IN ('a' AS p, 'b'))") == [
        *("y", "z", "n"),
        *("p", "b"),
    ]
    assert outputs("SELECT * FROM t PIVOT (sum(x) AS s, max(z) AS m FOR n IN (1, 2 AS q))") == [
        *("y", "k"),
        *("1_s", "1_m", "q_s", "q_m"),
    ]
    assert outputs(
        "SELECT q.y, `a` FROM t AS q PIVOT (sum(x) FOR k IN ('a')) JOIN s USING (y)"
    ) == [
        *("y", "a"),
    ]


def test_pivot_by_several_columns() -> None:
    query = "SELECT p.y, p.one FROM t PIVOT (sum(x) FOR (k, n) IN (('a', 1) AS one, ('b', 2))) AS p"
    found = relation(query)
    assert [column.name for column in found.columns] == ["y", "one"]
    group = next(node for node in walk(found.plan) if isinstance(node, Aggregate))
    assert [key.name for key in group.keys] == ["t.y", "t.z"]
    sums = [m.expr.sql(dialect="spark").replace("`", "") for m in group.measures]
    assert sums[3] == "SUM(CASE WHEN t.k = 'b' AND t.n = 2 THEN t.x END)"


def test_pivot_groups_by_the_other_columns() -> None:
    plan = relation("SELECT * FROM t PIVOT (sum(x) FOR k IN ('a', 'b'))").plan
    group = next(node for node in walk(plan) if isinstance(node, Aggregate))
    assert [key.name for key in group.keys] == ["t.y", "t.z", "t.n"]
    sums = [m.expr.sql(dialect="spark").replace("`", "") for m in group.measures]
    assert sums[1] == "SUM(CASE WHEN t.k = 'a' THEN t.x END)"


def test_a_count_of_no_rows_is_null() -> None:
    """As in Spark: a value that does not occur in a group has no count, not a count of 0."""
    plan = relation("SELECT * FROM t PIVOT (count(x) FOR k IN ('a'))").plan
    shown = [
        named.expr.sql(dialect="spark").replace("`", "")
        for node in walk(plan)
        if isinstance(node, Project)
        for named in node.columns
    ]
    assert "CASE WHEN pivot.0 > 0 THEN pivot.1 END" in shown


def test_unpivot_makes_rows_of_columns() -> None:
    query = "SELECT * FROM t UNPIVOT (v FOR name IN (x, n AS second)) AS u"
    assert outputs(query) == ["y", "k", "z", "name", "v"]
    assert outputs("SELECT u.v, u.y FROM t UNPIVOT (v FOR name IN (x, n)) AS u") == ["v", "y"]
    assert outputs("SELECT t.y, v FROM t UNPIVOT (v FOR name IN (x, n))") == ["y", "v"]
    plan = relation(query).plan
    flat = next(node for node in walk(plan) if isinstance(node, Flatten))
    assert flat.generator.sql(dialect="spark").replace("`", "") == (
        "INLINE(ARRAY(STRUCT('x' AS n, t.x AS v), STRUCT('second' AS n, t.n AS v)))"
    )
    assert any(isinstance(node, Filter) for node in walk(plan))
    kept = relation("SELECT * FROM t UNPIVOT INCLUDE NULLS (v FOR name IN (x, n))").plan
    assert not any(isinstance(node, Filter) for node in walk(kept))


def test_unpivot_of_sets_of_columns() -> None:
    query = "SELECT * FROM t UNPIVOT ((v, w) FOR name IN ((x, y) AS one, (n, y)))"
    assert outputs(query) == ["k", "z", "name", "v", "w"]
    flat = next(node for node in walk(relation(query).plan) if isinstance(node, Flatten))
    assert flat.generator.sql(dialect="spark").replace("`", "") == (
        "INLINE(ARRAY(STRUCT('one' AS n, t.x AS v, t.y AS v1), "
        "STRUCT('n_y' AS n, t.n AS v, t.y AS v1)))"
    )


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("SELECT * FROM t PIVOT (sum(x) FOR k IN (1))", "PIVOT by values of another type"),
        ("SELECT * FROM t PIVOT (sum(x) FOR n IN ('1'))", "PIVOT by values of another type"),
        ("SELECT * FROM t PIVOT (sum(x) FOR z IN (1))", "PIVOT by values of another type"),
        ("SELECT * FROM t PIVOT (sum(x) FOR k IN (NULL))", "PIVOT by values of another type"),
        ("SELECT * FROM t PIVOT (sum(x) FOR k IN ('a', 'a' AS b))", "PIVOT of equal values"),
        ("SELECT * FROM t PIVOT (first(x) FOR k IN ('a'))", "PIVOT with other calls"),
        ("SELECT * FROM t PIVOT (sum(DISTINCT x) FOR k IN ('a'))", "PIVOT with other calls"),
        ("SELECT * FROM t PIVOT (count(x), max(k) FOR n IN (1))", "PIVOT that counts beside"),
        ("SELECT * FROM t PIVOT (count(x), sum(x + 1) FOR n IN (1))", "PIVOT that counts beside"),
        ("SELECT * FROM t PIVOT (sum(x) FOR (k, y) IN (('a', 'b')))", "PIVOT by values of another"),
        ("SELECT * FROM t PIVOT (sum(x) FOR (k, y) IN ('a', 1))", "PIVOT by values of another"),
        ("SELECT * FROM t PIVOT (sum(x) FOR (k, y) IN (('a', 1), ('a', 1)))", "PIVOT of equal"),
        ("SELECT * FROM s JOIN t PIVOT (sum(x) FOR k IN ('a'))", "PIVOT after a join"),
        ("SELECT * FROM t PIVOT (sum(x) FOR k IN ('a')) AS p (a, b, c, d)", "PIVOT under other"),
        ("SELECT * FROM t UNPIVOT (v FOR name IN (x, z))", "UNPIVOT of columns of different"),
        ("SELECT * FROM t UNPIVOT (v FOR name IN (X, n))", "UNPIVOT of a column in another"),
        ("SELECT * FROM t UNPIVOT (v FOR name IN (t.x, n))", "UNPIVOT of what are not as many"),
        ("SELECT * FROM t UNPIVOT ((v, w) FOR name IN ((x, n), (x)))", "UNPIVOT of what are not"),
        ("SELECT * FROM t UNPIVOT ((v, w) FOR name IN ((x, z), (n, k)))", "UNPIVOT of columns of"),
        ("SELECT * FROM t UNPIVOT ((v, w) FOR name IN ((x, k), (n, k)))", "UNPIVOT into values of"),
    ],
)
def test_no_rule(query: str, operator: str) -> None:
    with pytest.raises(NoRule) as caught:
        relation(query)
    assert caught.value.operator.startswith(operator)
