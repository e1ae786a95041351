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

NAMES = tuple(f"q{number}" for number in range(1, 23))
ROUNDS = 5
FILES = 4
"""Into how many files a table is sliced by its first column."""
FEED = {"delta.enableChangeDataFeed": "true"}
ARROW = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32()}


def arrow(table: str, rows: Rows) -> pa.Table:
    kinds = [ARROW.get(kind) or pa.decimal128(15, 2) for kind in COLUMNS[table].values()]
    schema = pa.schema(list(zip(COLUMNS[table], kinds, strict=True)))
    columns = [[row[i] for row in rows] for i in range(len(kinds))]
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], schema)


SECOND = {"orders": 4, "lineitem": 4, "partsupp": 4}
"""Tables that are clustered by their second column too, into so many files each."""


class Tables:
    """The base tables of a store, each in files of neighbouring rows."""

    def __init__(self, root: Path, spark: Any, rows: dict[str, Rows]) -> None:
        self.root, self.spark = root, spark
        for name, all_rows in rows.items():
            for part in _sliced(sorted(all_rows), FILES):
                ordered = sorted(part, key=lambda row: row[1]) if name in SECOND else part
                for file in _sliced(ordered, SECOND.get(name, 1)):
                    data = arrow(name, file)
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


def _sliced(rows: Rows, count: int) -> list[Rows]:
    size = -(-len(rows) // count)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def one_order(rows: dict[str, Rows]) -> dict[str, Rows]:
    """Return an order of one line, with its line."""
    lines = Counter(line[0] for line in rows["lineitem"])
    order = next(row for row in sorted(rows["orders"]) if lines[row[0]] == 1)
    return {
        "orders": [order],
        "lineitem": [line for line in rows["lineitem"] if line[0] == order[0]],
    }


def one_part(rows: dict[str, Rows]) -> dict[str, Rows]:
    """Return the first part, and one of its suppliers' offers."""
    part = min(rows["part"])
    offers = [row for row in rows["partsupp"] if row[0] == part[0]]
    return {"part": [part], "partsupp": offers[:1]}


def read_for(states: Iterable[ViewState], view: str) -> Counter[str]:
    """Return how many files and bytes were read for a view, its parts included."""
    total: Counter[str] = Counter()
    for state in states:
        if state.name == view or state.name.startswith(f"{view}@"):
            total.update(state.read)
    return total


def loaded(tmp_path: Path, spark: Any, rows: dict[str, Rows]) -> tuple[Store, Tables]:
    """Return a store with a view for each query, loaded."""
    root = tmp_path / "store"
    store = Store.open(root, spark=spark)
    tables = Tables(root, spark, rows)
    for name in COLUMNS:
        store.add_table(name)
    for number, name in enumerate(NAMES, start=1):
        store.create_view(name, query(number))
        assert store.explain(name).incremental, name
    assert {v.executed for v in store.refresh().views} == {"initial"}
    return store, tables


@pytest.mark.timeout(3600)
def test_every_query_is_incremental_and_right(tmp_path: Path, spark: Any) -> None:
    stream = Stream(make(tmp_path / "data", 0.01), share=1000)
    store, tables = loaded(tmp_path, spark, stream.now)
    moved: set[str] = set()
    for number in range(1, ROUNDS + 1):
        for table, signed in stream.next().items():
            tables.change(table, signed)
        for view in store.plan(strategy="incremental").views:
            assert isinstance(view.step, Apply), (view.name, view.reason)
        for state in store.refresh(strategy="incremental").views:
            assert state.executed in ("incremental", "none"), (number, state)
            moved |= {state.name} if state.executed == "incremental" else set()
        for name in NAMES:
            assert store.verify(name).ok, (number, name)
    assert len(moved) >= 20, moved


@pytest.mark.timeout(3600)
def test_a_small_change_reads_a_part_of_clustered_tables(tmp_path: Path, spark: Any) -> None:
    rows = Stream(make(tmp_path / "data", 0.01)).now
    store, tables = loaded(tmp_path, spark, rows)
    first = store._context.catalog().published()
    assert first is not None
    whole = {name: read_for(first.views, name)["bytes"] for name in NAMES}
    shares: dict[str, float] = {}
    for few in (one_order(rows), one_part(rows)):
        for table, gone in few.items():
            tables.change(table, [(row, -1) for row in gone])
        assert store.refresh(strategy="incremental").ok
        record = store._context.catalog().published()
        assert record is not None
        for name in NAMES:
            read = read_for([s for s in record.views if s.epoch == record.epoch], name)
            if read["bytes"]:
                share = read["bytes"] / whole[name]
                print(f"{name}: {share:.0%} of {whole[name]:,} bytes, {dict(read)}")
                shares[name] = min(share, shares.get(name, share))
    assert len(shares) == len(NAMES)
    little = {name for name, share in shares.items() if share < 0.5}
    assert len(little) >= 20, shares
