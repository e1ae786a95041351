"""Reading epochs on Spark: the newest published one, older ones, and latest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybridview import Store
from hybridview.catalog import FolderCatalog
from hybridview.engine.session import SparkPort
from hybridview.errors import EpochGoneError, RaceLostError
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

VIEWS = {
    "by_shop": "SELECT shop, sum(amount) AS amount FROM orders GROUP BY shop",
    "total": "SELECT sum(amount) AS amount, count(*) AS n FROM orders",
}
EQUAL = (
    "SELECT (SELECT sum(amount) FROM by_shop), (SELECT amount FROM total), "
    "(SELECT sum(amount) FROM orders)"
)


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("epochs") / "store", spark)
    shop.table("orders", "shop INT, amount INT", "VALUES (1, 10), (2, 20)")
    shop.views(VIEWS)
    shop.refresh()
    shop.sql("INSERT INTO {orders} VALUES (1, 5)")
    shop.refresh()
    return shop


def sums(shop: Warehouse, **when: Any) -> tuple[int, ...]:
    (row,) = shop.store.sql(EQUAL, **when).collect()
    return tuple(row)


def test_epochs_and_what_comes_after_them(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums(shop) == (35, 35, 35)
    assert sums(shop, epoch=1) == (30, 30, 30)
    shop.sql("INSERT INTO {orders} VALUES (2, 100)")
    assert sums(shop) == (35, 35, 135)
    assert sums(shop, epoch=2) == (35, 35, 35)

    def lost(*_: Any) -> None:
        raise RaceLostError("another process published first")

    with monkeypatch.context() as patch:
        patch.setattr(FolderCatalog, "publish", lost)
        with pytest.raises(RaceLostError):
            shop.store.refresh(["total"])
    assert sums(shop) == (35, 35, 135), "what is written but not published is not read"
    assert sums(shop, latest=True) == (35, 135, 135)
    assert [tuple(r) for r in shop.store.read("total", latest=True).collect()] == [(135, 4)]
    assert [tuple(r) for r in shop.store.read("total").collect()] == [(35, 3)]


def test_a_refresh_in_the_middle_of_a_statement(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It publishes after the first of two views was looked up: both are read as before."""
    before = sums(shop)[:2]
    original, done = SparkPort.run, []

    def run(self: SparkPort, sql: str) -> list[tuple[Any, ...]]:
        rows = original(self, sql)
        if "TEMPORARY VIEW `by_shop`" in sql and not done:
            done.append(True)
            other = Store.open(shop.root, spark=shop.spark)
            shop.sql("INSERT INTO {orders} VALUES (3, 1000)")
            assert other.refresh().epoch == shop.store.epoch
        return rows

    monkeypatch.setattr(SparkPort, "run", run)
    assert sums(shop)[:2] == before
    assert done
    after = sums(shop)
    assert after[0] == after[1] == after[2] > before[0]


def test_the_columns_a_view_had(shop: Warehouse) -> None:
    old = shop.store.read("by_shop", epoch=1)
    assert old.columns == ["shop", "amount"]
    shop.store.create_view(
        "by_shop", "SELECT shop AS place, count(*) AS n FROM orders GROUP BY shop", replace=True
    )
    assert shop.store.read("by_shop").columns == ["shop", "amount"], "not refreshed yet"
    shop.store.refresh(["by_shop"])
    assert shop.store.read("by_shop").columns == ["place", "n"]
    assert shop.store.sql("SELECT * FROM by_shop", epoch=1).columns == ["shop", "amount"]
    rows = shop.store.read("by_shop", epoch=1).collect()
    assert sorted(tuple(r) for r in rows) == [(1, 10), (2, 20)]


def test_files_of_an_older_epoch_that_are_gone(shop: Warehouse, tmp_path: Path) -> None:
    """A copy of the store is vacuumed behind its back; Spark would fail in the middle of a job."""
    copy = shop.copy(tmp_path / "store")
    for file in (copy.root / "views" / "total").glob("*.parquet"):
        file.rename(file.with_suffix(".gone"))
    newest = copy.store.epoch
    for file in copy.log("total").path.glob("*.gone"):
        if file.stem in "".join(live_files(copy, "total")):
            file.rename(file.with_suffix(".parquet"))
    assert len(copy.store.read("total", epoch=newest).collect()) == 1
    with pytest.raises(EpochGoneError):
        copy.store.read("total", epoch=1)
    with pytest.raises(EpochGoneError):
        copy.store.sql("SELECT * FROM total", epoch=1)


def live_files(shop: Warehouse, view: str) -> list[str]:
    from deltalake import DeltaTable

    return list(DeltaTable(str(shop.log(view).path)).file_uris())
