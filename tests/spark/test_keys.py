"""Declared keys and foreign keys: checked when declared, believed by refreshes, verified."""

from __future__ import annotations

from typing import Any

import pytest

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

    # A customer that goes, or changes: old orders are joined.
    shop.sql("UPDATE {customers} SET name = 'e' WHERE id = 1")
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
