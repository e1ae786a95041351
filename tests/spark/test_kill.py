"""A refresh killed between two steps is taken up by the next one, whatever its strategy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine.faults import POINTS, VARIABLE
from hybridview.watermark import stored_state
from tests.spark.warehouse import Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SCRIPT = Path(__file__).with_name("kill_script.py")
PROJECT = Path(__file__).parents[2]

VIEWS = {
    "totals": "SELECT g, sum(x) AS total, count(*) AS n FROM t GROUP BY g",
    "ranges": "SELECT g, min(x) AS low, max(x) AS high FROM t GROUP BY g",
    "lines": "SELECT id, x FROM t WHERE x > 1",
    "large": "SELECT g, total FROM totals WHERE total > 5",
}

KILLS = dict(
    zip(
        POINTS,
        (("incremental", "snapshot"), ("snapshot", "incremental"), ("incremental", "hybrid")),
        strict=True,
    )
)
"""Where the refresh dies -> its strategy, and that of the refresh after it."""


def die(root: Path, strategy: str, fault: str) -> None:
    """Refresh in a process group of its own that is killed at a fault; wait until it is gone."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(root), strategy],
        env={**os.environ, VARIABLE: fault, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output, _ = process.communicate(timeout=180)
    assert process.returncode == -9, output.decode()
    # The JVM notices a moment later that its Python is gone; until then it could still write.
    for _ in range(200):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)


def epochs_in_tables(shop: Warehouse) -> dict[str, int]:
    """Return the newest epoch each view's table was written in."""
    found = {name: stored_state(shop.log(name)) for name in VIEWS}
    return {name: state.watermark.epoch for name, state in found.items() if state is not None}


@pytest.mark.parametrize("how", ["alone", "group"])
def test_a_killed_refresh_is_taken_up(spark: Any, tmp_path: Path, how: str) -> None:
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("t", "id INT, g INT, x INT", "SELECT id, id % 4, id FROM range(40)")
    shop.views(VIEWS)
    shop.refresh()
    for number, (point, (first, second)) in enumerate(KILLS.items()):
        published, before = shop.store.epoch, epochs_in_tables(shop)
        shop.sql(f"INSERT INTO {{t}} VALUES (10{number}, {number}, 7), (11{number}, 9, 8)")
        shop.sql(f"DELETE FROM {{t}} WHERE id = {number} + 10")
        die(shop.root, first, f"{point}:{how}")

        after = epochs_in_tables(shop)
        written = {name for name in VIEWS if after[name] > before[name]}
        expected = {"before_write": 0, "between_tables": 1, "before_publish": len(VIEWS)}
        assert len(written) == expected[point]
        assert shop.store.epoch == published, "what was not published is not seen"

        shop.sql(f"INSERT INTO {{t}} VALUES (12{number}, 2, {number})")
        shop.sql(f"UPDATE {{t}} SET x = x + 1 WHERE id = {number} + 20")
        result = shop.store.refresh(strategy=second)
        assert result.ok and result.epoch is not None
        assert result.epoch > max(published, *after.values())
        if second != "hybrid":
            assert {v.executed for v in result.views if v.name != "large"} == {second}
        shop.assert_exact()
    shop.assert_verified()
