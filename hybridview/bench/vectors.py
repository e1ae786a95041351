"""Deletion vectors: what they save where few rows of a large table change, and what they cost.

With them, a MERGE marks old rows as gone instead of writing their files anew. Whoever reads the
table then has to leave these rows out, and some readers of Delta tables cannot.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from hybridview.bench.cells import Floor, rotated
from hybridview.deltalog import FEED_PROPERTY
from hybridview.engine.session import Session, table_at

WITHOUT, WITH = "without", "with"
MERGED = 1_000


def deletion_vectors(session: Session, folder: Path, rows: int, rounds: int) -> Iterator[Floor]:
    """Measure MERGEs of scattered rows, and reading all, with deletion vectors against without."""
    tables = {name: table_at(str((folder / name).resolve())) for name in (WITHOUT, WITH)}
    for name, table in tables.items():
        _create(session, table, rows, name == WITH)
    merging: dict[str, list[float]] = {name: [] for name in tables}
    reading: dict[str, list[float]] = {name: [] for name in tables}
    for number in range(rounds + 1):
        for name in rotated(tuple(tables), number):
            merging[name].append(_time(session, _merge(tables[name], rows, number)))
            reading[name].append(_time(session, f"SELECT max(struct(s, k)) FROM {tables[name]}"))
    what = f"{rows:,} rows, deletion vectors / none"
    yield _ratio(f"MERGE of {MERGED:,} scattered rows into {what}", merging)
    yield _ratio(f"reading all of {what}", reading)


def _create(session: Session, table: str, rows: int, vectors: bool) -> None:
    session.run(
        f"CREATE TABLE {table} USING delta TBLPROPERTIES ('{FEED_PROPERTY}' = 'true', "
        f"'delta.enableDeletionVectors' = '{str(vectors).lower()}') AS SELECT id AS k, "
        "sha2(CAST(id AS STRING), 256) AS name, CAST(id AS DECIMAL(38,4)) AS s "
        f"FROM range(0, {rows}, 1, 4)"
    )


def _merge(table: str, rows: int, number: int) -> str:
    step = max(rows // MERGED, 1)
    return (
        f"MERGE INTO {table} t USING (SELECT id * {step} + {number} AS k FROM range({MERGED})) d "
        "ON t.k = d.k WHEN MATCHED AND d.k % 10 = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET s = t.s + 1"
    )


def _time(session: Session, statement: str) -> float:
    started = time.perf_counter()
    session.run(statement)
    return time.perf_counter() - started


def _ratio(name: str, seconds: dict[str, list[float]]) -> Floor:
    # The first round lets the JVM compile what it runs.
    low, high = (statistics.median(seconds[n][1:]) for n in (WITHOUT, WITH))
    return Floor(name, high / low, "x", note=f"{high:.2f} s / {low:.2f} s")
