"""Rows of a change that no view's conditions let through: they are not joined, nor looked for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hybridview.engine import inline, relations, signed_rows
from hybridview.strategy import costs
from tests.spark.warehouse import Warehouse, record

pytestmark = pytest.mark.spark

VIEWS = {
    "joined": "SELECT o.id, o.day, l.n, l.q FROM orders o JOIN lines l ON l.parent = o.id "
    "WHERE o.day < 10 AND l.q > 5",
    "some": "SELECT o.id FROM orders o WHERE o.day < 10 AND EXISTS "
    "(SELECT 1 FROM lines l WHERE l.parent = o.id AND l.q > 5)",
    "totals": "SELECT o.day, sum(l.q) AS q, count(*) AS n FROM orders o "
    "LEFT JOIN lines l ON l.parent = o.id AND l.q > 5 WHERE o.day < 10 GROUP BY o.day",
    "large": "SELECT day, max(id) AS m FROM orders WHERE day >= 10 GROUP BY day",
}


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("relevant") / "store", spark)
    shop.table("orders", "id INT, day INT, note STRING", "SELECT id, id % 20, 'a' FROM range(100)")
    shop.table(
        "lines", "parent INT, n INT, q INT", "SELECT id % 100, id div 100, id % 11 FROM range(300)"
    )
    shop.store.add_table("orders", key=["id"], replace=True)
    shop.store.add_table("lines", references=["parent -> orders"], replace=True)
    shop.views(VIEWS)
    shop.refresh()
    return shop


def statements_of(shop: Warehouse, *views: str) -> str:
    statements = record(shop.store, shop.spark)
    assert set(shop.executed("incremental", *views).values()) <= {"incremental", "none"}
    return "\n".join(statements)


def test_a_change_that_does_not_matter_reads_the_feed_alone(shop: Warehouse) -> None:
    versions = shop.versions()
    shop.sql("UPDATE {lines} SET q = 4 WHERE parent = 3 AND q < 4")
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


@pytest.mark.parametrize(("fetched", "first"), [(True, 40), (False, 70)])
def test_what_became_of_a_key_is_seen_from_all_of_its_rows(
    shop: Warehouse, fetched: bool, first: int
) -> None:
    """An order that leaves the condition, or meets it from now on, is still the same order.

    To those who see the rows that matter alone it would be gone, or new: and nothing that was there
    refers to a new one.
    """
    gone, stay, new = f"{first + 1}, {first + 2}", f"{first + 3}, {first + 4}", 10 * first
    with pytest.MonkeyPatch.context() as patch:
        if not fetched:
            patch.setattr(inline, "MAX_ROWS", 0)
        shop.sql("UPDATE {orders} SET day = CASE WHEN day < 10 THEN 15 ELSE 5 END WHERE id < 40")
        statements_of(shop)
        shop.assert_exact()
        # Orders that go with their lines, one of which comes again, and that stay.
        shop.sql(f"DELETE FROM {{lines}} WHERE parent IN ({gone})")
        shop.sql(f"DELETE FROM {{orders}} WHERE id IN ({gone})")
        shop.sql(f"INSERT INTO {{orders}} VALUES ({first + 1}, 1, 'b')")
        shop.sql(f"UPDATE {{orders}} SET note = 'c' WHERE id IN ({stay})")
        shop.sql(f"UPDATE {{lines}} SET q = q + 6 WHERE parent IN ({stay})")
        statements_of(shop)
        shop.assert_exact()
        # Orders that come with lines.
        shop.sql(f"INSERT INTO {{orders}} VALUES ({new}, 1, 'b'), ({new + 1}, 11, 'b')")
        shop.sql(f"INSERT INTO {{lines}} VALUES ({new}, 1, 9), ({new + 1}, 1, 9), ({new}, 2, 1)")
        statements_of(shop)
    shop.assert_exact()
    shop.assert_verified()


def test_keys_that_are_gone_are_not_looked_for(shop: Warehouse) -> None:
    shop.sql("DELETE FROM {lines} WHERE parent = 60")
    shop.sql("UPDATE {lines} SET q = 10 WHERE parent = 61")
    shop.sql("DELETE FROM {orders} WHERE id = 60")
    read = statements_of(shop, "joined")
    assert "`id` IN (61)" in read and "60" not in read.split("`id` IN (")[1].split(")")[0]
    shop.refresh("incremental")
    shop.assert_exact()


PAIRS = """SELECT o.id, o.note, l.n, l.q FROM orders o JOIN lines l ON l.parent = o.id
    WHERE l.q > 1 AND EXISTS
    (SELECT 1 FROM lines m WHERE m.parent = l.parent AND m.q <> l.q AND m.q > 1)"""


@pytest.mark.parametrize("most", [inline.MAX_ROWS, 12])
def test_what_is_near_several_changes_is_looked_for_once(
    shop: Warehouse, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.views({f"pairs{most}": PAIRS})
    shop.refresh(None, f"pairs{most}")
    monkeypatch.setattr(relations, "FILTERED", 0)
    monkeypatch.setattr(relations, "USEFUL_SHARE", 1.0)
    monkeypatch.setattr(inline, "MAX_ROWS", most)
    for _ in range(2):  # what was shown for one refresh is not shown to the next
        shop.sql("UPDATE {orders} SET note = concat(note, 'x') WHERE id IN (61, 62, 63)")
        shop.sql("UPDATE {lines} SET q = q + 1 WHERE parent IN (62, 64) AND n = 1")
        shop.sql("INSERT INTO {lines} VALUES (65, 9, 3)")
        sent = record(shop.store, shop.spark)
        assert shop.executed("incremental", f"pairs{most}") == {f"pairs{most}": "incremental"}
        (reading,) = reading_lines(sent)
        assert "`q` > 1" in reading, "rows that cannot matter are not kept"
        shop.assert_exact(f"pairs{most}")
    shop.store.drop_view(f"pairs{most}")


def test_hybrid_looks_again_once_it_knows_how_many_rows_are_near(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.views({"weighed": PAIRS})
    shop.refresh(None, "weighed")
    monkeypatch.setattr(relations, "FILTERED", 0)
    monkeypatch.setattr(relations, "USEFUL_SHARE", 1.0)
    monkeypatch.setattr(inline, "MAX_ROWS", 2)
    monkeypatch.setattr(costs, "SMALL", 0)
    monkeypatch.setattr(costs, "APPLYING", 0)
    monkeypatch.setattr(costs, "LOOKING", 0)
    monkeypatch.setattr(costs, "KEEPING", 0)
    for again, executed in ((0.0, "incremental"), (1_000.0, "snapshot")):
        monkeypatch.setattr(costs, "AGAIN", again)
        shop.sql("UPDATE {lines} SET q = q + 1 WHERE parent = 62 AND n = 1")
        sent = record(shop.store, shop.spark)
        state = shop.refresh("hybrid", "weighed")["weighed"]
        assert state.executed == executed
        assert sum(s.startswith("SELECT count(*) FROM `lines@near") for s in sent) == 1
        # Nothing is left in memory, whichever way it went.
        kept = [s for s in sent if s.startswith("CACHE TABLE")]
        assert kept and len(kept) == sum(s.startswith("UNCACHE TABLE") for s in sent)
        shop.assert_exact("weighed")
    assert re.match(r"applying the change would take about \d+000\.0 s", state.reason)
    monkeypatch.undo()
    shop.store.drop_view("weighed")


def reading_lines(sent: list[str]) -> list[str]:
    return [s for s in sent if "tables/lines` VERSION AS OF" in s and "DESCRIBE" not in s]


def test_rows_that_stay_and_rows_that_changed_are_judged_alike(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old rows are new ones without those that changed: one of both alone must not be judged."""
    query = PAIRS.replace("FROM lines m", "FROM (SELECT DISTINCT parent, q FROM lines) m")
    shop.views({"judged": query})
    shop.refresh(None, "judged")
    monkeypatch.setattr(relations, "FILTERED", 0)
    monkeypatch.setattr(relations, "USEFUL_SHARE", 1.0)
    monkeypatch.setattr(signed_rows, "MOST_CONDITIONS", 0)  # too many to judge changed rows by
    shop.sql("UPDATE {orders} SET note = concat(note, 'y') WHERE id IN (81, 82, 83)")
    shop.sql("UPDATE {lines} SET q = CASE WHEN q > 1 THEN 0 ELSE 7 END WHERE parent IN (82, 84)")
    sent = record(shop.store, shop.spark)
    assert shop.executed("incremental", "judged") == {"judged": "incremental"}
    assert reading_lines(sent) and not any("`q` > 1" in s for s in reading_lines(sent))
    shop.assert_exact("judged")
    shop.store.drop_view("judged")


def test_a_condition_that_cannot_be_computed_is_the_views_own_fault(shop: Warehouse) -> None:
    """The others are refreshed as if there were none."""
    shop.views({"divided": "SELECT id FROM orders WHERE 10 div day > 1"})
    shop.sql("UPDATE {orders} SET day = 1 WHERE day = 0")
    shop.refresh()
    shop.sql("INSERT INTO {orders} VALUES (500, 0, 'z'), (501, 3, 'z')")
    found = shop.refresh("incremental")
    assert found["divided"].executed == "failed"
    assert "division by zero" in found["divided"].error.lower()
    assert found["totals"].executed == "incremental"
    shop.store.drop_view("divided")
    shop.assert_exact()


def test_nor_is_it_the_fault_of_others_where_a_change_is_large(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.views(
        {
            "halved": "SELECT parent FROM lines WHERE 10 div n > 1",
            "guarded": "SELECT parent FROM lines WHERE n <> 0 AND 10 div n > 1",
        }
    )
    shop.sql("UPDATE {lines} SET n = 1 WHERE n = 0")
    shop.refresh()
    monkeypatch.setattr(inline, "MAX_ROWS", 0)
    shop.sql("INSERT INTO {lines} VALUES (66, 0, 7), (66, 2, 8)")
    found = shop.refresh("incremental")
    assert found["halved"].executed == "failed"
    assert {found[name].executed for name in ("joined", "guarded")} == {"incremental"}
    shop.store.drop_view("halved")
    shop.assert_exact()
