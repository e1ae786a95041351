"""A LIMIT over a large table: few of its rows are kept, and what comes next is read when needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybridview.compiler.margin import LEAST, size_of
from hybridview.deltalog import FolderLog
from hybridview.schema import Executed
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

ROWS, KEPT = 9000, size_of(LEAST)
VIEWS = {
    "newest": "SELECT id, x FROM events ORDER BY at DESC NULLS LAST, id LIMIT 3 OFFSET 2",
    "known": "SELECT count(*) AS n, max(id) AS id FROM newest",
}


def kept_rows(house: Warehouse) -> int:
    (folder,) = (house.root / "views").glob("newest?*")
    log = FolderLog(folder)
    return log.row_count(log.latest()) or 0


def test_few_rows_of_a_large_table_are_kept(tmp_path: Path, spark: Any) -> None:
    house = Warehouse(tmp_path / "store", spark)
    rows = f"SELECT id, id - 6000, CAST(id % 7 AS DOUBLE) FROM range({ROWS})"
    house.table("events", "id BIGINT, at BIGINT, x DOUBLE", rows)
    house.views(VIEWS)
    assert set(house.executed().values()) == {"initial"}
    assert kept_rows(house) == KEPT

    # Far behind: nothing is written.
    house.sql("INSERT INTO {events} VALUES (9001, NULL, 1.0), (9002, 0, -0.0)")
    house.sql("DELETE FROM {events} WHERE at = 17")
    assert house.executed("incremental")["newest"] == "none"
    assert kept_rows(house) == KEPT

    # In front, and out of the middle; more than twice as many rows are cut down again.
    house.sql("DELETE FROM {events} WHERE at BETWEEN 2990 AND 2998")
    house.sql("INSERT INTO {events} VALUES (9003, 9003, 0.0), (9003, 9003, -0.0)")
    assert set(house.executed("incremental").values()) == {"incremental"}
    assert kept_rows(house) == KEPT - 9 + 2
    house.assert_verified()
    house.sql(f"INSERT INTO {{events}} SELECT 10000 + id, 10000 + id, 1.0 FROM range({2 * KEPT})")
    assert set(house.executed("incremental").values()) == {"incremental"}
    assert kept_rows(house) == KEPT
    house.assert_verified()

    # More go than were kept: that is no incremental refresh.
    house.sql("DELETE FROM {events} WHERE at > 2500")
    broken = house.refresh("incremental")
    assert broken["newest"].executed == Executed.STALE
    before = house.rows("newest")
    state = house.refresh("hybrid")["newest"]
    assert state.executed == Executed.HYBRID
    assert "was computed anew: more of the first rows went than were kept to spare" in state.reason
    assert house.rows("newest") != before
    assert kept_rows(house) == KEPT
    house.assert_verified()

    # A table changed by hand is rebuilt; a snapshot in between changes nothing.
    (folder,) = (house.root / "views").glob("newest?*")
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id % 2 = 0")
    assert house.refresh("hybrid")["newest"].executed == Executed.SNAPSHOT
    assert kept_rows(house) == KEPT
    house.sql("DELETE FROM {events} WHERE at = 2500")
    assert house.refresh("snapshot")["newest"].executed == Executed.SNAPSHOT
    house.sql("DELETE FROM {events} WHERE at < 10000 AND at <> 3")
    house.refresh("hybrid")
    house.sql("INSERT INTO {events} VALUES (1, NULL, 0.0), (2, 5, 0.0)")
    assert house.executed("incremental")["newest"] == "incremental"
    house.assert_verified()
