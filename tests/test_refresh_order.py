"""In which order and how far a refresh brings views; rows are written by hand, without Spark."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import CommitProperties

from hybridview.catalog import ViewRecord, as_payload
from hybridview.deltalog import FolderLog
from hybridview.engine.runner import Runner
from hybridview.engine.settled import Settled
from hybridview.engine.writer import Done
from hybridview.errors import RefreshFailedError
from hybridview.filestats import Size
from hybridview.operations import prove as proving
from hybridview.operations.context import Context
from hybridview.operations.levels import PROPERTY, base_inputs
from hybridview.operations.read import Moment, view_at
from hybridview.operations.refresh import RefreshResult, plan_refresh
from hybridview.operations.verify import Verdict
from hybridview.watermark import Watermark
from tests.support.plain_store import COLUMNS, FEED, PlainStore, write

COMPLETE = {PROPERTY: "complete"}
Views = dict[str, dict[str, int]]


@dataclass
class Shop:
    """A store whose refreshes run as they do, but for the statement that writes a view."""

    plain: PlainStore
    broken: Callable[[Settled], bool] = lambda _: False
    """Says whether writing a view fails."""
    written: dict[str, tuple[int, str]] = field(default_factory=dict)

    def view(
        self, name: str, *sources: str, properties: dict[str, str] | None = None, of: str = ""
    ) -> None:
        """Define a view; `of` makes it a part of another one, which is defined afterwards."""
        parts = {n: COLUMNS for n, v in self.plain.catalog.views.items() if v.state_of == name}
        record = ViewRecord(
            id=str(uuid.uuid4()),
            name=name,
            folder=name,
            query=" UNION ALL ".join(f"SELECT id FROM {source}" for source in sources),
            comment="",
            cluster_by=(),
            properties=properties or {},
            columns=COLUMNS,
            sources=dict.fromkeys(sources, COLUMNS),
            types={},
            settings={},
            state_of=of,
            program=f"program of {name}",
            parts=parts,
        )
        self.plain.context.ledger.append("view", as_payload(record))

    def refresh(self, *views: str, **options: Any) -> RefreshResult:
        result: RefreshResult = self.plain.store.refresh(list(views), **options)
        return result

    def load(self, settled: Settled, step: Any, plan: Any) -> Done:
        """Write some rows, with the mark that every refresh leaves."""
        if self.broken(settled):
            raise RefreshFailedError("it does not work", detail="The disk is full.")
        name, path = settled.view.name, self.plain.path(settled.view.name)
        mark = Watermark(
            plan.store_id, plan.attempt, plan.epoch, settled.inputs, settled.view.program
        )
        properties = CommitProperties(custom_metadata={"userMetadata": mark.to_json()})
        exists = FolderLog(path).exists()
        write(path, [plan.epoch], "overwrite", properties, None if exists else FEED)
        info = FolderLog(path).info()
        self.written[name] = (info.version, info.id)
        return Done({"rows": 1}, Size(0, 0, 0))

    def shown(self) -> list[Views]:
        """Return the versions of base tables each view shows, one epoch after the other."""
        catalog = self.plain.catalog
        found: list[Views] = []
        for record in sorted(catalog.refreshes, key=lambda r: r.epoch):
            inputs = {v.name: base_inputs(catalog, v, record) for v in catalog.ordered()}
            found.append({name: seen for name, seen in inputs.items() if seen is not None})
        return found

    def versions(self, view: str, table: str = "t") -> list[int]:
        """Return the versions of a table that a view showed, without repetition."""
        every = [epoch[view][table] for epoch in self.shown() if view in epoch]
        return [n for place, n in enumerate(every) if place == 0 or every[place - 1] != n]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(PlainStore(tmp_path / "store"))
    shop.plain.context.parallel = 1

    def writer(runner: Runner) -> Any:
        shop.written = {}
        return SimpleNamespace(
            load=lambda settled, step: shop.load(settled, step, runner.plan),
            apply=lambda settled, step: shop.load(settled, step, runner.plan),
            # Filled by `load`, and read after it.
            commits=SimpleNamespace(written=shop.written),
        )

    monkeypatch.setattr(Runner, "_writer", writer)
    monkeypatch.setattr(Context, "port", lambda _: SimpleNamespace(cancel=lambda: None))
    monkeypatch.setattr(Context, "workers", lambda _, count: [None] * count)
    shop.plain.table("t")
    return shop


def commits(shop: Shop, count: int, table: str = "t") -> None:
    for number in range(count):
        shop.plain.insert(table, 100 + number)


def states(result: RefreshResult) -> dict[str, str]:
    return {state.name: state.executed for state in result.views}


# Complete views


def test_complete_views_show_every_state(shop: Shop) -> None:
    shop.view("x", "t", properties=COMPLETE)
    shop.view("plain", "t")
    shop.refresh()
    commits(shop, 3)
    result = shop.refresh()
    assert result.ok and result.epochs == (2, 3, 4)
    assert (shop.versions("x"), shop.versions("plain")) == ([0, 1, 2, 3], [0, 3])


@pytest.mark.parametrize("strategy", ["hybrid", "incremental", "snapshot"])
def test_a_view_ahead_of_another_stays_where_it_is(shop: Shop, strategy: str) -> None:
    shop.view("x", "t", properties=COMPLETE)
    shop.view("y", "t", properties=COMPLETE)
    shop.refresh()
    commits(shop, 3)
    shop.refresh("x")
    commits(shop, 1)
    assert shop.refresh(strategy=strategy).ok
    assert (shop.versions("x"), shop.versions("y")) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_a_parent_ahead_stays_and_its_child_waits_for_it(shop: Shop) -> None:
    """The child must not meet rows of its parent with older ones of a table both read."""
    shop.view("p", "t")
    shop.view("x", "p", "t", properties=COMPLETE)
    shop.view("y", "t", properties=COMPLETE)
    shop.refresh()
    commits(shop, 3)
    shop.refresh("p")
    commits(shop, 1)
    assert shop.refresh().ok
    assert (shop.versions("p"), shop.versions("x")) == ([0, 3, 4], [0, 3, 4])
    assert shop.versions("y") == [0, 1, 2, 3, 4]


def test_rows_that_were_never_published_do_not_go_back_either(shop: Shop) -> None:
    shop.view("p", "t")
    shop.view("x", "p", properties=COMPLETE)
    shop.refresh()
    commits(shop, 2)
    shop.plain.write("p")  # by a refresh that was killed before it published
    commits(shop, 1)
    assert shop.refresh().ok
    assert (shop.versions("p"), shop.versions("x")) == ([0, 2, 3], [0, 2, 3])


def test_no_epoch_if_every_view_is_past_a_state(shop: Shop) -> None:
    """The views that are not asked for at a state are not refreshed to it."""
    shop.view("p", "t")
    shop.view("x", "p", properties=COMPLETE)
    shop.view("other", "t")
    shop.refresh()
    commits(shop, 3)
    shop.refresh("p")
    assert shop.refresh().epochs == (3,)
    assert (shop.versions("x"), shop.versions("other")) == ([0, 3], [0, 3])


# A complete view that fails on the way


def fails_at(shop: Shop, view: str, version: int) -> Callable[[Settled], bool]:
    """Say of one view that it cannot be written at one version of t."""
    table = FolderLog(shop.plain.path("t")).info().id
    return lambda settled: (
        settled.view.name == view and settled.inputs.get(table, version) == version
    )


def test_a_failed_state_stops_its_view_and_no_other(shop: Shop) -> None:
    """Parts are no views a user can name: they stay with their view."""
    shop.view("x__hv_part", "t", of="x")
    shop.view("x", "t", properties=COMPLETE)
    shop.view("child", "x")
    shop.view("y", "t", properties=COMPLETE)
    shop.view("other__hv_part", "t", of="other")
    shop.view("other", "t")
    shop.refresh()
    commits(shop, 3)
    shop.broken = fails_at(shop, "x", 2)
    result = shop.refresh()
    assert states(result) | {"y": "", "other": ""} == {
        "x": "failed",
        "child": "stale",
        "y": "",
        "other": "",
    }
    assert shop.versions("y") == [0, 1, 2, 3]
    assert (shop.versions("other"), shop.versions("other__hv_part")) == ([0, 3], [0, 3])
    assert (shop.versions("x"), shop.versions("child")) == ([0, 1], [0])
    newest = shop.plain.catalog.published()
    failed, stale = newest.view("x"), newest.view("child")
    assert (failed.reason, stale.reason) == (
        "The disk is full.",
        'view "x" it reads was not refreshed',
    )

    shop.broken = lambda _: False
    assert shop.refresh().ok
    assert (shop.versions("x"), shop.versions("child")) == ([0, 1, 2, 3], [0, 3])


def test_what_a_failed_view_reads_waits_for_it(shop: Shop) -> None:
    """If its parent went on, the states in between would be lost to it."""
    shop.view("p", "t")
    shop.view("x", "p", properties=COMPLETE)
    shop.view("sibling", "p")
    shop.view("other", "t")
    shop.refresh()
    commits(shop, 3)
    shop.broken = lambda settled: settled.view.name == "x"
    result = shop.refresh()
    waits = {state.name: state.reason for state in result.views}
    assert waits["p"] == 'it waits for view "x", which is to show every state'
    assert states(result)["sibling"] == "stale"
    assert (shop.versions("p"), shop.versions("other")) == ([0, 1], [0, 3])

    shop.broken = lambda _: False
    assert shop.refresh().ok
    assert (shop.versions("x"), shop.versions("sibling")) == ([0, 1, 2, 3], [0, 3])


def test_a_failure_that_stands_makes_no_epoch(shop: Shop) -> None:
    shop.view("x", "t", properties=COMPLETE)
    shop.refresh()
    commits(shop, 3)
    shop.broken = lambda settled: settled.view.name == "x"
    assert not shop.refresh().ok
    again = shop.refresh()
    assert not again.ok and again.epochs == ()


# What is lost or cannot be read


def test_a_table_loaded_anew_is_published(shop: Shop) -> None:
    """It has the version and the inputs it had, and is another table."""
    shop.view("v", "t")
    shop.refresh()
    shutil.rmtree(shop.plain.path("v"))
    assert shop.refresh().epochs == (2,)
    catalog = shop.plain.catalog
    assert view_at(shop.plain.context, Moment(catalog), catalog.views["v"]) is not None
    assert shop.refresh().epochs == ()


def break_log(shop: Shop, table: str, kind: str) -> None:
    folder = shop.plain.path(table) / "_delta_log"
    if kind == "broken":
        (folder / f"{1:020d}.json").write_text('{"add": broken')
        return
    unknown = ["somethingNew"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": unknown,
        "writerFeatures": unknown,
    }
    (folder / f"{2:020d}.json").write_text(json.dumps({"protocol": protocol}))


@pytest.mark.parametrize("kind", ["broken", "unknown feature"])
@pytest.mark.parametrize("properties", [{}, COMPLETE])
def test_an_unreadable_log_concerns_its_views_alone(
    shop: Shop, kind: str, properties: dict[str, str]
) -> None:
    shop.plain.table("fine")
    shop.view("v", "t", properties=properties)
    shop.view("child", "v")
    shop.view("w", "fine", properties=properties)
    shop.refresh()
    commits(shop, 1)
    commits(shop, 2, "fine")
    break_log(shop, "t", kind)
    result = shop.refresh()
    assert states(result)["v"] == "failed"
    assert (states(result)["child"], shop.versions("w", "fine")[-1]) == ("stale", 2)
    error = next(state.error for state in result.views if state.name == "v")
    assert error.startswith('error HV204: the log of table "t" cannot be read\ndetail: ')
    assert error.endswith("hint: Run: hybridview table add t NEW_PATH --replace")
    assert len(error.splitlines()) == 3, "no stack trace of delta-rs"


def test_a_child_of_a_view_that_is_lost_and_blocked_keeps_its_rows(shop: Shop) -> None:
    shop.view("p", "t")
    shop.view("child", "p")
    shop.refresh()
    shutil.rmtree(shop.plain.path("p"))
    shutil.rmtree(shop.plain.path("t"))
    plan = plan_refresh(shop.plain.context)
    assert [(view.name, view.executed, view.reason) for view in plan.views] == [
        ("p", "failed", 'table "t" is gone'),
        ("child", "stale", 'view "p" it reads was not refreshed'),
    ]
    assert states(shop.refresh()) == {"p": "failed", "child": "stale"}
    assert shop.plain.catalog.published().view("child").version == 0


# The proof


def test_the_proof_leaves_out_epochs_that_expired(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.view("x", "t", properties=COMPLETE)
    shop.refresh()
    commits(shop, 2)
    shop.refresh()
    shop.plain.context.ledger.append("expired", {"epochs": [1], "at": ""})
    asked: list[int | None] = []

    def verify(_: Context, name: str, epoch: int | None = None) -> Verdict:
        asked.append(epoch)
        return Verdict(name, epoch or 0, 1, 0, 0)

    monkeypatch.setattr(proving, "verify", verify)
    proof = shop.plain.store.prove("x")
    assert asked == [2, 3]
    assert (proof.level, proof.epochs, proof.ok) == ("complete", 2, True)


def test_views_are_refreshed_at_the_same_time_a_few_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time, if two are allowed; a view that reads another one comes after it."""
    shop.plain.context.parallel = 2
    for number in range(4):
        shop.view(f"v{number}", "t")
    shop.view("child", "v0", "v1")
    two, lock = threading.Barrier(2), threading.Lock()
    running: set[str] = set()
    finished: list[str] = []
    most = 0

    def load(mine: dict[str, tuple[int, str]], settled: Settled, plan: Any) -> Done:
        nonlocal most
        name = settled.view.name
        if name == "child":
            assert {"v0", "v1"} <= set(finished)
        with lock:
            running.add(name)
            most = max(most, len(running))
        if name != "child":
            two.wait(timeout=30)  # broken, if the others wait for this one to end
        done = shop.load(settled, None, plan)
        with lock:
            mine[name] = shop.written[name]
            running.remove(name)
            finished.append(name)
        return done

    def writer(runner: Runner) -> Any:
        mine: dict[str, tuple[int, str]] = {}

        def write(settled: Settled, _: Any) -> Done:
            return load(mine, settled, runner.plan)

        return SimpleNamespace(load=write, apply=write, commits=SimpleNamespace(written=mine))

    monkeypatch.setattr(Runner, "_writer", writer)
    result = shop.refresh()
    assert result.ok, result
    assert set(finished) == {"v0", "v1", "v2", "v3", "child"}
    assert most == 2


def test_a_view_put_back_from_a_copy_takes_its_readers_along(shop: Shop, tmp_path: Path) -> None:
    """They have seen versions of it that are no more."""
    shop.view("v", "t")
    shop.view("child", "v")
    shop.refresh()
    shutil.copytree(shop.plain.path("v"), tmp_path / "copy")
    for _ in range(2):
        commits(shop, 1)
        shop.refresh()
    shutil.rmtree(shop.plain.path("v"))
    shutil.copytree(tmp_path / "copy", shop.plain.path("v"))
    commits(shop, 1)
    result = shop.refresh()
    assert states(result)["child"] == "snapshot"
    assert result.views[1].reason == "view v was put back from a copy"
    commits(shop, 1)
    assert states(shop.refresh())["child"] != "snapshot"


def test_a_table_put_back_and_written_to_is_another_one(shop: Shop, tmp_path: Path) -> None:
    """Its id and its version are what they were, but not what they stand for."""
    shop.view("v", "t")
    shop.view("child", "v")
    shutil.copytree(shop.plain.path("t"), tmp_path / "copy")
    commits(shop, 2)
    assert states(shop.refresh()) == {"v": "initial", "child": "initial"}
    assert shop.refresh().epoch is None, "nothing changed"
    shutil.rmtree(shop.plain.path("t"))
    shutil.copytree(tmp_path / "copy", shop.plain.path("t"))
    commits(shop, 2)
    result = shop.refresh()
    assert states(result)["v"] == "snapshot"
    assert result.views[0].reason == "the history of table t was replaced"
    assert shop.refresh().epoch is None
    commits(shop, 1)
    assert states(shop.refresh())["v"] != "snapshot"
