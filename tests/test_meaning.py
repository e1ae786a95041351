"""What two views share must mean the same to both: tables, settings, columns of older versions."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.catalog import ViewRecord, as_payload
from hybridview.engine.changes import Changes
from hybridview.engine.relations import Relations
from hybridview.errors import EpochGoneError, NameTakenError
from hybridview.operations.refresh import plan_refresh
from hybridview.operations.verify import _sources
from hybridview.plan.steps import Apply, Feed, ViewPlan
from hybridview.schema import Column, Executed, Strategy
from tests.support.plain_store import COLUMNS, FEED, PlainStore, write

UTC_TIME = {"spark.sql.session.timeZone": "UTC"}
NEW_YORK = {"spark.sql.session.timeZone": "America/New_York"}


@pytest.fixture
def plain(tmp_path: Path) -> PlainStore:
    return PlainStore(tmp_path / "store")


def define(plain: PlainStore, name: str, query: str, **more: Any) -> ViewRecord:
    given: dict[str, Any] = {"columns": COLUMNS, "settings": {}, "program": name, **more}
    record = ViewRecord(
        str(uuid.uuid4()),
        name,
        name,
        query,
        "",
        (),
        {},
        given["columns"],
        given["sources"],
        {},
        given["settings"],
        program=given["program"],
    )
    plain.context.ledger.append("view", as_payload(record))
    return record


# One table, one name


def test_a_copy_of_a_table_is_no_other_table(plain: PlainStore) -> None:
    """Views note by its id what they reflect of a table: two names would be mixed up."""
    plain.table("a")
    shutil.copytree(plain.root / "tables" / "a", plain.root / "tables" / "b")
    for location in (None, str(plain.root / "tables" / "a")):
        with pytest.raises(NameTakenError, match='known already, as "a"'):
            plain.store.add_table("b", location)
    plain.store.add_table("a", replace=True)


def test_verify_says_that_a_source_was_replaced(plain: PlainStore) -> None:
    plain.table("t")
    plain.view("v", "t")
    plain.refresh("v")
    write(plain.root / "tables" / "other", [5], configuration=FEED)
    plain.store.add_table("t", str(plain.root / "tables" / "other"), replace=True)
    catalog = plain.catalog
    view = catalog.views["v"]
    with pytest.raises(EpochGoneError, match='its source "t" was replaced'):
        _sources(catalog, view, catalog.state(view))


def test_verify_reads_the_columns_that_are_used(plain: PlainStore) -> None:
    """Another one that was there when the view was made may be gone."""
    plain.table("t")
    define(plain, "v", "SELECT id FROM t", sources={"t": (*COLUMNS, Column("note", "string"))})
    plain.refresh("v")
    view = plain.catalog.views["v"]
    (source,) = _sources(plain.catalog, view, plain.catalog.state(view))
    assert source.columns == ("id",)


# Settings


def test_rows_under_other_settings_are_not_made_from_the_stored_ones(plain: PlainStore) -> None:
    """In New York a day begins at another hour."""
    moment = pa.array([datetime(2024, 1, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    write_deltalake(str(plain.root / "tables" / "t"), pa.table({"ts": moment}), configuration=FEED)
    plain.store.add_table("t")
    query = "SELECT CAST(ts AS DATE) AS d, count(*) AS n FROM t GROUP BY CAST(ts AS DATE)"
    shown = (Column("d", "date"), Column("n", "bigint"))
    sources = {"t": (Column("ts", "timestamp"),)}
    old = define(
        plain, "v", query, columns=shown, sources=sources, settings=UTC_TIME, program="one"
    )
    plain.refresh("v")
    plain.context.ledger.append("view", as_payload(replace(old, program="two")))
    (same,) = plan_refresh(plain.context).views
    assert "computed from what is stored" in same.reason
    other = replace(old, program="two", settings=NEW_YORK)
    plain.context.ledger.append("view", as_payload(other))
    (plan,) = plan_refresh(plain.context).views
    assert plan.executed is Executed.SNAPSHOT
    assert "@target" not in plan.step.sql


class Zones:
    """A session in a time zone, in which one moment is a day of its own; it knows what it read."""

    def __init__(self, matters: str) -> None:
        self.matters = matters
        self.registered: list[str] = []

    def describe(self, _: str) -> list[tuple[str, str]]:
        return [("ts", "timestamp"), ("__hv_weight", "int")]

    def run(self, _: str) -> list[tuple[str, ...]]:
        return [(self.matters, "1704164400000000", "1")]

    def register(self, name: str, _: str) -> None:
        self.registered.append(name)

    def register_feed(self, *_: Any, **__: Any) -> None: ...

    def set(self, _: Any) -> None: ...


def view(name: str, feed: Feed, settings: dict[str, str]) -> ViewPlan:
    return ViewPlan(name, name, name, Executed.INCREMENTAL, "", (), (feed,), settings=settings)


def test_the_same_condition_means_something_else_under_other_settings() -> None:
    wanted = "CAST(ts AS DATE) = CAST('2024-01-01' AS DATE)"
    feed = Feed("t", 1, 2, ("ts",), False, 1, wanted=wanted, own=("ts",))
    here, there = view("a", feed, UTC_TIME), view("b", feed, NEW_YORK)
    changes = Changes(lambda _: "/t", "attempt", [here, there])
    sessions: list[Any] = [Zones("0"), Zones("1")]
    found = [
        changes.relevant(changes.of(session, plan, feed, 2), feed).fetched
        for session, plan in zip(sessions, (here, there), strict=True)
    ]
    assert found == [[], [("1704164400000000", "1")]]
    assert changes.matter(sessions[1], there, {"t": 2})
    assert not changes.matter(sessions[0], here, {"t": 2})


def test_a_temporary_view_is_made_anew_under_other_settings() -> None:
    session: Any = Zones("1")
    relations = Relations(session, lambda _: "/t")
    for settings in (UTC_TIME, UTC_TIME, NEW_YORK, UTC_TIME):
        relations.under(settings)
        relations.target("v")
    assert session.registered == ["v@target"] * 3


# Columns of older versions


def test_two_versions_are_compared_by_the_columns_that_the_view_uses(plain: PlainStore) -> None:
    """A column that another view uses was not there yet."""
    folder = str(plain.root / "tables" / "t")
    write_deltalake(folder, pa.table({"id": [1, 2], "x": [1, 2]}))
    plain.store.add_table("t", without_change_feed=True)
    columns = (Column("id", "bigint"), Column("x", "bigint"))
    define(plain, "a", "SELECT id FROM t", sources={"t": columns})
    plain.refresh("a")
    more = pa.table({"id": [3], "x": [1], "y": [7]})
    write_deltalake(folder, more, mode="append", schema_mode="merge")
    wider = {"t": (*columns, Column("y", "bigint"))}
    define(plain, "b", "SELECT y AS id FROM t", sources=wider)
    plan = plan_refresh(plain.context, (), Strategy.INCREMENTAL)
    (one,) = (v for v in plan.views if v.name == "a")
    assert isinstance(one.step, Apply)
    (feed,) = one.feeds
    assert feed.compare and feed.columns == feed.own == ("id",)


def test_a_feed_that_is_refused_is_compared_by_the_views_own_columns() -> None:
    from pyspark.errors import PySparkException

    read: list[str] = []

    class Refusing(Zones):
        def run(self, sql: str) -> list[tuple[str, ...]]:
            read.append(sql)
            if "feed of t" in sql:
                raise PySparkException("[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE] no")
            return [("1704164400000000", "1")]

    session: Any = Refusing("1")
    feed = Feed("t", 1, 2, ("ts", "added_later"), False, 1, own=("ts",))
    plan = view("a", feed, {})
    changes = Changes(lambda _: "/t", "attempt", [plan])
    first = changes.of(session, plan, feed, 2)
    assert changes.of(session, plan, feed, 2) is first
    compared = [sql for sql in read if "VERSION AS OF" in sql]
    assert compared and not any("added_later" in sql for sql in compared)
