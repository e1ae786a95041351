"""LATERAL VIEW, LATERAL and explode -> plans; the rule matters; what has no rule."""

from __future__ import annotations

import pytest

from hybridview.algebra.plan import Filter, Flatten, Plan, output
from hybridview.algebra.show import show
from hybridview.algebra.walk import walk
from hybridview.compiler import derive as derive_module
from hybridview.compiler.kinds import Recorded
from hybridview.compiler.layout import lay_out
from hybridview.compiler.matching import cannot_match
from hybridview.compiler.normalise import normalise
from hybridview.sql.resolve import rename
from hybridview.sql.scope import NoRule
from tests.test_rules import BOTH_CHANGE, Case, is_right
from tests.test_values import relation


def outputs(query: str) -> list[str]:
    return [column.name for column in relation(query).columns]


def flatten_of(query: str) -> Flatten:
    return next(node for node in walk(relation(query).plan) if isinstance(node, Flatten))


# The rule

KEPT = Case(
    "SELECT k, w FROM r LATERAL VIEW OUTER explode(filter(array(a, k), x -> x > 15)) e AS w",
    BOTH_CHANGE,
)


def drop_rows(node: Flatten, change: Plan) -> Plan:
    """Rows that make none are dropped, although they must be kept."""
    return Flatten(change, node.generator, node.names, False)


def old_rows(node: Flatten, change: Plan) -> Plan:
    """The whole input instead of its change."""
    return node


@pytest.mark.parametrize("wrong", [drop_rows, old_rows])
def test_a_wrong_rule_gives_wrong_rows(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_right(KEPT)
    monkeypatch.setattr(derive_module, "flatten", wrong)
    assert not is_right(KEPT)


def test_rows_with_maps_are_not_compared() -> None:
    query = "SELECT k FROM n LATERAL VIEW explode(array(map('a', k))) e AS y WHERE y['a'] > 1"
    plan = normalise(rename(relation(query), ("k",)))
    layout = lay_out(plan, {}, None, False)
    assert "MAP or VARIANT" in (cannot_match(plan, layout, Recorded()) or "")


# Names and columns


def test_columns_come_after_those_before_them() -> None:
    query = "SELECT * FROM r LATERAL VIEW explode(array(a)) e AS y LATERAL VIEW stack(1, y, 2) f"
    assert outputs(query) == ["k", "a", "x", "y", "col0", "col1"]
    assert outputs("SELECT e.* FROM r LATERAL VIEW posexplode(array(a)) e") == ["pos", "col"]
    assert outputs("SELECT e.* FROM n LATERAL VIEW inline(xs) e AS y") == ["y"]
    assert outputs("SELECT * FROM n LATERAL VIEW explode(m) e AS a, b")[-2:] == ["a", "b"]
    assert outputs("SELECT e.* FROM n LATERAL VIEW explode(xs) e") == ["col"]


def test_a_call_in_the_list() -> None:
    assert outputs("SELECT explode(xs) AS y, k FROM n") == ["y", "k"]
    assert outputs("SELECT k, explode(xs) FROM n") == ["k", "col"]
    assert outputs("SELECT posexplode(xs) AS (i, y), k FROM n") == ["i", "y", "k"]
    assert outputs("SELECT explode(m) AS (key, v) FROM n") == ["key", "v"]
    assert flatten_of("SELECT explode_outer(xs) AS y FROM n").outer
    assert not flatten_of("SELECT explode(xs) AS y FROM n").outer


def test_types_are_known_as_far_as_those_of_the_argument() -> None:
    assert outputs("SELECT explode(m) FROM n") == ["key", "value"]
    assert outputs("SELECT posexplode(m) FROM n") == ["pos", "key", "value"]
    assert outputs("SELECT inline(xs) FROM n") == ["x"]
    assert outputs("SELECT item.x FROM n LATERAL VIEW explode(xs) e AS item") == ["x"]
    assert outputs("SELECT q.e.x FROM (SELECT explode(xs) AS e FROM n) AS q") == ["x"]


def test_lateral_in_from_is_the_same() -> None:
    view = flatten_of("SELECT y FROM n LATERAL VIEW explode(xs) e AS y")
    assert flatten_of("SELECT y FROM n, LATERAL explode(n.xs) AS e(y)") == view
    assert flatten_of("SELECT y FROM n JOIN LATERAL explode(xs) AS e(y)") == view
    left = flatten_of("SELECT y FROM n LEFT JOIN LATERAL explode(xs) AS e(y)")
    assert left.outer
    on = relation("SELECT y FROM n JOIN LATERAL explode(m) AS e(x, y) ON y > n.k").plan
    assert any(isinstance(node, Filter) for node in walk(on))


def test_conditions_on_a_row_are_pushed_below() -> None:
    query = (
        "SELECT y FROM r LATERAL VIEW OUTER explode(array(a)) e AS y WHERE k > 1 AND y IS NOT NULL"
    )
    found = normalise(rename(relation(query), ("y",)))
    assert show(found).splitlines() == [
        "Project e.y as y",
        "  Filter NOT e.y IS NULL",
        "    Flatten EXPLODE(ARRAY(r.a)) as e.y, rows that make none kept",
        "      Filter r.k > 1",
        "        Scan r (k, a)",
    ]
    assert output(found) == ("y",)


# What has no rule


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("SELECT explode(array(a)) AS x, explode(array(k)) AS y FROM r", "generator beside"),
        ("SELECT explode(array(max(a))) AS x FROM r", "generator beside"),
        ("SELECT explode(array(a)) AS x, rank() OVER (PARTITION BY k ORDER BY a) AS y FROM r", ""),
        ("SELECT explode(array(a)) + 1 AS x FROM r", "function explode"),
        ("SELECT inline(array(k)) FROM n", "columns of a generator that have no names"),
        ("SELECT explode(from_json('[1]', 'array<int>')) FROM n", "columns of a generator"),
        ("SELECT e.x FROM n LATERAL VIEW explode(m) e AS e, f", "reference e.x to a field"),
        ("SELECT k FROM n LATERAL VIEW explode(xs) e AS a, b, c", "columns of a generator"),
        ("SELECT k FROM n LATERAL VIEW explode(xs) e AS a, b", "columns of a generator that do"),
        ("SELECT k FROM n LATERAL VIEW stack(k, 1, 2) e", "stack of a computed number"),
        ("SELECT k FROM n LATERAL VIEW json_tuple(k, 'a') e AS y", "function json_tuple"),
        ("SELECT n.k FROM n LEFT JOIN LATERAL explode(xs) AS e(y) ON y.x > 1", "this join"),
    ],
)
def test_no_rule(query: str, operator: str) -> None:
    with pytest.raises(NoRule) as caught:
        relation(query)
    assert caught.value.operator.startswith(operator)
