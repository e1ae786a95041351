"""Values of RANGE frames: ties are closed by the value; columns keep the names they had."""

from __future__ import annotations

import pytest

from hybridview.sql.closed_windows import with_closed_frames
from hybridview.sql.kept_names import with_names


def closed(call: str) -> str:
    text = with_closed_frames(f"SELECT {call} AS v FROM r")
    return text.removeprefix("SELECT ").removesuffix(" AS v FROM r")


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (
            "last_value(x) OVER (PARTITION BY k ORDER BY a, b DESC)",
            "max(x) OVER (PARTITION BY k, a, b)",
        ),
        (
            "first(x) OVER (ORDER BY a RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            "min(x) OVER (PARTITION BY a)",
        ),
        (
            "last(x, true) OVER (ORDER BY a DESC)",
            "(min(CASE WHEN (x) IS NOT NULL THEN named_struct('n0', (a) IS NOT NULL, 'k0', a, "
            "'n', (x) IS NOT NULL, 'v', x) END) OVER (ORDER BY a DESC)).v",
        ),
        (
            "last_value(x) OVER (ORDER BY a NULLS LAST RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING)",
            "(max(named_struct('n0', (a) IS NULL, 'k0', a, 'n', (x) IS NOT NULL, 'v', x)) "
            "OVER (ORDER BY a NULLS LAST RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING)).v",
        ),
        (
            "nth_value(x, 2) IGNORE NULLS OVER (ORDER BY a)",
            "CASE WHEN count(x) OVER (ORDER BY a) >= 2 THEN nth_value(x, 2) IGNORE NULLS OVER "
            "(ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) END",
        ),
        ("any_value(x) OVER (ORDER BY a)", "first_value(x) OVER (ORDER BY a)"),
    ],
)
def test_the_value_breaks_ties(call: str, found: str) -> None:
    assert closed(call) == found


@pytest.mark.parametrize(
    "call",
    [
        "last_value(x) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "last_value(x) OVER (PARTITION BY k)",
        "first_value(x) OVER (ORDER BY a)",
        "last_value(x) IGNORE NULLS OVER (ORDER BY a, b DESC)",
        "nth_value(x, n) OVER (ORDER BY a)",
        "last_value((SELECT max(y) FROM s)) OVER (ORDER BY a)",
        "last_value(x)",
        "f.last_value(x) OVER (ORDER BY a)",
        "last_value",
    ],
)
def test_what_has_no_ties_or_no_rule_stays(call: str) -> None:
    assert closed(call) == call


def test_columns_keep_their_names() -> None:
    found = ["k", "max(x) OVER ()", "n"]
    wanted = ["k", "last(x)", "n"]
    assert with_names("SELECT k, max(f(x, 1)), n FROM r", found, wanted) == (
        "SELECT k, max(f(x, 1)) AS `last(x)`, n FROM r"
    )
    distinct = "SELECT DISTINCT k, max(x) -- last\n, a IS DISTINCT FROM b FROM (SELECT 1, 2) AS r"
    assert with_names(distinct, found, wanted) == (
        "SELECT DISTINCT k, max(x) AS `last(x)` -- last\n"
        ", a IS DISTINCT FROM b FROM (SELECT 1, 2) AS r"
    )
    union = "WITH c AS (SELECT 1, 2 FROM r) SELECT k, max(x), n FROM r UNION ALL SELECT 1, 2, 3"
    assert with_names(union, found, wanted).startswith(
        "WITH c AS (SELECT 1, 2 FROM r) SELECT k, max(x) AS `last(x)`, n FROM r UNION"
    )


@pytest.mark.parametrize(
    "query", ["SELECT *, 1 FROM r", "SELECT k, x AS y, n FROM r", "VALUES (1)"]
)
def test_names_that_have_no_place_stay_away(query: str) -> None:
    assert with_names(query, ["k", "y", "n"], ["k", "z", "n"]) == query
