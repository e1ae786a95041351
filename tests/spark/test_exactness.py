"""Digits, types and odd values: a maintained view holds exactly what a recompute would."""

from __future__ import annotations

import decimal
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hybridview.compiler import exact
from hybridview.engine import inline
from tests.spark.warehouse import Warehouse, record

pytestmark = pytest.mark.spark

NUMBERS = {
    "sums": "SELECT g, sum(d10) AS d10, sum(p4), sum(i) AS i, sum(h) AS h, sum(c), "
    "sum(i + 1L) AS more, count(i), count(*) FROM numbers GROUP BY g",
    "wide_sums": "SELECT g, sum(d18) AS d18, sum(d0) AS d0 FROM numbers GROUP BY g",
    "means": "SELECT g, avg(p2), avg(p3) AS p3, avg(p4) AS p4, avg(i) AS i, avg(h) AS h, "
    "avg(b) AS b FROM numbers GROUP BY g",
    "means_by_key": "SELECT g, avg(p0), avg(p1) AS p1, avg(d10) AS d10, "
    "avg(CAST(p4 AS DECIMAL(38,18))) AS d18 FROM numbers GROUP BY g",
    "floats": "SELECT g, sum(f), sum(d) AS d, avg(f) AS mean_f, avg(d) AS mean_d "
    "FROM numbers GROUP BY g",
    "grand": "SELECT sum(p4), sum(d10) AS d10, avg(p2), sum(i), avg(b), count(h) FROM numbers",
}
EXACT = set(NUMBERS) - {"floats"}
COLUMNS = {
    "id": "INT",
    "g": "INT",
    "d18": "DECIMAL(38,18)",
    "d10": "DECIMAL(28,10)",
    "d0": "DECIMAL(38,0)",
    "p0": "DECIMAL(12,0)",
    "p1": "DECIMAL(12,1)",
    "p2": "DECIMAL(12,2)",
    "p3": "DECIMAL(20,3)",
    "p4": "DECIMAL(24,4)",
    "i": "INT",
    "h": "SMALLINT",
    "b": "BIGINT",
    "c": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
}

TINY = "0.000000000000000001"
TOP = "4000000000000000000.000000000000000003"
"""37 digits in DECIMAL(38,18): 19 before the point."""

LOADED = [
    (1, 1, TOP, "123456789012345678.0123456789", "9" * 36, "5", "0.5", "0.05", "0.333", "1.0001",
     2147483647, 32767, 9223372036854775807, 1, "0.1", "0.1"),
    (2, 1, TINY, "0.0000000001", "1", "2", "0.4", "0.01", "0.333", "2.0002",
     2147483647, 32767, 9223372036854775806, 2, "1e10", "1e10"),
    (3, 2, f"-{TOP}", "-123456789012345678.9876543211", f"-{'9' * 36}", "-5", "-0.5", "-0.05",
     "-0.333", "-1.0001", -2147483648, -32768, -9223372036854775808, -3, "-0.1", "-0.1"),
    (4, 3, None, None, None, None, None, None, None, None, None, None, None, None, None, None),
    (5, 4, TINY, "0.1", "1", "1", "0.1", "0.01", "0.001", "0.0001", 1, 1, 1, 1, "NaN", "NaN"),
    (6, 4, TINY, "0.2", "1", "1", "0.1", "0.01", "0.001", "0.0001", 1, 1, 1, 1, "1", "1"),
]  # fmt: skip
INSERTED = [
    (11, 1, "3999999999999999999.999999999999999999", "876543210987654321.9876543210",
     f"1{'0' * 36}", "7", "0.3", "0.01", "0.001", "7.7777", -2147483648, -32768,
     9223372036854775807, 9, "0.2", "0.2"),
    (12, 2, f"-{TINY}", "-0.0000000001", "-1", "1", "0.1", "0.02", "0.001", "0.0001",
     -2147483648, -32768, -9223372036854775808, -4, "-0.2", "-0.2"),
    (13, 3, TINY, "1", "1", "1", "1", "1", "1", "1", 1, 1, 1, 1, "Infinity", "-Infinity"),
    (14, 5, f"-{TOP}", "1", "-1", "-1", "-0.1", "-0.01", "-0.001", "-0.0001", -1, -1, -1, -1,
     "7", "7"),
    (15, None, TINY, "2", "2", "2", "0.2", "0.02", "0.002", "0.0002", 2, 2, 2, 2, "0.3", "0.3"),
]  # fmt: skip


def literals(rows: list[tuple[Any, ...]], kinds: list[str]) -> str:
    """Return VALUES of rows, every value cast to its column's type."""
    lines = []
    for row in rows:
        cells = ("NULL" if v is None else f"'{v}'" for v in row)
        lines.append(", ".join(f"CAST({c} AS {k})" for c, k in zip(cells, kinds, strict=True)))
    return "VALUES " + ", ".join(f"({line})" for line in lines)


def assert_spark_types(shop: Warehouse) -> None:
    """Names and types of every view are those of its query in Spark."""
    session = shop.spark.newSession()
    for table in shop.store.tables():
        frame = session.sql(f"SELECT * FROM {shop.named(table.name)}")
        frame.createOrReplaceTempView(table.name)
    for view in shop.store.views():
        wanted = [(f.name, f.dataType) for f in session.sql(view.query).schema.fields]
        stored = [(f.name, f.dataType) for f in shop.store.read(view.name).schema.fields]
        assert stored == wanted, view.name


def test_numbers(spark: Any, tmp_path: Path) -> None:
    shop = Warehouse(tmp_path / "store", spark)
    kinds = list(COLUMNS.values())
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    shop.table("numbers", columns, literals(LOADED, kinds))
    shop.views(NUMBERS)
    assert set(shop.executed().values()) == {"initial"}
    assert_spark_types(shop)

    shop.sql(f"INSERT INTO {{numbers}} {literals(INSERTED, kinds)}")
    states = shop.refresh("incremental")
    assert {n: (s.executed, s.method) for n, s in states.items()} == {
        "sums": ("incremental", "add"),
        "wide_sums": ("incremental", "add"),
        "means": ("incremental", "add"),
        "means_by_key": ("incremental", "replace"),
        "floats": ("incremental", "add"),
        "grand": ("incremental", "add"),
    }
    shop.assert_exact(*EXACT)
    shop.assert_verified("floats")
    top = {row.g: row.d18 for row in shop.store.read("wide_sums").collect()}
    assert top[1] == Decimal("8000000000000000000.000000000000000003")
    assert str(top[2]) == "-4000000000000000000.000000000000000004"

    shop.sql("DELETE FROM {numbers} WHERE id IN (1, 3, 5, 13, 14)")
    shop.sql(
        "UPDATE {numbers} SET d18 = d18 / 2, p2 = p2 * 3, i = -1, b = b - 1, f = f / 3, d = d / 3 "
        "WHERE id IN (2, 11, 15)"
    )
    states = shop.refresh("incremental")
    assert states["floats"].method == "replace"
    assert "rows may have gone" in states["floats"].reason
    adding = ("sums", "wide_sums", "means", "grand")
    added = {n: (states[n].method, states[n].error) for n in adding}
    assert added == dict.fromkeys(added, ("add", ""))
    shop.assert_exact(*EXACT)
    shop.assert_verified("floats")
    assert [row.d18 for row in shop.store.read("wide_sums").where("g = 3").collect()] == [None]

    shop.sql("DELETE FROM {numbers}")
    shop.store.refresh(["sums", "grand"], strategy="incremental")
    assert shop.rows("sums") == []
    assert shop.rows("grand") == [(None, None, None, None, None, 0)]


STRINGS = (
    "plain", "", " ", "NULL", "it's", '"', "\\", "\\'", "\\n", "a\nb", "\r\n\t", "ünï 漢字 🙂",
    "`", "--", "/* */", "%_", "'; DROP TABLE x; --", "\\u0041", "\x01", "a\\", "{0}",
)  # fmt: skip


def things(spark: Any, texts: tuple[str, ...], first: int = 0) -> Any:
    """Return a DataFrame of odd values, made without SQL text."""
    frame = spark.createDataFrame(
        [(first + i, text, bytearray(text.encode())) for i, text in enumerate(texts)],
        "id INT, s STRING, raw BINARY",
    )
    return frame.selectExpr(
        "id",
        "s",
        "raw",
        "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN timestamp_micros(1711846799123456) "
        "WHEN 2 THEN timestamp_micros(-62000000000000000 + id) "
        "ELSE timestamp_micros(1729990800000000 + id) END AS t",
        "CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN TIMESTAMP_NTZ '2024-03-31 02:30:00.000001' "
        "ELSE TIMESTAMP_NTZ '0002-01-01 00:00:00' END AS n",
        "CASE id % 3 WHEN 1 THEN DATE '0002-01-01' WHEN 2 THEN DATE '9999-12-31' END AS d",
        "CASE id % 3 WHEN 0 THEN NULL ELSE id % 3 = 1 END AS yes",
        "CASE id % 4 WHEN 0 THEN DOUBLE('NaN') WHEN 1 THEN DOUBLE('-Infinity') WHEN 2 THEN 0.1D "
        "ELSE 4.9E-324D END AS x",
        "CASE id % 4 WHEN 0 THEN FLOAT('NaN') WHEN 1 THEN FLOAT('Infinity') WHEN 2 "
        "THEN CAST(0.1 AS FLOAT) ELSE CAST(1.4E-45 AS FLOAT) END AS f",
        "CAST(id AS TINYINT) AS tiny",
        "CAST(concat('0.', repeat('0', 36), '1', id % 9) AS DECIMAL(38,38)) AS small",
    )


THINGS = {
    "copies": "SELECT * FROM things",
    "groups": "SELECT s, raw, t, n, d, yes, x, f, small, count(*) AS c, min(tiny) AS tiny "
    "FROM things GROUP BY s, raw, t, n, d, yes, x, f, small",
}


@pytest.fixture(scope="module")
def odd_values(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A store with views over an empty table of odd types."""
    shop = Warehouse(tmp_path_factory.mktemp("things") / "store", spark)
    kinds = things(spark, ("a",)).schema
    columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in kinds)
    shop.table("things", columns)
    shop.views(THINGS)
    shop.refresh()
    return shop


def assert_copies(shop: Warehouse) -> None:
    """The view of all rows has the base table's rows, told apart by their exact text."""
    base = sorted(repr(tuple(r)) for r in shop.sql("SELECT * FROM {things}").collect())
    assert sorted(repr(row) for row in shop.rows("copies")) == base


def test_literal_rows_are_no_part_of_the_plan(spark: Any) -> None:
    """Else Spark compares all of them, at each place that reads them, after each stage."""
    rows = [(str(i), f"text {i}") for i in range(3_000)]
    query = inline.as_relation(rows, [("id", "int"), ("t", "string")])
    frame = spark.sql(f"SELECT a.id FROM ({query}) a JOIN ({query}) b ON a.id = b.id")
    plan = frame._jdf.queryExecution().optimizedPlan()
    assert "text 2999" not in expressions_of(plan)
    assert frame.count() == len(rows)
    assert spark.sql(query).rdd.getNumPartitions() == 1


def expressions_of(plan: Any) -> str:
    """Return the expressions of a plan as text; what its leaves hold are rows."""
    return " ".join(
        plan.apply(i).expressions().mkString(" ") for i in range(100) if plan.apply(i) is not None
    )


@pytest.mark.parametrize("rows_as_text", [True, False], ids=["inline", "cached"])
def test_odd_values_survive(
    odd_values: Warehouse, tmp_path: Path, rows_as_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = odd_values.copy(tmp_path / "store")
    if not rows_as_text:
        monkeypatch.setattr(inline, "MAX_ROWS", 0)
    sent = record(shop.store, shop.spark)
    path = str(shop.root / "tables" / "things")
    things(shop.spark, (*STRINGS, *STRINGS[:3])).write.format("delta").mode("append").save(path)
    executed = shop.executed("incremental")
    assert set(executed.values()) == {"incremental"}
    cached = [s for s in sent if s.startswith("CACHE TABLE")]
    # Each view keeps its change, and all of them that of the table.
    assert len(cached) == (0 if rows_as_text else len(THINGS) + 1)
    assert_copies(shop)
    shop.assert_exact()
    assert_spark_types(shop)
    if rows_as_text:  # keys and rows must be found again
        shop.sql("DELETE FROM {things} WHERE id % 2 = 0")
        shop.sql("UPDATE {things} SET s = concat(s, '\\'') WHERE id % 3 = 0")
        assert set(shop.executed("incremental").values()) == {"incremental"}
        assert_copies(shop)
        shop.assert_exact()


def test_text_that_looks_like_a_variable(odd_values: Warehouse, tmp_path: Path) -> None:
    """Spark replaces ${...} in SQL text, in literals too."""
    shop = odd_values.copy(tmp_path / "store")
    path = str(shop.root / "tables" / "things")
    texts = ("${env:HOME}", "${spark.app.name}", "${system:user.name}", "$", "${", "$$")
    things(shop.spark, texts).write.format("delta").mode("append").save(path)
    shop.store.refresh(["copies"], strategy="incremental")
    assert_copies(shop)


def test_minus_zero_is_not_zero(odd_values: Warehouse, tmp_path: Path) -> None:
    shop = odd_values.copy(tmp_path / "store")
    path = str(shop.root / "tables" / "things")
    frame = things(shop.spark, ("a", "b")).selectExpr("* EXCEPT (x)", "-0.0D AS x")
    frame.write.format("delta").mode("append").save(path)
    shop.store.refresh(["copies"], strategy="incremental")
    assert_copies(shop)


LARGE = {
    "copies": "SELECT id, s, x FROM t",
    "totals": "SELECT id % 2500 AS k, sum(x) AS total FROM t GROUP BY id % 2500",
}


@pytest.fixture(scope="module")
def large(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A store whose table can have thousands of changed rows."""
    shop = Warehouse(tmp_path_factory.mktemp("large") / "store", spark)
    shop.table("t", "id INT, s STRING, x DECIMAL(10,2)", "SELECT id, 'a', id FROM range(2500)")
    shop.views(LARGE)
    shop.refresh()
    return shop


@pytest.mark.parametrize("kept", [0, 3], ids=["inline", "cached"])
def test_a_large_change(
    large: Warehouse, tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of rows come and go in one change, as literals or kept in memory."""
    monkeypatch.setattr(inline, "MAX_ROWS", 2_000 if kept else inline.MAX_ROWS)
    shop = large.copy(tmp_path / "store")
    sent = record(shop.store, shop.spark)
    shop.sql("DELETE FROM {t} WHERE id % 2 = 0")
    shop.sql("INSERT INTO {t} SELECT id, 'it''s', id / 4 FROM range(1000, 3500)")
    states = shop.refresh("incremental")
    assert {s.executed for s in states.values()} == {"incremental"}, states
    cached = sum(s.startswith("CACHE TABLE") for s in sent)
    assert cached == kept, "of the table, and of two views"
    assert states["copies"].rows == {"inserted": 2500, "updated": 0, "deleted": 1250}
    shop.assert_exact()


def test_large_changes_one_after_the_other(
    large: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "MAX_ROWS", 2_000)
    shop = large.copy(tmp_path / "store")
    shop.sql("INSERT INTO {t} VALUES (1, 'few', 1)")
    shop.refresh("incremental")
    for _ in range(2):
        shop.sql("INSERT INTO {t} SELECT id, 'it''s', id / 4 FROM range(1000, 3500)")
        states = shop.refresh("incremental")
        assert {s.executed for s in states.values()} == {"incremental"}
    shop.assert_exact()


def test_nested_types(spark: Any, tmp_path: Path) -> None:
    """Arrays, structs and maps are compared like any value, NaN and NULL inside them."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table(
        "nested",
        "id INT, a ARRAY<STRUCT<k: INT, v: STRING>>, s STRUCT<x: DOUBLE, y: ARRAY<INT>>, "
        "m MAP<STRING, INT>",
        "SELECT 1, array(named_struct('k', 1, 'v', 'x')), named_struct('x', 1D, 'y', array(1)), "
        "map('a', 1)",
    )
    shop.views({
        "bags": "SELECT a, s FROM nested",
        "maps": "SELECT id, m FROM nested",
        "no_maps": "SELECT id FROM nested",
    })  # fmt: skip
    shop.refresh()
    shop.sql(
        "INSERT INTO {nested} SELECT id, array(named_struct('k', NULL, 'v', 'it''s')), "
        "named_struct('x', double('NaN'), 'y', array(1, NULL)), map('b', 2) FROM range(3)"
    )
    shop.sql("INSERT INTO {nested} VALUES (9, NULL, NULL, NULL)")
    shop.sql("DELETE FROM {nested} WHERE id IN (1, 2)")
    states = shop.refresh("incremental")
    assert {s.executed for s in states.values()} == {"incremental"}
    assert states["maps"].rows == {"inserted": 2, "updated": 0, "deleted": 1}
    assert shop.store.explain("maps").incremental
    assert_spark_types(shop)
    shop.assert_exact()

    shop.sql("DELETE FROM {nested} WHERE id = 0")
    shop.sql("INSERT INTO {nested} SELECT id, array(), NULL, NULL FROM range(2)")
    state = shop.store.refresh(["bags"], strategy="incremental").views[0]
    assert state.rows == {"inserted": 2, "updated": 0, "deleted": 1}
    shop.assert_exact("bags")
    shop.assert_verified("maps")


def test_line_separators_in_values(odd_values: Warehouse, tmp_path: Path) -> None:
    """Statistics in the log hold values as they are."""
    shop = odd_values.copy(tmp_path / "store")
    path = str(shop.root / "tables" / "things")
    texts = ("\u2028", "a\u0085b", "\u2029")
    things(shop.spark, texts).write.format("delta").mode("append").save(path)
    assert shop.store.plan(strategy="incremental").views[0].executed == "incremental"
    shop.store.refresh(["copies"], strategy="incremental")
    assert_copies(shop)


def test_averages_of_numbers_that_cancel(spark: Any, tmp_path: Path) -> None:
    """Where Spark's own answer depends on the order of rows, verify must not cry."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("t", "id INT, b BIGINT, d DOUBLE", "VALUES (1, 9223372036854775807, 1e17)")
    shop.views({"means": "SELECT avg(b) AS b FROM t", "sums": "SELECT sum(d) AS d FROM t"})
    shop.refresh()
    shop.sql("INSERT INTO {t} VALUES (2, 3, 1.0)")
    shop.refresh("incremental")
    shop.sql("INSERT INTO {t} VALUES (3, -9223372036854775807, -1e17)")
    states = shop.refresh("incremental")
    assert {s.executed for s in states.values()} == {"incremental"}
    shop.assert_verified()


def test_the_smallest_bigint_can_go(spark: Any, tmp_path: Path) -> None:
    """-x of the smallest BIGINT is no BIGINT, and a change may pass the limit on its way."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("t", "id INT, b BIGINT", f"VALUES (1, {2**63 - 1}), (2, -{2**63 - 1} - 1), (3, 5)")
    shop.views({"sums": "SELECT sum(b) AS b FROM t"})
    shop.refresh()
    shop.sql("DELETE FROM {t} WHERE id = 2")
    shop.sql("UPDATE {t} SET b = 1 WHERE id = 1")
    state = shop.refresh("incremental")["sums"]
    assert state.executed == "incremental", state.error
    shop.assert_exact()


def test_decimals_without_ansi(spark: Any, tmp_path: Path) -> None:
    """Without ANSI mode an overflow is NULL, and nothing can be added to that."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    shop = Warehouse(tmp_path / "store", session)
    kinds = ["INT", "DECIMAL(28,10)", "DECIMAL(38,0)"]
    shop.table(
        "t",
        "g INT, x DECIMAL(28,10), n DECIMAL(38,0)",
        literals([(1, "0.0000000001", "9" * 38)], kinds),
    )
    shop.views({"sums": "SELECT g, sum(x) AS x, sum(n) AS n FROM t GROUP BY g"})
    shop.refresh()
    for overflowed in (None, None):
        shop.sql(f"INSERT INTO {{t}} {literals([(1, '1', '1')], kinds)}")
        state = shop.refresh("incremental")["sums"]
        assert (state.executed, state.method) == ("incremental", "replace")
        assert [row.n for row in shop.store.read("sums").collect()] == [overflowed]
    shop.assert_verified()


@pytest.mark.parametrize(
    ("kind", "value", "rows", "change"),
    [
        ("DECIMAL(34,0)", "9" * 34, 1100, "INSERT INTO {t} VALUES (1, 7)"),
        # 38 digits: 20 before the point
        ("DECIMAL(38,18)", f"1{TOP}", 1, "DELETE FROM {t}"),
    ],
)
def test_a_sum_that_cannot_be_added_to_is_recomputed(
    spark: Any, tmp_path: Path, kind: str, value: str, rows: int, change: str
) -> None:
    """Hybrid gets out of it by itself; incremental was asked for, and says what to do."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("t", f"g INT, x {kind}", f"SELECT 1, CAST('{value}' AS {kind}) FROM range({rows})")
    shop.views({"sums": "SELECT g, sum(x) AS x FROM t GROUP BY g"})
    shop.refresh()
    shop.sql(change)
    state = shop.refresh("incremental")["sums"]
    assert state.executed == "failed"
    assert "hybridview refresh sums --strategy snapshot" in state.error
    failed = shop.store.status().epoch
    assert shop.store.refresh(strategy="incremental").epoch is None, "the failure is on record"
    assert shop.store.status().epoch == failed
    state = shop.refresh("hybrid")["sums"]
    assert (state.executed, state.reason) == (
        "snapshot",
        "a sum in the change does not fit its type",
    )
    shop.assert_exact()


SCALES = (0, 1, 2, 3, 10, 18, 29, 30)


def test_exact_addition(spark: Any) -> None:
    """Sums and negatives at 38 digits, for random numbers, are those of Python's decimals."""
    dice = random.Random(7)
    queries, expected = [], []
    with decimal.localcontext(decimal.Context(prec=100)):
        for scale in SCALES:
            kind = f"decimal(38,{scale})"
            pairs = [_pair(dice, scale) for _ in range(60)]
            values = ", ".join(f"({i}, '{a:f}', '{b:f}')" for i, (a, b) in enumerate(pairs))
            queries.append(
                f"SELECT {scale} AS scale, i, CAST({exact.add('a', 'b', kind)} AS STRING) AS total,"
                f" CAST({exact.negate('a', kind)} AS STRING) AS minus "
                f"FROM (SELECT i, CAST(a AS {kind}) AS a, CAST(b AS {kind}) AS b "
                f"FROM VALUES {values} AS v(i, a, b))"
            )
            expected += [(scale, i, a + b, -a) for i, (a, b) in enumerate(pairs)]
        found = spark.sql(" UNION ALL ".join(queries)).collect()
        sums = {(r.scale, r.i): (Decimal(r.total), Decimal(r.minus)) for r in found}
        wrong = [case for case in expected if sums[case[:2]] != case[2:]]
    assert wrong == []


def _pair(dice: random.Random, scale: int) -> tuple[Decimal, Decimal]:
    """Return two decimals of up to 37 digits: sums beyond are refused."""
    limit = 10**37 - 10**scale
    while True:
        sizes = (10 ** dice.choice((1, 5, 20, 34, 35, 37)) for _ in range(2))
        a, b = (dice.choice((-1, 1)) * dice.randrange(size) for size in sizes)
        if dice.random() < 0.2:
            b = -a + dice.choice((-1, 0, 1, 10**scale))
        if max(abs(a), abs(b)) < limit:
            return Decimal(a).scaleb(-scale), Decimal(b).scaleb(-scale)


def test_sums_that_cannot_be_added_to(spark: Any) -> None:
    """They stop the refresh, and types that always could are not added up at all."""
    nines = "9" * 37 + ".9"
    values = f"SELECT CAST('{nines}' AS DECIMAL(38,1)) AS a, CAST(1 AS DECIMAL(38,1)) AS b"
    with pytest.raises(Exception, match=exact.TOO_LARGE):
        spark.sql(f"SELECT {exact.add('b', 'a', 'decimal(38,1)')} FROM ({values})").collect()
    (row,) = spark.sql(
        f"SELECT {exact.negate('b', 'decimal(38,1)')} AS x FROM "
        "(SELECT CAST(NULL AS DECIMAL(38,1)) AS b)"
    ).collect()
    assert row.x is None
    with pytest.raises(Exception, match=exact.TOO_LARGE):
        spark.sql(f"SELECT {exact.negate('a', 'decimal(38,1)')} FROM ({values})").collect()
    added = ("decimal(34,0)", "decimal(28,10)", "decimal(30,30)", "decimal(38,18)", "bigint")
    assert all(exact.sum_type(kind) is not None for kind in added)
    not_added = ("decimal(34,31)", "decimal(38,38)", "string")
    assert all(exact.sum_type(kind) is None for kind in not_added)


AVERAGED = ("decimal(12,2)", "decimal(18,4)", "decimal(24,2)", "decimal(24,10)", "decimal(24,24)")


def test_exact_averages(spark: Any) -> None:
    """Averages from sum and count have the digits of Spark's own avg(), for random groups."""
    assert all(exact.averageable(kind) for kind in AVERAGED)
    dice = random.Random(11)
    queries = []
    for number, kind in enumerate(AVERAGED):
        found = exact.decimal(kind)
        assert found is not None
        rows = []
        for group in range(60):
            for _ in range(dice.randrange(1, 12)):
                digits = dice.randrange(10 ** dice.choice((1, 5, found.precision)))
                value = Decimal(dice.choice((-1, 1)) * digits).scaleb(-found.scale)
                rows.append(f"({group}, '{value:f}')")
        quotient = exact.average("sum(x)", "count(x)", kind)
        queries.append(
            f"SELECT {number} AS kind, g, CAST(avg(x) AS STRING) AS spark, "
            f"CAST({quotient} AS STRING) AS ours, typeof(avg(x)) = typeof({quotient}) AS alike "
            f"FROM (SELECT g, CAST(x AS {kind}) AS x FROM VALUES {', '.join(rows)} AS v(g, x)) "
            "GROUP BY g"
        )
    found_rows = spark.sql(" UNION ALL ".join(queries)).collect()
    assert len(found_rows) == 60 * len(AVERAGED)
    assert [tuple(r) for r in found_rows if r.spark != r.ours or not r.alike] == []
