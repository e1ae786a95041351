"""Rows near a change that several views want are read once, and each view makes its own of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine import inline, neighbours, relations
from hybridview.engine.changes import Changes, _Refused
from tests.spark.warehouse import Warehouse, record

pytestmark = pytest.mark.spark

VIEWS = {
    "pairs": "SELECT t.k, t.x, u.label FROM t JOIN u ON t.k = u.k",
    "labels": "SELECT u.label, sum(t.x) AS s FROM t JOIN u ON t.k = u.k GROUP BY u.label",
    "high": "SELECT t.k, u.y FROM t JOIN u ON t.k = u.k WHERE t.x > 3 AND u.y > 1",
    "all_of_t": "SELECT t.k, t.x, u.y FROM t LEFT JOIN u ON t.k = u.k",
    "present": "SELECT k, x FROM t WHERE EXISTS (SELECT * FROM u WHERE u.k = t.k AND u.y > 2)",
    "tops": "SELECT k, max(x) AS m, count(DISTINCT x) AS d FROM t GROUP BY k",
    "ranks": "SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM t",
    "far": "SELECT t.k, u.label FROM t JOIN u ON t.x = u.y WHERE t.k > 395",
}


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two tables in four files each, ordered by k; NULLs and repeated rows among them."""
    shop = Warehouse(tmp_path_factory.mktemp("neighbours") / "store", spark)
    shop.table("t", "k INT, x INT")
    shop.table("u", "k INT, label STRING, y INT")
    for start in (0, 100, 200, 300):
        rows = f"SELECT int(id) AS k FROM range({start}, {start + 100})"
        shop.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ k, k % 7 FROM ({rows})")
        shop.sql(
            f"INSERT INTO {{u}} SELECT /*+ COALESCE(1) */ k, concat('u', k), k % 5 FROM ({rows})"
        )
    shop.sql("INSERT INTO {t} VALUES (NULL, 1), (NULL, 1), (7, 3), (7, 3)")
    shop.sql("INSERT INTO {u} VALUES (NULL, 'none', 4), (7, 'again', 4)")
    shop.views(VIEWS)
    assert set(shop.executed().values()) == {"initial"}
    return shop


def looks(sent: list[str], table: str) -> list[str]:
    """Return the statements that read a base table, by themselves or in what they register."""
    return [s for s in sent if f"/tables/{table}`" in s]


def test_one_look_for_all_views(template: Warehouse, tmp_path: Path) -> None:
    shop = template.copy(tmp_path / "store")
    shop.sql("UPDATE {t} SET x = 6 WHERE k IN (33, 150)")
    sent = record(shop.store, shop.spark)
    joins = ("pairs", "labels", "high")
    done = shop.refresh("incremental", *joins)
    assert {s.executed for s in done.values()} == {"incremental"}
    assert len(looks(sent, "u")) == 1, "three views join the same rows of u"
    (look,) = looks(sent, "u")
    assert "`k` IN (33, 150)" in look and "`label`" in look and "`y`" in look
    assert "/*+ BROADCAST(k) */" in look, "the keys are few, and shuffled to nobody"
    shop.assert_exact(*joins)


def test_a_view_alone_looks_for_itself(template: Warehouse, tmp_path: Path) -> None:
    """What others would want of the table is not read for it."""
    shop = template.copy(tmp_path / "store")
    shop.sql("UPDATE {t} SET x = 6 WHERE k = 33")
    sent = record(shop.store, shop.spark)
    shop.refresh("incremental", "high")
    assert looks(sent, "u") and all("`label`" not in look for look in looks(sent, "u"))
    shop.assert_exact("high")


def test_views_that_nothing_matters_to_are_not_counted(template: Warehouse, tmp_path: Path) -> None:
    shop = template.copy(tmp_path / "store")
    shop.sql("INSERT INTO {t} VALUES (34, 1)")  # not above 3, so not for "high"
    sent = record(shop.store, shop.spark)
    done = shop.executed("incremental", "high", "pairs")
    assert done == {"high": "incremental", "pairs": "incremental"}
    found = looks(sent, "u")
    assert found and all("`y`" not in look for look in found), "pairs looks alone"
    shop.assert_exact("high", "pairs")


def test_rows_that_are_too_many_are_each_views_own(
    template: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = template.copy(tmp_path / "store")
    shop.sql("INSERT INTO {u} SELECT 33, concat('n', id), 4 FROM range(50)")
    shop.refresh()
    monkeypatch.setattr(inline, "MAX_ROWS", 20)
    monkeypatch.setattr(neighbours, "_too_many", {})
    shop.sql("UPDATE {t} SET x = 6 WHERE k IN (33, 150)")
    sent = record(shop.store, shop.spark)
    shop.refresh("incremental", "pairs", "labels")
    assert len(looks(sent, "u")) == 3, "together once, in vain, and then each by itself"
    shop.assert_exact("pairs", "labels")
    shop.sql("UPDATE {t} SET x = 5 WHERE k IN (33, 150)")
    sent = record(shop.store, shop.spark)
    shop.refresh("incremental", "pairs", "labels")
    assert len(looks(sent, "u")) == 2, "it is known now that they are too many"
    shop.assert_exact("pairs", "labels")


def test_a_change_that_the_feed_cannot_tell_is_not_shared(
    template: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the difference of two versions, of the columns that each view uses."""
    shop = template.copy(tmp_path / "store")
    shop.store.create_view("xs", "SELECT t.k, t.x, u.y FROM t JOIN u ON t.k = u.k")
    shop.store.create_view("ks", "SELECT t.k, u.label FROM t JOIN u ON t.k = u.k WHERE u.y > 0")
    shop.refresh()

    def refuse(*_: Any) -> Any:
        raise _Refused

    monkeypatch.setattr(Changes, "_read", refuse)
    shop.sql("UPDATE {t} SET x = 60 WHERE k = 150")
    shop.sql("UPDATE {t} SET k = 34 WHERE k = 33")
    done = shop.refresh("incremental", "xs", "ks")
    assert {state.executed for state in done.values()} == {"incremental"}
    shop.assert_exact("xs", "ks")


@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes(
    template: Warehouse, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All views in one refresh, several at a time, whatever can be skipped; NULLs too."""
    monkeypatch.setattr(relations, "USEFUL_SHARE", 1.0)
    shop = template.copy(tmp_path / "store")
    rng = random.Random(seed)
    for _ in range(2):
        for _ in range(rng.randint(1, 3)):
            k = rng.choice(["7", "33", "150", "399", "450", "NULL"])
            is_k = f"k <=> {k}"
            shop.sql(
                rng.choice(
                    [
                        f"INSERT INTO {{t}} VALUES ({k}, {rng.randint(0, 6)})",
                        f"INSERT INTO {{u}} VALUES ({k}, 'new', {rng.randint(0, 4)})",
                        f"DELETE FROM {{t}} WHERE {is_k}",
                        f"DELETE FROM {{u}} WHERE {is_k}",
                        f"UPDATE {{t}} SET x = x + 1, k = k + 1 WHERE {is_k}",
                        f"UPDATE {{u}} SET y = y + 2 WHERE {is_k}",
                    ]
                )
            )
        assert set(shop.executed("incremental").values()) <= {"incremental", "none"}
        shop.assert_exact()
    shop.assert_verified()
