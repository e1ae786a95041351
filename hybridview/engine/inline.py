"""A small query result -> the same rows as literals in SQL text.

A MERGE reads its source twice and keeps a copy of it. When a change has few rows it is cheaper to
fetch them once: then it is also known whether there is anything to write at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hybridview.engine.session import Session, literal, quote
from hybridview.engine.spark_errors import is_too_much, spark_errors

MAX_ROWS = 10_000
MAX_CHARACTERS = 4_000_000
WIDEST = 50_000
"""Bytes of a value; a wider one is not even fetched. Few of them would be too many characters."""
LOST = "\ufffd"
"""What stands in the place of bytes that are no text: Spark's strings may hold any. And in that of
values that are too wide: rows with it never stand as literals."""

_AS_TEXT = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "string")


def encodable(type_name: str) -> bool:
    """Say whether a value of a type survives the way through text unchanged."""
    plain = type_name.lower()
    return plain in (*_AS_TEXT, "timestamp", "timestamp_ntz", "binary") or plain.startswith(
        ("decimal(", "string collate ")
    )


def encode(column: str, type_name: str) -> str:
    """Return a column as text, in SQL."""
    if type_name == "timestamp":
        # As text, the hour that a clock change repeats would be ambiguous.
        return f"CAST(unix_micros({column}) AS STRING)"
    if type_name == "binary":
        return _unless_wide(column, f"hex({column})")
    if type_name.startswith("string"):
        return _unless_wide(column, f"make_valid_utf8(CAST({column} AS STRING))")
    return f"CAST({column} AS STRING)"


def _unless_wide(column: str, encoded: str) -> str:
    return f"IF(octet_length({column}) > {WIDEST}, {literal(LOST)}, {encoded})"


def decode(column: str, type_name: str) -> str:
    if type_name == "timestamp":
        return f"timestamp_micros(CAST({column} AS BIGINT))"
    if type_name == "binary":
        return f"unhex({column})"
    return f"CAST({column} AS {type_name})"


def typed(value: str, type_name: str) -> str:
    """Return a fetched value as SQL of its type."""
    return decode(literal(value), type_name.lower())


def fetch(
    session: Session, query: str, columns: Sequence[tuple[str, str]]
) -> list[tuple[Any, ...]] | None:
    """Return a query's rows as text; None if there are too many, or of types text cannot carry.

    What the driver holds of them is bounded: their number, the width of each value, and in the end
    by what Spark lets a result have.
    """
    if not all(encodable(kind) for _, kind in columns):
        return None
    encoded = ", ".join(
        f"{encode(quote(name), kind.lower())} AS {quote(name)}" for name, kind in columns
    )
    try:
        rows = session.run(f"SELECT {encoded} FROM ({query}) LIMIT {MAX_ROWS + 1}")
    except spark_errors() as error:
        if not is_too_much(error):
            raise
        return None
    return rows if can_stand(rows) else None


def can_stand(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Say whether rows can stand as literals: few, short, and nothing was lost on the way."""
    characters = sum(len(value or "") for row in rows for value in row)
    return len(rows) <= MAX_ROWS and characters <= MAX_CHARACTERS and are_whole(rows)


def are_whole(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Say whether texts are what they were: none has lost bytes on the way."""
    return not any(LOST in value for row in rows for value in row if value)


def as_relation(rows: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, str]]) -> str:
    """Return a query of literal rows, if there are any, with the given column names and types.

    They lie in one partition, so that whatever is done to them alone needs no shuffle.
    """
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
        return f"SELECT {nulls} WHERE FALSE"
    decoded = ", ".join(
        f"{decode(f'inlined[{place}]', kind.lower())} AS {quote(name)}"
        for place, (name, kind) in enumerate(columns)
    )
    return f"SELECT /*+ COALESCE(1) */ {decoded} FROM ({exploded(rows)})"


def exploded(rows: Sequence[Sequence[Any]]) -> str:
    """Return a query of rows of text, each an array in a column `inlined`.

    They are one literal, in JSON: a parser that looks at each value takes seconds for thousands of
    rows. It is a column of a row, not an argument: else Spark would make an array of it once and
    for all, and compare all its values whenever it looks at the plan, after each stage, at each
    place where they are read.
    """
    text = literal(json.dumps([list(row) for row in rows], separators=(",", ":")))
    # Else text that cannot be read would be no rows, without a word.
    array = "from_json(`rows`, 'array<array<string>>', map('mode', 'FAILFAST'))"
    return f"SELECT explode({array}) AS inlined FROM VALUES ({text}) AS given(`rows`)"
