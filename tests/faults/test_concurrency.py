"""Several maintainers, writers, administrators and readers on one store at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hybridview import Store
from hybridview.errors import BusyError
from hybridview.operations.context import Context
from hybridview.operations.lock import slot
from tests.faults.processes import PROJECT, Maintainer
from tests.faults.shop import INVARIANT, TALLY, Shop

pytestmark = pytest.mark.faults

LOCK = pytest.param((), id="lock")
FENCE = pytest.param(("--no-lock",), id="fence")

HOLDER = """
import sys, time
from pathlib import Path
from hybridview.operations.context import Context
from hybridview.operations.lock import slot
with slot(Context(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def doing(*actions: Callable[[], None], pause: float = 0.2) -> Iterator[None]:
    """Repeat actions, each in a thread of its own, while the block runs; their errors are ours."""
    over = threading.Event()
    errors: list[BaseException] = []

    def repeat(action: Callable[[], None]) -> None:
        while not over.wait(pause):
            try:
                action()
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def check_invariant(store: Store) -> None:
    """Read two views in one statement: both at one epoch."""
    counted, counted_too, large, large_too = store.sql(INVARIANT).collect()[0]
    TALLY.reads += 1
    TALLY.mismatches += (counted, large) != (counted_too, large_too)
    assert (counted, large) == (counted_too, large_too)


def check_all(shop: Shop) -> None:
    """Check every published epoch, and the story that the records tell."""
    for record in shop.catalog().refreshes:
        shop.check_epoch(record.epoch)
    shop.check_records()


def test_a_dead_holder_leaves_no_lock(tmp_path: Path) -> None:
    root = tmp_path / "store"
    Store.open(root)
    context = Context(root)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)],
        env={"PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=str(holder.pid)), slot(context, wait=0):
            raise AssertionError("two processes hold the slot")
        holder.kill()
        holder.wait()
        TALLY.kills += 1
    with slot(context, wait=0):
        pass


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("words", [LOCK, FENCE])
def test_three_maintainers(
    shop: Shop, spark: Any, server: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Each epoch is won once: by the slot, or without it by the fence in the commits."""
    strategies = ("hybrid,snapshot", "incremental", "snapshot,hybrid")
    options = ("--remote", server, "--rounds", "3", *words)
    running = [
        Maintainer(shop.root, strategies[i], tmp_path / f"{i}.json", *options) for i in range(3)
    ]
    try:
        with doing(shop.change):
            while any(m.running for m in running):
                time.sleep(0.1)
    finally:
        for m in running:
            m.end()
    assert [m.process.returncode for m in running] == [0, 0, 0], [m.complaint() for m in running]
    won = sorted(claim for m in running for claim in m.claims())
    records = shop.catalog().refreshes
    assert won == [(r.epoch, r.attempt) for r in records if r.epoch > 1]
    assert won, "somebody published"
    errors = [line for m in running for line in m.errors()]
    assert {e.get("error") for e in errors} <= ({"HV302", "HV305"} if words else set()), errors
    TALLY.races += len(errors)
    assert Store.open(shop.root, spark=spark).refresh().ok
    check_all(shop)


@pytest.mark.spark
@pytest.mark.long
def test_base_tables_change_during_refreshes(shop: Shop, spark: Any) -> None:
    """Writers, OPTIMIZE, VACUUM and ALTER go on: base tables and stored tables alike."""
    store = Store.open(shop.root, spark=spark)
    other = Shop(shop.root, seed=1, first_id=100_000)
    with doing(shop.change, other.tend, other.alter):
        for strategy in ("incremental", "snapshot", "hybrid", "incremental"):
            epoch = None
            while epoch is None:  # a writer may not have come in between
                result = store.refresh(strategy=strategy)
                assert result.ok, result
                epoch = result.epoch
    assert store.refresh(strategy="incremental").ok
    check_all(shop)


@pytest.mark.spark
@pytest.mark.long
def test_readers_never_see_a_mixture(shop: Shop, spark: Any, server: str, tmp_path: Path) -> None:
    store = Store.open(shop.root, spark=spark)
    options = ("--remote", server, "--rounds", "4")
    running = Maintainer(shop.root, "incremental,snapshot", tmp_path / "m.json", *options)
    seen = set()
    try:
        with doing(shop.change):
            while running.running:
                check_invariant(store)
                seen.add(store.epoch)
    finally:
        running.end()
    assert running.errors() == [] and len(seen) > 2, (seen, running.complaint())
    check_all(shop)
