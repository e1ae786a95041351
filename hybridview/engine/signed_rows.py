"""Signed rows, fetched as texts: netted, told apart by keys and by the conditions they meet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hybridview.algebra.plan import KEPT
from hybridview.engine import inline
from hybridview.engine.session import Session, quote
from hybridview.engine.spark_errors import spark_errors
from hybridview.schema import HIDDEN

Texts = tuple[Any, ...]
Met = Mapping[str, frozenset[Texts]]
"""The rows, without their weights, for which each condition is true."""

MOST_CONDITIONS = 200
"""How many conditions are computed of each row: a larger statement would not be compiled."""

_FLAGS, _NUMBER = f"{HIDDEN}flags", f"{HIDDEN}number"


def fetch_judged(
    session: Session, query: str, columns: Sequence[tuple[str, str]], conditions: Sequence[str]
) -> tuple[list[Texts], Met] | None:
    """Return the rows of a query whose last column is a weight, and which conditions they meet.

    Nothing is known of conditions if one of them cannot be computed: a view that needs it will say
    so. None if there are too many rows, or of types that text cannot carry.
    """
    if 0 < len(conditions) <= MOST_CONDITIONS:
        judged = f"SELECT {_flags(conditions)} AS {quote(_FLAGS)}, * FROM ({query})"
        try:
            rows = inline.fetch(session, judged, [(_FLAGS, "string"), *columns])
        except spark_errors():
            pass  # of the query itself: it fails again
        else:
            return None if rows is None else ([row[1:] for row in rows], _met(rows, conditions))
    plain = inline.fetch(session, query, columns)
    return None if plain is None else (plain, {})


def judge(
    session: Session,
    rows: Sequence[Texts],
    columns: Sequence[tuple[str, str]],
    conditions: Sequence[str],
) -> Met:
    """Say which conditions some rows meet, whose last column is a weight.

    Nothing is known of conditions if one of them cannot be computed.
    """
    if not rows or not 0 < len(conditions) <= MOST_CONDITIONS:
        return {}
    numbered = [(str(number), *row[:-1]) for number, row in enumerate(rows)]
    literals = inline.as_relation(numbered, [(_NUMBER, "string"), *columns[:-1]])
    try:
        flags = session.run(f"SELECT {quote(_NUMBER)}, {_flags(conditions)} FROM ({literals})")
    except spark_errors():
        return {}
    return _met([(flag, *rows[int(number)]) for number, flag in flags], conditions)


def _flags(conditions: Sequence[str]) -> str:
    """Return the SQL of a text that has a character for each condition."""
    cases = ", ".join(f"CASE WHEN {c} THEN '1' ELSE '0' END" for c in conditions)
    return f"concat({cases})"


def _met(rows: Sequence[Texts], conditions: Sequence[str]) -> Met:
    return {
        condition: frozenset(row[1:-1] for row in rows if row[0][place] == "1")
        for place, condition in enumerate(conditions)
    }


def netted(fetched: Sequence[Texts]) -> list[Texts]:
    """Cancel what cancels: updates that change nothing, and rows that came and went again.

    A row that counts twice stays twice: delta programs rely on weights of +1 and -1.
    """
    weights: Counter[Texts] = Counter()
    for row in fetched:
        weights[row[:-1]] += int(row[-1])
    return [
        (*row, "1" if weight > 0 else "-1")
        for row, weight in weights.items()
        for _ in range(abs(weight))
    ]


def of_keys(rows: Sequence[Texts], key: Sequence[int], part: str) -> list[Texts]:
    """Return the rows whose key was there and still is, or is there no more."""
    signs: dict[Texts, set[Any]] = defaultdict(set)
    for row in rows:
        signs[tuple(row[place] for place in key)].add(row[-1])
    wanted = {"1", "-1"} if part == KEPT else {"-1"}
    return [row for row in rows if signs[tuple(row[place] for place in key)] == wanted]


__all__ = ["Met", "Texts", "fetch_judged", "judge", "netted", "of_keys"]
