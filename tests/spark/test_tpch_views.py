"""The 22 queries of TPC-H on Spark: maintained from changes, and right after each round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import Store
from hybridview.catalog import ViewState
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


def some_neighbours(rows: dict[str, Rows]) -> dict[str, Rows]:
    """Return two orders with their lines, and one row of each other table; all at the beginning."""
    found = {name: sorted(rows[name])[:1] for name in ("customer", "supplier", "part")}
    found["orders"] = sorted(rows["orders"])[:2]
    keys = {row[0] for row in found["orders"]}
    found["lineitem"] = [row for row in rows["lineitem"] if row[0] in keys]
    found["partsupp"] = [row for row in rows["partsupp"] if row[0] == found["part"][0][0]]
    return found


def read_for(states: Iterable[ViewState], view: str) -> Counter[str]:
    """Return how many files and bytes were read for a view, its parts included."""
    total: Counter[str] = Counter()
    for state in states:
        if state.name == view or state.name.startswith(f"{view}@"):
            total.update(state.read)
    return total


@pytest.mark.timeout(3600)
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
    few = some_neighbours(stream.now)
    states = {}
    for strategy, weight in (("incremental", -1), ("snapshot", 1)):
        for table, rows in few.items():
            tables.change(table, [(row, weight) for row in rows])
        store.refresh(strategy=strategy)
        record = store._context.catalog().published()
        assert record is not None
        states[strategy] = record.views
    part, whole = ({n: read_for(found, n) for n in names} for found in states.values())
    print("\n".join(f"{n}: {dict(part[n])} of {dict(whole[n])}" for n in names))
    less = [n for n in names if part[n]["bytes"] < whole[n]["bytes"] / 2]
    assert len(less) >= 20, set(names) - set(less)
