"""The six queries over the sample order book on Spark: maintained from changes, every day right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.warehouse import Warehouse
from tests.support.book import COLUMNS, QUERIES, SIDES, Book, Row

pytestmark = [pytest.mark.spark, pytest.mark.long]

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("id", pa.int64()),
        ("broker_id", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("volume", pa.decimal128(12, 2)),
    ]
)


def register(spark: Any, name: str, rows: list[Row]) -> None:
    columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(SCHEMA)]
    spark.createDataFrame(pa.table(columns, SCHEMA)).createOrReplaceTempView(name)


def test_every_query_follows_the_days(tmp_path: Path, spark: Any) -> None:
    book = Book(share=4)
    house = Warehouse(tmp_path / "store", spark)
    listed = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for side in SIDES:
        register(spark, "rows", list(book.now[side].values()))
        house.table(side, listed, "SELECT * FROM rows")
    house.views({path.stem: path.read_text(encoding="utf-8") for path in QUERIES})
    assert set(house.executed().values()) == {"initial"}
    for day in (1, 2, 3):
        for side, signed in book.changes(day).items():
            register(spark, "gone", [row for row, weight in signed if weight < 0])
            register(spark, "come", [row for row, weight in signed if weight > 0])
            house.sql(
                f"MERGE INTO {{{side}}} AS t USING gone ON t.id = gone.id WHEN MATCHED THEN DELETE"
            )
            house.sql(f"INSERT INTO {{{side}}} SELECT * FROM come")
        assert set(house.executed("incremental").values()) <= {"incremental", "none"}
        house.assert_verified()
