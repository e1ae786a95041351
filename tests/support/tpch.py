"""The tables and queries of TPC-H: schemas, small data made at test time, rounds of changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from hybridview.schema import Column, TableSchema

QUERIES = Path(__file__).parents[2] / "hybridview" / "bench" / "tpch"
KEY, MONEY = "bigint", "decimal(15,2)"

COLUMNS: dict[str, dict[str, str]] = {
    "region": {"r_regionkey": KEY, "r_name": "string", "r_comment": "string"},
    "nation": {
        "n_nationkey": KEY,
        "n_name": "string",
        "n_regionkey": KEY,
        "n_comment": "string",
    },
    "supplier": {
        "s_suppkey": KEY,
        "s_name": "string",
        "s_address": "string",
        "s_nationkey": KEY,
        "s_phone": "string",
        "s_acctbal": MONEY,
        "s_comment": "string",
    },
    "customer": {
        "c_custkey": KEY,
        "c_name": "string",
        "c_address": "string",
        "c_nationkey": KEY,
        "c_phone": "string",
        "c_acctbal": MONEY,
        "c_mktsegment": "string",
        "c_comment": "string",
    },
    "part": {
        "p_partkey": KEY,
        "p_name": "string",
        "p_mfgr": "string",
        "p_brand": "string",
        "p_type": "string",
        "p_size": "int",
        "p_container": "string",
        "p_retailprice": MONEY,
        "p_comment": "string",
    },
    "partsupp": {
        "ps_partkey": KEY,
        "ps_suppkey": KEY,
        "ps_availqty": "int",
        "ps_supplycost": MONEY,
        "ps_comment": "string",
    },
    "orders": {
        "o_orderkey": KEY,
        "o_custkey": KEY,
        "o_orderstatus": "string",
        "o_totalprice": MONEY,
        "o_orderdate": "date",
        "o_orderpriority": "string",
        "o_clerk": "string",
        "o_shippriority": "int",
        "o_comment": "string",
    },
    "lineitem": {
        "l_orderkey": KEY,
        "l_partkey": KEY,
        "l_suppkey": KEY,
        "l_linenumber": "int",
        "l_quantity": MONEY,
        "l_extendedprice": MONEY,
        "l_discount": MONEY,
        "l_tax": MONEY,
        "l_returnflag": "string",
        "l_linestatus": "string",
        "l_shipdate": "date",
        "l_commitdate": "date",
        "l_receiptdate": "date",
        "l_shipinstruct": "string",
        "l_shipmode": "string",
        "l_comment": "string",
    },
}
SCHEMAS = {
    name: TableSchema(name, tuple(Column(c, t) for c, t in columns.items()))
    for name, columns in COLUMNS.items()
}

Rows = list[tuple[Any, ...]]


def query(number: int) -> str:
    return (QUERIES / f"q{number:02}.sql").read_text(encoding="utf-8")


def make(folder: Path, scale: float) -> dict[str, Rows]:
    """Return the rows of every table, made by the generator of the benchmark."""
    tool = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(tool), "parquet", "-s", str(scale), "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Rows] = {}
    for name in COLUMNS:
        table = pq.read_table(folder / f"{name}.parquet")
        found[name] = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


class Stream:
    """Rounds of inserts, updates and deletes in every table, over rows that were held back."""

    def __init__(self, rows: dict[str, Rows], seed: int = 1, share: int = 100) -> None:
        self.random = Random(seed)
        self.share = share
        """One row in so many comes, goes and changes in a round."""
        self.held: dict[str, Rows] = {}
        self.now: dict[str, Rows] = {}
        for name, all_rows in rows.items():
            mixed = self.random.sample(all_rows, len(all_rows))
            cut = max(1, len(mixed) // 10)
            self.held[name], self.now[name] = mixed[:cut], mixed[cut:]

    def next(self) -> dict[str, list[tuple[tuple[Any, ...], int]]]:
        """Return the next round: some rows come, some go, some get another row's values."""
        changes: dict[str, list[tuple[tuple[Any, ...], int]]] = {}
        for name, rows in self.now.items():
            few = max(1, len(rows) // self.share)
            come = [self._take(self.held[name]) for _ in range(min(few, len(self.held[name])))]
            go = [self._take(rows) for _ in range(min(few, len(rows) - 1))]
            old = [self._take(rows) for _ in range(min(few, len(rows) - 1))]
            new = [self._updated(row, self.random.choice(rows or old)) for row in old]
            rows += come + new
            self.held[name] += go
            changes[name] = [*((r, 1) for r in come + new), *((r, -1) for r in go + old)]
        return changes

    def _take(self, rows: Rows) -> tuple[Any, ...]:
        return rows.pop(self.random.randrange(len(rows)))

    def _updated(self, row: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        """Keep a row's first column; take some of the others from another row."""
        return (
            row[0],
            *(self.random.choice(pair) for pair in zip(row[1:], other[1:], strict=True)),
        )
