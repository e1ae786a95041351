"""Files that a change cannot touch are not read: of base tables, and of a view's own table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine import inline, relations
from hybridview.engine.values import PAGE_ROWS
from tests.spark.warehouse import Warehouse, leave_to_spark, record

pytestmark = pytest.mark.spark

VIEWS = {
    "pairs": "SELECT t.k, t.x, u.label FROM t JOIN u ON t.k = u.k",
    "highest": "SELECT k, max(x) AS high, count(*) AS n FROM t GROUP BY k",
    "added": "SELECT k, sum(x) AS total, count(*) AS n FROM t GROUP BY k",
    "present": "SELECT k, x FROM t WHERE EXISTS (SELECT * FROM u WHERE u.k = t.k AND label > '')",
}


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two tables in four files each, ordered by k; NULLs and repeated rows among them."""
    shop = Warehouse(tmp_path_factory.mktemp("skipping") / "store", spark)
    empty = "SELECT int(NULL) AS k, int(NULL) AS x WHERE FALSE"
    shop.table("t", "k INT, x INT", empty)
    shop.table("u", "k INT, label STRING", "SELECT int(NULL) AS k, '' AS label WHERE FALSE")
    for start in (0, 100, 200, 300):
        rows = f"SELECT int(id) AS k FROM range({start}, {start + 100})"
        shop.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ k, k % 7 FROM ({rows})")
        shop.sql(f"INSERT INTO {{u}} SELECT /*+ COALESCE(1) */ k, concat('u', k) FROM ({rows})")
    shop.sql("INSERT INTO {t} VALUES (NULL, 1), (NULL, 1), (7, 3), (7, 3)")
    shop.sql("INSERT INTO {u} VALUES (NULL, 'none'), (7, 'again')")
    shop.views(VIEWS)
    assert set(shop.executed().values()) == {"initial"}
    # The views' own tables get several files by growing.
    for start in (1000, 2000):
        shop.sql(f"INSERT INTO {{t}} SELECT int(id), 1 FROM range({start}, {start + 9})")
        shop.refresh("incremental")
    return shop


@pytest.mark.parametrize(
    ("most", "nulls"),
    [
        pytest.param(2000, False, id="fetched"),
        pytest.param(3, True, id="kept, with NULL"),
        pytest.param(2000, True, id="fetched, with NULL", marks=pytest.mark.long),
        pytest.param(3, False, id="kept", marks=pytest.mark.long),
    ],
)
def test_conditions_reach_tables_and_nothing_is_missed(
    template: Warehouse, tmp_path: Path, most: int, nulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = template.copy(tmp_path / "store")
    monkeypatch.setattr(inline, "MAX_ROWS", most)
    # Rows that are near by their files alone are left out, too, where they would be added up.
    monkeypatch.setattr(relations, "FILTERED", 0)
    shop.sql("DELETE FROM {t} WHERE k = 7" + " OR k IS NULL" * nulls)
    shop.sql("UPDATE {t} SET k = k + 1 WHERE k BETWEEN 10 AND 12")
    shop.sql("INSERT INTO {t} VALUES (15, 5), (15, 5), (7, 1)" + ", (NULL, 5)" * nulls)
    shop.sql("UPDATE {u} SET label = 'new' WHERE k = 15")
    sent = record(shop.store, shop.spark)
    assert set(shop.executed("incremental").values()) == {"incremental"}
    near = [s for s in sent if "@near" in s.split(" AS ")[0]]
    own = [s for s in near if re.search("t@near k (in|only) t@", s)]
    assert own and all(("`k` IS NULL OR" in s) == nulls for s in own)
    only = [s for s in near if "u@near k only t@" in s]
    assert only and not (nulls and any("LEFT SEMI JOIN" in s for s in only))
    assert nulls or any("LEFT SEMI JOIN" in s and "/tables/u`" in s for s in sent)
    assert any(" BETWEEN " in s or " IN (" in s for s in near)
    shop.assert_exact(*VIEWS)


def test_values_of_two_changes_that_overlap_are_all_looked_for(spark: Any, tmp_path: Path) -> None:
    """Keys of one change in a row, those of the other one scattered among them and beyond."""
    shop = Warehouse(tmp_path / "store", spark)
    for name in ("r", "s"):
        shop.table(name, "k INT, x INT")
        for start in range(0, 20_000, 2_000):
            rows = f"SELECT /*+ COALESCE(1) */ int(id), 1 FROM range({start}, {start + 2_000})"
            shop.sql(f"INSERT INTO {{{name}}} {rows}")
    both = "SELECT k, x FROM r UNION ALL SELECT k, x FROM s"
    shop.views({"highest": f"SELECT k, max(x) AS high, count(*) AS n FROM ({both}) GROUP BY k"})
    shop.refresh()
    shop.sql("DELETE FROM {r} WHERE k BETWEEN 1000 AND 1099")
    scattered = "k BETWEEN 1050 AND 1146 AND k % 6 = 0 OR k BETWEEN 5000 AND 8900 AND k % 300 = 200"
    shop.sql(f"UPDATE {{s}} SET x = 2 WHERE {scattered}")
    sent = record(shop.store, shop.spark)
    assert shop.executed("incremental") == {"highest": "incremental"}
    near = [s for s in sent if "@near k in r@changes.k, s@changes.k" in s.split(" AS ")[0]]
    assert near and all(" IN (" in s and s.count(" BETWEEN ") > 2 for s in near), near
    shop.assert_exact("highest")


def test_a_merge_looks_where_the_change_is(
    template: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The touched groups lie in the small files of the views' tables."""
    leave_to_spark(monkeypatch)
    shop = template.copy(tmp_path / "store")
    shop.sql("UPDATE {t} SET x = 9 WHERE k = 1003")
    shop.sql("DELETE FROM {t} WHERE k = 2004")
    sent = record(shop.store, shop.spark)
    shop.refresh("incremental")
    merges = [s for s in sent if s.startswith("MERGE")]
    assert len(merges) == 2 and all("\n  AND (((t.`k` IN (" in s for s in merges), merges
    shop.assert_exact(*VIEWS)


def test_scattered_keys_are_read_page_by_page(spark: Any, tmp_path: Path) -> None:
    """One sorted file, and keys from end to end of it: no file is skipped, but most pages are."""
    shop = Warehouse(tmp_path / "store", spark)
    rows = "SELECT /*+ COALESCE(1) */ int(id), int(id % 7) FROM range(0, 2000000, 1, 1)"
    shop.table("big", "k INT, x INT", rows)
    shop.table("few", "k INT, label STRING", "VALUES (5, 'five')")
    shop.views({"labelled": "SELECT few.label, big.x FROM few JOIN big ON few.k = big.k"})
    shop.refresh()
    assert len(list((shop.root / "tables" / "big").glob("*.parquet"))) == 1
    keys = range(25_000, 2_000_000, 50_000)  # too many for spans with gaps between them
    shop.sql("INSERT INTO {few} VALUES " + ", ".join(f"({k}, 'k{k}')" for k in keys))
    sent = record(shop.store, spark)
    assert shop.executed("incremental") == {"labelled": "incremental"}
    (near,) = [s for s in sent if s.startswith("CREATE") and "big@near" in s]
    query = near[near.index("SELECT ") :]
    assert rows_scanned(shop, query) <= len(keys) * PAGE_ROWS
    shop.assert_exact("labelled")


def rows_scanned(shop: Warehouse, query: str) -> int:
    """Run a query as the engine does, and return how many rows its scan has decoded."""
    (session, *_) = shop.store._context.workers(1)
    frame = session.frame(query)
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(leaf.metrics().apply("numOutputRows").value())


def files_scanned(spark: Any, query: str) -> int:
    """Run a query and return how many files its scan has opened."""
    frame = spark.sql(query)
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(leaf.metrics().apply("numFiles").value())


def test_a_refresh_says_what_it_had_to_read(template: Warehouse, tmp_path: Path) -> None:
    shop = template.copy(tmp_path / "store")
    whole = shop.refresh("snapshot", *VIEWS)
    assert whole["added"].read["files"] == files_scanned(
        shop.spark, f"SELECT k FROM {shop.named('t')}"
    )

    shop.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (215, 4), (216, 5)")
    sent = record(shop.store, shop.spark)
    # Others would look for the same rows: then they are not read for this one alone.
    states = shop.refresh("incremental", "pairs", "added")
    near = next(s.split(" AS ", 1)[1] for s in sent if "u@near k in" in s.split(" AS ")[0])
    # One file of u, the change itself; the rows are new, so nothing else is touched.
    assert files_scanned(shop.spark, near) == 1
    assert states["pairs"].read["files"] == 2
    assert states["pairs"].read["bytes"] < whole["pairs"].read["bytes"] / 3
    # Partial sums are added to the one file that holds these groups.
    assert states["added"].read["files"] < whole["added"].read["files"] / 2
    shop.assert_exact("pairs", "added")
