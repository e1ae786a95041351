"""What makes two rows the same: -0.0, NaN, NULL keys, collations, maps and variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybridview.engine import inline
from hybridview.engine.netting import netted_sql
from hybridview.errors import UnstorableTypeError
from hybridview.schema import WEIGHT
from tests.spark.warehouse import FEED, Warehouse

pytestmark = pytest.mark.spark

COLUMNS = (
    "id INT, g INT, k STRING, x DOUBLE, f FLOAT, s STRING COLLATE UTF8_LCASE, "
    "st STRUCT<a: DOUBLE, b: STRING>, xs ARRAY<FLOAT>, m MAP<STRING, DOUBLE>, v VARIANT, "
    "vs ARRAY<VARIANT>, ms STRUCT<m: MAP<INT, STRING>>"
)


def row(
    id: int,
    g: str = "1",
    k: str = "'k'",
    x: str = "0.0",
    s: str = "a",
    m: str = "map('p', 1.0D, 'q', 2.0D)",
    v: str = "parse_json('1')",
) -> str:
    """Return a SELECT of one row; its lists and structs hold the same odd values."""
    number = f"double('{x}')"
    return (
        f"SELECT {id}, {g}, {k}, {number}, float({number}), '{s}', "
        f"named_struct('a', {number}, 'b', '{s}'), array(float({number}), 1F), {m}, {v}, "
        f"array({v}), named_struct('m', map(1, '{s}'))"
    )


LOADED = (
    row(1, x="-0.0", s="A"),
    row(2, g="5", x="0.0", s="a"),
    row(3, g="NULL", k="NULL", x="NaN", s="B", m="map('p', -0.0D)", v="parse_json('1.0')"),
    row(4, g="2", k="NULL", x="-0.0", s="B", m="NULL", v="NULL"),
    row(5, g="NULL", x="1.5", s="c", m="map('q', 2.0D, 'p', 1.0D)", v="CAST(1.0D AS VARIANT)"),
    row(6, g="3", x="-0.0", s="Only", m="map()", v="parse_json('\"1\"')"),
    row(6, g="3", x="-0.0", s="Only", m="map()", v="parse_json('\"1\"')"),
    row(8, g="4", x="2.5", s="d"),
)

VIEWS = {
    "copies": "SELECT id, g, k, x, f, CAST(s AS STRING) AS s, st, xs, m, v, vs, ms FROM odd",
    "arms": "SELECT x, m FROM odd UNION ALL SELECT CAST(f AS DOUBLE), m FROM odd WHERE g = 1",
    "pairs": "SELECT a.id AS a, b.id AS b, a.x AS ax, b.x AS bx FROM odd a JOIN odd b "
    "ON a.x = b.x AND a.g <=> b.g AND a.k <=> b.k",
    "below": "SELECT o.id, o.m, t.x, t.n, t.lo FROM odd o "
    "JOIN (SELECT x, count(*) AS n, min(f) AS lo FROM odd GROUP BY x) t ON o.x = t.x",
    "composite": "SELECT g, k, count(*) AS n, count(m) AS m, count(v) AS v FROM odd GROUP BY g, k",
    "different": "SELECT DISTINCT x, k FROM odd",
    "extremes": "SELECT g, min(x) AS lo, max(f) AS hi, count(DISTINCT x) AS n, "
    "CAST(max(s) AS STRING) AS s, count(DISTINCT s) AS names FROM odd GROUP BY g",
    "by_map": "SELECT m, count(*) AS n, max(id) AS id FROM odd GROUP BY m",
    "spelled": "SELECT CAST(s AS STRING) AS s, count(*) AS n FROM odd GROUP BY s",
    "of_two": "SELECT min(x) AS lo, count(DISTINCT x) AS n, count(DISTINCT s) AS names, "
    "CAST(max(s) AS STRING) AS last FROM odd WHERE g = 2",
}

LEFT_OPEN = {"below": "lo", "spelled": "s"}
"""Columns in which more than one answer is right: a group has both zeros, or both spellings."""

TAKEN_FOR_EQUAL = (
    "UPDATE {odd} SET x = 0.0D WHERE id = 4",
    "UPDATE {odd} SET s = 'ONLY' WHERE id = 6",
    "UPDATE {odd} SET m = map('q', 2.0D, 'p', 1.0D), st.a = 0.0D WHERE id = 1",
    "UPDATE {odd} SET m = map('p', 0.0D) WHERE id = 3",
    "UPDATE {odd} SET v = parse_json('1') WHERE id = 5",
)
"""Each turns a value into one that Spark takes for the same, or cannot tell from it."""

WRITTEN_FIRST = {
    "copies": ("patch", 6 + 6),
    "arms": ("patch", 4 + 4),  # row 4 once, row 1 in both arms, row 3 once
    "pairs": ("patch", 1 + 1),
    "below": ("patch", 2 + 2),
    "composite": ("add", 0),
    "different": ("add", 0),
    "extremes": ("replace", 2),  # the sign of group 2, the spelling of group 3
    "by_map": ("replace", 0),
    "spelled": ("replace", 1),
    "of_two": ("replace", 1),
}

KEYS_AND_NOTHING = (
    f"INSERT INTO {{odd}} {row(9, x='-0.0', s='Z')}",
    "DELETE FROM {odd} WHERE id = 9",
    "UPDATE {odd} SET k = k WHERE id = 8",
    f"INSERT INTO {{odd}} {row(7, g='NULL', k='NULL', x='NaN', s='b')}",
    "UPDATE {odd} SET g = NULL WHERE id = 2",
    "UPDATE {odd} SET vs = array(parse_json('1.0')), ms.m = map(1, 'x'), xs = array(0F, 1F) "
    "WHERE id = 4",
)
"""A row that came and went, one that stayed as it was; keys that become NULL and NaN."""

WRITTEN_SECOND = {
    "copies": ("patch", 3 + 2),
    "arms": ("patch", 1),
    "pairs": ("patch", 3),
    "composite": ("add", 2 + 1),
}


class OddWarehouse(Warehouse):
    """A store whose base table has collations, and an exact comparison."""

    def __init__(self, root: Path, spark: Any) -> None:
        super().__init__(root, spark)
        self.writer = spark.newSession()
        # Delta Lake refuses to make a table with collations, but reads those that others made.
        self.writer.conf.set("spark.databricks.delta.schema.typeCheck.enabled", "false")

    def base(self, *statements: str) -> None:
        for statement in statements:
            self.writer.sql(statement.replace("{odd}", self.named("odd")))

    def assert_identical(self) -> None:
        """Compare all views with their queries by Python's text of values: signs and bytes."""
        session = self.spark.newSession()
        session.sql(f"SELECT * FROM {self.named('odd')}").createOrReplaceTempView("odd")
        for name, query in VIEWS.items():
            wanted, stored = session.sql(query), self.store.read(name)
            assert _texts(name, stored) == _texts(name, wanted), name


def _texts(view: str, frame: Any) -> list[str]:
    rows = [row.asDict() for row in frame.collect()]
    for found in rows:
        value = found.get(LEFT_OPEN.get(view, ""))
        if value is not None:
            found[LEFT_OPEN[view]] = value.lower() if isinstance(value, str) else value + 0.0
    return sorted(repr(found) for found in rows)


@pytest.fixture(scope="module")
def odd(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> OddWarehouse:
    """A store with views of all shapes over a table of odd values, refreshed twice."""
    shop = OddWarehouse(tmp_path_factory.mktemp("odd") / "store", spark)
    shop.base(
        f"CREATE TABLE {{odd}} ({COLUMNS}) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        f"INSERT INTO {{odd}} {' UNION ALL '.join(LOADED)}",
    )
    shop.views(VIEWS)
    assert set(shop.executed().values()) == {"initial"}
    return shop


def changed(shop: OddWarehouse) -> dict[str, tuple[str, int]]:
    """Refresh incrementally; return each view's method and how many rows it wrote."""
    states = shop.refresh("incremental")
    assert {s.executed for s in states.values()} == {"incremental"}, states
    return {name: (s.method, sum(s.rows.values())) for name, s in states.items()}


def test_what_spark_takes_for_equal(odd: OddWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small changes are netted as text; the second time all of it is done in SQL."""
    odd.base(*TAKEN_FOR_EQUAL)
    assert changed(odd) == WRITTEN_FIRST
    odd.assert_identical()
    assert ("ONLY", 2) in odd.rows("spelled"), "no row says Only any more"

    monkeypatch.setattr(inline, "MAX_ROWS", 0)
    odd.base(*KEYS_AND_NOTHING)
    found = changed(odd)
    assert {name: found[name] for name in WRITTEN_SECOND} == WRITTEN_SECOND
    odd.assert_identical()


def test_verify_tells_them_apart(odd: OddWarehouse) -> None:
    """It sees what Spark takes for equal, and does not cry where more than one answer is right."""
    odd.assert_verified()
    table = f"delta.`{odd.log('copies').path}`"
    odd.spark.sql(
        f"UPDATE {table} SET x = CASE WHEN id = 4 THEN -0.0D ELSE x END, "
        "s = CASE WHEN id = 1 THEN 'a' ELSE s END, "
        "m = CASE WHEN id = 8 THEN map('p', 1.0D, 'q', 2.5D) ELSE m END, "
        "v = CASE WHEN id = 5 THEN parse_json('1.0') ELSE v END, "
        "st = CASE WHEN id = 2 THEN named_struct('a', -0.0D, 'b', 'a') ELSE st END"
    )
    verdict = odd.store.verify("copies")
    assert (verdict.missing, verdict.extra) == (5, 5), verdict
    table = f"delta.`{odd.log('spelled').path}`"
    odd.spark.sql(f"UPDATE {table} SET s = CASE s WHEN 'a' THEN 'A' WHEN 'A' THEN 'a' ELSE s END")
    assert odd.store.verify("spelled").ok, "both are spellings of the group"
    odd.spark.sql(f"UPDATE {table} SET n = 5 WHERE lower(s) = 'a'")
    assert not odd.store.verify("spelled").ok


def test_collated_columns_are_refused(odd: OddWarehouse) -> None:
    with pytest.raises(UnstorableTypeError, match="string collate UTF8_LCASE") as refused:
        odd.store.create_view("spelled_as_is", "SELECT s FROM odd")
    assert refused.value.hint == "Cast it: CAST(... AS STRING) AS `s`"


def test_what_has_no_identity_says_so(odd: OddWarehouse) -> None:
    """A group below another operator has a spelling that may differ from the stored one."""
    odd.store.create_view(
        "names_below",
        "SELECT o.id FROM odd o JOIN (SELECT s, count(*) AS n FROM odd GROUP BY s) t "
        "ON o.s = t.s AND t.n > 1",
    )
    explained = odd.store.explain("names_below")
    assert not explained.incremental
    assert "compared under a collation" in str(explained)
    odd.store.drop_view("names_below")


def test_a_change_netted_in_sql(spark: Any) -> None:
    """What is the same cancels, what Spark only takes for the same does not; copies stay copies."""
    columns = [("x", "double"), ("m", "map<string,int>"), ("v", "variant"), ("t", "string")]
    rows = (
        "(-0.0D, map('a', 1, 'b', 2), parse_json('1'), NULL, 1)",
        "(0.0D, map('a', 1, 'b', 2), parse_json('1'), NULL, -1)",
        "(double('NaN'), map('a', 1, 'b', 2), parse_json('1.0'), 't', 1)",
        "(double('NaN'), map('a', 1, 'b', 2), parse_json('1.0'), 't', -1)",
        "(1D, map('a', 1, 'b', 2), parse_json('1.0'), 't', 1)",
        "(1D, map('b', 2, 'a', 1), parse_json('1.0'), 't', -1)",
        "(2D, NULL, NULL, 't', 1)",
        "(2D, NULL, NULL, 't', 1)",
        "(2D, NULL, parse_json('null'), 't', -1)",
    )
    names = ", ".join(name for name, _ in columns)
    query = f"SELECT * FROM VALUES {', '.join(rows)} AS r({names}, {WEIGHT})"
    found = spark.sql(netted_sql(query, columns)).selectExpr(
        "string(x)", "map_keys(m)", "to_json(v)", "t", WEIGHT
    )
    assert sorted(repr(tuple(row)) for row in found.collect()) == [
        "('-0.0', ['a', 'b'], '1', None, 1)",
        "('0.0', ['a', 'b'], '1', None, -1)",
        "('1.0', ['a', 'b'], '1', 't', 1)",
        "('1.0', ['b', 'a'], '1', 't', -1)",
        "('2.0', None, 'null', 't', -1)",
        "('2.0', None, None, 't', 1)",
        "('2.0', None, None, 't', 1)",
    ]


def test_a_key_under_a_collation_is_compared_under_it(spark: Any, tmp_path: Path) -> None:
    """It is stored as plain text; what is computed from a stored one is not plain."""
    shop = Warehouse(tmp_path / "store", spark)
    writer = spark.newSession()
    writer.conf.set("spark.databricks.delta.schema.typeCheck.enabled", "false")
    writer.sql(f"CREATE TABLE {shop.named('t')} (id INT, s STRING COLLATE UTF8_LCASE) {FEED}")
    writer.sql(f"INSERT INTO {shop.named('t')} VALUES (1, 'Ann'), (2, 'bob')")
    shop.views({"v": "SELECT s = 'ann' AS is_ann, count(*) AS n FROM t GROUP BY s"})
    shop.refresh()
    writer.sql(f"INSERT INTO {shop.named('t')} VALUES (3, 'ANN')")
    assert shop.executed("incremental") == {"v": "incremental"}
    assert shop.rows("v") == [(False, 1), (True, 2)]
    shop.assert_exact()
