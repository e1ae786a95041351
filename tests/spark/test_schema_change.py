"""Base tables that are redefined, lose their feed or are rewritten; views that are redefined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.tablefiles import feed as files
from tests.spark.test_protocol import run_plan
from tests.spark.warehouse import Warehouse, leave_to_spark, record

pytestmark = pytest.mark.spark

MAPPED = (
    "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')"
)

VIEWS = {
    "totals": "SELECT g, sum(x) AS total, count(*) AS n FROM t GROUP BY g",
    "lines": "SELECT id, x FROM t WHERE x > 1",
    "everything": "SELECT * FROM t",
    "size": "SELECT count(*) AS n FROM t",
    "large": "SELECT g, total FROM totals WHERE total > 3",
}


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("schema") / "store", spark)
    shop.sql(f"CREATE TABLE {{t}} (id INT, g INT, x INT, note STRING) USING delta {MAPPED}")
    shop.sql("INSERT INTO {t} SELECT id, id % 3, id, 'n' FROM range(12)")
    shop.views(VIEWS)
    assert set(shop.executed().values()) == {"initial"}
    return shop


@pytest.fixture
def shop(template: Warehouse, tmp_path: Path) -> Warehouse:
    return template.copy(tmp_path / "store")


def test_an_added_column_concerns_nobody(shop: Warehouse) -> None:
    """`*` stays what it was when the view was created; a new view may use the new column."""
    shop.sql("ALTER TABLE {t} ADD COLUMNS (extra INT)")
    assert set(shop.executed().values()) == {"none"}
    shop.sql("INSERT INTO {t} VALUES (20, 1, 5, 'n', 7)")
    shop.store.create_view("extras", "SELECT id, extra FROM t WHERE extra IS NOT NULL")
    executed = shop.executed("incremental", "everything", "extras")
    assert executed == {"everything": "incremental", "extras": "initial"}
    assert shop.store.read("everything").columns == ["id", "g", "x", "note"]
    shop.assert_verified("everything")
    assert shop.rows("extras") == [(20, 7)]


def test_an_unused_column_may_go_or_change_its_name(shop: Warehouse) -> None:
    """The feed refuses such a range: what two versions do not share is taken instead."""
    shop.store.drop_view("everything")
    shop.sql("INSERT INTO {t} VALUES (20, 1, 5, 'n')")
    shop.sql("ALTER TABLE {t} RENAME COLUMN note TO remark")
    shop.sql("DELETE FROM {t} WHERE id = 4")
    plan = shop.store.plan(strategy="incremental")
    feeds = {f.name: f for v in plan.views for f in v.feeds}
    assert "redefined at version 3 (rename column)" in feeds["t"].compare
    assert feeds["t"].files
    states = shop.refresh("incremental", "lines", "size")
    assert {s.executed for s in states.values()} == {"incremental"}, states
    assert "two versions compared" in states["lines"].reason
    assert states["lines"].rows == {"inserted": 1, "updated": 0, "deleted": 1}
    shop.assert_exact("lines", "size")
    shop.sql("ALTER TABLE {t} DROP COLUMN remark")
    assert shop.executed("incremental", "lines")["lines"] == "incremental"
    shop.assert_exact("lines")


def test_a_used_column_that_goes_blocks_its_views_alone(shop: Warehouse, tmp_path: Path) -> None:
    shop.sql("ALTER TABLE {t} RENAME COLUMN x TO amount")
    shop.sql("INSERT INTO {t} VALUES (20, 1, 5, 'n')")
    before = shop.rows("totals")
    result = shop.store.refresh(strategy="incremental")
    states = {v.name: v for v in result.views}
    assert not result.ok
    assert {n: s.executed for n, s in states.items()} == {
        "totals": "blocked",
        "lines": "blocked",
        "everything": "blocked",
        "size": "incremental",
        "large": "stale",
    }
    assert 'column "x" is gone in table "t"' in states["totals"].reason
    assert "HV306" in states["totals"].error and "hybridview apply" in states["totals"].error
    assert shop.rows("totals") == before
    assert shop.rows("size") == [(13,)]
    status = {v.name: v.state for v in shop.store.status().views}
    assert (status["totals"], status["large"], status["size"]) == ("blocked", "stale", "fresh")

    folder = tmp_path / "views"
    folder.mkdir()
    for name, query in VIEWS.items():
        text = (
            query.replace("(x)", "(amount)").replace("x >", "amount >").replace(", x", ", amount")
        )
        (folder / f"{name}.sql").write_text(text)
    actions = shop.store.plan_apply(folder)
    assert {a.view: a.verb for a in actions} == {
        "totals": "replace",
        "lines": "replace",
        "everything": "replace",
        "size": "keep",
        "large": "keep",
    }
    shop.store.apply(actions)
    states = shop.refresh()
    assert (states["totals"].executed, states["size"].executed) == ("snapshot", "none")
    assert states["totals"].reason == "its definition changed"
    assert shop.store.read("everything").columns == ["id", "g", "amount", "note"]
    shop.assert_exact()


def test_a_column_that_went_and_came_back_is_another_one(shop: Warehouse) -> None:
    """Its name and type are the same; its values are not."""
    shop.store.drop_view("everything")
    shop.sql("ALTER TABLE {t} DROP COLUMN x")
    shop.sql("ALTER TABLE {t} ADD COLUMNS (x INT)")
    assert shop.executed("incremental", "lines") == {"lines": "incremental"}
    assert shop.rows("lines") == []


def test_a_retyped_column(shop: Warehouse) -> None:
    shop.sql(
        "CREATE TABLE {u} (k INT, y INT) USING delta TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableTypeWidening' = 'true')"
    )
    shop.sql("INSERT INTO {u} VALUES (1, 1)")
    shop.views({"ys": "SELECT k, y FROM u", "ks": "SELECT k FROM u"})
    shop.store.refresh(["ys", "ks"])
    shop.sql("ALTER TABLE {u} ALTER COLUMN y TYPE BIGINT")
    shop.sql("INSERT INTO {u} VALUES (2, 5000000000)")
    result = shop.store.refresh(["ys", "ks"], strategy="incremental")
    states = {v.name: v for v in result.views}
    assert (states["ys"].executed, states["ks"].executed) == ("blocked", "incremental")
    assert 'column "y" has type bigint now, and had int' in states["ys"].reason
    shop.store.create_view("ys", "SELECT k, y FROM u", replace=True)
    assert shop.store.refresh(["ys"]).views[0].executed == "snapshot"
    assert shop.rows("ys") == [(1, 1), (2, 5000000000)]


def write_anew(shop: Warehouse, name: str, columns: pa.Schema) -> None:
    """Overwrite a table, columns and all, as Spark's SQL does not."""
    folder = str(shop.root / "tables" / name)
    write_deltalake(folder, columns.empty_table(), mode="overwrite", schema_mode="overwrite")


@pytest.mark.parametrize("by_merge", [False, True], ids=["direct", "merge"])
@pytest.mark.parametrize("later", ["retyped", "not_null"])
def test_a_feed_that_is_refused_by_the_statement_that_reads_it(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch, later: str, by_merge: bool
) -> None:
    """Delta refuses a range when it plans a statement; nobody asks it beforehand.

    The feed is read with the newest columns: those that came after the version we are pinned at
    are enough. What the two versions do not share is taken then.
    """
    monkeypatch.setattr(files, "read_feed", lambda *_: None)
    if by_merge:
        leave_to_spark(monkeypatch)
    shop.table("p", "k INT, x INT", "VALUES (1, 1), (1, 2), (2, 5)")
    shop.views({"sums": "SELECT k, sum(x) AS s, count(*) AS n FROM p GROUP BY k"})
    shop.store.refresh(["sums"])
    shop.sql("INSERT INTO {p} VALUES (1, 3), (7, 7)")
    shop.sql("DELETE FROM {p} WHERE k = 2")
    plan = shop.store.plan(["sums"], "incremental")
    (feed,) = plan.views[0].feeds
    assert (plan.views[0].executed, feed.compare) == ("incremental", "")
    retyped = later == "retyped"
    k = pa.field("k", pa.int32(), nullable=retyped)
    write_anew(shop, "p", pa.schema([k, ("x", pa.string() if retyped else pa.int32())]))
    sent = record(shop.store, shop.spark)
    (state,) = run_plan(shop.store, plan)
    assert (state.executed, state.error) == ("incremental", "")
    assert not any(statement.startswith("EXPLAIN") for statement in sent)
    assert any("feed of p" in s for s in sent)
    assert any("VERSION AS OF 1" in s and "VERSION AS OF 3" in s for s in sent)
    assert state.rows == {"inserted": 1, "updated": 1, "deleted": 1}
    stored = f"SELECT k, s, n FROM delta.`{shop.root}/views/sums`"
    assert sorted(map(tuple, shop.spark.sql(stored).collect())) == [(1, 6, 3), (7, 7, 1)]


def test_what_becomes_of_a_table_later_does_not_matter_to_files(shop: Warehouse) -> None:
    """A small change is read as the table was, whatever its newest columns are."""
    shop.table("p", "k INT, x INT", "VALUES (1, 1), (2, 5)")
    shop.views({"sums": "SELECT k, sum(x) AS s FROM p GROUP BY k"})
    shop.store.refresh(["sums"])
    shop.sql("INSERT INTO {p} VALUES (1, 3)")
    plan = shop.store.plan(["sums"], "incremental")
    write_anew(shop, "p", pa.schema([("k", pa.int32()), ("y", pa.string())]))
    sent = record(shop.store, shop.spark)
    (state,) = run_plan(shop.store, plan)
    assert (state.executed, state.error, state.rows["updated"]) == ("incremental", "", 1)
    assert not any("VERSION AS OF" in s or "feed of" in s for s in sent)


def test_a_feed_that_was_off_for_a_while(shop: Warehouse) -> None:
    shop.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    shop.sql("UPDATE {t} SET x = x + 1 WHERE id < 3")
    shop.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    shop.sql("INSERT INTO {t} VALUES (20, 1, 5, 'n')")
    states = shop.refresh("incremental", "everything")
    assert 'the change feed of "t" was off at version 3' in states["everything"].reason
    assert states["everything"].rows == {"inserted": 4, "updated": 0, "deleted": 3}
    shop.assert_exact("everything")
    shop.sql("INSERT INTO {t} VALUES (21, 1, 5, 'n')")
    plan = shop.store.plan(["everything"], "incremental")
    assert plan.views[0].feeds[0].compare == ""


def test_a_table_without_a_feed(shop: Warehouse) -> None:
    shop.sql("CREATE TABLE {quiet} USING delta AS SELECT id, id % 2 AS g FROM range(6)")
    path = shop.root / "tables" / "quiet"
    shop.store.add_table("quiet", path, without_change_feed=True)
    shop.views({"groups": "SELECT g, count(*) AS n, max(id) AS top FROM quiet GROUP BY g"})
    shop.store.refresh(["groups"])
    shop.sql("DELETE FROM {quiet} WHERE id = 5")
    shop.sql("INSERT INTO {quiet} VALUES (7, 3), (8, 3), (8, 3)")
    sent = record(shop.store, shop.spark)
    state = shop.store.refresh(["groups"], strategy="incremental").views[0]
    assert state.executed == "incremental"
    assert 'the change feed of "quiet" is off' in state.reason
    assert any("file_name" in statement for statement in sent)
    assert shop.rows("groups") == [(0, 3, 4), (1, 2, 3), (3, 3, 8)]
    shop.sql("OPTIMIZE {quiet}")
    assert shop.store.refresh(["groups"]).views[0].executed == "none"


def test_an_overwrite_is_netted(shop: Warehouse) -> None:
    shop.sql(
        "INSERT OVERWRITE {t} SELECT id, g, x, note FROM "
        "(SELECT * FROM {t} WHERE id > 0 UNION ALL SELECT 20, 1, 5, 'n')"
    )
    states = shop.refresh("incremental", "everything")
    assert states["everything"].rows == {"inserted": 1, "updated": 0, "deleted": 1}
    shop.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    states = shop.refresh("incremental", "everything")
    assert states["everything"].rows == {"inserted": 1, "updated": 0, "deleted": 1}
    shop.assert_exact("everything")


def test_a_child_of_a_recomputed_view_takes_its_netted_change(shop: Warehouse) -> None:
    """All rows of the parent went and came; the child only hears of those that differ."""
    shop.views({"top": "SELECT id, x, array_min(collect_set(id) OVER (ORDER BY id)) AS one FROM t"})
    shop.views({"halves": "SELECT x % 2 AS odd, count(*) AS n FROM top GROUP BY x % 2"})
    shop.refresh(None, "halves")
    shop.sql("INSERT INTO {t} VALUES (20, 1, 50, 'n')")
    states = shop.refresh(None, "halves")
    assert (states["top"].executed, states["halves"].executed) == ("snapshot", "incremental")
    assert shop.store.plan(["halves"]).idle
    shop.assert_exact("halves")
    shop.sql("UPDATE {t} SET x = x + 100")
    states = shop.refresh(None, "halves")
    assert states["halves"].executed == "snapshot"
    assert "of top changed" in states["halves"].reason
    shop.assert_exact("halves")


def test_redefining_a_view_keeps_its_history(shop: Warehouse) -> None:
    before = shop.rows("totals")
    query = "SELECT g, max(x) AS best FROM t WHERE x > 0 GROUP BY g"
    view = shop.store.create_view("totals", query, True)
    assert shop.rows("totals") == before, "until the refresh it is what it was"
    assert shop.store.read("totals").columns == ["g", "total", "n"]
    shop.store.drop_view("large")
    states = shop.refresh()
    assert (states["totals"].executed, states["totals"].reason) == (
        "snapshot",
        "its definition changed",
    )
    assert view.id == shop.store._context.catalog().views["totals"].id
    assert shop.store.read("totals").columns == ["g", "best"]
    assert shop.store.read("totals", epoch=1).columns == ["g", "total", "n"]
    assert shop.store.verify("totals").ok and shop.store.verify("totals", epoch=1).ok
    again = shop.store.create_view("totals", view.query, True)
    assert again.program == view.program, "the same text computes the same rows"
    assert shop.store.plan().idle


def test_added_columns_are_backfilled(shop: Warehouse) -> None:
    """Stored aggregates serve what can be computed from them; only others read the table."""
    sent = record(shop.store, shop.spark)
    shop.store.create_view(
        "totals",
        "SELECT g, sum(x) AS total, count(*) AS n, avg(x) AS mean, sum(x) + 1 AS more "
        "FROM t GROUP BY g",
        replace=True,
    )
    plan = {v.name: v for v in shop.store.plan().views}
    assert (plan["totals"].executed, plan["large"].executed) == ("hybrid", "snapshot")
    sent.clear()
    states = shop.refresh()
    assert states["totals"].executed == "hybrid"
    shop.assert_exact("totals", "large")
    shop.store.create_view(
        "totals", "SELECT g, avg(x) / 2 AS half, sum(x) AS total FROM t GROUP BY g", replace=True
    )
    sent.clear()
    states = shop.refresh()
    assert states["totals"].executed == "incremental"
    assert "computed from what is stored" in states["totals"].reason
    creating = next(s for s in sent if s.startswith("CREATE OR REPLACE TABLE"))
    assert "FROM `totals@target` AS t" in creating and "`t`" not in creating.split("AS SELECT")[1]
    shop.assert_exact("totals", "large")
    shop.sql("INSERT INTO {t} VALUES (30, 1, 9, 'n')")
    assert shop.refresh("incremental")["totals"].method == "add"
    shop.assert_exact("totals", "large")
    shop.assert_verified("totals")


def test_renaming_views_and_tables(shop: Warehouse) -> None:
    """Rows, history and children go along; nothing is computed anew."""
    before = shop.rows("totals")
    assert shop.store.rename_view("totals", "sums") == ("large",)
    assert set(shop.store.rename_table("t", "things")) == {"sums", "lines", "everything", "size"}
    assert set(shop.executed().values()) == {"none"}
    assert shop.rows("sums") == before
    assert shop.store.read("sums", epoch=1).count() == 3
    shop.sql("INSERT INTO {t} VALUES (30, 1, 9, 'n')")
    states = shop.refresh("incremental")
    assert {s.executed for s in states.values()} == {"incremental"}
    assert set(states) == {"sums", "lines", "everything", "size", "large"}
    shop.assert_verified()


def test_the_old_name_of_a_renamed_view_is_free(shop: Warehouse) -> None:
    """The renamed view keeps its folder; who gets its name gets another, hidden tables too."""
    shop.store.create_view("low", "SELECT min(x) AS x FROM t")
    shop.refresh()
    for name in ("totals", "low"):
        shop.store.rename_view(name, f"old_{name}")
    shop.store.create_view("totals", "SELECT g, count(*) AS n FROM t GROUP BY g")
    shop.store.create_view("low", "SELECT max(x) AS x FROM t")
    records = shop.store._context.catalog().views.values()
    assert len({record.folder for record in records}) == len(records)
    done = shop.executed()
    assert (done.pop("totals"), done.pop("low")) == ("initial", "initial")
    assert set(done.values()) == {"none"}, "nothing of another view was touched"
    shop.sql("INSERT INTO {t} VALUES (31, 1, 9, 'n')")
    assert set(shop.executed("incremental").values()) == {"incremental"}
    shop.assert_exact("totals", "low", "old_low")
    shop.assert_verified()
    shop.store.drop_view("low")
    assert shop.rows("old_low") == [tuple(shop.sql("SELECT min(x) FROM {t}").collect()[0])]
