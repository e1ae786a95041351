"""Small changes are read without Spark: the same rows as Delta Lake's own change feed gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.engine import inline
from hybridview.engine.session import SparkPort, quote
from hybridview.tablefiles.feed import read_feed
from tests.spark.warehouse import FEED, Warehouse, record

pytestmark = pytest.mark.spark

COLUMNS = {
    "id": "INT",
    "t": "TINYINT",
    "s": "SMALLINT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "b": "BOOLEAN",
    "x": "STRING",
    "y": "BINARY",
    "n": "DECIMAL(38,10)",
    "day": "DATE",
    "at": "TIMESTAMP",
    "wall": "TIMESTAMP_NTZ",
}
ROWS = """SELECT int(id) AS id,
  CASE WHEN id % 5 > 0 THEN tinyint(id - 20) END AS t, smallint(id * 300) AS s,
  CASE WHEN id % 4 > 0 THEN id * 9007199254740993 END AS l,
  CASE id % 6 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D WHEN 3 THEN 1e300
    WHEN 4 THEN double('-Infinity') ELSE id / 7D END AS d,
  CASE WHEN id % 3 > 0 THEN id % 2 = 0 END AS b,
  CASE id % 4 WHEN 0 THEN '' WHEN 1 THEN NULL WHEN 2 THEN concat('"\\\\ ', chr(10), id) ELSE 'é' END
    AS x,
  CASE WHEN id % 3 > 0 THEN unhex(hex(id * 255)) END AS y,
  CASE WHEN id % 7 > 0 THEN decimal(id) / 1000000007BD - 12345678901234567890BD END AS n,
  date_add(DATE '1600-02-28', int(id) * 3000) AS day,
  CASE WHEN id % 6 > 0 THEN timestamp_micros(id * 987654321987) END AS at,
  CAST(date_add(DATE '1999-12-31', int(id)) AS TIMESTAMP_NTZ)
    + make_dt_interval(0, 0, 0, id / 1000) AS wall
FROM range({low}, {high})"""

SHAPES = {"plain": "", "by_text": "PARTITIONED BY (x)", "by_day": "PARTITIONED BY (day, t)"}


@pytest.mark.parametrize("old_moments", [True, False], ids=["int96", "micros"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_as_spark_reads(
    spark: Any, tmp_path: Any, shape: str, old_moments: bool
) -> None:
    session = spark.newSession()
    kind = "INT96" if old_moments else "TIMESTAMP_MICROS"
    session.conf.set("spark.sql.parquet.outputTimestampType", kind)
    table = f"delta.`{tmp_path}`"
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    layout = FEED.replace("delta ", f"delta {SHAPES[shape]} ")
    session.sql(f"CREATE TABLE {table} ({columns}) {layout}")
    session.sql(f"INSERT INTO {table} {ROWS.format(low=0, high=30)}")
    session.sql(f"INSERT INTO {table} {ROWS.format(low=20, high=45)}")
    session.sql(f"UPDATE {table} SET s = s + 1, x = 'new', d = -d WHERE id % 4 = 1")
    session.sql(f"DELETE FROM {table} WHERE id % 5 = 2")
    session.sql(f"OPTIMIZE {table}")
    session.sql(
        f"MERGE INTO {table} o USING (SELECT * FROM {table} VERSION AS OF 1 WHERE id < 9) n "
        "ON o.id = n.id WHEN MATCHED AND o.id < 4 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 1.5 "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    session.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id > 6")
    end = session.sql(f"DESCRIBE HISTORY {table}").agg({"version": "max"}).collect()[0][0]
    port = SparkPort(session)
    for start in range(1, end):
        found = read_feed(tmp_path, start, end, list(COLUMNS), inline.MAX_ROWS)
        assert found is not None
        assert inline.can_stand(found.rows) and len(found.rows) > 0
        kinds = [*((c.name, c.type) for c in found.columns), ("w", "int")]
        session.sql(inline.as_relation(found.rows, kinds)).createOrReplaceTempView("ours")
        port.register_feed("theirs", str(tmp_path), start + 1, end)
        # As texts: SQL holds 0.0 for -0.0.
        texts = ", ".join(f"string({quote(name)})" for name in COLUMNS if name != "y")
        weight = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
        ours = f"SELECT {texts}, hex(y), w FROM ours"
        theirs = f"SELECT {texts}, hex(y), {weight} FROM theirs"
        for one, two in ((ours, theirs), (theirs, ours)):
            assert session.sql(f"{one} EXCEPT ALL {two}").collect() == []


def test_an_empty_text_of_a_partition_is_what_it_is_to_spark(spark: Any, tmp_path: Any) -> None:
    """delta-rs writes it for an empty string; the protocol says that it is no value."""
    data = pa.table({"p": ["", None, "a"], "d": pa.array([None] * 3, pa.date32()), "k": [1, 2, 3]})
    for _ in range(2):
        write_deltalake(
            str(tmp_path), data, mode="append", partition_by=["p", "d"],
            configuration={"delta.enableChangeDataFeed": "true"},
        )  # fmt: skip
    log = tmp_path / "_delta_log" / f"{1:020d}.json"
    assert '"p":""' in log.read_text()
    log.write_text(log.read_text().replace('"d":null', '"d":""'))
    found = read_feed(tmp_path, 0, 1, ["p", "d", "k"], inline.MAX_ROWS)
    assert found is not None
    SparkPort(spark).register_feed("theirs", str(tmp_path), 1, 1)
    theirs = spark.sql("SELECT p, string(d), string(k), '1' FROM theirs").collect()
    assert sorted(found.rows, key=repr) == sorted(map(tuple, theirs), key=repr)
    assert ("", None, "1", "1") in found.rows


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("feed") / "store", spark)
    shop.table("t", "id INT, g INT, x INT", "SELECT id, id % 3, id FROM range(12)")
    shop.table("u", "g INT, name STRING", "VALUES (0, 'a'), (1, 'b'), (2, 'c')")
    shop.views(
        {
            "totals": "SELECT g, sum(x) AS s FROM t GROUP BY g",
            "named": "SELECT id, name FROM t JOIN u ON t.g = u.g WHERE x > 2",
            "over": "SELECT count(*) AS n FROM named",
        }
    )
    assert set(shop.executed().values()) == {"initial"}
    return shop


@pytest.fixture
def shop(template: Warehouse, tmp_path: Any) -> Warehouse:
    return template.copy(tmp_path / "store")


def refuse(port: Any, *_: Any, **__: Any) -> None:
    raise AssertionError("Spark was asked for a change feed")


def test_a_small_change_asks_spark_for_no_feed(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that of a base table, nor that of a view that another view reads."""
    monkeypatch.setattr(SparkPort, "register_feed", refuse)
    shop.sql("INSERT INTO {t} VALUES (20, 1, 50), (21, 9, 1)")
    shop.sql("UPDATE {u} SET name = 'B' WHERE g = 1")
    shop.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    states = shop.refresh("incremental")
    assert {n: s.executed for n, s in states.items()} == dict.fromkeys(states, "incremental")
    shop.assert_exact()


def test_a_change_of_nothing_asks_spark_nothing(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were written again as they were: they cancel before anybody looks at them."""
    shop.sql("UPDATE {t} SET x = x WHERE g = 1")
    sent = record(shop.store, shop.spark)
    monkeypatch.setattr(SparkPort, "register_feed", refuse)
    states = shop.refresh("incremental", "totals")
    assert states["totals"].executed == "incremental"
    assert states["totals"].rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert not [s for s in sent if s.startswith("SELECT")], sent
    shop.assert_exact("totals")


def test_conditions_of_views_are_judged_by_spark(shop: Warehouse) -> None:
    """One statement over the changed rows, whatever number of views; a row that does not matter to
    a view is not joined with anything."""
    shop.sql("INSERT INTO {t} VALUES (20, 1, 2)")
    sent = record(shop.store, shop.spark)
    states = shop.refresh("incremental", "named")
    assert states["named"].rows == {"inserted": 0, "updated": 0, "deleted": 0}
    judged = [s for s in sent if s.startswith("SELECT")]
    assert len(judged) == 1 and "`x` > 2" in judged[0] and "tables/" not in judged[0]
    shop.assert_exact("named")
