"""A small query result -> the same rows as literals in SQL text.

A MERGE reads its source twice and keeps a copy of it. When a change has few rows it is cheaper to
fetch them once: then it is also known whether there is anything to write at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridview.engine.session import Session, literal, quote

MAX_ROWS = 2_000
MAX_CHARACTERS = 1_000_000

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
        return f"hex({column})"
    return f"CAST({column} AS STRING)"


def _decode(column: str, type_name: str) -> str:
    if type_name == "timestamp":
        return f"timestamp_micros(CAST({column} AS BIGINT))"
    if type_name == "binary":
        return f"unhex({column})"
    return f"CAST({column} AS {type_name})"


def typed(value: str, type_name: str) -> str:
    """Return a fetched value as SQL of its type."""
    return _decode(literal(value), type_name.lower())


def fetch(
    session: Session, query: str, columns: Sequence[tuple[str, str]]
) -> list[tuple[Any, ...]] | None:
    """Return a query's rows as text; None if there are too many, or of types text cannot carry."""
    if not all(encodable(kind) for _, kind in columns):
        return None
    encoded = ", ".join(
        f"{encode(quote(name), kind.lower())} AS {quote(name)}" for name, kind in columns
    )
    rows = session.run(f"SELECT {encoded} FROM ({query}) LIMIT {MAX_ROWS + 1}")
    return rows if is_small(rows) else None


def is_small(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Say whether rows are few and short enough to stand as literals."""
    characters = sum(len(value or "") for row in rows for value in row)
    return len(rows) <= MAX_ROWS and characters <= MAX_CHARACTERS


def as_relation(rows: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, str]]) -> str:
    """Return a query of literal rows, if there are any, with the given column names and types."""
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
        return f"SELECT {nulls} WHERE FALSE"
    names = [f"c{i}" for i in range(len(columns))]
    values = ",\n".join(
        "(" + ", ".join("NULL" if v is None else literal(v) for v in row) + ")" for row in rows
    )
    decoded = ", ".join(
        f"{_decode(alias, kind.lower())} AS {quote(name)}"
        for alias, (name, kind) in zip(names, columns, strict=True)
    )
    return f"SELECT {decoded} FROM VALUES\n{values}\nAS inlined({', '.join(names)})"
