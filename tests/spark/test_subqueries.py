"""Subqueries whose answer in Spark is not the one the SQL standard gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import Store

pytestmark = [pytest.mark.spark, pytest.mark.long]

FEED = {"delta.enableChangeDataFeed": "true"}


def append(root: Path, table: str, rows: list[tuple[int | None, int]]) -> None:
    data = pa.table({"k": pa.array([k for k, _ in rows], pa.int32()), "a": [a for _, a in rows]})
    write_deltalake(str(root / "tables" / table), data, mode="append", configuration=FEED)


def test_in_as_a_value_is_never_unknown(tmp_path: Path, spark: Any) -> None:
    root = tmp_path / "store"
    store = Store.open(root, spark=spark)
    append(root, "r", [(1, 1), (2, 2), (None, 3)])
    append(root, "s", [(7, 7)])
    store.create_view(
        "v",
        "SELECT a, k IN (SELECT k FROM s) AS inside, NOT (k IN (SELECT k FROM s)) AS outside, "
        "k NOT IN (SELECT k FROM s) OR a = 3 AS either FROM r",
    )
    assert store.refresh().ok
    for rows in ([(1, 0)], [(None, 0)], [(2, 0), (8, 0)]):
        append(root, "s", rows)
        append(root, "r", [(rows[0][0], 9)])
        result = store.refresh(strategy="incremental")
        assert [v.executed for v in result.views] == ["incremental"]
        assert store.verify("v").ok
    found = {tuple(row) for row in store.read("v").collect()}
    assert (3, False, False, True) in found
