"""The change of a source -> a relation that every session of a refresh can read; made once.

A small change is fetched, netted, and stands as literals in the statements of all views that read
it. A larger one is netted and kept in memory. The largest are read where they are used, and so is
one that is used once. A view that has conditions on the rows of a source gets those that meet them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hybridview.compiler.links import part_of
from hybridview.engine import inline, signed_rows
from hybridview.engine.change import Change, Keys, find_values, gone_keys, lower, where
from hybridview.engine.netting import netted_sql
from hybridview.engine.session import Session, literal, quote, table_at
from hybridview.engine.signed_rows import fetch_judged, judge, of_keys
from hybridview.engine.spark_errors import refuses_feed, spark_errors
from hybridview.engine.values import Values
from hybridview.plan.steps import Feed, ViewPlan
from hybridview.schema import WEIGHT

_SIGN = "CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"

MOST_KEPT = 1_000_000
"""A change of no more rows is kept in memory."""

REFUSED = "its change feed cannot be read"


class _Refused(Exception):
    """The change feed cannot be read for a range of versions.

    It is read with the table's newest columns: a column renamed after the version that we are
    pinned at is enough. What changed is then the difference of two versions.
    """


@dataclass
class Changes:
    """All changes of one refresh, shared by its sessions; each is made by who asks first."""

    path: Callable[[str], str]
    attempt: str
    views: Sequence[ViewPlan] = ()
    """All that are refreshed: what they want of a change is looked at when it is read."""
    made: dict[str, Change] = field(default_factory=dict)
    locks: dict[str, threading.Lock] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)
    refused: set[str] = field(default_factory=set)
    """Those that the change feed cannot tell."""
    registered: list[str] = field(default_factory=list)
    """Global temporary views: what all sessions can read."""

    def of(
        self, session: Session, view: ViewPlan, feed: Feed, end: int, once: bool = False
    ) -> Change:
        """Return the change after `feed.start` up to `end`, for the first view that asks.

        The session has the settings of the view. With `once`, the change is not even fetched: one
        statement reads it, and nobody asks for its values.
        """
        key = _key(view, feed, end)
        with self._lock(key):
            if key not in self.made and key not in self.refused:
                try:
                    self.made[key] = self._make_readable(session, view, feed, end, once)
                except _Refused:
                    self.refused.add(key)
            if key in self.made:
                return self.made[key]
        # Columns that other views use may not have been there at the older version.
        return self.of(session, view, replace(feed, compare=REFUSED, columns=feed.own), end)

    def refuse(self, view: ViewPlan, ends: Mapping[str, int]) -> bool:
        """Note that a statement could not read the feeds of a view; say whether one was unread.

        What is asked for next is the difference of two versions.
        """
        keys = {_key(view, feed, ends[feed.name]) for feed in view.feeds if not feed.compare}
        with self.guard:
            unread = {key for key in keys if key in self.made and self.made[key].unread}
            self.refused |= unread
            for key in unread:
                del self.made[key]
        return bool(unread)

    def relevant(self, change: Change, feed: Feed) -> Change:
        """Return the rows of a change that can matter to a view, as far as that is known."""
        if not feed.wanted:
            return change
        key = f"{id(change)} where {feed.wanted}"
        with self._lock(key):
            if key not in self.made:
                self.made[key] = where(change, feed.wanted)
            return self.made[key]

    def matter(self, session: Session, view: ViewPlan, ends: Mapping[str, int]) -> bool:
        """Say whether some rows of the changes of its sources can matter to a view."""
        found = (
            self.relevant(self.of(session, view, feed, ends[feed.name]), feed)
            for feed in view.feeds
        )
        return not view.feeds or any(change.fetched is None or change.fetched for change in found)

    def part(
        self, session: Session, change: Change, feed: Feed, part: str, columns: Sequence[str]
    ) -> Change:
        """Return the rows of a change whose key stayed, or is gone, with some columns only.

        Where these stay the same, nothing was changed: so an update of other columns is no row.
        What became of a key is seen from all of its rows, whether they matter to a view or not.
        """
        key = f"{id(change)} {part} of {', '.join(columns)} where {feed.wanted}"
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
        types = [kind.lower() for name, kind in shown if name.lower() in lower(feed.key)]
        # Texts tell 0.0 and -0.0 apart, and words that a collation does not; SQL does as joins do.
        as_text = not any(t in ("float", "double") or " collate " in t for t in types)
        if change.fetched is not None and as_text:
            shorter = [tuple(row[p] for p in places) for row in change.fetched]
            weights = [row[-1] for row in change.fetched]
            rows = signed_rows.netted([(*r, w) for r, w in zip(shorter, weights, strict=True)])
            key = [n for n, name in enumerate(names) if name.lower() in lower(feed.key)]
            fetched = of_keys(rows, key, part)
            if feed.wanted in change.met:
                # The columns that a view's condition reads are among those it uses.
                matter = {tuple(row[p] for p in places) for row in change.met[feed.wanted]}
                fetched = [row for row in fetched if row[:-1] in matter]
            kinds = [*shown, change.columns[-1]]
            return Change(inline.as_relation(fetched, kinds), len(fetched), kinds, fetched)
        listed = ", ".join(quote(name) for name in (*names, WEIGHT))
        netted = netted_sql(f"SELECT {listed} FROM ({change.relation})", shown)
        query = part_of(f"({netted})", names, feed.key, part)
        if feed.wanted:
            query = f"SELECT * FROM ({query}) WHERE {feed.wanted}"
        if not change.kept_as:
            return Change(query, columns=[*shown, (WEIGHT, "int")])
        return self._keep(session, query, f"{part} of {feed.name}", [*shown, (WEIGHT, "int")])

    def values(
        self, session: Session, change: Change, column: str, *without: Keys
    ) -> Values | None:
        """Return the values that a column of a change has, without some; looked up once."""
        name = column.lower()
        key = " ".join([name, *(str(id(keys)) for keys in without)])
        with self._lock(f"{id(change)} {key}"):
            if key not in change.values:
                change.values[key] = find_values(session, change, name, without)
            return change.values[key]

    def gone_keys(self, feed: Feed, change: Change) -> Keys:
        """Return the keys of a source that are gone, if the whole change is known, and their type.

        A key is one column.
        """
        with self._lock(f"{id(change)} gone keys"):
            if change.gone is None:
                change.gone = gone_keys(feed, change)
            return change.gone

    def release(self, session: Session) -> None:
        """Give back what is kept in memory."""
        for change in self.made.values():
            if change.kept_as:
                session.run(f"UNCACHE TABLE IF EXISTS {change.kept_as}")
        for name in reversed(self.registered):
            session.run(f"DROP VIEW IF EXISTS {name}")
        self.made.clear()
        self.refused.clear()
        self.registered.clear()

    def _lock(self, key: str) -> threading.Lock:
        with self.guard:
            return self.locks.setdefault(key, threading.Lock())

    def _make_readable(
        self, session: Session, view: ViewPlan, feed: Feed, end: int, once: bool
    ) -> Change:
        if feed.compare:
            return self._make(session, view, feed, self._difference(feed, end), netted=True)
        found = self._read(session, view, feed, end, once)
        if found is not None:
            return found
        try:
            query = self._feed(session, feed, end)
            if once and not feed.rewritten:
                # Delta refuses a range when a statement over it is planned. One more statement to
                # learn that beforehand would plan the same again: see `refuse`.
                return Change(query, unread=True)
            return self._make(session, view, feed, query, netted=feed.rewritten)
        except spark_errors() as error:
            if not refuses_feed(error):
                raise
            raise _Refused from None

    def _read(
        self, session: Session, view: ViewPlan, feed: Feed, end: int, once: bool
    ) -> Change | None:
        """Return a small change whose files are read here; None if it is Spark's to read.

        What is used once need not be judged: the statement that uses it does so anyway.
        """
        if feed.rows is not None and feed.rows > inline.MAX_ROWS:
            return None
        from hybridview.tablefiles import feed as files  # it imports much

        folder = Path(self.path(feed.name))
        found = files.read_feed(folder, feed.start, end, feed.columns, inline.MAX_ROWS)
        if found is None or not inline.can_stand(found.rows):
            return None
        rows = signed_rows.netted(found.rows)
        columns = [*((c.name, c.type) for c in found.columns), (WEIGHT, "int")]
        conditions = [] if once else [c for c in self._wanted(view, feed) if c]
        met = judge(session, rows, columns, conditions)
        return Change(inline.as_relation(rows, columns), len(rows), columns, rows, met=met)

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

    def _make(
        self, session: Session, view: ViewPlan, feed: Feed, query: str, netted: bool
    ) -> Change:
        columns = session.describe(query)
        # Rows without columns are only counted: there is nothing to tell them apart by.
        netted = netted and len(columns) > 1
        wanted = self._wanted(view, feed)
        if netted:
            query = netted_sql(query, columns[:-1])
        if netted or feed.rows is None or feed.rows <= inline.MAX_ROWS:
            found = _fetch(session, query, columns, wanted)
            if found is not None:
                return found
        if not netted and len(columns) > 1 and feed.rows is not None and feed.rows <= MOST_KEPT:
            matter, own = _matter(query, wanted, feed), columns[:-1]
            if matter != query:
                # If the condition of one view cannot be computed, that is no fault of the others.
                with suppress(*spark_errors()):
                    return self._kept(session, feed, netted_sql(matter, own), columns, wanted)
            return self._kept(session, feed, netted_sql(query, own), columns, wanted)
        if not netted:
            return _planned(session, query, columns)
        return self._kept(session, feed, query, columns, wanted)

    def _kept(
        self,
        session: Session,
        feed: Feed,
        query: str,
        columns: Sequence[tuple[str, str]],
        wanted: Sequence[str],
    ) -> Change:
        """Keep a netted change in memory: enough for all who read it, and it tells its size."""
        kept = self._keep(session, query, f"change of {feed.name}", columns)
        if kept.rows is not None and kept.rows <= inline.MAX_ROWS:
            found = _fetch(session, kept.relation, columns, wanted)
            if found is not None:
                return replace(found, kept_as=kept.kept_as)
        return kept

    def _wanted(self, view: ViewPlan, feed: Feed) -> list[str]:
        """Return the conditions of all views that read a change; an empty one if it wants all.

        A condition means what the settings of its view make of it.
        """
        found: dict[str, None] = {}
        for other in self.views:
            alike = (other.settings or {}) == (view.settings or {})
            for read in other.feeds:
                if (read.name.lower(), read.start) == (feed.name.lower(), feed.start):
                    found[read.wanted if alike else ""] = None
        return list(found)

    def _keep(
        self, session: Session, query: str, what: str, columns: Sequence[tuple[str, str]]
    ) -> Change:
        own = self._name(what)
        name = _global(own)
        session.run(f"CREATE GLOBAL TEMPORARY VIEW {quote(own)} AS {query}")
        session.run(f"CACHE TABLE {name}")
        count = session.run(f"SELECT count(*) FROM {name}")[0][0]
        return Change(f"SELECT * FROM {name}", int(count), columns, kept_as=name)


def _matter(query: str, wanted: Sequence[str], feed: Feed) -> str:
    """Return the rows of a change that matter to any view, if what became of keys is not asked."""
    if not wanted or "" in wanted or feed.key or len(wanted) > signed_rows.MOST_CONDITIONS:
        return query
    return f"SELECT * FROM ({query}) WHERE {' OR '.join(f'({c})' for c in wanted)}"


def _fetch(
    session: Session, query: str, columns: Sequence[tuple[str, str]], wanted: Sequence[str]
) -> Change | None:
    """Return a change as literals; None if it is too large for that."""
    found = fetch_judged(session, query, columns, [condition for condition in wanted if condition])
    if found is None:
        return None
    rows = signed_rows.netted(found[0])
    return Change(inline.as_relation(rows, columns), len(rows), columns, rows, met=found[1])


def _key(view: ViewPlan, feed: Feed, end: int) -> str:
    # Which rows matter, by a view's conditions, depends on its settings.
    meaning = sorted((view.settings or {}).items())
    listed = ", ".join(feed.columns)
    return f"{feed.name} {feed.start + 1}-{end} of {listed} {bool(feed.compare)} {meaning}"


def _planned(session: Session, query: str, columns: Sequence[tuple[str, str]]) -> Change:
    """Return a change that is read where it is used."""
    # Planning the query is enough for Delta to refuse the range.
    session.run(f"EXPLAIN {query}")
    return Change(query, columns=columns)


def _global(name: str) -> str:
    return f"`global_temp`.{quote(name)}"


__all__ = ["Changes"]
