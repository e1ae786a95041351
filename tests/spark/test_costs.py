"""What a refresh may cost, counted: statements, jobs, commits, readings; never seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridview.bench.meter import Meter, commits_below
from hybridview.catalog import FOLDER
from hybridview.engine import inline
from hybridview.engine.session import SparkPort
from hybridview.engine.tuning import ADAPTIVE, LITTLE, PARTITIONS, running_with
from hybridview.strategy import costs
from hybridview.tablefiles import feed
from tests.spark.warehouse import Warehouse, leave_to_spark, record

pytestmark = pytest.mark.spark

VIEWS = {f"v{i}": f"SELECT k, sum(x) AS s FROM base WHERE b = {i} GROUP BY k" for i in range(8)}
RANKED = "SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM base"
NESTED = """
SELECT a.k, a.n, w.r FROM (SELECT k, count(DISTINCT x) AS n FROM base GROUP BY k) a
JOIN ({}) w ON a.k = w.k
WHERE EXISTS (SELECT 1 FROM base c WHERE c.k = a.k AND c.x > w.x)
AND a.n > (SELECT min(d.b) FROM base d WHERE d.k = a.k)
"""


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("costs") / "store", spark)
    shop.table("base", "k INT, b INT, x INT", "SELECT id % 10, id % 8, id FROM range(200)")
    shop.views(VIEWS)
    shop.refresh()
    return shop


@pytest.fixture
def meter(spark: Any) -> Meter:
    return Meter(spark)


@pytest.fixture(autouse=True)
def nothing_is_left_in_memory(spark: Any) -> Iterator[None]:
    yield
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


def test_nothing_changed(shop: Warehouse, meter: Meter) -> None:
    statements, jobs = record(shop.store, shop.spark), meter.jobs()
    assert shop.store.refresh().epoch is None
    assert (statements, meter.jobs() - jobs) == ([], 0)


def test_a_small_change_of_one_view(shop: Warehouse, meter: Meter) -> None:
    shop.sql("INSERT INTO {base} VALUES (1, 0, 5)")
    shop.refresh("incremental")  # what is remembered of its program is remembered now
    shop.sql("INSERT INTO {base} VALUES (1, 0, 7)")
    statements, jobs = record(shop.store, shop.spark), meter.jobs()
    before = commits_below(shop.root / "views"), commits_below(shop.root / FOLDER)
    shop.refresh("incremental", "v0")
    verbs = [re.sub(r"\s.*", "", s, flags=re.S) for s in statements]
    # The changed rows stand as literals where the change of the view is computed; then comes what
    # it makes of the stored rows. The feed is read, and files and commit are written, here.
    assert verbs == ["CREATE", "SELECT", "SELECT"]
    assert commits_below(shop.root / "views") - before[0] == 1
    assert commits_below(shop.root / FOLDER) - before[1] == 1
    assert meter.jobs() - jobs <= 2
    shop.refresh("incremental")


def test_a_small_change_of_one_view_by_a_merge(
    shop: Warehouse, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_to_spark(monkeypatch)
    shop.sql("INSERT INTO {base} VALUES (1, 0, 15)")
    shop.refresh("incremental")
    shop.sql("INSERT INTO {base} VALUES (1, 0, 17)")
    statements, jobs = record(shop.store, shop.spark), meter.jobs()
    shop.refresh("incremental", "v0")
    verbs = [re.sub(r"\s.*", "", s, flags=re.S) for s in statements]
    # A view for the changed rows and for the change, which stand there as literals.
    assert verbs == ["CREATE", "SELECT", "CREATE", "MERGE"]
    # One for the change, the others are Delta Lake's.
    assert meter.jobs() - jobs <= 6
    shop.refresh("incremental")
    shop.assert_exact("v0")


def test_a_change_that_is_read_once_is_not_netted_first(shop: Warehouse) -> None:
    """Rows that come and go again in its feed cancel when they are added up."""
    shop.sql("INSERT INTO {base} VALUES (1, 0, 70), (1, 0, 71)")
    shop.sql("DELETE FROM {base} WHERE x = 71")
    shop.sql("UPDATE {base} SET x = 72 WHERE x = 70")
    shop.sql("UPDATE {base} SET x = x + 0 WHERE k = 2")
    worker = shop.store._context.worker()
    before = {name: worker.setting(name) for name in LITTLE}
    statements = record(shop.store, shop.spark)
    assert shop.refresh("incremental", "v0")["v0"].rows["updated"] == 1
    # One adds the change up, one computes the new row from that.
    assert sum(s.startswith("SELECT") for s in statements) == 2
    assert not any("feed of base" in s for s in statements)
    worker = shop.store._context.worker()
    assert {name: worker.setting(name) for name in LITTLE} == before, "settings are given back"
    shop.assert_exact("v0")
    shop.sql("UPDATE {base} SET x = x + 0 WHERE k = 2")
    commits = commits_below(shop.root / "views")
    assert shop.refresh("incremental", "v0")["v0"].executed in ("none", "incremental")
    assert commits_below(shop.root / "views") == commits
    shop.refresh("incremental")


def test_settings_are_what_the_session_was_started_with_again(spark: Any) -> None:
    """Unset, they are Spark's own defaults: 200 partitions, for one."""
    session = SparkPort(spark).writer()
    names = (PARTITIONS, ADAPTIVE, "spark.sql.adaptive.autoBroadcastJoinThreshold", "nobody.knows")
    before = {name: session.given(name) for name in names}
    assert before[PARTITIONS] and not before["nobody.knows"]
    try:
        session.set({PARTITIONS: "6"})
        with running_with(session, dict.fromkeys(names, "7") | {ADAPTIVE: "false"}):
            assert session.given(PARTITIONS) == session.given("nobody.knows") == "7"
            with running_with(session, {PARTITIONS: "8"}):
                assert session.setting(PARTITIONS) == "8"
        assert {n: session.given(n) for n in names} == before | {PARTITIONS: "6"}
    finally:
        session.set({PARTITIONS: before[PARTITIONS]})


def test_many_views_share_the_reading_of_a_change(shop: Warehouse, meter: Meter) -> None:
    rows = ", ".join(f"(1, {i}, {i})" for i in range(len(VIEWS)))
    shop.sql(f"INSERT INTO {{base}} VALUES {rows}")
    statements, jobs = record(shop.store, shop.spark), meter.jobs()
    before = commits_below(shop.root / FOLDER)
    assert set(shop.executed("incremental").values()) == {"incremental"}
    assert not any("feed of base" in s for s in statements)
    assert not any(s.startswith("MERGE") for s in statements)
    # One judges the changed rows, one computes the changes of all views, one what becomes of their
    # rows; those are read here, once for all views.
    assert sum(s.startswith("SELECT") for s in statements) == 3
    assert len(statements) <= 4 + len(VIEWS)
    assert commits_below(shop.root / FOLDER) - before == 1
    assert meter.jobs() - jobs <= 3


def test_a_view_that_fails_does_not_take_the_others_with_it(shop: Warehouse) -> None:
    """Their changes are computed by one statement."""
    shop.views({"shares": "SELECT k, sum(100 / x) AS s FROM base WHERE b = 1 GROUP BY k"})
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        shop.sql("SELECT sum(100 / x) FROM {base} WHERE x = 0").collect()
    shop.sql("DELETE FROM {base} WHERE x = 0")
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (1, 1, 0), (1, 2, 4)")
    states = shop.refresh("incremental")
    failed = {name for name, state in states.items() if state.executed == "failed"}
    assert failed == {"shares"}
    assert "DIVIDE_BY_ZERO" in states["shares"].reason
    shop.assert_exact(*VIEWS)
    shop.store.drop_view("shares")


def test_a_small_change_that_makes_many_rows_is_not_fetched_whole(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No LIMIT, whose code is compiled anew each time; but no more rows than can be literals."""
    monkeypatch.setattr(inline, "MAX_ROWS", 500)
    shop.views({"many": "SELECT k, n FROM base LATERAL VIEW explode(sequence(1, 400)) t AS n"})
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1)")
    fetched: list[int] = []
    run = SparkPort.run

    def counted(port: SparkPort, sql: str) -> list[tuple[Any, ...]]:
        rows = run(port, sql)
        fetched.append(len(rows))
        return rows

    monkeypatch.setattr(SparkPort, "run", counted)
    statements = record(shop.store, shop.spark)
    states = shop.refresh("incremental")
    assert states["many"].rows == {"inserted": 1600, "updated": 0, "deleted": 0}
    assert max(fetched) <= 500 + 1 + len(VIEWS)
    assert not any("LIMIT" in s for s in statements if "UNION ALL" in s)
    shop.assert_exact()
    shop.store.drop_view("many")


def test_views_that_a_change_does_not_concern_are_not_written(shop: Warehouse) -> None:
    shop.sql("INSERT INTO {base} VALUES (2, 3, 9)")
    statements, before = record(shop.store, shop.spark), shop.versions()
    shop.refresh("incremental")
    assert not any(s.startswith("MERGE") for s in statements)
    moved = {name for name, version in shop.versions().items() if version != before[name]}
    assert moved == {"v3"}


def test_hybrid_recomputes_what_would_take_longer_to_apply(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "SMALL", 0)
    monkeypatch.setattr(costs, "APPLYING", 0)
    shop.sql("INSERT INTO {base} VALUES (2, 5, 9)")
    assert shop.refresh("hybrid", "v5")["v5"].executed == "incremental"
    monkeypatch.setattr(costs, "APPLYING", 1_000)
    shop.sql("INSERT INTO {base} VALUES (2, 5, 10)")
    state = shop.refresh("hybrid", "v5")["v5"]
    assert state.executed == "snapshot"
    assert state.reason.startswith("applying the change would take about 1000.0 s, recomputing 0.")
    shop.sql("INSERT INTO {base} VALUES (2, 5, 11)")
    assert shop.refresh("incremental", "v5")["v5"].executed == "incremental"
    shop.assert_exact("v5")


def test_hybrid_does_not_fetch_a_change_only_to_recompute(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.views({"extremes": "SELECT k, max(x) AS x FROM base GROUP BY k"})
    shop.refresh()
    monkeypatch.setattr(costs, "SMALL", 0)
    monkeypatch.setattr(inline, "MAX_ROWS", 1)
    for keeping, executed in ((0, "incremental"), (1_000, "snapshot")):
        monkeypatch.setattr(costs, "KEEPING", keeping)
        monkeypatch.setattr(costs, "LOADING", 1 if keeping == 0 else 0)
        shop.sql("UPDATE {base} SET x = x + 1 WHERE k = 4")
        statements = record(shop.store, shop.spark)
        assert shop.refresh("hybrid", "extremes")["extremes"].executed == executed
        assert any("@changes" in s or "feed of base" in s for s in statements) == (keeping == 0)
        shop.assert_exact("extremes")
    shop.store.drop_view("extremes")


@pytest.mark.parametrize("most", [inline.MAX_ROWS, 0])
def test_parts_of_a_large_change_are_computed_once_and_released(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """As literals if they are small, else in memory."""
    nested = NESTED.format(RANKED)
    shop.views({"nested": f"SELECT p.k, p.n, q.r FROM ({nested}) p JOIN ({nested}) q USING (k)"})
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (3, 1, 500)")
    shop.sql("DELETE FROM {base} WHERE x = 13")
    statements = record(shop.store, shop.spark)
    monkeypatch.setattr(inline, "MAX_ROWS", most)
    assert shop.executed("incremental", "nested") == {"nested": "incremental"}
    verbs = ("CREATE OR REPLACE TEMPORARY VIEW", "CACHE TABLE")
    kept = [s for s in statements if s.startswith(tuple(f"{v} `nested@few_" for v in verbs))]
    assert kept
    assert any(s.startswith(verbs[1]) for s in kept) == (most == 0)
    cached = [s for s in kept if s.startswith(verbs[1])]
    released = [s for s in statements if s.startswith("UNCACHE TABLE IF EXISTS `nested@few_")]
    assert len(released) == len(cached)
    # What was in memory takes the place of a view, which is dropped first.
    dropped = [s for s in statements if s.startswith("DROP VIEW IF EXISTS `nested@few_")]
    assert len(dropped) == len(kept) + len(cached)
    shop.assert_exact("nested")
    shop.store.drop_view("nested")


def test_wide_values_stay_in_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows may be too much for the driver: they are kept in memory there, and are right."""
    monkeypatch.setattr(inline, "WIDEST", 100)
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("docs", "id INT, body STRING, raw BINARY", "SELECT id, 'a', X'00' FROM range(9)")
    shop.views({"bodies": "SELECT id, body, raw FROM docs WHERE id > 2"})
    shop.refresh()
    widest = 0
    run = SparkPort.run

    def measured(self: SparkPort, sql: str) -> list[tuple[Any, ...]]:
        nonlocal widest
        rows = run(self, sql)
        texts = (value for row in rows for value in row if isinstance(value, str))
        widest = max([widest, *map(len, texts)])
        return rows

    monkeypatch.setattr(feed, "read_feed", lambda *_: None)
    monkeypatch.setattr(SparkPort, "run", measured)
    shop.sql("INSERT INTO {docs} SELECT id, repeat('é', 90), X'01' FROM range(20, 25)")
    shop.sql("UPDATE {docs} SET raw = CAST(repeat('z', 101) AS BINARY) WHERE id = 5")
    assert shop.executed("incremental") == {"bodies": "incremental"}
    assert 0 < widest <= 100
    shop.assert_exact()
