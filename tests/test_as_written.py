"""What a query's tree is written as, where sqlglot would give it another meaning. No JVM."""

from __future__ import annotations

import pytest
from sqlglot import exp

from hybridview.sql.functions import unknown_part
from hybridview.sql.parse import parse_text


def tree(expression: str) -> exp.Expr:
    (parsed,) = parse_text(f"SELECT {expression} FROM r")
    assert isinstance(parsed, exp.Select)
    return parsed.expressions[0]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        # A pattern that sqlglot takes for the default, or for another one, stays.
        ("to_date(s, 'yyyy-MM-dd')", "TO_DATE(s, ('yyyy-MM-dd'))"),
        ("to_date(s)", "TO_DATE(s)"),
        ("to_date(s, f)", "TO_DATE(s, f)"),
        ("date_format(d, 'yyyy')", "DATE_FORMAT(d, 'yyyy')"),
        ("date_format(d, 'y')", "DATE_FORMAT(d, ('y'))"),
        ("date_format(d, \"'Year' yyyy\")", "DATE_FORMAT(d, ('\\'Year\\' yyyy'))"),
        (
            "unix_timestamp(date_format(t, 'y'), 'yyyy-MM-dd HH:mm:ss')",
            "UNIX_TIMESTAMP(DATE_FORMAT(t, ('y')), ('yyyy-MM-dd HH:mm:ss'))",
        ),
        ("concat(to_date(s, 'yyyy-MM-dd'), 'y')", "CONCAT(TO_DATE(s, ('yyyy-MM-dd')), 'y')"),
        # An interval of several units is one.
        ("d - INTERVAL 1 YEAR 6 MONTHS", "d - (INTERVAL '1' YEAR + INTERVAL '6' MONTHS)"),
        ("-INTERVAL 1 DAY 2 HOURS", "-(INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        (
            "t - INTERVAL '1' DAY '2' HOUR '3' MINUTE",
            "t - (INTERVAL '1' DAY + INTERVAL '2' HOUR + INTERVAL '3' MINUTE)",
        ),
        (
            "d - INTERVAL 1 YEAR + INTERVAL 6 MONTHS",
            "d - INTERVAL '1' YEAR + INTERVAL '6' MONTHS",
        ),
        ("window(ts, '10 minutes')", "WINDOW(ts, '10 minutes')"),
    ],
)
def test_it_is_written_as_it_was(text: str, written: str) -> None:
    found = tree(text).sql(dialect="spark")
    assert found == written
    assert tree(found).sql(dialect="spark") == written, "and again"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("i << 1", True),
        ("i + 1 << j", True),
        ("i << 1 & j", True),
        ("i | (1 << j)", True),
        ("(i | 1) << j", True),
        ("i | 1 << j", False),
        ("i & 1 << 2", False),
        ("i ^ j >> 2", False),
        ("i << 1 || s", False),
        ("s || i << 1", True),
    ],
)
def test_shifts_bind_closer_than_other_operators_on_bits(text: str, known: bool) -> None:
    assert (unknown_part(tree(text)) is None) == known
