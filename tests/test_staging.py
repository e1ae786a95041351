"""Parts of a large change are kept; a chain of parts no longer doubles at every level."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from hybridview.algebra.bounded import Bounds
from hybridview.algebra.expressions import column
from hybridview.algebra.plan import (
    Changes,
    Consolidate,
    Expand,
    Join,
    Outer,
    Scan,
    Semi,
    Union,
)
from hybridview.compiler.render import text
from hybridview.compiler.staging import LARGE, KeptPart, readings, staged


def query(sql: str) -> exp.Query:
    parsed = sqlglot.parse_one(sql, dialect="spark")
    assert isinstance(parsed, exp.Query)
    return parsed


def doubling(levels: int, name: str = "few_common") -> exp.Query:
    """Return a query over `levels` named parts, each of which reads the one before twice."""
    parts = [f"{name}0 AS (SELECT x FROM `t@new`)"]
    parts += [
        f"{name}{n} AS (SELECT a.x FROM {name}{n - 1} AS a JOIN {name}{n - 1} AS b ON a.x = b.x)"
        for n in range(1, levels + 1)
    ]
    return query(f"WITH {', '.join(parts)} SELECT x FROM {name}{levels}")


def written_out(kept: tuple[KeptPart, ...], rest: exp.Query) -> int:
    """Return how many tables Spark sees in the largest statement, with names written out."""

    def size(of: exp.Query) -> int:
        sizes: dict[str, int] = {}
        clause = of.args.get("with_")
        for part in clause.expressions if clause else ():
            sizes[part.alias] = sum(sizes.get(t.name, 1) for t in part.this.find_all(exp.Table))
        body = of.copy()
        body.set("with_", None)
        return sum(sizes.get(t.name, 1) for t in body.find_all(exp.Table))

    return max(size(q) for q in (*(part.query for part in kept), rest))


def test_a_small_query_stays_as_it_is() -> None:
    kept, rest = staged("v", doubling(3))
    assert kept == ()
    assert text(rest) == text(doubling(3))


def test_a_chain_of_parts_does_not_double() -> None:
    chain = doubling(12)
    assert written_out((), chain) == 2**12
    kept, rest = staged("v", chain)
    assert kept
    assert written_out(kept, rest) <= LARGE


def test_kept_parts_come_after_what_they_read() -> None:
    kept, rest = staged("v", doubling(12))
    known: set[str] = set()
    for part in kept:
        assert {t.name for t in part.query.find_all(exp.Table) if "v@" in t.name} <= known
        known.add(part.symbol)
    assert {t.name for t in rest.find_all(exp.Table) if "v@" in t.name} <= known


def test_parts_inside_parts_are_found() -> None:
    tables = " UNION ALL ".join(f"SELECT x FROM `t{n}@new`" for n in range(LARGE))
    nested = query(
        f"WITH touched AS (WITH few_1 AS ({tables}) SELECT a.x FROM few_1 AS a JOIN few_1"
        " AS b ON a.x = b.x) SELECT k.x FROM touched AS k"
    )
    kept, rest = staged("v", nested)
    assert [part.symbol for part in kept] == ["v@few_1"]
    assert text(rest, pretty=False) == (
        "WITH touched AS (SELECT a.x FROM `v@few_1` AS a JOIN `v@few_1` AS b ON a.x = b.x) "
        "SELECT k.x FROM touched AS k"
    )


def test_what_no_change_bounds_is_kept_only_if_spark_could_not_plan_it() -> None:
    kept, _ = staged("v", doubling(6, "common"))
    assert kept == ()
    kept, rest = staged("v", doubling(12, "common"))
    assert kept
    assert written_out(kept, rest) <= LARGE


def scan(table: str, *columns: str) -> Scan:
    return Scan(table, table, columns)


def test_rows_found_by_keys_of_a_change_are_bounded_by_it() -> None:
    change, table = Changes("t", "t", ("x",)), scan("u", "y")
    same = exp.EQ(this=column("x"), expression=column("y"))
    bounded = Bounds().holds
    assert bounded(Join(change, table, same))
    assert bounded(Semi(table, Expand(Consolidate(change)), same))
    assert bounded(Outer(change, table, same, keeps_left=True, keeps_right=False))
    assert bounded(Union((change, change), ("x",)))
    assert not bounded(table)
    assert not bounded(Join(change, table, None)), "all pairs"
    assert not bounded(Semi(table, Expand(Consolidate(change)), same, anti=True))
    assert not bounded(Union((change, scan("t", "x")), ("x",)))


def test_what_is_read_once_is_not_kept() -> None:
    tables = " UNION ALL ".join(f"SELECT x FROM `t{n}@new`" for n in range(LARGE + 1))
    once = query(f"WITH common1 AS ({tables}) SELECT x FROM common1")
    kept, rest = staged("v", once)
    assert kept == ()
    assert text(rest) == text(query(text(rest)))
    assert written_out(kept, rest) == LARGE + 1


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("WITH t AS (SELECT x FROM t) SELECT a.x FROM t AS a JOIN t AS b USING (x)", {"t": 2}),
        ("WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT x FROM n, u) SELECT * FROM n", None),
        (
            "WITH a AS (SELECT x FROM t), b AS (SELECT x FROM a, a AS c) SELECT * FROM b, t",
            {"t": 3},
        ),
    ],
)
def test_readings_of_an_authors_text(sql: str, found: dict[str, int] | None) -> None:
    """A part may hide a table of its name, or read itself."""
    counted = readings(query(sql))
    assert counted == (found or {"n": 1, "u": 1})
