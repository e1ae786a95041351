"""`hybridview sql` reads; whatever it is given, no table, file, setting or program is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridview.errors import HybridviewError
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

REFUSED = {
    # Writes behind a WITH, in a WITH, in a subquery, after a FROM, after a comment.
    "WITH x AS (SELECT 9 AS id) INSERT INTO {orders} SELECT id FROM x": "HV403",
    "WITH x AS (SELECT 9 AS id) MERGE INTO {orders} t USING x ON t.id = x.id "
    "WHEN NOT MATCHED THEN INSERT *": "HV403",
    "WITH x AS (SELECT 1 AS id) DELETE FROM {orders} WHERE id IN (SELECT id FROM x)": "HV403",
    "WITH x AS (SELECT 1 AS id) UPDATE {orders} SET id = 9": "HV403",
    "WITH x AS (INSERT INTO canary VALUES (9)) SELECT * FROM x": "HV108",
    "SELECT * FROM (DELETE FROM canary)": "HV108",
    "SELECT * FROM (INSERT INTO canary VALUES (9))": "HV108",
    "FROM {orders} INSERT INTO {orders} SELECT *": "HV403",
    "FROM {orders} INSERT INTO {orders} SELECT * INSERT INTO {orders} SELECT id": "HV403",
    "FROM canary SELECT * INSERT INTO canary SELECT *": "HV108",
    "/* SELECT 1 */ DELETE FROM {orders}": "HV403",
    "-- SELECT 1\nDROP TABLE canary": "HV403",
    "/*+ SELECT */ DROP TABLE canary": "HV403",
    "SELECT * INTO copied FROM canary": "HV108",
    # Several statements.
    "SELECT 1; DROP TABLE canary": "HV403",
    "SELECT 1;; SELECT 2": "HV403",
    "SELECT ';' AS x; DELETE FROM {orders} --;": "HV403",
    "VALUES (1); TRUNCATE TABLE canary": "HV403",
    "BEGIN SELECT 1; DROP TABLE canary; END": "HV403",
    "BEGIN DECLARE x INT; SELECT 1; END": "HV403",
    # Statements that are none.
    **dict.fromkeys(
        (
            "EXPLAIN SELECT 1",
            "EXPLAIN EXTENDED DELETE FROM {orders}",
            "DESCRIBE QUERY SELECT 1",
            "CREATE TABLE copied USING delta AS SELECT 1 AS id",
            "CREATE OR REPLACE TEMPORARY VIEW orders AS SELECT 1 AS id",
            "CREATE FUNCTION f AS 'java.lang.String'",
            "DROP TABLE canary",
            "TRUNCATE TABLE canary",
            "OPTIMIZE {orders}",
            "VACUUM {orders} RETAIN 0 HOURS",
            "RESTORE TABLE {orders} TO VERSION AS OF 0",
            "ALTER TABLE canary ADD COLUMN x INT",
            "COMMENT ON TABLE canary IS 'x'",
            "ANALYZE TABLE canary COMPUTE STATISTICS",
            "SET spark.sql.session.timeZone = Asia/Tokyo",
            "SET spark.sql.runSQLOnFiles = true",
            "SET TIME ZONE 'Asia/Tokyo'",
            "SET VAR x = 1",
            "RESET",
            "USE default",
            "ADD JAR '/tmp/evil.jar'",
            "LIST JARS",
            "CALL system.evil()",
            "EXECUTE IMMEDIATE 'DROP TABLE canary'",
            "CACHE TABLE copied AS SELECT 1 AS id",
            "UNCACHE TABLE canary",
            "CLEAR CACHE",
            "REFRESH TABLE canary",
            "LOAD DATA INPATH '/etc/hosts' INTO TABLE canary",
            "INSERT OVERWRITE DIRECTORY '{folder}/copied' USING parquet SELECT 1 AS id",
            "DECLARE VARIABLE x INT DEFAULT 1",
            "MSCK REPAIR TABLE canary",
        ),
        "HV403",
    ),
    # Programs.
    "SELECT TRANSFORM(id) USING 'touch {folder}/copied' AS (x) FROM orders": "HV114",
    "SELECT java_method('java.lang.System', 'setProperty', 'hv.test', 'evil')": "HV114",
    "SELECT `reflect`('java.lang.System', 'setProperty', 'hv.test', 'evil')": "HV114",
    "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'setProperty', 'a', 'b')": "HV114",
    # Files.
    "SELECT * FROM text.`/etc/passwd`": "HV112",
    "SELECT * FROM `csv`.`/etc/passwd`": "HV112",
    "SELECT * FROM binaryFile.`/etc/passwd`": "HV112",
    "SELECT * FROM json.`{folder}`": "HV112",
    "SELECT * FROM {orders}": "HV112",
    "SELECT * FROM delta.`{folder}/store/tables/orders@v0`": "HV112",
    "WITH f AS (TABLE parquet.`{folder}/store/tables/orders`) SELECT * FROM f": "HV112",
    "SELECT * FROM org.apache.spark.sql.parquet.`{folder}/store/tables/orders`": "HV112",
    "SELECT * FROM table_changes_by_path('{folder}/store/tables/orders', 0)": "HV114",
    "SELECT * FROM read_files('{folder}')": "HV108",
}

ALLOWED = (
    "SELECT count(*) FROM orders",
    " /* two */ -- comments\nSELECT count(*) FROM orders;",
    "(SELECT count(*) FROM orders)",
    "((SELECT count(*) FROM orders))",
    "FROM orders SELECT count(*)",
    "FROM orders |> AGGREGATE count(*)",
    "WITH x AS (TABLE orders) SELECT count(*) FROM x",
    "VALUES (2)",
    "SELECT 2 -- \\\n; DROP TABLE canary",  # a backslash carries the comment on
    "SELECT count(*) FROM totals t JOIN orders o ON t.id = o.id",
    "SELECT max(id) FROM canary_of_two",
)


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    shop = Warehouse(tmp_path_factory.mktemp("read only") / "store", spark)
    shop.table("orders", "id INT", "VALUES (1), (2)")
    shop.store.create_view("totals", "SELECT id FROM orders")
    shop.store.refresh()
    spark.sql("CREATE TABLE canary USING delta AS SELECT 1 AS id")
    spark.sql("CREATE TABLE canary_of_two USING delta AS SELECT 2 AS id")
    yield shop
    spark.sql("DROP TABLE canary_of_two")
    spark.sql("DROP TABLE canary")


def state(shop: Warehouse) -> tuple[Any, ...]:
    """Return what a statement could have changed: files, tables, settings, Java's properties."""
    spark = shop.spark
    files = {str(p): p.stat().st_mtime_ns for p in shop.root.parent.rglob("*")}
    tables = {tuple(row) for row in spark.sql("SHOW TABLES").collect()}
    rows = spark.sql(
        "SELECT (SELECT max(id) FROM canary), reflect('java.lang.System', 'getProperty', 'hv.test')"
    ).collect()
    return files, tables, dict(spark.conf.getAll), [tuple(r) for r in rows]


def test_nothing_is_changed(shop: Warehouse) -> None:
    orders = shop.named("orders")
    before = state(shop)
    found = {}
    for text in REFUSED:
        # Not str.format: a statement may have braces of its own.
        statement = text.replace("{orders}", orders).replace("{folder}", str(shop.root.parent))
        try:
            shop.store.sql(statement).collect()
            found[text] = "ran"
        except HybridviewError as error:
            found[text] = error.code
            assert error.exit_code == 2 and (error.detail or error.hint), text
    assert found == REFUSED
    assert state(shop) == before


@pytest.mark.parametrize("statement", ALLOWED)
def test_queries_run(shop: Warehouse, statement: str) -> None:
    assert [tuple(row) for row in shop.store.sql(statement).collect()] == [(2,)]


def test_what_a_statement_named_is_not_seen_by_the_user(shop: Warehouse) -> None:
    shop.store.sql("SELECT * FROM totals, orders").collect()
    assert not [t for t in shop.spark.sql("SHOW TABLES").collect() if t.isTemporary]


def test_settings_of_a_refresh_are_not_those_of_a_statement(shop: Warehouse) -> None:
    """A view keeps the time zone it was created with; a statement has its user's."""
    query = "SELECT CAST(timestamp'2026-01-01 00:00:00+00:00' AS STRING) FROM orders LIMIT 1"
    spark = shop.spark
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        shop.store.create_view("tokyo", "SELECT id + 1 AS id FROM orders")
        shop.store.refresh(["tokyo"])
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert shop.store.sql(query).collect()[0][0] == "2026-01-01 00:00:00"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_script_does_run_in_plain_spark(shop: Warehouse) -> None:
    """What is refused above is refused by us: Spark itself takes it for a query."""
    path = Path(shop.root.parent, "proof")
    spark = shop.spark.newSession()
    spark.sql(f"DESCRIBE QUERY SELECT TRANSFORM(1) USING 'touch {path}' AS (x)").collect()
    assert not path.exists()
    rows = spark.sql("SELECT TRANSFORM(1) USING 'cat' AS (x)").collect()
    assert [tuple(r) for r in rows] == [("1",)]
