"""The order book of the sample data: its queries, its tables, its days of changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hybridview.schema import Column, TableSchema

ROOT = Path(__file__).parents[2]
QUERIES = sorted((ROOT / "hybridview" / "bench" / "book").glob("*.sql"))
COLUMNS = {
    "t": "bigint",
    "id": "bigint",
    "broker_id": "int",
    "price": "decimal(10,2)",
    "volume": "decimal(12,2)",
}
SIDES = ("bids", "asks")
SCHEMAS = {
    side: TableSchema(side, tuple(Column(n, t) for n, t in COLUMNS.items())) for side in SIDES
}

Row = tuple[Any, ...]


def read(day: int, side: str) -> list[dict[str, Any]]:
    """Return the rows of a day: all of day 0, the changes of another."""
    path = ROOT / "sample_data" / "book" / f"day{day}" / f"{side}.parquet"
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist() if path.exists() else []
    return found


class Book:
    """Both sides of the book by the ids of their quotes, at first some of day 0."""

    def __init__(self, share: int = 1) -> None:
        self.now: dict[str, dict[int, Row]] = {
            side: {r["id"]: _row(r) for r in read(0, side) if r["id"] % share == 0}
            for side in SIDES
        }

    def changes(self, day: int) -> dict[str, list[tuple[Row, int]]]:
        """Bring a day's changes; return them as rows that come (+1) and go (-1)."""
        found: dict[str, list[tuple[Row, int]]] = {side: [] for side in SIDES}
        for side, signed in found.items():
            for record in read(day, side):
                old = self.now[side].pop(record["id"], None)
                if old is not None:
                    signed.append((old, -1))
                if record["op"] != "delete" and (old is not None or record["op"] == "insert"):
                    self.now[side][record["id"]] = _row(record)
                    signed.append((_row(record), 1))
        return {side: signed for side, signed in found.items() if signed}


def _row(record: dict[str, Any]) -> Row:
    return tuple(record[name] for name in COLUMNS)
