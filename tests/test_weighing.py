"""The work of a recompute and of fetching changes, by logs and by what is done to the tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybridview.engine import inline
from hybridview.engine.settled import Settled
from hybridview.engine.weighing import Kept, of_apply, of_fetching, of_load
from hybridview.filestats import Size
from hybridview.plan.steps import Apply, Feed, Load, NearRead, Pinned, RefreshPlan, ViewPlan
from hybridview.schema import Executed
from hybridview.strategy.costs import Applying, Loading
from tests.support.tpch_store import define, open_store


@dataclass(frozen=True)
class Table:
    """A log that knows a size, and two columns of the same width."""

    bytes: int
    columns: tuple[Any, ...] = ()

    def size(self, _: int) -> Size:
        return Size(1, self.bytes, 1)

    def info(self, _: int) -> Any:
        @dataclass
        class Column:
            name: str
            type: str = "int"

        return Table(self.bytes, (Column("a"), Column("b")))


LOGS = {"orders": Table(1000), "lines": Table(6000), "result": Table(70)}


def work(*tables: str, few_of: tuple[str, ...] = (), **readings: int) -> Loading:
    sources = tuple(Pinned(name, name, 3, ("a",)) for name in tables)
    view = ViewPlan("result", "id", "result", Executed.SNAPSHOT, "", sources, stored_version=1)
    settled = Settled(view, sources, None, {}, {})
    load = Load("SELECT", False, readings, few_of)
    return of_load(settled, load, lambda name: LOGS[name])  # type: ignore[arg-type, return-value]


def test_one_table_is_read() -> None:
    assert work("lines") == Loading(1, 3000, 0, 70)


def test_joined_tables_are_sorted_or_sent_around_too() -> None:
    assert work("orders", "lines") == Loading(2, 3500, 3500, 70)


def test_of_a_table_with_conditions_of_its_own_little_is_sent_around() -> None:
    assert work("orders", "lines", few_of=("lines",)) == Loading(2, 3500, 500, 70)


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_read_several_times_counts_as_often(times: int) -> None:
    assert work("orders", lines=2, orders=times) == Loading(times, 500 * times, 0, 70)


MANY = inline.MAX_ROWS + 1
FEED = Feed("orders", 1, 2, ("a",), False, MANY)
NEAR = NearRead("lines@near", "lines", "a", (("orders@changes", "a"),))


def fetching(feed: Feed, views: int = 1, near: tuple[NearRead, ...] = ()) -> Applying:
    step = Apply("", "", None, "add", None, near=near, readings={"orders@changes": 1})
    plans = tuple(
        ViewPlan(f"v{i}", f"{i}", f"v{i}", Executed.INCREMENTAL, "", (), (feed,), step=step)
        for i in range(views)
    )
    plan = RefreshPlan("store", 1, "attempt", "hybrid", plans)
    return of_fetching(plan, Settled(plans[0], (), None, {}, {}), step)


def test_a_large_change_is_fetched_and_kept() -> None:
    assert fetching(FEED, near=(NEAR,)) == Applying(1, 1, MANY, MANY)


def test_a_small_change_is_fetched_in_no_time() -> None:
    assert fetching(replace(FEED, rows=MANY - 1), near=(NEAR,)) == Applying()


def test_a_change_that_is_added_up_is_not_kept() -> None:
    assert fetching(FEED) == Applying(added=MANY)


def test_several_views_fetch_a_change_once() -> None:
    assert fetching(FEED, 4) == Applying(0, 0.25, MANY / 4, MANY / 4)


@pytest.mark.parametrize(
    "feed", [replace(FEED, rewritten=True), replace(FEED, compare="why"), replace(FEED, rows=None)]
)
def test_of_some_changes_no_log_tells_the_rows(feed: Feed) -> None:
    assert fetching(feed, near=(NEAR,)) == Applying()


def applying(near_bytes: float, kept: Kept) -> Applying:
    step = Apply("", "", None, "add", None, near=(NEAR,), readings={NEAR.symbol: 3})
    sources = (Pinned("lines", "lines", 3, ("a", "b")),)
    view = ViewPlan("result", "", "", Executed.HYBRID, "", sources, step=step, stored_version=1)
    plan = RefreshPlan("store", 1, "attempt", "hybrid", (view,))
    relations: Any = SimpleNamespace(near_bytes={NEAR.symbol: near_bytes}, of_symbol={})
    settled = Settled(view, sources, None, {}, {})
    return of_apply(plan, settled, step, relations, kept, lambda name: LOGS[name])  # type: ignore[arg-type, return-value]


STORED = 70


def test_what_is_near_a_change_is_read_wherever_it_is_used() -> None:
    assert applying(1000, {}) == Applying(1, read=3000 + STORED)


def test_where_no_file_is_left_nothing_is_looked_for() -> None:
    assert applying(0, {}) == Applying(0, read=STORED)


def test_what_is_kept_is_read_once_and_then_looked_at_in_memory() -> None:
    assert applying(1000, {NEAR.symbol: None}) == Applying(1, read=1000 + STORED)
    assert applying(1000, {NEAR.symbol: 20}) == Applying(0, again=60, read=STORED)


def test_the_plan_says_of_which_tables_few_rows_matter(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    define(store, range(20, 21))
    (view,) = store.plan().views
    assert isinstance(view.step, Load)
    assert view.step.few_of == ("lineitem", "nation", "part")
