"""What users hand in: tables that cannot be used, and queries that Spark refuses."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from hybridview.errors import (
    ColumnNamesError,
    HybridviewError,
    KeyViolationError,
    NoChangeFeedError,
    NotDeltaError,
    RejectedQueryError,
    UnknownColumnError,
    UnstorableTypeError,
)
from tests.spark.warehouse import FEED, Warehouse

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("foreign") / "store", spark)
    shop.table("t", "id INT, g INT, x DOUBLE", "VALUES (1, 1, 1.5), (1, 2, 2.5), (2, 2, 3.5)")
    return shop


def raises(code: str, kind: type[HybridviewError], action: Any) -> HybridviewError:
    """Run an action that must fail with a code, and tell more than the bare fact."""
    with pytest.raises(kind) as caught:
        action()
    error = caught.value
    assert error.code == code
    assert error.detail or error.hint
    return error


def test_what_is_not_delta_is_refused(shop: Warehouse, tmp_path: Path) -> None:
    shop.spark.sql("SELECT 1 AS id").write.parquet(str(tmp_path / "files"))
    add = shop.store.add_table
    error = raises("HV204", NotDeltaError, lambda: add("files", tmp_path / "files"))
    assert "_delta_log" in error.detail
    raises("HV204", NotDeltaError, lambda: add("none", tmp_path / "none"))
    error = raises("HV204", NotDeltaError, lambda: add("none", "no_such_catalog_table"))
    assert "no_such_catalog_table" in error.fact
    shop.spark.sql("CREATE TABLE plain_files USING parquet AS SELECT 1 AS id")
    raises("HV204", NotDeltaError, lambda: add("plain", "plain_files"))
    assert {t.name for t in shop.store.tables()} <= {"t"}


def test_a_table_without_a_feed_gets_one_on_request(shop: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "quiet"
    shop.spark.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT 1 AS id")
    error = raises("HV205", NoChangeFeedError, lambda: shop.store.add_table("quiet", path))
    assert "--enable-change-feed" in error.hint
    shop.store.add_table("quiet", path, enable_change_feed=True)
    shop.store.create_view("loud", "SELECT id FROM quiet")
    assert shop.store.refresh(["loud"]).views[0].executed == "initial"
    shop.spark.sql(f"INSERT INTO delta.`{path}` VALUES (2)")
    state = shop.store.refresh(["loud"], strategy="incremental").views[0]
    assert (state.executed, state.rows["inserted"]) == ("incremental", 1)
    assert shop.rows("loud") == [(1,), (2,)]


def test_keys_are_checked(shop: Warehouse) -> None:
    path = shop.root / "tables" / "t"
    add = shop.store.add_table
    error = raises("HV208", KeyViolationError, lambda: add("k", path, key=["id"]))
    assert "(1,) occurs 2 times" in error.detail
    error = raises("HV103", UnknownColumnError, lambda: add("k", path, key=["idd"]))
    assert "id" in error.detail
    assert add("k", path, key=["id", "g"]).key == ("id", "g")
    shop.store.remove_table("k")


def test_a_catalog_table_by_name(shop: Warehouse, spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS id, 'a' AS s")
    writer = frame.write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.saveAsTable("from_catalog")
    record = shop.store.add_table("named", "default.from_catalog")
    assert record.catalog_name == "default.from_catalog"
    assert Path(record.location).is_absolute()
    shop.store.create_view("over_catalog", "SELECT s, count(*) AS n FROM named GROUP BY s")
    shop.store.refresh(["over_catalog"])
    spark.sql("INSERT INTO from_catalog VALUES (2, 'a')")
    state = shop.store.refresh(["over_catalog"], strategy="incremental").views[0]
    assert (state.executed, state.method) == ("incremental", "add")
    assert shop.rows("over_catalog") == [("a", 2)]


@pytest.mark.parametrize(
    ("code", "kind", "query"),
    [
        ("HV111", UnstorableTypeError, "SELECT id, NULL AS nothing FROM t"),
        ("HV111", UnstorableTypeError, "SELECT id, make_interval(1) AS i FROM t"),
        ("HV111", UnstorableTypeError, "SELECT id, array() AS nothing FROM t"),
        ("HV111", UnstorableTypeError, "SELECT named_struct('a', NULL) AS s FROM t"),
        ("HV110", ColumnNamesError, "SELECT id, g AS ID FROM t"),
        ("HV110", ColumnNamesError, "SELECT * FROM t a JOIN t b ON a.id = b.id"),
        ("HV108", RejectedQueryError, "SELECT id, sum(x) FROM t"),
        ("HV108", RejectedQueryError, "SELECT no_such_function(id) AS f FROM t"),
        ("HV108", RejectedQueryError, "SELECT id + array(1) AS f FROM t"),
    ],
)
def test_queries_that_cannot_be_views(
    shop: Warehouse, code: str, kind: type[HybridviewError], query: str
) -> None:
    before = len(shop.store.views())
    name = f"wrong_{hashlib.md5(query.encode()).hexdigest()[:8]}"
    raises(code, kind, lambda: shop.store.create_view(name, query, source="wrong.sql"))
    assert len(shop.store.views()) == before


def test_odd_field_names_inside_a_struct(shop: Warehouse) -> None:
    """Their names need quotes wherever a type is written."""
    shop.spark.sql(f"CREATE TABLE {shop.named('nested')} (id INT, s STRUCT<`a-b`: INT>) {FEED}")
    shop.store.create_view("fields", "SELECT id, s.`a-b` AS v FROM nested")
    assert shop.store.refresh(["fields"]).views[0].executed == "initial"
