"""Rows of a table near the same changes, wanted by several views -> read once, for all of them.

Views that join the same tables look for the same rows: lineitems of changed orders, say. The first
of them that is refreshed looks for all that any of them wants, and they stand as literals in the
statements of each. Near *whole* changes: which of these rows matter differs from view to view, and
what a view reads beyond its own is dropped by its own conditions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hybridview.engine import inline
from hybridview.engine.session import Session, quote
from hybridview.plan.steps import Apply, Feed, NearRead, ViewPlan

Place = tuple[str, str]
"""The name of a source, in lower case, and a column of its change."""

Concerned = Callable[[Feed], bool]

_too_many: dict[str, int] = {}
"""How many changed rows had more neighbours than can stand as literals, by what was looked for."""


@dataclass
class Group:
    """Reads of one column of a table, near the same changes."""

    columns: tuple[str, ...] = ()
    """All that the views use of the table."""
    feeds: dict[str, dict[str, Feed]] = field(default_factory=dict)
    """The changes that each view reads near, by view and by source: its conditions are its own."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    found: dict[str, str] = field(default_factory=dict)
    """The rows that a query found, as literals; empty if they were too many. By the query, which
    has the changed keys in it: a change that the feed cannot tell is another one for each view."""
    changed: int = 0
    """How many changed rows there are."""
    name: str = ""
    """What is looked for, whatever changes."""

    def wanted_by(self, concerned: Concerned) -> int:
        """Return to how many views some rows of these changes matter."""
        return sum(any(map(concerned, feeds.values())) for feeds in self.feeds.values())

    def find(self, session: Session, query: str) -> tuple[str, bool]:
        """Return the rows that a query finds, empty if each view is to look; and whether it ran."""
        with self.lock:
            if query in self.found:
                return self.found[query], False
            columns = session.describe(query)
            rows = inline.fetch(session, query, columns)
            self.found[query] = inline.as_relation(rows, columns) if rows is not None else ""
            if rows is None:
                _too_many[self.name] = min(self.changed, _too_many.get(self.name, self.changed))
            return self.found[query], True


class Neighbours:
    """The groups of one refresh; safe for several threads."""

    def __init__(self, views: Iterable[ViewPlan]) -> None:
        self.groups: dict[str, Group] = {}
        for view in views:
            if not isinstance(view.step, Apply):
                continue
            for read in view.step.near:
                feeds = _feeds(view, read)
                key = _key(view, read)
                if feeds is None or not key:
                    continue
                group = self.groups.setdefault(key, Group())
                used = next(s.columns for s in view.sources if s.name == read.name)
                group.columns = tuple(dict.fromkeys((*group.columns, *used)))
                group.feeds.setdefault(view.name, {}).update(feeds)
                group.changed = sum(feed.rows or 0 for feed in feeds.values())
                group.name = repr((group.columns, read.name, read.column, origin(read)))

    def group(self, view: ViewPlan, read: NearRead) -> Group | None:
        """Return the group of a view's read; None if no other view looks for the same."""
        found = self.groups.get(_key(view, read))
        if found is None or len(found.feeds) < 2:
            return None
        if found.name in _too_many and found.changed >= _too_many[found.name]:
            return None  # so many changed rows had too many neighbours before
        return found


def origin(read: NearRead) -> tuple[Place, ...]:
    """Return the changes that rows are looked for near, whatever part of them, and the columns."""
    places = {(symbol.rpartition("@")[0].lower(), column) for symbol, column in read.found_in}
    return tuple(sorted(places))


def _feeds(view: ViewPlan, read: NearRead) -> dict[str, Feed] | None:
    """Return the changes a read is near; None if they are large, or no change feeds."""
    known = {feed.name.lower(): feed for feed in view.feeds}
    found = {name: known[name] for name, _ in origin(read) if name in known}
    small = all(
        feed.end is not None
        and not feed.compare
        and feed.rows is not None
        and feed.rows <= inline.MAX_ROWS
        for feed in found.values()
    )
    return found if small and len(found) == len({name for name, _ in origin(read)}) else None


def _key(view: ViewPlan, read: NearRead) -> str:
    """Return what two reads share that look for the same rows; empty if nobody could share it."""
    source = next((s for s in view.sources if s.name == read.name), None)
    feeds = _feeds(view, read)
    if source is None or source.version is None or feeds is None:
        return ""
    ranges = [(name, feed.start, feed.end, feed.columns) for name, feed in sorted(feeds.items())]
    settings = sorted((view.settings or {}).items())
    table = (source.table_id, source.version, read.column.lower(), read.keys_of)
    return repr((table, origin(read), ranges, settings))


def own_rows(relation: str, columns: Sequence[str]) -> str:
    """Return the query of what one view uses of rows that were found for several."""
    listed = ", ".join(map(quote, columns)) or "1 AS `__hv_one`"
    return f"SELECT {listed} FROM ({relation})"


__all__ = ["Group", "Neighbours", "origin", "own_rows"]
