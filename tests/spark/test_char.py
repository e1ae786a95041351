"""Columns declared as CHAR(n) and VARCHAR(n): compared with padding, and of a limited length."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

VIEWS = {
    "found": "SELECT id FROM t WHERE code = 'AB'",
    "counted": "SELECT count(*) AS n FROM t WHERE code IN ('AB', 'EF')",
    "joined": "SELECT t.id, u.name FROM t JOIN u ON t.code = u.code",
    "carried": "SELECT id, code FROM t WHERE id > 0",
    "grouped": "SELECT code, count(*) AS n FROM t GROUP BY code",
    "child": "SELECT id FROM carried WHERE code = 'AB'",
}


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("char") / "store", spark)
    shop.table("t", "id INT, code CHAR(5)", "VALUES (1, 'AB'), (2, 'CD')")
    shop.table("u", "code CHAR(8), name VARCHAR(4)", "VALUES ('AB', 'ab'), ('CD', 'cd')")
    shop.views(VIEWS)
    shop.refresh()
    return shop


def test_what_is_compared_is_padded(shop: Warehouse) -> None:
    """A change is plain strings: views that compare CHAR are not made from it."""
    shop.sql("INSERT INTO {t} VALUES (3, 'AB')")
    shop.sql("DELETE FROM {t} WHERE id = 1")
    shop.sql("INSERT INTO {u} VALUES ('EF', 'ef')")
    carried = shop.executed("incremental", "carried", "grouped")
    assert carried == {"carried": "incremental", "grouped": "incremental"}
    done = shop.refresh()
    assert shop.rows("found") == shop.rows("child") == [(3,)]
    assert shop.rows("joined") == [(2, "cd"), (3, "ab")]
    assert shop.rows("counted") == [(1,)]
    executed = {name: state.executed for name, state in done.items()}
    others = VIEWS.keys() - carried.keys()
    assert {executed[name] for name in others} == {"snapshot"}
    assert 'column "code" is compared, and is a CHAR(5)' in done["found"].reason
    shop.assert_verified()


def test_a_wider_column_waits_for_apply(shop: Warehouse) -> None:
    shop.sql("ALTER TABLE {u} ALTER COLUMN name TYPE VARCHAR(20)")
    shop.sql("INSERT INTO {u} VALUES ('CD', 'a longer name')")
    blocked = shop.refresh()["joined"]
    assert blocked.executed == "blocked"
    assert "has type varchar(20) now, and had varchar(4)" in blocked.error
    shop.store.create_view("joined", VIEWS["joined"], replace=True)
    assert shop.executed()["joined"] == "snapshot"
    assert (2, "a longer name") in shop.rows("joined")
    shop.assert_verified("joined")
