"""LEFT JOIN LATERAL of a function gets a condition: without one Spark 4.2 loses rows."""

from __future__ import annotations

import pytest

from hybridview.sql.canonical import canonical
from hybridview.sql.lateral_on import with_lateral_conditions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("o LEFT JOIN LATERAL inline(x) AS e(y)", "o LEFT JOIN LATERAL inline(x) AS e(y) ON TRUE"),
        ("o LEFT JOIN LATERAL explode(xs) row", "o LEFT JOIN LATERAL explode(xs) row ON TRUE"),
        ("o LEFT JOIN LATERAL inline(d) date(x)", "o LEFT JOIN LATERAL inline(d) date(x) ON TRUE"),
        ("o LEFT JOIN LATERAL explode(xs)", "o LEFT JOIN LATERAL explode(xs) ON TRUE"),
        (
            "o left outer join lateral posexplode(split(w, '(')) e -- done\nWHERE x > 1",
            "o left outer join lateral posexplode(split(w, '(')) e ON TRUE -- done\nWHERE x > 1",
        ),
        (
            "o LEFT JOIN LATERAL explode(xs) e LEFT JOIN LATERAL explode(x.ys) `f`(y) ORDER BY 1",
            "o LEFT JOIN LATERAL explode(xs) e ON TRUE "
            "LEFT JOIN LATERAL explode(x.ys) `f`(y) ON TRUE ORDER BY 1",
        ),
    ],
)  # fmt: skip
def test_a_condition_is_added(before: str, after: str) -> None:
    head = "SELECT * FROM "
    assert with_lateral_conditions(head + before) == head + after
    assert with_lateral_conditions(head + after) == head + after


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM o LEFT JOIN LATERAL explode(xs) AS e(x) ON x > 1",
        "SELECT * FROM o JOIN LATERAL explode(xs) AS e(x)",
        "SELECT * FROM o, LATERAL explode(xs) AS e(x)",
        "SELECT * FROM o LEFT JOIN LATERAL (SELECT * FROM s WHERE s.k = o.k) l",
        "SELECT left(a, 2) FROM o LEFT JOIN p ON o.k = p.k",
        "SELECT 'o LEFT JOIN LATERAL explode(xs)' AS text FROM o",
    ],
)
def test_all_else_stays_as_it_is(query: str) -> None:
    assert with_lateral_conditions(query) == query


def test_a_views_text_is_closed_by_it() -> None:
    query = "SELECT e.x FROM o LEFT JOIN LATERAL explode(o.xs) AS e(x)"
    assert canonical(query, 1, {}) == f"{query} ON TRUE"
