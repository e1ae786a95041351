"""`maintain` killed before each thing it does: nothing that an epoch or a child needs is gone."""

from __future__ import annotations

import shutil
import signal
from typing import Any

import pytest

from hybridview import Store
from hybridview.engine.faults import BETWEEN_WORKS
from tests.faults.processes import Maintainer
from tests.faults.shop import TALLY, Shop

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]

MOST = 40
"""More works than a maintenance of this store can have."""


@pytest.fixture
def worn(shop: Shop, spark: Any) -> Shop:
    """A store with many small files, epochs to expire and a folder that no view uses."""
    store = Store.open(shop.root, spark=spark)
    for _ in range(10):
        shop.append()
        assert store.refresh(strategy="incremental").ok
    lines = shop.root / "views" / shop.catalog().views["lines"].folder
    shutil.copytree(lines, lines.with_name("lines-00000000"))
    return shop


def test_a_killed_maintenance_is_taken_up(worn: Shop, spark: Any, server: str) -> None:
    store = Store.open(worn.root, spark=spark)
    verbs = [work.verb for work in store.maintain(dry_run=True, keep="0 days").works]
    assert {"expire", "compact", "remove"} <= set(verbs)
    for done in range(1, MOST):
        output = worn.root.with_name(f"{done}.json")
        words = ("--remote", server, "--maintain")
        fault = f"{BETWEEN_WORKS}:client:{done + 1}"
        victim = Maintainer(worn.root, "hybrid", output, *words, fault=fault)
        died = victim.process.wait(timeout=120) == -signal.SIGKILL
        TALLY.kills += died
        assert died or any("works" in line for line in victim.lines()), victim.complaint()
        worn.check_epoch()
        worn.change()
        assert store.refresh(strategy="incremental").ok
        worn.check_epoch()
        if not died:
            break
    assert not died and done > len(set(verbs)), "it was killed before each work, then it ended"
    worn.check_records()
