"""Rows of a change that no view's conditions let through: they are not joined, nor looked for."""

from __future__ import annotations

from typing import Any

import pytest

from hybridview.engine import inline
from tests.spark.warehouse import Warehouse, record

pytestmark = pytest.mark.spark

VIEWS = {
    "joined": "SELECT o.id, o.day, l.n, l.q FROM orders o JOIN lines l ON l.o = o.id "
    "WHERE o.day < 10 AND l.q > 5",
    "some": "SELECT o.id FROM orders o WHERE o.day < 10 AND EXISTS "
    "(SELECT 1 FROM lines l WHERE l.o = o.id AND l.q > 5)",
    "totals": "SELECT o.day, sum(l.q) AS q, count(*) AS n FROM orders o "
    "LEFT JOIN lines l ON l.o = o.id AND l.q > 5 WHERE o.day < 10 GROUP BY o.day",
    "large": "SELECT day, max(id) AS m FROM orders WHERE day >= 10 GROUP BY day",
}


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("relevant") / "store", spark)
    shop.table("orders", "id INT, day INT, note STRING", "SELECT id, id % 20, 'a' FROM range(100)")
    shop.table(
        "lines", "o INT, n INT, q INT", "SELECT id % 100, id div 100, id % 11 FROM range(300)"
    )
    shop.store.add_table("orders", key=["id"], replace=True)
    shop.store.add_table("lines", references=["o -> orders"], replace=True)
    shop.views(VIEWS)
    shop.refresh()
    return shop


def statements_of(shop: Warehouse, *views: str) -> str:
    statements = record(shop.store, shop.spark)
    assert set(shop.executed("incremental", *views).values()) <= {"incremental", "none"}
    return "\n".join(statements)


def test_a_change_that_does_not_matter_reads_the_feed_alone(shop: Warehouse) -> None:
    versions = shop.versions()
    shop.sql("UPDATE {lines} SET q = 4 WHERE o = 3 AND q < 4")
    read = statements_of(shop)
    assert "VERSION AS OF" not in read, "no table is read"
    assert "q` > 5" in read
    assert shop.versions() == versions
    shop.assert_exact()


def test_only_rows_that_matter_are_looked_for(shop: Warehouse) -> None:
    shop.sql("INSERT INTO {lines} VALUES (7, 50, 6), (8, 50, 1), (9, 50, NULL)")
    read = statements_of(shop, "joined")
    assert "`id` IN (7)" in read
    shop.refresh("incremental")
    shop.assert_exact()


@pytest.mark.parametrize("fetched", [True, False])
def test_what_became_of_a_key_is_seen_from_all_of_its_rows(shop: Warehouse, fetched: bool) -> None:
    """An order that leaves the condition, or meets it from now on, is still the same order.

    To those who see the rows that matter alone it would be gone, or new: and nothing that was there
    refers to a new one.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not fetched:
            patch.setattr(inline, "MAX_ROWS", 0)
        shop.sql("UPDATE {orders} SET day = CASE WHEN day < 10 THEN 15 ELSE 5 END WHERE id < 40")
        statements_of(shop)
        shop.assert_exact()
        # Orders that go with their lines, that come with some, and that stay.
        shop.sql("DELETE FROM {lines} WHERE o IN (41, 42)")
        shop.sql("DELETE FROM {orders} WHERE id IN (41, 42)")
        shop.sql("INSERT INTO {orders} VALUES (41, 1, 'b')" if fetched else "REFRESH TABLE {lines}")
        shop.sql("UPDATE {orders} SET note = 'c' WHERE id = 43")
        shop.sql("UPDATE {lines} SET q = q + 6 WHERE o IN (43, 44)")
        statements_of(shop)
        shop.assert_exact()
        shop.sql(
            "INSERT INTO {orders} VALUES (200, 1, 'b'), (201, 11, 'b')"
            if fetched
            else "INSERT INTO {orders} VALUES (300, 1, 'b'), (301, 11, 'b'), (42, 3, 'b')"
        )
        shop.sql("INSERT INTO {lines} SELECT id, 1, 9 FROM {orders} WHERE id >= 200 OR id = 42")
        statements_of(shop)
    shop.assert_exact()
    shop.assert_verified()


def test_keys_that_are_gone_are_not_looked_for(shop: Warehouse) -> None:
    shop.sql("DELETE FROM {lines} WHERE o = 60")
    shop.sql("UPDATE {lines} SET q = 10 WHERE o = 61")
    shop.sql("DELETE FROM {orders} WHERE id = 60")
    read = statements_of(shop, "joined")
    assert "`id` IN (61)" in read and "60" not in read.split("`id` IN (")[1].split(")")[0]
    shop.refresh("incremental")
    shop.assert_exact()


def test_a_condition_that_cannot_be_computed_is_the_views_own_fault(shop: Warehouse) -> None:
    """The others are refreshed as if there were none."""
    shop.views({"divided": "SELECT id FROM orders WHERE 10 div day > 1"})
    shop.sql("DELETE FROM {lines} WHERE o IN (SELECT id FROM {orders} WHERE day = 0)")
    shop.sql("DELETE FROM {orders} WHERE day = 0")
    shop.refresh()
    shop.sql("INSERT INTO {orders} VALUES (500, 0, 'z'), (501, 3, 'z')")
    found = shop.refresh("incremental")
    assert found["divided"].executed == "failed"
    assert "division by zero" in found["divided"].error.lower()
    assert found["joined"].executed == "incremental"
    shop.store.drop_view("divided")
    shop.assert_exact()
