"""Consistency levels: which states of its tables a view shows, and the proof of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hybridview.operations.levels import PROPERTY
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark


def test_a_complete_view_shows_every_state(spark: Any, tmp_path: Path) -> None:
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("a", "k INT, x INT", "VALUES (1, 1)")
    shop.table("b", "k INT, y INT", "VALUES (1, 10)")
    sql = "SELECT sum(a.x * b.y) AS s FROM a JOIN b ON a.k = b.k"
    shop.store.create_view(
        "each", f"CREATE MATERIALIZED VIEW each TBLPROPERTIES ('{PROPERTY}' = 'complete') AS {sql}"
    )
    shop.store.create_view("some", sql)
    assert shop.store.refresh().epochs == (1,)
    shop.sql("INSERT INTO {a} VALUES (1, 2)")
    shop.sql("INSERT INTO {b} VALUES (1, 100)")
    shop.sql("OPTIMIZE {a}")
    shop.sql("DELETE FROM {a} WHERE x = 1")
    result = shop.store.refresh(strategy="incremental")
    assert result.ok and result.epochs == (2, 3, 4)
    seen = [shop.store.read("each", epoch=n).collect()[0].s for n in (1, 2, 3, 4)]
    assert seen == [10, 30, 330, 220]
    assert [shop.store.read("some", epoch=n).collect()[0].s for n in (1, 4)] == [10, 220]

    each, some = shop.store.prove("each"), shop.store.prove("some")
    assert (each.level, each.epochs, each.rows) == ("complete", 4, 4)
    assert (some.level, some.wanted, some.ok) == ("strong", "strong", True)
    assert some.problems == ("epoch 4 took 3 commits at once",)
    assert shop.store.refresh().epochs == ()


def test_a_wrong_state_is_noticed(spark: Any, tmp_path: Path) -> None:
    """The proof reads what is stored; it does not believe records."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("a", "k INT, x INT", "VALUES (1, 1), (2, 2)")
    shop.views({"sums": "SELECT k, sum(x) AS s FROM a GROUP BY k"})
    shop.refresh()
    shop.sql("INSERT INTO {a} VALUES (1, 2)")
    shop.refresh()
    catalog = shop.store._context.catalog()
    newest = catalog.published()
    assert newest is not None
    # A record that claims the new state for what is still the old one.
    state = replace(newest.views[0], version=0)
    forged = replace(newest, epoch=3, attempt="x", views=(state,))
    shop.store._context.ledger.publish(forged, catalog.store_id)
    proof = shop.store.prove("sums")
    assert (proof.level, proof.ok, proof.epochs) == ("wrong", False, 3)
    assert proof.problems == ("epoch 3 is not the query at its versions",)
