"""Which tables a program reads near the rows that changed, and that nothing else is left out."""

from __future__ import annotations

import pytest

from hybridview.compiler.batch import Batch
from tests.support.duck import Duck, connect, schema

SCHEMAS = {
    "r": schema("r", k="int", a="int", x="decimal(10,2)"),
    "s": schema("s", k="int", b="int"),
    "t": schema("t", k="bigint", b="int"),
}
CONNECTION = connect()

JOIN = "SELECT r.a, s.b FROM r JOIN s ON r.k = s.k"


def symbols(view: str, *changed: str) -> set[str]:
    duck = Duck(SCHEMAS, CONNECTION)
    compiled = duck.create("v", view)
    program = duck.refresh(compiled, Batch(frozenset(changed)), 1)
    return {scan.symbol for scan in program.near}


@pytest.mark.parametrize(
    ("view", "changed", "near"),
    [
        (JOIN, "r", {"s@near k in r@changes.k"}),
        (JOIN, "s", {"r@near k in s@changes.k"}),
        ("SELECT r.a FROM r LEFT JOIN s ON r.k = s.k", "r", {"s@near k only r@changes.k"}),
        ("SELECT k, max(a) AS m FROM r GROUP BY k", "r", {"r@near k in r@changes.k"}),
        (
            "SELECT k, a, rank() OVER (PARTITION BY k ORDER BY a) AS n FROM r",
            "r",
            {"r@near k in r@changes.k"},
        ),
        (
            "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k)",
            "r",
            {"s@near k only r@changes.k"},
        ),
        # A type that must be cast before it is compared, or an expression: all rows are read.
        ("SELECT r.a FROM r JOIN t ON r.k = t.k", "r", set()),
        ("SELECT r.a FROM r JOIN s ON r.k + 1 = s.k", "r", set()),
        ("SELECT r.a FROM r JOIN s ON r.k < s.k", "r", set()),
    ],
)
def test_values_of_the_change_reach_the_tables(view: str, changed: str, near: set[str]) -> None:
    assert symbols(view, changed) == near


def test_a_union_of_changes_gives_the_values_of_all() -> None:
    view = (
        "SELECT q.k, max(q.a) AS m FROM "
        "(SELECT k, a FROM r UNION ALL SELECT k, b FROM s) AS q GROUP BY q.k"
    )
    found = symbols(view, "r", "s")
    assert found == {
        "r@near k in r@changes.k, s@changes.k",
        "s@near k in r@changes.k, s@changes.k",
    }


def test_a_partner_is_never_left_out_of_an_outer_join() -> None:
    """A condition on the right side must not make a row look as if it had no partner."""
    view = (
        "SELECT q.a, s2.b FROM (SELECT r.a, s.b AS n FROM r LEFT JOIN s ON r.k = s.k) AS q "
        "JOIN s AS s2 ON q.n <=> s2.k"
    )
    duck = Duck(SCHEMAS, CONNECTION)
    duck.load("r", [(1, 10, 1), (2, 20, 1)])
    duck.load("s", [(1, 7), (7, 70), (None, 5)])
    duck.create("v", view)
    duck.refresh_all(duck.change({"s": [((None, 6), 1)]}), 1)
    assert duck.stored("v") == duck.fresh("v")
