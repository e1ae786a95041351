"""The 22 queries of TPC-H on Spark: maintained from changes, and right after each round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import Store
from hybridview.plan.steps import Apply
from tests.support.tpch import COLUMNS, Rows, Stream, make, query

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROUNDS = 5
FILES = 8
FEED = {"delta.enableChangeDataFeed": "true"}
ARROW = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32()}


def arrow(table: str, rows: Rows) -> pa.Table:
    kinds = [ARROW.get(kind) or pa.decimal128(15, 2) for kind in COLUMNS[table].values()]
    schema = pa.schema(list(zip(COLUMNS[table], kinds, strict=True)))
    columns = [[row[i] for row in rows] for i in range(len(kinds))]
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], schema)


class Tables:
    """The base tables of a store, each in files that are sorted by its first column."""

    def __init__(self, root: Path, spark: Any, rows: dict[str, Rows]) -> None:
        self.root, self.spark = root, spark
        for name, all_rows in rows.items():
            ordered = sorted(all_rows)
            size = -(-len(ordered) // FILES)
            for start in range(0, len(ordered), size):
                data = arrow(name, ordered[start : start + size])
                write_deltalake(self.path(name), data, mode="append", configuration=FEED)

    def path(self, table: str) -> str:
        return str(self.root / "tables" / table)

    def change(self, table: str, signed: list[tuple[tuple[Any, ...], int]]) -> None:
        """Delete and insert rows, each in a commit of Spark's."""
        gone = arrow(table, [row for row, weight in signed if weight < 0])
        come = arrow(table, [row for row, weight in signed if weight > 0])
        matches = " AND ".join(f"t.{c} <=> g.{c}" for c in COLUMNS[table])
        for name, rows in (("gone", gone), ("come", come)):
            self.spark.createDataFrame(rows).createOrReplaceTempView(name)
        target = f"delta.`{self.path(table)}`"
        self.spark.sql(f"MERGE INTO {target} t USING gone g ON {matches} WHEN MATCHED THEN DELETE")
        self.spark.sql(f"INSERT INTO {target} SELECT * FROM come")


def bytes_read(spark: Any) -> int:
    """Return how many bytes all tasks have read so far."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return sum(executors.apply(i).totalInputBytes() for i in range(executors.size()))


def test_every_query_is_incremental_and_right(tmp_path: Path, spark: Any) -> None:
    stream = Stream(make(tmp_path / "data", 0.01), share=1000)
    root = tmp_path / "store"
    store = Store.open(root, spark=spark)
    tables = Tables(root, spark, stream.now)
    for name in COLUMNS:
        store.add_table(name)
    names = [f"q{number}" for number in range(1, 23)]
    for number, name in enumerate(names, start=1):
        store.create_view(name, query(number))
        assert store.explain(name).incremental, name
    assert {v.executed for v in store.refresh().views} == {"initial"}
    moved: set[str] = set()
    for number in range(1, ROUNDS + 1):
        for table, signed in stream.next().items():
            tables.change(table, signed)
        for view in store.plan(strategy="incremental").views:
            assert isinstance(view.step, Apply), (view.name, view.reason)
        for state in store.refresh(strategy="incremental").views:
            assert state.executed in ("incremental", "none"), (number, state)
            moved |= {state.name} if state.executed == "incremental" else set()
        for name in names:
            assert store.verify(name).ok, (number, name)
    assert len(moved) >= 20, moved
    read = {}
    orders = dict(list({r[0]: r for r in stream.now["orders"]}.items())[:3])
    gone = [(row, -1) for row in orders.values()]
    for strategy in ("incremental", "snapshot"):
        tables.change("orders", gone if strategy == "incremental" else [(r, 1) for r, _ in gone])
        before = bytes_read(spark)
        store.refresh(strategy=strategy)
        read[strategy] = bytes_read(spark) - before
    print("bytes read", read)
    assert read["incremental"] < read["snapshot"]
