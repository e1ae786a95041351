"""The change of one source: where its rows can be read, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridview.algebra.plan import GONE
from hybridview.engine import inline
from hybridview.engine.session import Session, quote
from hybridview.engine.signed_rows import Met, of_keys
from hybridview.engine.values import Values, of_runs, of_texts, orderable
from hybridview.plan.steps import Feed

RUNS = 256
"""Into how many runs the values of a change that is not fetched are put."""

Keys = tuple[str, frozenset[str]]
"""The type of a key and some of its values, as texts."""


@dataclass
class Change:
    """Signed rows of a source: where to read them, and what is known of them."""

    relation: str
    """A query that any session of this refresh can run."""
    rows: int | None = None
    columns: Sequence[tuple[str, str]] = ()
    fetched: Sequence[tuple[Any, ...]] | None = None
    """The rows of a small change, as texts."""
    kept_as: str = ""
    """The global temporary view it is kept in memory as."""
    met: Met = field(default_factory=dict)
    """Which of the fetched rows matter to views, by the conditions of these."""
    gone: Keys | None = None
    """The keys that are gone, once somebody asked."""
    in_memory: bool = False
    """Whether reading it is cheap, although its rows are not known here."""
    values: dict[str, Values | None] = field(default_factory=dict)
    """The values of its columns, as far as somebody asked."""
    unread: bool = False
    """Whether nobody knows yet if Delta lets it be read."""


def where(change: Change, wanted: str) -> Change:
    """Return the rows of a change for which a condition is true."""
    if change.fetched is not None:
        if wanted not in change.met:
            return change
        met = change.met[wanted]
        rows = [row for row in change.fetched if row[:-1] in met]
        return Change(inline.as_relation(rows, change.columns), len(rows), change.columns, rows)
    if not change.kept_as:
        return change
    query = f"SELECT * FROM ({change.relation}) WHERE {wanted}"
    return Change(query, change.rows, change.columns, in_memory=True)


def gone_keys(feed: Feed, change: Change) -> Keys:
    """Return the keys that are gone, and their type, if the whole change is known."""
    places = [n for n, (name, _) in enumerate(change.columns) if name.lower() in lower(feed.key)]
    if change.fetched is None or len(places) != 1:
        return "", frozenset()
    gone = of_keys(change.fetched, places, GONE)
    keys = (row[places[0]] for row in gone)
    # NULL is no key that anything refers to, but <=> finds it.
    return change.columns[places[0]][1], frozenset(key for key in keys if key is not None)


def find_values(
    session: Session, change: Change, column: str, without: Sequence[Keys]
) -> Values | None:
    """Return the values of a column, as far as they can be told, but for some keys."""
    found = [(i, kind) for i, (name, kind) in enumerate(change.columns) if name.lower() == column]
    if not found or not orderable(found[0][1]):
        return None
    place, kind = found[0]
    if change.fetched is not None:
        # Texts of one type are equal where the values are; of others they need not be.
        out = frozenset[str]().union(*(keys for of_type, keys in without if of_type == kind))
        return of_texts(kind, {row[place] for row in change.fetched} - out)
    if not change.kept_as and not change.in_memory:
        return None
    name = quote(change.columns[place][0])
    low, high = (inline.encode(f"{which}(k)", kind) for which in ("min", "max"))
    rows = session.run(
        f"SELECT {low}, {high}, n FROM "
        f"(SELECT k, CASE WHEN k IS NOT NULL THEN ntile({RUNS}) OVER (ORDER BY k) END AS n "
        f"FROM (SELECT DISTINCT {name} AS k FROM ({change.relation}))) GROUP BY n"
    )
    runs = [(str(low), str(high)) for low, high, number in rows if number is not None]
    if not inline.are_whole(runs):
        return None
    return of_runs(kind, runs, any(number is None for _, _, number in rows))


def lower(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}


__all__ = ["Change", "Keys", "find_values", "gone_keys", "lower", "where"]
