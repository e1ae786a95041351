"""DuckDB runs a query over the same files: how fast a recompute can be, without a table written."""

from __future__ import annotations

import time
from typing import Any

import sqlglot
from deltalake import DeltaTable

from hybridview.bench.cells import LEAST_ROUNDS, Duck
from hybridview.bench.data import Data
from hybridview.bench.queries import query_text, tables_of


def duck_query(number: int) -> str:
    """Return a query in DuckDB's dialect."""
    return sqlglot.transpile(query_text(number), read="spark", write="duckdb")[0]


def measure_duckdb(data: Data, number: int, rounds: int = LEAST_ROUNDS) -> Duck:
    """Run a query in DuckDB, once to warm up and then so many times."""
    try:
        import duckdb  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return Duck(data.scale, number, (), 0, "DuckDB is not installed")
    with duckdb.connect() as connection:
        database: Any = connection
        for name in tables_of(number):
            files = DeltaTable(str(data.table(name))).file_uris()
            listed = ", ".join("'" + f.removeprefix("file://") + "'" for f in files)
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{listed}])")
        text = duck_query(number)
        seconds: list[float] = []
        rows = 0
        try:
            for _ in range(rounds + 1):
                started = time.perf_counter()
                rows = len(database.execute(text).fetchall())
                seconds.append(round(time.perf_counter() - started, 4))
        except duckdb.Error as error:
            return Duck(data.scale, number, (), 0, str(error).splitlines()[0])
    return Duck(data.scale, number, tuple(seconds[1:]), rows)
