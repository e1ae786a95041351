"""Declared keys and foreign keys: checked when declared, believed by refreshes, verified."""

from __future__ import annotations

from typing import Any

import pytest

from hybridview.engine import inline
from hybridview.errors import (
    HybridviewError,
    KeyViolationError,
    UnknownColumnError,
    UnknownTableError,
    UsageError,
)
from tests.spark.warehouse import Warehouse, record

pytestmark = pytest.mark.spark

VIEWS = {
    "joined": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id",
    "kept": "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id",
    "turned": "SELECT c.name, count(*) AS n FROM customers c JOIN orders o ON o.customer = c.id "
    "GROUP BY c.name",
}


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("keys") / "store", spark)
    shop.table("customers", "id INT, name STRING, region INT", "VALUES (1, 'a', 1), (2, 'b', 1)")
    shop.table(
        "orders", "id INT, customer INT, code STRING", "VALUES (10, 1, 'x'), (11, NULL, 'y')"
    )
    return shop


@pytest.mark.parametrize(
    ("kind", "reference", "word"),
    [
        (UsageError, "customer", "not a foreign key"),
        (UsageError, "customer ->", "not a foreign key"),
        (UnknownTableError, "customer -> clients", "clients"),
        (UnknownColumnError, "client -> customers", "client"),
        (UsageError, "code -> customers", "types"),
        (UsageError, "customer, id -> customers", "other columns"),
        (KeyViolationError, "id -> customers", "refers to (10,)"),
    ],
)
def test_what_cannot_be_a_foreign_key(
    shop: Warehouse, kind: type[HybridviewError], reference: str, word: str
) -> None:
    shop.store.add_table("customers", key=["id"], replace=True)
    with pytest.raises(kind) as caught:
        shop.store.add_table("orders", references=[reference], replace=True)
    assert word in f"{caught.value.fact} {caught.value.detail}"
    assert caught.value.detail or caught.value.hint


def test_a_table_without_a_key_cannot_be_referred_to(shop: Warehouse) -> None:
    shop.store.add_table("customers", replace=True)
    with pytest.raises(UsageError) as caught:
        shop.store.add_table("orders", references=["customer -> customers"], replace=True)
    assert "--key" in caught.value.hint


def test_new_rows_of_a_referred_table_are_not_joined(shop: Warehouse) -> None:
    store = shop.store
    store.add_table("customers", key=["ID"], replace=True)
    store.add_table("orders", key=["id"], references=["customer -> customers"], replace=True)
    shop.views(VIEWS)
    shop.refresh()
    assert "customers are not joined" in str(store.explain("joined"))

    shop.sql("INSERT INTO {customers} VALUES (3, 'c', 2)")
    assert set(shop.executed("incremental").values()) == {"none"}

    # A new customer with a new order: only the order is joined, with customers.
    shop.sql("INSERT INTO {customers} VALUES (4, 'd', 2)")
    shop.sql("INSERT INTO {orders} VALUES (12, 4, 'z')")
    statements = record(store, shop.spark)
    assert set(shop.executed("incremental").values()) == {"incremental"}
    read = "\n".join(statements)
    assert "tables/customers` VERSION AS OF" in read
    assert "tables/orders` VERSION AS OF" not in read
    shop.assert_exact()

    # A customer that changes: old orders are joined.
    shop.sql("UPDATE {customers} SET name = 'e' WHERE id = 1")
    assert set(shop.executed("incremental").values()) == {"incremental"}
    shop.assert_exact()
    shop.assert_verified()

    # Customers that go with their orders, that come with orders, and one of whom nothing is used
    # that changed: no order is looked for.
    shop.sql("INSERT INTO {customers} VALUES (6, 'f', 1), (7, 'g', 1)")
    shop.sql("INSERT INTO {orders} VALUES (16, 6, 'z'), (17, 7, 'z'), (18, 7, 'z')")
    shop.refresh("incremental")
    shop.sql("DELETE FROM {orders} WHERE customer = 7")
    shop.sql("DELETE FROM {customers} WHERE id = 7")
    shop.sql("INSERT INTO {customers} VALUES (8, 'h', 1)")
    shop.sql("INSERT INTO {orders} VALUES (19, 8, 'z')")
    shop.sql("UPDATE {customers} SET region = 9 WHERE id = 6")
    statements = record(store, shop.spark)
    assert shop.executed("incremental", "joined", "turned") == dict.fromkeys(
        ("joined", "turned"), "incremental"
    )
    near = [s for s in statements if "orders@near customer in customers@kept.id" in s[:80]]
    assert near and all(s.endswith(" WHERE FALSE") for s in near)
    shop.refresh("incremental")
    shop.assert_exact()

    # The same where a change is too large to be fetched, and one that moves keys.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "MAX_ROWS", 0)
        shop.sql("DELETE FROM {orders} WHERE customer = 8")
        shop.sql("DELETE FROM {customers} WHERE id = 8")
        shop.sql("UPDATE {customers} SET name = 'i' WHERE id = 6")
        shop.sql("INSERT INTO {customers} VALUES (9, 'j', 1)")
        shop.sql("INSERT INTO {orders} VALUES (20, 9, 'z'), (21, 6, 'z')")
        assert set(shop.executed("incremental").values()) == {"incremental"}
    shop.assert_exact()
    shop.assert_verified()

    # The declaration is broken, and no refresh can know it.
    shop.sql("INSERT INTO {orders} VALUES (13, 5, 'z')")
    shop.refresh("incremental")
    verdict = store.verify("kept")
    assert not verdict.ok
    assert verdict.broken_keys == ("orders refers to (5,), not in customers",)
    shop.sql("INSERT INTO {customers} VALUES (5, 'f', 2), (5, 'g', 2)")
    shop.refresh("incremental")
    assert store.verify("joined").missing == 2
    assert "customers (id): (5,) occurs 2 times" in store.verify("joined").broken_keys
