"""Which columns of its sources a query may use: never too few."""

from __future__ import annotations

import pytest

from hybridview.schema import Column
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.uses import used_columns

SOURCES = {
    "r": tuple(Column(name, "int") for name in ("k", "a", "b")),
    "s": tuple(Column(name, "int") for name in ("k", "c")),
}


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("SELECT a FROM r", {"r": "a", "s": ""}),
        ("SELECT count(*) FROM r", {"r": "", "s": ""}),
        ("SELECT * FROM r", {"r": "kab", "s": "kc"}),
        ("SELECT a FROM r WHERE EXISTS (SELECT * FROM s WHERE s.k = r.k)", {"r": "ka", "s": "k"}),
        ("SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE c > b)", {"r": "ab", "s": "c"}),
        # Rows are told apart, or handed on: all columns matter.
        ("SELECT a FROM r WHERE EXISTS (SELECT DISTINCT * FROM s)", {"r": "kab", "s": "kc"}),
        ("SELECT a FROM r WHERE k IN (SELECT * FROM s)", {"r": "kab", "s": "kc"}),
        (
            "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM (SELECT * FROM s) AS t)",
            {"r": "kab", "s": "kc"},
        ),
        (
            "SELECT a FROM r WHERE EXISTS (SELECT * FROM s UNION SELECT * FROM s)",
            {"r": "kab", "s": "kc"},
        ),
    ],
)
def test_used_columns(query: str, used: dict[str, str]) -> None:
    found = used_columns(query, parse_query(Definition("v", query)), SOURCES)
    assert {s: "".join(c.name for c in columns) for s, columns in found.items()} == used
