"""Traps of Delta Lake and Spark that a view store can fall into: each has a test.

These have tests of their own elsewhere, named after what the store does about them:

==========================================================  =======================================
The change feed begins when it is switched on               test_schema_change: a_feed_that_was_off
VACUUM removes change files that the log still lists        test_maintain: changes_that_vacuum_...
Updates that change nothing are in the feed                 test_protocol: a_change_that_nets_to_...
Overwrite and RESTORE are deletes and inserts of all rows   test_protocol: restore_and_overwrite_...
OPTIMIZE makes a version without rows                       test_protocol: optimize_advances_...
A rename or a drop inside a range breaks the feed           test_schema_change: a_used_column_...
The feed is read with the table's newest columns            test_schema_change: an_unused_column_...
A replaced table has the old one's path, and another id     test_protocol: missing_and_replaced_...
MERGE reads its source twice                                test_exactness: a_large_change
A transaction id that was seen is skipped without a word    test_protocol: the_second_of_two_equal_
-0.0, NaN, collations: what = and GROUP BY take for equal   test_identity
Several tables cannot be written in one transaction         faults: readers_never_see_a_mixture
Two MERGEs on one table conflict, and so does OPTIMIZE      faults: three_maintainers
Another engine writes the change feed                       faults: all base tables, by delta-rs
Files of a stored table are rewritten where none matches    test_protocol: one_commit_per_changed_
==========================================================  =======================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from hybridview import Store
from hybridview.deltalog import FolderLog
from hybridview.engine.local import SETTINGS
from hybridview.engine.spark_errors import spark_errors
from hybridview.errors import RaceLostError
from hybridview.plan.steps import ViewPlan
from tests.spark.test_protocol import run_plan
from tests.spark.warehouse import Warehouse, leave_to_spark, record

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT g, sum(x) AS total, count(*) AS n FROM t GROUP BY g",
    "pairs": "SELECT g, h, count(*) AS n, max(x) AS high FROM t GROUP BY g, h",
    "kinds": "SELECT DISTINCT g FROM t",
    "labelled": "SELECT u.label, p.total FROM totals p JOIN u ON p.g = u.g",
    "floats": "SELECT g, sum(f) AS s FROM t GROUP BY g",
    "rows": "SELECT count(*) AS n FROM u",
}

EXACT = tuple(name for name in VIEWS if name != "floats")
"""The views whose digits do not depend on the order of rows."""


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A store with all views loaded at epoch 1; every test works on a copy."""
    shop = Warehouse(tmp_path_factory.mktemp("traps") / "store", spark)
    values = "id, nullif(id % 3, 2) AS g, nullif(id % 2, 1) AS h, id % 7 AS x, id / 7D AS f"
    columns = "id INT, g INT, h INT, x INT, f DOUBLE"
    shop.table("t", columns, f"SELECT {values} FROM (SELECT int(id) AS id FROM range(30))")
    shop.table("u", "g INT, label STRING", "VALUES (0, 'a'), (1, 'b')")
    shop.views(VIEWS)
    assert set(shop.executed().values()) == {"initial"}
    return shop


@pytest.fixture
def shop(template: Warehouse, tmp_path: Path) -> Warehouse:
    return template.copy(tmp_path / "store")


def test_start_after_latest(shop: Warehouse) -> None:
    """The feed refuses a range that starts after the newest version.

    A parent whose change nets to nothing has no newer version, and its child has work to do.
    """
    reader = shop.spark.read.format("delta").option("readChangeFeed", "true")
    with pytest.raises(PySparkException, match="START_VERSION_AFTER_LATEST"):
        reader.option("startingVersion", 99).load(f"{shop.root}/tables/t").collect()
    shop.sql("UPDATE {t} SET x = x WHERE id = 4")
    shop.sql("INSERT INTO {u} VALUES (0, 'c')")
    states = shop.refresh("incremental")
    assert states["totals"].rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert states["labelled"].executed == "incremental"
    assert states["labelled"].rows["inserted"] == 1
    shop.assert_exact(*EXACT)


def test_end_after_latest_is_accepted(shop: Warehouse) -> None:
    """A range may end after the newest version; so versions are pinned, never left open."""
    sent = record(shop.store, shop.spark)
    shop.sql("INSERT INTO {u} VALUES (2, 'd')")
    plan = shop.store.plan(["rows"], strategy="incremental")
    shop.sql("INSERT INTO {u} VALUES (3, 'e')")
    states = run_plan(shop.store, plan)
    assert states[-1].inputs == {plan.views[-1].sources[0].table_id: 2}
    assert any("rows" in statement for statement in sent)
    stored = shop.spark.sql(f"SELECT n FROM delta.`{shop.root}/views/rows`").collect()
    assert stored[0].n == 3, "the row that came after the plan belongs to the next refresh"
    assert shop.refresh("incremental")["rows"].executed == "incremental"
    shop.assert_exact("rows")


def test_count_answers_after_vacuum(shop: Warehouse) -> None:
    """Statistics answer COUNT(*) of a version whose files are gone; a column must be read."""
    name = "spark.databricks.delta.retentionDurationCheck.enabled"
    shop.sql("DELETE FROM {u} WHERE g = 0")
    session = shop.spark.newSession()
    session.conf.set(name, "false")
    session.sql(f"VACUUM {shop.named('u')} RETAIN 0 HOURS")
    old = f"FROM {shop.named('u')} VERSION AS OF 1"
    session.conf.set(
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration", "false"
    )
    assert session.sql(f"SELECT count(*) {old}").collect()[0][0] == 2
    with pytest.raises(spark_errors(), match="FILE_NOT_EXIST"):
        session.sql(f"SELECT sum(g) {old}").collect()
    log = FolderLog(shop.root / "tables" / "u")
    assert log.readable(log.latest()) and not log.readable(1)


def test_several_source_rows_for_one_key(shop: Warehouse) -> None:
    """MERGE inserts a key as often as its source has it; so a change has each key once."""
    shop.sql(
        "INSERT INTO {t} VALUES (100, 9, 9, 1, 0.5D), (101, 9, 9, 2, 0.5D), (102, 9, 9, 3, 0.5D), "
        "(103, NULL, 9, 4, 0.5D), (104, NULL, 9, 5, 0.5D)"
    )
    states = shop.refresh("incremental")
    assert states["totals"].rows == {"inserted": 1, "updated": 1, "deleted": 0}
    assert states["pairs"].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert states["kinds"].rows["inserted"] == 1
    shop.assert_exact(*EXACT)


def test_null_keys_are_one_group(shop: Warehouse) -> None:
    """`=` finds no NULL: the group would be inserted again."""
    before = len(shop.rows("pairs"))
    shop.sql("INSERT INTO {t} VALUES (100, NULL, NULL, 50, 0.5D)")
    states = shop.refresh("incremental")
    assert states["totals"].rows == {"inserted": 0, "updated": 1, "deleted": 0}
    assert states["pairs"].rows == {"inserted": 0, "updated": 1, "deleted": 0}
    assert states["kinds"].rows["inserted"] == 0
    assert len(shop.rows("pairs")) == before
    shop.sql("DELETE FROM {t} WHERE g IS NULL")
    states = shop.refresh("incremental")
    assert states["totals"].rows["deleted"] == states["kinds"].rows["deleted"] == 1
    shop.assert_exact(*EXACT)


def test_float_sums_do_not_drift(shop: Warehouse) -> None:
    """Added and taken away again, values leave their rounding errors behind."""
    shop.sql("INSERT INTO {t} SELECT int(id), 9, 9, 1, 1e15D * (id + 1) / 7 FROM range(1000, 2000)")
    shop.sql("INSERT INTO {t} VALUES (5000, 9, 9, 1, 0.1D)")
    assert shop.refresh("incremental")["floats"].executed == "incremental"
    shop.sql("DELETE FROM {t} WHERE id BETWEEN 1000 AND 1999")
    states = shop.refresh("incremental")
    assert (states["floats"].executed, states["floats"].method) == ("incremental", "replace")
    assert (9, 0.1) in shop.rows("floats")
    shop.assert_verified("floats")


def test_transaction_ids_stay_in_their_session(shop: Warehouse) -> None:
    """They are settings: another thread's writes in the same session would carry them too."""
    key = "spark.databricks.delta.write.txnAppId"
    seen: list[str] = []

    def write_between(_: int, __: int, view: ViewPlan, state: Any) -> None:
        seen.append(shop.spark.conf.get(key, "none"))
        if view.name == "totals" and state is not None:
            shop.sql("INSERT INTO {u} VALUES (7, 'z')")

    shop.sql("INSERT INTO {t} VALUES (100, 1, 1, 1, 0.5D)")
    shop.store.refresh(strategy="incremental", listener=write_between)
    assert set(seen) == {"none"}
    assert FolderLog(shop.root / "tables" / "u").commit(2).transactions == {}
    assert len(shop.newest_commit("totals").transactions) == 1


def test_expired_transaction_ids(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta forgets ids after a while: then nothing skips a late write, but it is noticed."""
    leave_to_spark(monkeypatch)  # a commit of ours is made for one version, and no other
    path = f"delta.`{shop.root}/views/totals`"
    shop.spark.sql(
        f"ALTER TABLE {path} SET TBLPROPERTIES "
        "('delta.setTransactionRetentionDuration' = 'interval 0 seconds')"
    )
    other = Store.open(shop.root, spark=shop.spark)
    shop.sql("INSERT INTO {t} VALUES (100, 1, 1, 5, 0.5D)")
    late = other.plan(["totals"], strategy="incremental")
    assert shop.store.refresh(strategy="incremental").ok
    epoch, version = shop.store.epoch, shop.versions()["totals"]
    with pytest.raises(RaceLostError):
        run_plan(other, late)
    assert shop.versions()["totals"] == version + 1, "the id was forgotten: it was written twice"
    assert shop.store.epoch == epoch
    published = {row[0]: row[1] for row in shop.rows("totals")}
    state = shop.refresh()["totals"]
    assert state.executed == "snapshot" and "changed by hand" in state.reason
    assert {row[0]: row[1] for row in shop.rows("totals")} == published
    shop.assert_exact(*EXACT)


def test_snapshot_partitions() -> None:
    """Fifty tasks per log replay cost more than a small refresh."""
    assert SETTINGS["spark.databricks.delta.snapshotPartitions"] == "1"


def test_a_feed_can_be_joined(shop: Warehouse) -> None:
    """The relation that the engine registers keeps its own columns in a join."""
    shop.sql("INSERT INTO {u} VALUES (1, 'k')")
    session = shop.store.session().writer()
    session.register_feed("feed", f"{shop.root}/tables/u", 2, 2)
    joined = f"SELECT c._change_type, t.id FROM feed c JOIN {shop.named('t')} t ON c.g = t.g"
    assert session.run(f"{joined} WHERE t.id = 1") == [("insert", 1)]


@pytest.mark.parametrize("feed", ["true", "false"])
def test_deletion_vectors(shop: Warehouse, feed: str) -> None:
    """A file may stay and lose rows: a commit then adds the file it removes."""
    properties = f"'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = '{feed}'"
    shop.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})")
    shop.refresh()
    shop.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    shop.sql("UPDATE {t} SET x = x + 1, g = 0 WHERE id = 5")
    log = (shop.root / "tables" / "t" / "_delta_log").glob("*.json")
    assert any('"deletionVector":{' in commit.read_text() for commit in log)
    assert set(shop.executed("incremental").values()) <= {"incremental", "none"}
    shop.assert_exact(*EXACT)
    shop.sql("DELETE FROM {t} WHERE id = 6")
    shop.sql("INSERT INTO {t} VALUES (99, 1, 0, 3, 0.5)")
    assert set(shop.executed("hybrid").values()) <= {"incremental", "none", "snapshot"}
    shop.assert_exact(*EXACT)
    shop.assert_verified("totals", "floats")


def test_auto_compaction_is_not_taken_for_somebody_else(spark: Any, tmp_path: Path) -> None:
    """A table's own property asks for it; a refresh compacts in its own time."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("t", "k INT, x INT", "SELECT id % 50, id FROM range(100)")
    shop.views({"v": "SELECT k, sum(x) AS s FROM t GROUP BY k"})
    shop.refresh()
    view = f"delta.`{shop.root}/views/v`"
    spark.sql(f"ALTER TABLE {view} SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')")
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "1")
    try:
        for number in range(3):
            shop.sql(f"INSERT INTO {{t}} SELECT id, {number} FROM range(50)")
            assert shop.executed("incremental") == {"v": "incremental"}
    finally:
        spark.conf.unset("spark.databricks.delta.autoCompact.minNumFiles")
    shop.assert_exact()
