"""Everything at once for a while: writers, a maintainer that keeps dying, readers, OPTIMIZE."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from hybridview import Store
from tests.faults.processes import Maintainer
from tests.faults.shop import TALLY, Shop
from tests.faults.test_concurrency import check_all, check_invariant, doing
from tests.faults.test_matrix import refresh_until_won

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SECONDS = int(os.environ.get("HV_SOAK_SECONDS", "600"))
KINDS = ("client", "alone", "group")


@pytest.mark.timeout(SECONDS + 900)
@pytest.mark.long
def test_soak(shop: Shop, spark: Any, server: str, tmp_path: Path) -> None:
    store = Store.open(shop.root, spark=spark)
    second = Shop(shop.root, seed=1, first_id=1_000_000)
    administrator = Shop(shop.root, seed=2, first_id=2_000_000)
    end = time.monotonic() + SECONDS
    claims: list[tuple[int, str]] = []
    generation = 0
    with (
        doing(shop.change, second.change, pause=4),
        doing(administrator.tend, pause=5),
        doing(lambda: check_invariant(store)),
    ):
        while time.monotonic() < end:
            generation += 1
            claims += _live_and_die(shop, server, tmp_path / f"{generation}.json", KINDS)
            shop.check_epoch()
    records = {(r.epoch, r.attempt) for r in shop.catalog().refreshes}
    assert len(claims) == len(set(claims)) and set(claims) <= records
    assert len(records) > generation // 2, "lives publish one epoch each, on the average"
    refresh_until_won(store, "incremental")
    check_all(shop)
    for view in store.views():
        verdict = store.verify(view.name)
        TALLY.rows += verdict.rows
        TALLY.mismatches += not verdict.ok
        assert verdict.ok, verdict


def _live_and_die(
    shop: Shop, server: str, output: Path, kinds: tuple[str, ...]
) -> list[tuple[int, str]]:
    """Run a maintainer loop for a while, kill it in one of three ways, return its claims."""
    kind = random.choice(kinds)
    words = ("--remote", server) if kind == "client" else ()
    strategies = random.choice(("hybrid", "incremental,snapshot", "hybrid,incremental"))
    living = Maintainer(shop.root, strategies, output, "--rounds", "1000000", *words)
    living.wait_until_ready()
    # On a slow machine too, some die in their first refresh and some in a later one.
    living.wait_for_claims(random.choice((0, 1, 2)))
    time.sleep(random.uniform(0, 5))
    living.kill(group=kind == "group")
    # A race against an orphan may be lost; nothing else may go wrong.
    errors = living.errors()
    assert {e.get("error") for e in errors} <= {"HV302"}, errors
    TALLY.races += len(errors)
    return living.claims()
