"""The six queries over an order book, through the days of the sample data, without a JVM."""

from __future__ import annotations

from dataclasses import replace

from hybridview.compiler.program import DeltaProgram
from hybridview.schema import Column
from tests.support.book import QUERIES, SCHEMAS, Book
from tests.support.duck import Duck, connect

DAYS = (1, 2, 3)


def test_every_query_follows_the_days() -> None:
    # Whole numbers: DuckDB's products of four decimals overflow, Spark's do not.
    whole = {
        name: replace(
            schema,
            columns=tuple(
                Column(
                    c.name,
                    c.type.replace("decimal(10,2)", "bigint").replace("decimal(12,2)", "bigint"),
                )
                for c in schema.columns
            ),
        )
        for name, schema in SCHEMAS.items()
    }
    book = Book(share=40)
    duck = Duck(whole, connect())
    for side, quotes in book.now.items():
        duck.load(side, [_whole(row) for row in quotes.values()])
    for path in QUERIES:
        duck.create(path.stem, path.read_text(encoding="utf-8"))
    for day in DAYS:
        changes = {
            side: [(_whole(row), weight) for row, weight in signed]
            for side, signed in book.changes(day).items()
        }
        done = duck.refresh_all(duck.change(changes), day)
        for path in QUERIES:
            assert isinstance(done[path.stem], DeltaProgram | None), (path.stem, done[path.stem])
            assert duck.stored(path.stem) == duck.fresh(path.stem), (path.stem, day)
            assert duck.stored(path.stem), path.stem


def _whole(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(int(value) for value in row)  # type: ignore[call-overload]
