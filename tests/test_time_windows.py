"""window(time, duration) -> the start of a row's window; what has no rule."""

from __future__ import annotations

import pytest

from hybridview.algebra.plan import Aggregate, Flatten, Project
from hybridview.algebra.walk import walk
from hybridview.schema import Column, TableSchema
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import Relation, resolve
from hybridview.sql.scope import NoRule

KINDS = {"k": "int", "at": "timestamp", "s": "string", "x": "int"}
SCHEMAS = {
    "t": TableSchema("t", tuple(Column(n, kind) for n, kind in KINDS.items())),
    "odd": TableSchema("odd", (Column("window", "int"), Column("at", "timestamp"))),
}


def relation(query: str) -> Relation:
    return resolve(parse_query(parse_definition(query)), SCHEMAS)


def test_rows_are_grouped_by_the_start() -> None:
    found = relation("SELECT window, window.end FROM t GROUP BY window(at, '90 seconds')")
    assert [c.name for c in found.columns] == ["window", "end"]
    group = next(node for node in walk(found.plan) if isinstance(node, Aggregate))
    assert [key.name for key in group.keys] == ["window.start"]
    assert isinstance(group.input, Project)
    assert group.input.columns[-1].expr.sql(dialect="spark").replace("`", "") == (
        "TIMESTAMP_MICROS(UNIX_MICROS(t.at) - PMOD(UNIX_MICROS(t.at), 90000000))"
    )


def test_overlapping_windows_repeat_a_row() -> None:
    found = relation("SELECT count(*) AS n FROM t GROUP BY window(at, '1 hour', '20 minutes')")
    flat = next(node for node in walk(found.plan) if isinstance(node, Flatten))
    assert len(flat.generator.this.expressions) == 3


def test_a_window_is_a_struct_outside() -> None:
    inner = "SELECT window(at, 'interval 1 day 2 hours') AS w, x FROM t"
    assert relation(f"SELECT w.start, w.end FROM ({inner}) AS q").columns[0].name == "start"


def test_a_word_that_starts_a_clause() -> None:
    named = "SELECT sum(x) OVER w AS s FROM t WINDOW w AS (PARTITION BY k)"
    assert parse_query(parse_definition(named)).args["windows"]
    assert relation("SELECT window FROM odd GROUP BY window").columns[0].name == "window"


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("SELECT count(*) FROM t GROUP BY session_window(at, '1 hour')", "session_window, which"),
        ("SELECT session_window.start FROM t GROUP BY session_window(at, '1 hour')", "session_win"),
        ("SELECT count(*) FROM t GROUP BY window(s, '1 hour')", "no column of type TIMESTAMP"),
        ("SELECT count(*) FROM t GROUP BY window(at, '1 month')", "no text such as '10 minutes'"),
        ("SELECT count(*) FROM t GROUP BY window(at, s)", "no text such as '10 minutes'"),
        ("SELECT count(*) FROM t GROUP BY window(at, '1 hour', '2 hours')", "do not fit"),
        ("SELECT count(*) FROM t GROUP BY window(at, '1 hour', '1 second')", "more than 100"),
        ("SELECT count(*) FROM t GROUP BY ROLLUP (window(at, '1 hour'))", "GROUPING SETS"),
        ("SELECT window.middle FROM t GROUP BY window(at, '1 hour')", "field middle"),
        ("SELECT *, window(at, '1 hour') FROM t", r"\* beside window"),
        (
            "SELECT window(at, '2 hours') FROM t GROUP BY window(at, '1 hour')",
            "several different calls",
        ),
        ("SELECT k FROM t WHERE window(at, '1 hour').start > at", "function window"),
    ],
)
def test_what_has_no_rule(query: str, operator: str) -> None:
    with pytest.raises(NoRule, match=operator):
        relation(query)
