"""A refresh killed between two steps is taken up by the next one, whatever its strategy.

Every fault point, every strategy, three kinds of kill. The next refresh starts at once, while a
statement of the dead one may still be running in a JVM that does not know.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hybridview import Store
from hybridview.catalog import RefreshRecord
from hybridview.engine.faults import KINDS, POINTS
from hybridview.errors import RaceLostError
from tests.faults.processes import Maintainer
from tests.faults.shop import ODD, TALLY, VIEWS, Shop

pytestmark = [pytest.mark.spark, pytest.mark.faults]

STRATEGIES = ("snapshot", "incremental", "hybrid")
NEXT = {"snapshot": "incremental", "incremental": "hybrid", "hybrid": "snapshot"}
"""The strategy of the refresh after the killed one."""

DELAYED = {"during_write": (50, 250, 500), "during_publish": (2, 5, 10)}
"""Milliseconds after which a process dies that is doing something, by strategy."""

TABLES = len(VIEWS) + 2
"""Tables that a change reaches: the views, one state table and one part."""

WRITTEN = {
    "planned": 0,
    "before_write": 0,
    "before_commit": 0,
    "after_write": 1,
    "between_tables": 1,
    "before_feed": TABLES + 1,
    "before_publish": TABLES,
    "after_publish": TABLES,
}
"""How many tables a killed refresh has written; for the other points that is left to chance."""

SHORT = {
    ("client", "during_write", "incremental"),
    ("client", "after_write", "hybrid"),
    ("alone", "during_write", "incremental"),
    ("group", "before_commit", "incremental"),
}
"""The cases that are part of every test run: each kind, and the points where most can go wrong."""

CASES = [
    pytest.param(
        kind,
        point,
        strategy,
        id=f"{kind}-{point}-{strategy}",
        marks=() if (kind, point, strategy) in SHORT else pytest.mark.long,
    )
    for kind in KINDS
    for point in POINTS
    for strategy in STRATEGIES
    if (point, strategy) != ("before_commit", "snapshot")  # a statement has no such point
]


def fault_of(kind: str, point: str, strategy: str) -> str:
    """Return what the environment asks for."""
    delays = DELAYED.get(point)
    if delays is None:
        return f"{point}:{kind}"
    return f"{point}:{kind}:1:{delays[STRATEGIES.index(strategy)]}"


def die(shop: Shop, strategy: str, fault: str, remote: str = "") -> None:
    """Refresh in a process that kills itself; return when it is dead.

    Where it is counted what it has written, it writes one view after the other.
    """
    words = ("--remote", remote) if remote else ()
    if fault.split(":")[0] in WRITTEN:
        words += ("--parallel", "1")
    output = shop.root.with_name("victim.json")
    Maintainer(shop.root, strategy, output, *words, fault=fault).wait_for_death()


def newest_epochs(shop: Shop) -> dict[str, int]:
    """Return the epoch each stored table was last written in."""
    return {
        view.name: marks[-1][1].epoch
        for view in shop.catalog().views.values()
        if (marks := shop.marks(view))
    }


def shown(store: Store) -> dict[str, list[str]]:
    """Return what readers see: all loaded views' rows, in one statement."""
    sides = [f"SELECT '{n}', to_json(struct(*)) AS row FROM {n}" for n in VIEWS]
    found: dict[str, list[str]] = {name: [] for name in VIEWS}
    for name, row in store.sql(" UNION ALL ".join(sides)).collect():
        found[name].append(row)
    return {name: sorted(rows) for name, rows in found.items()}


def refresh_until_won(store: Store, strategy: str) -> tuple[RefreshRecord, int]:
    """Refresh; an orphan's late commit may cost an attempt, never the result."""
    for lost in range(3):
        try:
            result = store.refresh(strategy=strategy)
        except RaceLostError:
            TALLY.races += 1
            continue
        assert result.ok, result
        record = store._context.catalog().published(result.epoch)
        assert record is not None
        return record, lost
    raise AssertionError("lost the race against a dead process three times")


@pytest.fixture(scope="module")
def before(template: Shop, spark: Any) -> dict[str, list[str]]:
    """What readers see before anything happens."""
    return shown(Store.open(template.root, spark=spark))


@pytest.mark.parametrize(("kind", "point", "strategy"), CASES)
def test_a_killed_refresh_is_taken_up(
    shop: Shop,
    spark: Any,
    server: str,
    before: dict[str, list[str]],
    kind: str,
    point: str,
    strategy: str,
) -> None:
    store = Store.open(shop.root, spark=spark)
    if point == "before_feed":
        for name, query in ODD.items():
            store.create_view(name, query)
    # A small change is added up by hybrid; a rewritten file counts as a large one.
    shop.reach_all(append_only=strategy == "hybrid")
    die(shop, strategy, fault_of(kind, point, strategy), server if kind == "client" else "")

    written = newest_epochs(shop)
    published = store.epoch
    if point in WRITTEN:
        assert sum(epoch == 2 for epoch in written.values()) == WRITTEN[point]
        check_written(shop, strategy)
    if point not in ("during_publish", "after_publish"):
        assert published == 1
        # Nothing of it is seen, though an orphan may be writing even now.
        assert shown(store) == before
    if point == "after_publish":
        assert published == 2
        shop.check_epoch(2)

    shop.change()
    record, lost = refresh_until_won(store, NEXT[strategy])
    assert record.epoch > max(published, *written.values())
    if not lost:  # else a table that both wrote is rebuilt
        check_executed(record, NEXT[strategy])
    shop.check_epoch()
    shop.check_records()
    assert store.refresh().epoch is None, "nothing is left to do"
    assert store.verify(list(VIEWS)[len(point) % len(VIEWS)]).ok


def check_written(shop: Shop, strategy: str) -> None:
    """Assert that the killed refresh did what its strategy says: all rows anew, or a change."""
    for view in shop.catalog().views.values():
        for _, mark in shop.marks(view):
            if mark.epoch == 2 and view.name not in ODD:
                assert (mark.base is None) == (strategy == "snapshot"), view.name


def check_executed(record: RefreshRecord, strategy: str) -> None:
    """Assert that the strategy that was asked for is the one that ran."""
    executed = {v.name: v.executed for v in record.views if v.name in VIEWS}
    allowed = {"snapshot": {"snapshot"}, "incremental": {"incremental"}}
    assert set(executed.values()) <= allowed.get(strategy, {"snapshot", "incremental"}) | {"none"}
    assert executed["totals"] != "none"


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("milliseconds", [200, 1000])
def test_a_killed_first_load_is_taken_up(
    template: Shop, tmp_path: Path, spark: Any, server: str, kind: str, milliseconds: int
) -> None:
    """The orphan may create a table after the next refresh saw that there was none.

    Or it has left files in the table's folder, and no commit.
    """
    shop = template.copy(tmp_path / "store")
    store = Store.open(shop.root, spark=spark)
    for name in [view.name for view in reversed(store.views())]:
        store.drop_view(name)
    for name, query in VIEWS.items():
        store.create_view(name, query)
    fault = f"during_write:{kind}:2:{milliseconds}"
    die(shop, "hybrid", fault, server if kind == "client" else "")
    shop.change()
    record, _ = refresh_until_won(store, "hybrid")
    assert {v.name for v in record.views} >= set(VIEWS)
    shop.check_epoch()
    shop.change()
    assert store.refresh(strategy="incremental").ok
    shop.check_epoch()


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_spark_dies_and_its_process_does_not(shop: Shop, spark: Any, seconds: float) -> None:
    """It ends with an error that says so; the next refresh goes on where it stopped."""
    shop.reach_all(append_only=False)
    victim = Maintainer(shop.root, "incremental", shop.root.with_name("victim.json"))
    victim.wait_until_ready()
    time.sleep(seconds)
    victim.kill_java()
    assert victim.process.wait(timeout=180) == 0, victim.complaint()
    assert any("Spark has ended" in str(line) for line in victim.errors()), victim.lines()
    store = Store.open(shop.root, spark=spark)
    shop.change()
    refresh_until_won(store, "hybrid")
    shop.check_epoch()


def test_an_idle_refresh_after_odd_names_publishes_nothing(shop: Shop, spark: Any) -> None:
    store = Store.open(shop.root, spark=spark)
    for name, query in ODD.items():
        store.create_view(name, query)
    assert store.refresh().epoch == 2
    assert store.refresh().epoch is None
