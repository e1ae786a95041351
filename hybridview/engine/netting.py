"""A relation of signed rows -> the same change, without the rows that cancel."""

from __future__ import annotations

from collections.abc import Sequence

from hybridview.compiler.identity import any_of, identity, read_type
from hybridview.engine.session import quote
from hybridview.schema import HIDDEN, WEIGHT


def netted_sql(query: str, columns: Sequence[tuple[str, str]]) -> str:
    """Return the SQL that nets a query with a weight column into rows of weight +1 or -1.

    `columns` are names and Spark types without the weight. A row that counts twice stays twice:
    delta programs rely on weights of +1 and -1.
    """
    weight, copy = quote(WEIGHT), quote(f"{HIDDEN}copy")
    total = f"CAST(sum(s.{weight}) AS BIGINT)"
    kept: list[str] = []
    keys: list[str] = []
    for name, kind in ((quote(name), read_type(text)) for name, text in columns):
        kept.append(f"s.{name}" if kind.plain else f"{any_of(f's.{name}', kind)} AS {name}")
        keys += identity(f"s.{name}", kind)
    summed = (
        f"SELECT {', '.join(kept)}, {total} AS {weight} FROM (\n{query}\n) AS s\n"
        f"GROUP BY {', '.join(keys)} HAVING {total} <> 0"
    )
    names = ", ".join(quote(name) for name, _ in columns)
    return (
        f"SELECT {names}, CASE WHEN {weight} > 0 THEN 1 ELSE -1 END AS {weight}\n"
        f"FROM ({summed})\n"
        f"LATERAL VIEW explode(sequence(1, abs({weight}))) AS {copy}"
    )
