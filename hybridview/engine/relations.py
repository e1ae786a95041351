"""Symbolic relations -> temporary views of one session, each made once per refresh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hybridview.deltalog import DeltaLog
from hybridview.engine.change import Change
from hybridview.engine.changes import Changes
from hybridview.engine.neighbours import origin
from hybridview.engine.session import Session, quote, table_at
from hybridview.engine.values import USEFUL_SHARE, Values, condition, share, together, unskipped
from hybridview.filestats import Size, total
from hybridview.plan.steps import Feed, NearRead, Pinned, ViewPlan

FILTERED = 64e6
"""Bytes from which on it pays to leave out single rows that are read for nothing."""


Shown = tuple[str, str]
"""A symbol and the query it stands for."""


@dataclass(frozen=True, slots=True)
class Near:
    """How rows near some changes are found: the query, the files it reads, and about how much."""

    query: str
    size: Size
    bytes: float


class Relations:
    """Registers `orders@new`, `orders@changes`, `v@target` and, for an author's text, `orders`."""

    def __init__(
        self, session: Session, path: Callable[[str], str], shared: Changes | None = None
    ) -> None:
        self.session = session
        self.path = path
        self.shared = shared or Changes(path, "")
        self.known: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        self.of_symbol: dict[str, Change] = {}
        """The changes that are registered now, by symbol in lower case."""
        self.of_feed: dict[str, tuple[Feed, Change]] = {}
        """The whole changes they are taken from, by the name of the source in lower case."""
        self.near_sizes: dict[str, Size] = {}
        """The files that are left to read of a source near some changes, by symbol."""
        self.near_bytes: dict[str, float] = {}
        """And about how many of their bytes."""

    def under(self, settings: Mapping[str, str]) -> None:
        """Give the session a view's settings; what others gave their meaning to is forgotten.

        A temporary view keeps its analysed plan, and with it the time zone it was made in.
        """
        self.session.set(settings)
        if dict(settings) != self.settings:
            self.known.clear()
            self.settings = dict(settings)

    def _register(self, name: str, query: str) -> None:
        if self.known.get(name) != query:
            self.session.register(name, query)
            self.known[name] = query

    def _at(self, source: Pinned) -> str:
        assert source.version is not None
        # A query may use no column at all: count(*) does.
        listed = _listed(source.columns) or "1 AS `__hv_one`"
        return f"SELECT {listed} FROM {table_at(self.path(source.name), source.version)}"

    def pin(self, sources: Sequence[Pinned]) -> None:
        """Make `name@new` for statements compiled from a plan."""
        for source in sources:
            self._register(f"{source.name}@new", self._at(source))

    def pin_for_text(self, sources: Sequence[Pinned]) -> None:
        """Make the plain names an author's text uses."""
        for source in sources:
            self._register(source.name, self._at(source))

    def target(self, view: str, where: str = "") -> None:
        """Make `v@target`, for reading the stored rows, or those that a condition holds for."""
        restricted = f" WHERE {where}" if where else ""
        self._register(f"{view}@target", f"SELECT * FROM {table_at(self.path(view))}{restricted}")

    def changes(
        self, view: ViewPlan, feed: Feed, end: int, once: bool = False, every: bool = False
    ) -> int | None:
        """Make `name@changes`, rows that weigh +1 or -1; return their number, if it is known.

        These are the rows that can matter to the view, or `every` one.
        """
        change = self.shared.of(self.session, view, feed, end, once)
        self.of_feed[feed.name.lower()] = feed, change
        if not every:
            change = self.shared.relevant(change, feed)
        self._register(f"{feed.name}@changes", change.relation)
        self.of_symbol[f"{feed.name}@changes".lower()] = change
        return change.rows

    def part(self, feed: Feed, part: str, columns: Sequence[str]) -> None:
        """Make `name@kept` or `name@gone` of a change: some columns, of such keys."""
        _, change = self.of_feed[feed.name.lower()]
        found = self.shared.part(self.session, change, feed, part, columns)
        self._register(f"{feed.name}@{part}", found.relation)
        self.of_symbol[f"{feed.name}@{part}".lower()] = found

    def near(self, read: NearRead, source: Pinned, log: DeltaLog) -> str:
        """Make a relation of the rows of a source near some changes, where rows can be skipped.

        Return its query if it gives few rows of many that are read.
        """
        assert source.version is not None
        values, whole = self._values(read), log.size(source.version)
        where, size, left = "", whole, 1.0
        if values is not None:
            files = log.bounds(source.version, read.column)
            if files is None:
                where = f" WHERE {condition(read.column, values)}"
            elif (found := share(values, files)) <= USEFUL_SHARE:
                where = f" WHERE {condition(read.column, values)}"
                size, left = total(unskipped(values, files)), found
        rows = self._at(source) + where
        many = left * whole.bytes > FILTERED
        filtered = read.exact and many and values is not None and not values.null
        if filtered:
            rows = self._only(read, rows)
        self._register(read.symbol, rows)
        self.near_sizes[read.symbol] = size
        self.near_bytes[read.symbol] = whole.bytes * left
        return rows if filtered else ""

    def near_any(
        self, reads: Sequence[NearRead], source: Pinned, log: DeltaLog
    ) -> tuple[Shown, ...]:
        """Return relations of what is near the changes of several reads of one column.

        The first gives the rows near any of them, which are few of many that are read: so they are
        looked for once. Nothing, if each is to be looked for by itself.
        """
        assert source.version is not None
        column = reads[0].column
        found = [values for read in reads if (values := self._values(read)) is not None]
        every = together(found) if len(found) == len(reads) else None
        files = log.bounds(source.version, column)
        if every is None or every.listed is None or every.null or files is None:
            return ()
        whole, left = log.size(source.version), share(every, files)
        if left > USEFUL_SHARE or left * whole.bytes <= FILTERED:
            return ()
        places = sorted({place for read in reads for place in read.found_in})
        symbol = f"{source.name}@near {column}"
        both = NearRead(symbol, source.name, column, tuple(places), wanted=reads[0].wanted)
        rows = self._only(both, f"{self._at(source)} WHERE {condition(column, every)}")
        for read in reads:
            self.near_sizes[read.symbol], self.near_bytes[read.symbol] = Size(), 0.0
        self.near_sizes[reads[0].symbol] = total(unskipped(every, files))
        self.near_bytes[reads[0].symbol] = whole.bytes * left
        parts = [
            (read.symbol, f"SELECT * FROM {quote(both.symbol)} WHERE {condition(column, own)}")
            for read, own in zip(reads, found, strict=True)
        ]
        return ((both.symbol, rows), *parts)

    def matters(self, feed: Feed) -> bool:
        """Say whether some rows of a change that is known here can matter to whose feed this is."""
        _, whole = self.of_feed[feed.name.lower()]
        found = self.shared.relevant(whole, feed)
        return found.fetched is None or bool(found.fetched)

    def near_whole(self, read: NearRead, source: Pinned, log: DeltaLog) -> Near | None:
        """Return how rows near whole changes are found, for all views that want some of them.

        Nothing, if no rows can be skipped: then each view reads the table.
        """
        assert source.version is not None
        changes = [(self.of_feed[name][1], column) for name, column in origin(read)]
        values = self._values_of(changes, read)
        files = log.bounds(source.version, read.column) if values is not None else None
        if values is None or files is None or (left := share(values, files)) > USEFUL_SHARE:
            return None
        rows = f"{self._at(source)} WHERE {condition(read.column, values)}"
        if not values.null:
            rows = _having(rows, read.column, changes)
        whole = log.size(source.version)
        return Near(rows, total(unskipped(values, files)), whole.bytes * left)

    def show_found(self, read: NearRead, rows: str, size: Size) -> None:
        """Make the relation of a read from rows that were found; `size` is what was read for it."""
        self._register(read.symbol, rows)
        self.near_sizes[read.symbol], self.near_bytes[read.symbol] = size, 0.0

    def _only(self, read: NearRead, rows: str) -> str:
        """Return the rows that matter and have a value of the changes, none of which is NULL."""
        changes = [(self.of_symbol[s.lower()], column) for s, column in read.found_in]
        matter = self._matter(read)
        mattering = f"SELECT * FROM ({rows}) WHERE {matter}" if matter else rows
        return _having(mattering, read.column, changes)

    def _matter(self, read: NearRead) -> str:
        """Return the condition that rows of a source meet if they can matter; none if all are read.

        Old rows are new ones without those that changed: so it must hold for both, or for neither.
        """
        name = read.name.lower()
        if name not in self.of_feed:
            return read.wanted
        _, whole = self.of_feed[name]
        return "" if self.of_symbol[f"{name}@changes"] is whole else read.wanted

    def forget(self, symbol: str) -> None:
        """Note that a relation is gone."""
        self.known.pop(symbol, None)

    def _values(self, read: NearRead) -> Values | None:
        """Return the values that a column of some changes has; None if they are not known.

        Those that the column cannot hold are left out: no row is there any more that has a key
        that is gone, or refers to one.
        """
        changes = [(self.of_symbol.get(s.lower()), column) for s, column in read.found_in]
        return self._values_of(changes, read)

    def _values_of(
        self, changes: Sequence[tuple[Change | None, str]], read: NearRead
    ) -> Values | None:
        gone = [
            self.shared.gone_keys(*self.of_feed[name.lower()])
            for name in read.keys_of
            if name.lower() in self.of_feed
        ]
        found = [
            self.shared.values(self.session, change, column, *gone) if change is not None else None
            for change, column in changes
        ]
        return together([v for v in found if v is not None]) if None not in found else None


def _having(rows: str, column: str, changes: Sequence[tuple[Change, str]]) -> str:
    """Return the rows whose column has a value that some changes have; NULL is none."""
    keys = " UNION ALL ".join(
        f"SELECT {quote(place)} AS v FROM ({change.relation})" for change, place in changes
    )
    # It is small, whatever Spark thinks of it: its values are known.
    return (
        f"SELECT /*+ BROADCAST(k) */ t.* FROM ({rows}) AS t "
        f"LEFT SEMI JOIN ({keys}) AS k ON t.{quote(column)} = k.v"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in names)
