"""The change of a source -> a relation that every session of a refresh can read; made once.

A small change is fetched, netted, and stands as literals in the statements of all views that read
it. A larger one is netted and kept in memory. The largest are read where they are used, and so is
one that is used once.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridview.algebra.plan import KEPT
from hybridview.compiler.links import part_of
from hybridview.engine import inline
from hybridview.engine.netting import netted_sql
from hybridview.engine.session import Session, literal, quote, table_at
from hybridview.engine.spark_errors import refuses_feed, spark_errors
from hybridview.engine.values import Values, of_runs, of_texts, orderable
from hybridview.plan.steps import Feed
from hybridview.schema import WEIGHT

_SIGN = "CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"

MOST_KEPT = 1_000_000
"""A change of no more rows is kept in memory."""

RUNS = 256
"""Into how many runs the values of a change that is not fetched are put."""


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
    values: dict[str, Values | None] = field(default_factory=dict)
    """The values of its columns, as far as somebody asked."""


@dataclass
class Changes:
    """All changes of one refresh, shared by its sessions; each is made by who asks first."""

    path: Callable[[str], str]
    attempt: str
    made: dict[str, Change] = field(default_factory=dict)
    locks: dict[str, threading.Lock] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)
    registered: list[str] = field(default_factory=list)
    """Global temporary views: what all sessions can read."""

    def of(self, session: Session, feed: Feed, end: int, once: bool = False) -> Change:
        """Return the change after `feed.start` up to `end`.

        With `once`, it is not even fetched: one statement reads it, and nobody asks for its values.
        """
        key = f"{feed.name} {feed.start + 1}-{end} of {', '.join(feed.columns)}"
        with self._lock(key):
            if key not in self.made:
                self.made[key] = self._make_readable(session, feed, end, once)
            return self.made[key]

    def part(
        self, session: Session, change: Change, feed: Feed, part: str, columns: Sequence[str]
    ) -> Change:
        """Return the rows of a change whose key stayed, or is gone, with some columns only.

        Where these stay the same, nothing was changed: so an update of other columns is no row.
        """
        key = f"{id(change)} {part} of {', '.join(columns)}"
        with self._lock(key):
            if key not in self.made:
                self.made[key] = self._make_part(session, change, feed, part, columns)
            return self.made[key]

    def _make_part(
        self, session: Session, change: Change, feed: Feed, part: str, columns: Sequence[str]
    ) -> Change:
        wanted = {name.lower() for name in columns}
        places = [n for n, (c, _) in enumerate(change.columns) if c.lower() in wanted]
        shown = [change.columns[place] for place in places]
        names = [name for name, _ in shown]
        types = [kind.lower() for name, kind in shown if name.lower() in _lower(feed.key)]
        # Texts tell 0.0 and -0.0 apart, and words that a collation does not; SQL does as joins do.
        as_text = not any(t in ("float", "double") or " collate " in t for t in types)
        if change.fetched is not None and as_text:
            rows = _netted([(*(row[p] for p in places), row[-1]) for row in change.fetched])
            key = [n for n, name in enumerate(names) if name.lower() in _lower(feed.key)]
            fetched = _of_keys(rows, key, part)
            kinds = [*shown, change.columns[-1]]
            return Change(inline.as_relation(fetched, kinds), len(fetched), kinds, fetched)
        listed = ", ".join(quote(name) for name in (*names, WEIGHT))
        netted = netted_sql(f"SELECT {listed} FROM ({change.relation})", shown)
        query = part_of(f"({netted})", names, feed.key, part)
        if not change.kept_as:
            return Change(query, columns=[*shown, (WEIGHT, "int")])
        return self._keep(session, query, f"{part} of {feed.name}", [*shown, (WEIGHT, "int")])

    def values(self, session: Session, change: Change, column: str) -> Values | None:
        """Return the values that a column of a change has; looked up once."""
        name = column.lower()
        with self._lock(f"{id(change)} {name}"):
            if name not in change.values:
                change.values[name] = _find_values(session, change, name)
            return change.values[name]

    def release(self, session: Session) -> None:
        """Give back what is kept in memory."""
        for change in self.made.values():
            if change.kept_as:
                session.run(f"UNCACHE TABLE IF EXISTS {change.kept_as}")
        for name in reversed(self.registered):
            session.run(f"DROP VIEW IF EXISTS {name}")
        self.made.clear()
        self.registered.clear()

    def _lock(self, key: str) -> threading.Lock:
        with self.guard:
            return self.locks.setdefault(key, threading.Lock())

    def _make_readable(self, session: Session, feed: Feed, end: int, once: bool) -> Change:
        if feed.compare:
            return self._make(session, self._difference(feed, end), feed, netted=True)
        try:
            query = self._feed(session, feed, end)
            if once and not feed.rewritten:
                return _planned(session, query)
            return self._make(session, query, feed, netted=feed.rewritten)
        except spark_errors() as error:
            if not refuses_feed(error):
                raise
            # The feed is read with the table's newest columns: a column renamed after the version
            # we are pinned at is enough.
            return self._make(session, self._difference(feed, end), feed, netted=True)

    def _feed(self, session: Session, feed: Feed, end: int) -> str:
        """Return the query of the change feed after `start` up to `end`."""
        columns = "".join(f"{quote(name)}, " for name in feed.columns)
        if feed.start == end:
            # The feed refuses an empty range.
            table = table_at(self.path(feed.name), end)
            return f"SELECT {columns}1 AS {quote(WEIGHT)} FROM {table} WHERE FALSE"
        name = self._name(f"feed of {feed.name}")
        session.register_feed(name, self.path(feed.name), feed.start + 1, end, shared=True)
        return f"SELECT {columns}{_SIGN} AS {quote(WEIGHT)} FROM {_global(name)}"

    def _name(self, what: str) -> str:
        """Return the name of a global temporary view; no other refresh has it."""
        with self.guard:
            name = f"{self.attempt} {len(self.registered)} {what}"
            self.registered.append(_global(name))
            return name

    def _difference(self, feed: Feed, end: int) -> str:
        """Return the query of what two versions do not share, as far as their files tell."""
        columns = "".join(f"{quote(name)}, " for name in feed.columns)
        where = ""
        if feed.files is not None:
            # A file both versions have holds the same rows in both; it cancels, read or not.
            names = ", ".join(literal(name) for name in feed.files) or "NULL"
            where = f" WHERE `_metadata`.`file_name` IN ({names})"
        sides = [
            f"SELECT {columns}{weight} AS {quote(WEIGHT)} "
            f"FROM {table_at(self.path(feed.name), version)}{where}"
            for version, weight in ((end, 1), (feed.start, -1))
        ]
        return "\nUNION ALL\n".join(sides)

    def _make(self, session: Session, query: str, feed: Feed, netted: bool) -> Change:
        columns = session.describe(query)
        # Rows without columns are only counted: there is nothing to tell them apart by.
        netted = netted and len(columns) > 1
        if netted:
            query = netted_sql(query, columns[:-1])
        if netted or feed.rows is None or feed.rows <= inline.MAX_ROWS:
            fetched = inline.fetch(session, query, columns)
            if fetched is not None:
                rows = _netted(fetched)
                relation = inline.as_relation(rows, columns)
                return Change(relation, len(rows), columns, rows)
        if not netted and len(columns) > 1 and feed.rows is not None and feed.rows <= MOST_KEPT:
            query, netted = netted_sql(query, columns[:-1]), True
        if not netted:
            return _planned(session, query, columns)
        # Netting it once is enough for all who read it, and then its size is known.
        return self._keep(session, query, f"change of {feed.name}", columns)

    def _keep(
        self, session: Session, query: str, what: str, columns: Sequence[tuple[str, str]]
    ) -> Change:
        own = self._name(what)
        name = _global(own)
        session.run(f"CREATE GLOBAL TEMPORARY VIEW {quote(own)} AS {query}")
        session.run(f"CACHE TABLE {name}")
        count = session.run(f"SELECT count(*) FROM {name}")[0][0]
        return Change(f"SELECT * FROM {name}", int(count), columns, kept_as=name)


def _planned(session: Session, query: str, columns: Sequence[tuple[str, str]] = ()) -> Change:
    """Return a change that is read where it is used."""
    # Planning the query is enough for Delta to refuse the range.
    session.run(f"EXPLAIN {query}")
    return Change(query, columns=columns)


def _global(name: str) -> str:
    return f"`global_temp`.{quote(name)}"


def _find_values(session: Session, change: Change, column: str) -> Values | None:
    found = [(i, kind) for i, (name, kind) in enumerate(change.columns) if name.lower() == column]
    if not found or not orderable(found[0][1]):
        return None
    place, kind = found[0]
    if change.fetched is not None:
        return of_texts(kind, (row[place] for row in change.fetched))
    if not change.kept_as:
        return None
    name = quote(change.columns[place][0])
    rows = session.run(
        "SELECT CAST(min(k) AS STRING), CAST(max(k) AS STRING), n FROM "
        f"(SELECT k, CASE WHEN k IS NOT NULL THEN ntile({RUNS}) OVER (ORDER BY k) END AS n "
        f"FROM (SELECT DISTINCT {name} AS k FROM {change.kept_as})) GROUP BY n"
    )
    runs = [(str(low), str(high)) for low, high, number in rows if number is not None]
    return of_runs(kind, runs, any(number is None for _, _, number in rows))


def _netted(fetched: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Cancel what cancels: updates that change nothing, and rows that came and went again.

    A row that counts twice stays twice: delta programs rely on weights of +1 and -1.
    """
    weights: Counter[tuple[Any, ...]] = Counter()
    for row in fetched:
        weights[row[:-1]] += int(row[-1])
    return [
        (*row, "1" if weight > 0 else "-1")
        for row, weight in weights.items()
        for _ in range(abs(weight))
    ]


def _lower(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}


def _of_keys(
    rows: Sequence[tuple[Any, ...]], key: Sequence[int], part: str
) -> list[tuple[Any, ...]]:
    """Return the rows whose key was there and still is, or is there no more."""
    signs: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for row in rows:
        signs[tuple(row[place] for place in key)].add(row[-1])
    wanted = {"1", "-1"} if part == KEPT else {"-1"}
    return [row for row in rows if signs[tuple(row[place] for place in key)] == wanted]


__all__ = ["Change", "Changes"]
