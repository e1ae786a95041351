"""Views without a key to restrict by: parts of them are kept, and they are computed from these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybridview.plan.steps import Apply
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

VIEWS = {
    "top": "SELECT k, sum(x) AS total FROM orders GROUP BY k ORDER BY total DESC LIMIT 3",
    "large": "SELECT id, x FROM orders WHERE x > (SELECT avg(x) FROM orders)",
    "ranked": "SELECT k, total, rank() OVER (ORDER BY total) AS place FROM "
    "(SELECT k, count(*) AS total FROM orders GROUP BY k)",
    "best": "WITH t AS (SELECT k, sum(x) AS total FROM orders GROUP BY k) "
    "SELECT c.name, t.total FROM customers c JOIN t ON c.k = t.k "
    "WHERE t.total = (SELECT max(total) FROM t)",
    "floats": "SELECT k, f FROM (SELECT k, sum(CAST(x AS DOUBLE)) AS f FROM orders GROUP BY k) "
    "WHERE f > 10",
}


def make(root: Path, spark: Any) -> Warehouse:
    house = Warehouse(root, spark)
    rows = "SELECT id, id % 7, CAST(id % 11 AS DECIMAL(10,2)) FROM range(100)"
    house.table("orders", "id BIGINT, k BIGINT, x DECIMAL(10,2)", rows)
    house.table("customers", "k BIGINT, name STRING", "SELECT id, concat('c', id) FROM range(7)")
    return house


def test_parts_are_maintained_and_read(tmp_path: Path, spark: Any) -> None:
    house = make(tmp_path / "store", spark)
    house.views(VIEWS)
    assert set(house.executed().values()) == {"initial"}
    house.sql("INSERT INTO {orders} VALUES (200, 3, 500.00), (201, NULL, 1.00)")
    assert set(house.executed("incremental").values()) <= {"incremental", "none"}
    house.sql("DELETE FROM {orders} WHERE id = 200 OR k = 5")
    house.sql("UPDATE {customers} SET name = 'x' WHERE k = 1")
    assert set(house.executed("incremental").values()) <= {"incremental", "none"}
    for name in VIEWS:
        assert house.store.verify(name).ok, name
    assert set(house.executed("incremental").values()) == {"none"}
    house.store.rename_view("best", "winner")
    house.sql("INSERT INTO {orders} VALUES (300, 2, 900.00)")
    plan = house.store.plan(strategy="incremental")
    for view in plan.views:
        assert isinstance(view.step, Apply), view.name
        if view.step.whole:
            # Computed from parts alone; the base tables are read where these are maintained.
            assert "orders" not in view.step.change, view.step.change
    assert set(house.executed("incremental").values()) == {"incremental"}
    house.assert_verified()
    assert house.store.drop_view("winner") == ("winner",)
    assert not list((house.root / "views").glob("winner*"))
    assert not list((house.root / "views").glob("best*"))
