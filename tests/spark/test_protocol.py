"""The refresh protocol: epochs, commits, watermarks, foreign writes, failures and races."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from hybridview import Store
from hybridview.catalog import RefreshRecord, ViewState
from hybridview.engine.runner import Places, Runner
from hybridview.engine.session import quote, table_at
from hybridview.errors import RaceLostError
from hybridview.plan.steps import Apply, Load, RefreshPlan, ViewPlan
from hybridview.schema import Executed
from hybridview.watermark import read_watermark
from tests.spark.warehouse import Warehouse, leave_to_spark, next_job, record

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT c.region, sum(o.amount) AS revenue, count(*) AS orders "
    "FROM orders o JOIN customers c ON o.cust = c.id GROUP BY c.region",
    "ranges": "SELECT cust, min(amount) AS low, max(amount) AS high FROM orders GROUP BY cust",
    "lines": "SELECT o.id, c.region, o.amount FROM orders o JOIN customers c ON o.cust = c.id",
    "regions": "SELECT DISTINCT region FROM customers",
    "big": "SELECT region, revenue FROM totals WHERE revenue > 1",
    "shares": "SELECT sku, 100 / price AS share FROM prices",
    "shares_by_size": "SELECT share > 10 AS large, count(*) AS n FROM shares GROUP BY share > 10",
}
OVER_ORDERS = {"totals", "ranges", "lines", "big"}
OVER_PRICES = {"shares", "shares_by_size"}


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A store with all views loaded at epoch 1; every test works on a copy."""
    shop = Warehouse(tmp_path_factory.mktemp("protocol") / "store", spark)
    shop.table(
        "orders",
        "id INT, cust INT, amount DECIMAL(10,2), note STRING",
        "SELECT id, id % 3, id + 0.5, 'n' FROM range(1, 21)",
    )
    shop.table("customers", "id INT, region STRING", "VALUES (0, 'north'), (1, 'south'), (2, NULL)")
    shop.table("prices", "sku INT, price INT", "VALUES (1, 5), (2, 20), (3, 25), (4, 40)")
    shop.views(VIEWS)
    assert set(shop.executed().values()) == {"initial"}
    shop.assert_exact()
    return shop


@pytest.fixture
def shop(template: Warehouse, tmp_path: Path) -> Warehouse:
    return template.copy(tmp_path / "store")


def without_spark(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every use of Spark by a store fail."""

    def refuse() -> None:
        raise AssertionError("this must not need Spark")

    monkeypatch.setattr(store._context, "port", refuse)


def test_nothing_to_do_publishes_nothing_and_runs_no_job(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, versions = next_job(shop.spark), shop.versions()
    result = shop.store.refresh()
    assert next_job(shop.spark) == before + 1
    assert result.epoch is None and result.ok
    assert {v.executed for v in result.views} == {"none"}
    assert (shop.store.epoch, shop.versions()) == (1, versions)

    without_spark(shop.store, monkeypatch)
    assert shop.store.plan().idle
    assert shop.store.refresh().epoch is None
    assert shop.store.status().stale == ()
    assert [r.epoch for r in shop.store.history()] == [1]
    assert all(shop.store.explain(name).incremental for name in VIEWS)
    assert all(finding.ok for finding in shop.store.doctor())


def test_one_commit_per_changed_view_with_its_watermark(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shop.versions()
    shop.sql("INSERT INTO {orders} VALUES (21, 0, 3.50, 'n'), (22, 1, 0.25, 'n')")
    shop.sql("DELETE FROM {orders} WHERE id = 3")
    with monkeypatch.context() as patch:  # a plan of real work needs no Spark either
        without_spark(shop.store, patch)
        assert not shop.store.plan().idle
        assert "totals" in shop.store.status().stale
    result = shop.store.refresh(strategy="incremental")
    after = shop.versions()
    assert {n for n in VIEWS if after[n] == before[n] + 1} == OVER_ORDERS
    assert {n for n in VIEWS if after[n] == before[n]} == set(VIEWS) - OVER_ORDERS
    executed = {v.name: (v.executed, v.method) for v in result.views if v.name in OVER_ORDERS}
    assert executed == {
        "totals": ("incremental", "add"),
        "ranges": ("incremental", "replace"),
        "lines": ("incremental", "patch"),
        "big": ("incremental", "patch"),
    }

    catalog = shop.store._context.catalog()
    for view in (catalog.views[name] for name in OVER_ORDERS):
        commit = shop.newest_commit(view.name)
        mark = read_watermark(commit)
        assert mark is not None
        assert commit.transactions == {view.id: 2}
        assert (mark.store, mark.attempt, mark.epoch) == (catalog.store_id, result.attempt, 2)
        assert mark.program == view.program
        published = catalog.state(view)
        assert published is not None and mark.inputs == published.inputs
    orders = catalog.tables["orders"]
    inputs = read_watermark(shop.newest_commit("ranges"))
    assert inputs is not None and inputs.inputs == {orders.table_id: 3}

    shop.sql("UPDATE {customers} SET region = 'east' WHERE id = 1")
    assert shop.store.refresh().epoch == 3
    assert [r.epoch for r in shop.store.history()] == [3, 2, 1]
    shop.assert_exact()


def test_a_change_that_nets_to_nothing_writes_nothing(shop: Warehouse) -> None:
    before = shop.versions()
    shop.sql("UPDATE {orders} SET note = 'other' WHERE id < 5")
    shop.sql("UPDATE {orders} SET amount = amount WHERE id < 5")
    shop.sql("INSERT INTO {orders} VALUES (99, 0, 1.00, 'n')")
    shop.sql("DELETE FROM {orders} WHERE id = 99")
    states = shop.refresh("incremental")
    assert shop.versions() == before
    executed = {n: states[n].executed for n in OVER_ORDERS}
    assert executed == {
        "totals": "incremental",
        "ranges": "incremental",
        "lines": "incremental",
        "big": "none",
    }
    empty = {"inserted": 0, "updated": 0, "deleted": 0}
    assert all(states[n].rows == empty for n in ("totals", "ranges", "lines"))
    assert shop.store.plan().idle  # the epoch says that these commits were seen
    assert shop.store.refresh().epoch is None


def test_optimize_advances_for_free(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    shop.refresh("incremental")
    versions = shop.versions()
    shop.sql("OPTIMIZE {prices}")
    before = next_job(shop.spark)
    without_spark(shop.store, monkeypatch)
    assert shop.store.status().stale == ()
    assert shop.store.plan().idle
    result = shop.store.refresh()
    assert next_job(shop.spark) == before + 1
    assert {v.executed for v in result.views} == {"none"}
    assert shop.versions() == versions
    catalog = shop.store._context.catalog()
    state = catalog.state(catalog.views["shares"])
    assert state is not None and state.inputs == {catalog.tables["prices"].table_id: 3}


def test_a_moved_store_works(shop: Warehouse, tmp_path: Path) -> None:
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    shutil.move(shop.root, tmp_path / "elsewhere")
    moved = Warehouse(tmp_path / "elsewhere", shop.spark)
    assert set(moved.store.status().stale) == OVER_PRICES
    assert moved.store.read("shares").count() == 4
    executed = moved.executed("incremental")
    assert {n for n in VIEWS if executed[n] == "incremental"} == OVER_PRICES
    assert moved.store.read("shares").count() == 5
    moved.assert_exact(*OVER_PRICES)
    moved.assert_verified(*OVER_PRICES)


def test_a_foreign_write_is_undone_and_named(shop: Warehouse) -> None:
    shop.spark.sql(f"UPDATE delta.`{shop.root}/views/shares` SET share = 0 WHERE sku = 1")
    foreign = shop.versions()["shares"]
    status = {v.name: v.state for v in shop.store.status().views}
    assert (status["shares"], status["lines"]) == ("foreign", "fresh")
    assert not all(finding.ok for finding in shop.store.doctor())
    assert not shop.store.verify("shares").ok  # it is compared as it lies there now
    states = shop.refresh()
    expected = f"its table was changed by hand: commit {foreign}, UPDATE"
    assert states["shares"].executed == "snapshot"
    assert states["shares"].reason.startswith(expected)
    assert states["shares_by_size"].executed == "snapshot"
    assert states["regions"].executed == "none"
    shop.assert_exact(*OVER_PRICES)
    shop.assert_verified("shares_by_size")


def test_an_epoch_before_a_rebuild_can_be_verified(shop: Warehouse) -> None:
    """Old epochs name tables that were replaced since."""
    shop.spark.sql(f"UPDATE delta.`{shop.root}/views/shares` SET share = 0")
    assert shop.refresh()["shares"].executed == "snapshot"
    assert shop.store.verify("shares_by_size", epoch=1).ok


def test_restore_and_overwrite_of_base_tables(shop: Warehouse) -> None:
    shop.sql(
        "INSERT OVERWRITE {prices} SELECT sku, price FROM "
        "(SELECT * FROM {prices} WHERE sku > 1 UNION ALL SELECT 5, 50)"
    )
    states = shop.refresh("incremental")
    assert states["shares"].rows == {"inserted": 1, "updated": 0, "deleted": 1}
    assert {states[n].executed for n in OVER_PRICES} == {"incremental"}
    shop.assert_exact(*OVER_PRICES)

    shop.sql("RESTORE TABLE {prices} TO VERSION AS OF 1")
    states = shop.refresh()
    assert {states[n].executed for n in OVER_PRICES} == {"snapshot"}
    assert [row[0] for row in shop.rows("shares")] == [1, 2, 3, 4]
    shop.assert_exact(*OVER_PRICES)


def test_missing_and_replaced_tables_fail_alone(shop: Warehouse) -> None:
    shutil.rmtree(shop.root / "tables" / "customers")
    shop.sql(
        "CREATE OR REPLACE TABLE {prices} USING delta TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true') AS SELECT 1 AS sku, 2 AS price"
    )
    shop.sql("INSERT INTO {orders} VALUES (21, 2, 3.50, 'n')")
    before = {n: shop.rows(n) for n in VIEWS}
    result = shop.store.refresh()
    assert not result.ok
    states = {v.name: v for v in result.views}
    assert {n: s.executed for n, s in states.items()} == {
        "totals": "failed",
        "ranges": "incremental",
        "lines": "failed",
        "regions": "failed",
        "big": "stale",
        "shares": "failed",
        "shares_by_size": "stale",
    }
    assert all("HV206" in states[n].error for n in ("totals", "lines", "regions"))
    assert "HV207" in states["shares"].error
    assert 'view "totals"' in states["big"].reason
    assert all(shop.rows(n) == before[n] for n in VIEWS if n != "ranges")
    assert shop.store.verify("ranges").ok
    details = {t.name: t.detail for t in shop.store.status().tables}
    assert details == {"orders": "", "customers": "gone", "prices": "replaced by another table"}


def test_a_failing_view_keeps_its_rows_and_stops_nobody(shop: Warehouse) -> None:
    before = shop.rows("shares")
    shop.sql("INSERT INTO {prices} VALUES (5, 0)")
    shop.sql("INSERT INTO {customers} VALUES (7, 'west')")
    result = shop.store.refresh(strategy="incremental")
    states = {v.name: v for v in result.views}
    assert not result.ok
    assert states["shares"].executed == "failed"
    assert "HV303" in states["shares"].error and "DIVIDE_BY_ZERO" in states["shares"].error
    assert states["shares_by_size"].executed == "stale"
    assert states["regions"].executed == "incremental"
    assert shop.rows("shares") == before
    status = {v.name: v.state for v in shop.store.status().views}
    assert (status["shares"], status["regions"]) == ("failed", "fresh")

    shop.sql("DELETE FROM {prices} WHERE price = 0")
    shop.sql("INSERT INTO {prices} VALUES (6, 4)")
    states = shop.refresh("incremental")
    assert states["shares"].executed == states["shares_by_size"].executed == "incremental"
    assert states["shares"].rows == {"inserted": 1, "updated": 0, "deleted": 0}
    shop.assert_exact("regions", *OVER_PRICES)


def run_plan(store: Store, plan: RefreshPlan) -> tuple[ViewState, ...]:
    """Execute a plan made earlier, as the process that made it would."""
    context = store._context
    catalog = context.catalog()
    places = Places(
        lambda name: str(context.path(catalog, name)), lambda name: context.log(catalog, name)
    )
    return Runner(plan, context.worker, places).run()


def test_the_second_of_two_equal_epochs_loses(shop: Warehouse) -> None:
    other = Store.open(shop.root, spark=shop.spark)
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    late = other.plan(strategy="incremental")
    result = shop.store.refresh(strategy="incremental")
    assert (late.epoch, result.epoch) == (2, 2)
    versions = shop.versions()
    with pytest.raises(RaceLostError):
        run_plan(other, late)
    assert shop.versions() == versions
    catalog = other._context.catalog()
    forged = RefreshRecord(2, late.attempt, "hybrid", "", 0.0, ())
    with pytest.raises(RaceLostError):
        other._context.ledger.publish(forged, catalog.store_id)
    newest = shop.store.history()[0]
    assert (newest.epoch, newest.attempt) == (2, result.attempt)
    shop.assert_exact(*OVER_PRICES)


def test_a_refresh_planned_while_another_writes_changes_nothing_twice(shop: Warehouse) -> None:
    """The second process sees a new epoch in one table, and takes a larger one for the next."""
    other = Store.open(shop.root, spark=shop.spark)
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    late: list[RefreshPlan] = []

    def plan_between(_: int, __: int, view: ViewPlan, state: ViewState | None) -> None:
        if view.name == "shares" and state is not None:
            late.append(other.plan(strategy="incremental"))

    shop.store.refresh(strategy="incremental", listener=plan_between)
    assert late[0].epoch == 3
    with pytest.raises(RaceLostError):
        run_plan(other, late[0])
    assert shop.store.refresh().ok
    shop.assert_exact(*OVER_PRICES)


def test_a_foreign_write_during_a_refresh_is_noticed(shop: Warehouse) -> None:
    """It lands after the plan was made and before the change is applied."""
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    plan = shop.store.plan(["shares"], strategy="incremental")
    shop.spark.sql(f"UPDATE delta.`{shop.root}/views/shares` SET share = 0 WHERE sku = 1")
    with contextlib.suppress(RaceLostError):
        run_plan(shop.store, plan)
    shop.refresh()
    shop.assert_exact("shares")


def test_the_plan_is_what_runs(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_to_spark(monkeypatch)
    shop.sql("INSERT INTO {orders} VALUES (21, 2, 3.50, 'n')")
    shop.sql("UPDATE {prices} SET price = 1")
    plan = shop.store.plan()
    sent = record(shop.store, shop.spark)
    states = shop.refresh()
    # How much of a recomputed view changed is known only then: its child's plan says both ways.
    child = next(v for v in plan.views if v.name == "shares_by_size")
    assert isinstance(child.step, Apply) and child.step.at_most and child.step.otherwise
    assert (child.executed, states[child.name].executed) == ("incremental", "snapshot")
    planned = [
        replace(v, step=child.step.otherwise, executed=Executed.SNAPSHOT) if v is child else v
        for v in plan.views
    ]
    assert {v.name: v.executed for v in planned} == {n: s.executed for n, s in states.items()}
    assert {type(v.step) for v in planned} == {Apply, Load, type(None)}
    for view in planned:
        path = table_at(str(shop.root / "views" / view.folder))
        if isinstance(view.step, Load):
            statement = view.step.sql.replace(quote(f"{view.name}@target"), path, 1)
            assert sent.count(statement) == 1
        elif isinstance(view.step, Apply):
            assert sum(view.step.change in statement for statement in sent) == 1
            choices = (view.step.sql, view.step.without_deletes or "")
            written = [s.replace(quote(f"{view.name}@target"), path, 1) for s in choices]
            assert sum(sent.count(statement) for statement in written) == 1
    writes = [s for s in sent if s.startswith(("MERGE", "INSERT", "CREATE TABLE"))]
    assert len(writes) == sum(v.step is not None for v in plan.views)


def test_incremental_reads_only_changes_and_what_they_touch(
    shop: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_to_spark(monkeypatch)
    shop.sql("INSERT INTO {orders} VALUES (21, 2, 3.50, 'n')")
    shop.sql("DELETE FROM {orders} WHERE id = 2")
    shop.sql("UPDATE {customers} SET region = 'east' WHERE id = 1")
    sent = record(shop.store, shop.spark)
    states = shop.refresh("incremental")
    changed = OVER_ORDERS | {"regions"}
    assert {n for n, s in states.items() if s.executed == "incremental"} == changed
    named = [s for s in sent if not s.startswith(("CREATE OR REPLACE TEMP", "UNCACHE"))]
    assert sum(s.startswith(("MERGE", "INSERT")) for s in named) == len(changed)
    for statement in named:
        for table in sqlglot.parse_one(statement, dialect="spark").find_all(exp.Table):
            if table.name.endswith("@new"):
                assert is_restricted(table), statement
    whole = [s for s in named if "tables/" in s]
    # Rows near a change that several views want are looked for once, by the changed keys.
    alone = [s for s in whole if not ("LEFT SEMI JOIN (SELECT" in s and " AS given(`rows`)" in s)]
    assert alone == [], "else base tables are read through @new and @changes alone"
    shop.assert_exact()


def is_restricted(table: exp.Table) -> bool:
    """Say whether some SELECT around a table joins it with a change or with touched keys."""
    select: exp.Expression | None = table.find_ancestor(exp.Select)
    while select is not None:
        joined = [select.args["from_"].this, *(j.this for j in select.args.get("joins") or ())]
        others = [source for source in joined if table not in list(source.find_all(exp.Table))]
        if any(small(source) for source in others):
            return True
        select = select.find_ancestor(exp.Select)
    return False


def small(source: exp.Expression) -> bool:
    """Say whether a joined relation is a change, or the keys of one."""
    names = [table.name for table in source.find_all(exp.Table)]
    return bool(names) and all(n.endswith("@changes") or n == "few_touched" for n in names)


def test_a_dropped_view_can_be_made_anew(shop: Warehouse) -> None:
    """Its folder is used again, by a table with another id."""
    shop.store.drop_view("shares_by_size")
    shop.store.create_view("shares_by_size", "SELECT count(*) AS n, price FROM prices GROUP BY 2")
    assert shop.refresh()["shares_by_size"].executed == "initial"
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    assert shop.refresh("incremental")["shares_by_size"].executed == "incremental"
    shop.store.create_view("shares_by_size", "SELECT sku FROM prices", replace=True)
    state = shop.refresh()["shares_by_size"]
    assert (state.executed, state.reason) == ("snapshot", "its definition changed")
    shop.assert_exact("shares_by_size")


def test_files_that_a_killed_load_left_behind_are_no_obstacle(shop: Warehouse) -> None:
    """Delta Lake takes a folder with files for a table, committed or not."""
    view = shop.store.create_view("after_a_kill", "SELECT sku FROM prices")
    folder = shop.root / "views" / view.folder
    folder.mkdir(parents=True)
    (folder / "part-00000-half.snappy.parquet").write_bytes(b"PAR1")
    assert shop.executed(None, "after_a_kill") == {"after_a_kill": "initial"}
    shop.assert_exact("after_a_kill")
    shop.store.drop_view("after_a_kill")


def test_settings_of_the_users_session_belong_to_a_view(
    shop: Warehouse, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view means what its query means in the session of the user who creates it."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    store = Store.open(shop.root, spark=session)
    view = store.create_view("tokyo", "SELECT sku, date(timestamp_seconds(57600)) AS d FROM prices")
    assert view.settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    store.refresh(["tokyo"])
    assert {row.d.isoformat() for row in store.read("tokyo").collect()} == {"1970-01-02"}


def test_a_comment_before_from_hides_nothing(shop: Warehouse) -> None:
    query = "SELECT price, avg(sku) AS mean -- of the group\nFROM prices GROUP BY price"
    shop.store.create_view("means", query)
    shop.refresh()
    shop.sql("INSERT INTO {prices} VALUES (5, 50)")
    state = shop.store.refresh(["means"], strategy="incremental").views[0]
    assert (state.executed, state.method) == ("incremental", "add"), state.error
    shop.assert_exact("means")
