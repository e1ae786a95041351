"""VACUUM, OPTIMIZE and expired epochs on Spark: what is needed stays, and refreshes stay right."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable

from hybridview import Store
from hybridview.catalog import ViewRecord
from hybridview.deltalog import FolderLog
from hybridview.engine.session import SparkPort
from hybridview.errors import EpochGoneError
from hybridview.operations import compaction
from hybridview.operations.compaction import ordering
from hybridview.operations.maintain import VACUUM_SETTINGS
from tests.spark.warehouse import Warehouse, leave_to_spark, record
from tests.support.plain_store import DAY, made_ago

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "CREATE MATERIALIZED VIEW totals CLUSTER BY (g) AS "
    "SELECT g, sum(x) AS total, count(*) AS n FROM t GROUP BY g",
    "lines": "SELECT id, x FROM t WHERE x >= 0",
    "large": "SELECT g, total FROM totals WHERE total > 1",
}
AGES = (20, 15, 10, 3, 1)
"""How many days ago the epochs 1 to 5 were published."""


@contextlib.contextmanager
def days_ago(days: float) -> Iterator[None]:
    """Let refreshes be recorded as of some days ago."""
    clock = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(time.time() - days * DAY, UTC))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hybridview.operations.refresh.datetime", clock)
        yield


def folders(root: Path) -> list[Path]:
    return [path for part in ("tables", "views") for path in (root / part).iterdir()]


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Five epochs in the course of twenty days. In the last, "large" was not refreshed."""
    shop = Warehouse(tmp_path_factory.mktemp("maintain") / "store", spark)
    shop.table("t", "id INT, g INT, x INT", "SELECT id, id % 3, id FROM range(12)")
    shop.views(VIEWS)
    seen: dict[Path, int] = {}
    for epoch, days in enumerate(AGES, start=1):
        if epoch > 1:
            shop.sql(f"INSERT INTO {{t}} VALUES ({100 + epoch}, 0, {epoch})")
            shop.sql(f"UPDATE {{t}} SET x = x + 1 WHERE id = {epoch}")
        views = [name for name in VIEWS if name != "large"] if epoch == len(AGES) else []
        strategy = "incremental" if epoch > 1 else None
        with days_ago(days):
            result = shop.store.refresh(views, strategy=strategy)
        assert result.epoch == epoch and {v.executed for v in result.views} == {
            "incremental" if epoch > 1 else "initial"
        }
        for path in folders(shop.root):
            newest = FolderLog(path).latest()
            for version in range(seen.get(path, -1) + 1, newest + 1):
                made_ago(path, days * DAY, version)
            seen[path] = newest
    return shop


@pytest.fixture
def shop(template: Warehouse, tmp_path: Path) -> Warehouse:
    """A copy: Delta remembers the times that the commits of the original had at first."""
    return template.copy(tmp_path / "store")


def rows_by_epoch(shop: Warehouse, first: int = 1) -> dict[tuple[str, int], list[str]]:
    """Read every view at every epoch as any reader of Delta tables would; no JVM."""
    found = {}
    for epoch in shop.store.history():
        for state in epoch.views if epoch.epoch >= first else ():
            table = DeltaTable(str(shop.log(state.name).path), version=state.version)
            rows = table.to_pyarrow_table().to_pylist()
            found[state.name, epoch.epoch] = sorted(map(str, rows))
    return found


def verify_epoch(store: Store, epoch: int) -> None:
    for view in store.views():
        assert store.verify(view.name, epoch=epoch).ok, (view.name, epoch)


def vacuum_session(shop: Warehouse) -> Any:
    """Return a session of somebody else, which does not list two folders in 10,000 tasks."""
    session = shop.spark.newSession()
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
    return session


def files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*.parquet") if "_delta_log" not in str(p)}


def test_kept_epochs_stay_readable_and_a_child_behind_stays_incremental(shop: Warehouse) -> None:
    store = shop.store
    before = rows_by_epoch(shop)
    assert len({tuple(before["totals", epoch]) for epoch in range(1, 6)}) == 5
    base = files(shop.root / "tables" / "t")
    planned = store.maintain(dry_run=True).works
    sent = record(store, shop.spark)
    result = store.maintain()
    assert result.ok and [w.verb for w in result.works] == [w.verb for w in planned]
    done = {(w.verb, w.target): w for w in result.works}
    # Epoch 3 was read until epoch 4 came, three days ago.
    assert done["expire", "epochs 1-2"].epochs == (1, 2)
    assert {"totals", "lines", "large"} <= {t for verb, t in done if verb == "vacuum"}
    days = [int(s.split(" RETAIN ")[1].split()[0]) // 24 for s in sent if s.startswith("VACUUM")]
    assert days and set(days) == {10}, "as old as the oldest version that epoch 3 reads"

    totals = shop.log("totals")
    assert [totals.readable(version) for version in range(5)] == [False, True, True, True, True]
    assert files(shop.root / "tables" / "t") == base, "base tables are not touched"
    assert rows_by_epoch(shop, 3) == {k: rows for k, rows in before.items() if k[1] >= 3}
    verify_epoch(store, 3)
    with pytest.raises(EpochGoneError, match="epoch 2 has expired"):
        store.read("totals", epoch=2)
    for name in VACUUM_SETTINGS:
        defaults = SparkPort(shop.spark.newSession())
        assert store._context.worker().setting(name) == defaults.setting(name)

    # With the newest epoch alone, only "large" holds on to an older version of its parent.
    sent.clear()
    result = store.maintain(keep="0 days")
    reasons = {w.target: w.reason for w in result.works if w.verb == "vacuum"}
    assert "version 3 stays for view large" in reasons["totals"]
    assert " stays for " not in reasons["lines"]
    assert {s.split(" RETAIN ")[1] for s in sent if s.startswith("VACUUM")} == {
        "1 HOURS",
        f"{3 * 24 + 2} HOURS",
    }
    verify_epoch(store, 5)
    states = shop.refresh("incremental")
    assert {name: state.executed for name, state in states.items()} == {
        **dict.fromkeys(VIEWS, "none"),
        "large": "incremental",
    }
    shop.assert_exact()


def test_a_plain_vacuum_breaks_no_published_epoch(shop: Warehouse) -> None:
    """Nor does Delta refuse old versions: it keeps files of stored tables for a year."""
    before = rows_by_epoch(shop)
    foreign = vacuum_session(shop)
    for path in (shop.root / "views").iterdir():
        foreign.sql(f"VACUUM delta.`{path}`")
    assert rows_by_epoch(shop) == before
    verify_epoch(shop.store, 1)
    old = f"SELECT sum(n) FROM delta.`{shop.root}/views/totals` VERSION AS OF 0"
    assert shop.spark.sql(old).collect() == [(12,)]


def test_compaction_leaves_refreshes_incremental(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybridview.operations.compaction.MANY", 1)
    leave_to_spark(
        monkeypatch
    )  # it appends a file, where ours would take the place of the only one
    shop.sql("INSERT INTO {t} VALUES (150, 1, 15)")
    shop.refresh("incremental")
    before = rows_by_epoch(shop)
    result = shop.store.maintain(keep="30 days")
    assert result.ok
    compacted = {w.target for w in result.works if w.verb == "compact"}
    assert "lines" in compacted
    log = shop.log("lines")
    assert log.commit(log.latest()).operation == "OPTIMIZE"
    assert not [
        w for w in shop.store.maintain(dry_run=True, keep="30 days").works if w.target == "lines"
    ]
    assert rows_by_epoch(shop) == before
    assert [v.state for v in shop.store.status().views if v.name == "lines"] == ["fresh"]
    shop.sql("INSERT INTO {t} VALUES (200, 1, 20)")
    shop.sql("DELETE FROM {t} WHERE id = 3")
    assert set(shop.executed("incremental").values()) == {"incremental"}
    shop.assert_exact()
    assert {k: rows for k, rows in rows_by_epoch(shop).items() if k in before} == before


def test_a_refresh_compacts_a_table_of_too_many_files(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.refresh()
    monkeypatch.setattr("hybridview.operations.compaction.TOO_MANY", 1)
    before = rows_by_epoch(shop)
    shop.sql("INSERT INTO {t} VALUES (200, 1, 20)")
    statements = record(shop.store, shop.spark)
    assert shop.executed("incremental")["lines"] == "incremental"
    assert sum(s.startswith("OPTIMIZE") for s in statements) == 1
    assert shop.newest_commit("lines").operation == "OPTIMIZE"
    assert shop.log("lines").size(shop.log("lines").latest()).files == 1
    assert {k: rows for k, rows in rows_by_epoch(shop).items() if k in before} == before
    assert {v.state for v in shop.store.status().views} == {"fresh"}
    assert shop.store.refresh().epoch is None
    shop.sql("DELETE FROM {t} WHERE id = 3")
    assert shop.executed("incremental")["lines"] == "incremental"
    shop.assert_exact()


def test_a_large_table_is_put_in_the_order_of_its_keys(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first refresh that applies a change to it, and not by the next ones."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("t", "k INT, x INT", "SELECT id * 7 % 400, id FROM range(400)")
    shop.views({"by_k": "SELECT k, max(x) AS high, count(*) AS n FROM t GROUP BY k"})
    leave_to_spark(monkeypatch)
    shop.refresh()
    for first in (1, 2):  # each new file has keys from end to end
        shop.sql(f"INSERT INTO {{t}} SELECT 1000 * {first} - id * 7, id FROM range(200)")
        shop.refresh("incremental")
    before, log = rows_by_epoch(shop), shop.log("by_k")
    assert ordering(view_of(shop, "by_k"), log) == "", "it is small"
    monkeypatch.setattr(compaction, "LARGE", 1)
    monkeypatch.setattr(compaction, "SMALL", 1)
    monkeypatch.setattr(compaction, "FILE", log.size(log.latest()).bytes // 6)
    assert " is read for one k" in ordering(view_of(shop, "by_k"), log)

    shop.sql("INSERT INTO {t} VALUES (7, 1)")
    statements = record(shop.store, spark)
    assert shop.executed("incremental") == {"by_k": "incremental"}
    (optimize,) = [s for s in statements if s.startswith("OPTIMIZE")]
    assert optimize.endswith("ZORDER BY (`k`)")
    files = log.size(log.latest()).files
    assert files >= 4 and ordering(view_of(shop, "by_k"), log) == ""
    assert {k: rows for k, rows in rows_by_epoch(shop).items() if k in before} == before

    shop.sql("UPDATE {t} SET x = 1000 WHERE k = 7")
    statements = record(shop.store, spark)
    state = shop.refresh("incremental")["by_k"]
    assert not any(s.startswith("OPTIMIZE") for s in statements)
    removed = shop.newest_commit("by_k").files
    assert state.executed == "incremental" and len(removed) <= 3, (removed, files)
    shop.assert_exact()
    shop.assert_verified()


def view_of(shop: Warehouse, name: str) -> ViewRecord:
    return next(v for v in shop.store.views() if v.name == name)


def test_changes_that_vacuum_removed_are_recomputed(shop: Warehouse) -> None:
    shop.refresh()
    shop.sql("INSERT INTO {t} VALUES (300, 1, 30)")
    shop.sql("UPDATE {t} SET x = 0")
    foreign = vacuum_session(shop)
    foreign.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    newest = FolderLog(shop.root / "tables" / "t").latest()
    foreign.sql(f"VACUUM {shop.named('t')} RETAIN 0 HOURS")
    gone = f'VACUUM removed the change files of "t" at commit {newest - 1}'
    warnings = {v.name: v.warning for v in shop.store.status().views}
    assert warnings["totals"] == f"{gone}; the next refresh recomputes the view"
    refused = shop.store.refresh(["lines"], strategy="incremental")
    assert [v.executed for v in refused.views] == ["failed"] and gone in refused.views[0].error
    states = shop.refresh("hybrid")
    assert states["lines"].executed == states["totals"].executed == "snapshot"
    assert gone in states["lines"].reason and gone in states["totals"].reason
    shop.assert_exact()


def test_changes_older_than_the_retention_are_read_while_they_are_there(
    shop: Warehouse, tmp_path: Path
) -> None:
    """Delta refuses them by their age, though VACUUM never ran."""
    shop.refresh()
    shop.sql("INSERT INTO {t} VALUES (400, 1, 40)")
    shop.sql("UPDATE {t} SET x = x + 1 WHERE id = 400")
    table = shop.root / "tables" / "t"
    newest = FolderLog(table).latest()
    for version in (newest - 1, newest):
        made_ago(table, (9 + newest - version) * DAY, version)
    late = shop.copy(tmp_path / "late")
    shutil.rmtree(shop.root)
    view = next(v for v in late.store.status().views if v.name == "totals")
    assert (view.readable, view.behind) == (0.0, 2)
    feed = late.spark.newSession().read.format("delta").option("readChangeFeed", "true")
    with pytest.raises(Exception, match="RETENTION"):
        feed.option("startingVersion", newest - 1).load(str(late.root / "tables" / "t")).collect()
    assert set(late.executed("incremental").values()) == {"incremental"}
    late.assert_exact()
