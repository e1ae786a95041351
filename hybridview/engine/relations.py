"""Symbolic relations -> temporary views of the engine's own session, each made once per refresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hybridview.engine import inline
from hybridview.engine.netting import netted_sql
from hybridview.engine.session import Session, literal, quote, table_at, temp_view
from hybridview.engine.spark_errors import refuses_feed, spark_errors
from hybridview.plan.steps import Feed, Pinned
from hybridview.schema import WEIGHT

_SIGN = "CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"


@dataclass(frozen=True, slots=True)
class Known:
    """A relation that was made: what for, how many rows if counted, and whether it is kept."""

    query: str
    rows: int | None = None
    cached: bool = False


class Relations:
    """Registers `orders@new`, `orders@changes`, `v@target` and, for an author's text, `orders`."""

    def __init__(
        self, session: Session, path: Callable[[str], str], known: dict[str, Known] | None = None
    ) -> None:
        self.session = session
        self.path = path
        self.known = {} if known is None else known

    def _register(self, name: str, query: str) -> None:
        found = self.known.get(name)
        if found is None or found.query != query:
            self.session.run(temp_view(name, query))
            self.known[name] = Known(query)

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

    def target(self, view: str) -> None:
        """Make `v@target`, for reading the stored rows."""
        self._register(f"{view}@target", f"SELECT * FROM {table_at(self.path(view))}")

    def changes(self, feed: Feed, end: int) -> int | None:
        """Make `name@changes`, rows that weigh +1 or -1; return their number, if it is known.

        A small change is fetched once, netted, and stands as literals in the statements of every
        view that reads it.
        """
        wanted = f"{feed.start + 1}-{end} of {', '.join(feed.columns)}"
        symbol = f"{feed.name}@changes"
        found = self.known.get(symbol)
        if found is not None and found.query == wanted:
            return found.rows
        self._forget(symbol)
        if feed.compare:
            made = self._make(symbol, self._difference(feed, end), feed, netted=True)
        else:
            try:
                made = self._make(symbol, self._feed(feed, end), feed, netted=feed.rewritten)
            except spark_errors() as error:
                if not refuses_feed(error):
                    raise
                # The feed is read with the table's newest columns: a column renamed after the
                # version we are pinned at is enough.
                made = self._make(symbol, self._difference(feed, end), feed, netted=True)
        self.known[symbol] = Known(wanted, made.rows, made.cached)
        return made.rows

    def release(self) -> None:
        """Give back what is kept in memory."""
        for symbol in [name for name, known in self.known.items() if known.cached]:
            self._forget(symbol)

    def _forget(self, symbol: str) -> None:
        found = self.known.pop(symbol, None)
        if found is not None and found.cached:
            self.session.run(f"UNCACHE TABLE IF EXISTS {quote(symbol)}")
            self.session.run(f"DROP VIEW IF EXISTS {quote(symbol)}")

    def _feed(self, feed: Feed, end: int) -> str:
        """Return the query of the change feed after `start` up to `end`."""
        columns = "".join(f"{quote(name)}, " for name in feed.columns)
        if feed.start == end:
            # The feed refuses an empty range.
            table = table_at(self.path(feed.name), end)
            return f"SELECT {columns}1 AS {quote(WEIGHT)} FROM {table} WHERE FALSE"
        name = f"{feed.name}@feed"
        self.session.register_feed(name, self.path(feed.name), feed.start + 1, end)
        return f"SELECT {columns}{_SIGN} AS {quote(WEIGHT)} FROM {quote(name)}"

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

    def _make(self, symbol: str, query: str, feed: Feed, netted: bool) -> Known:
        """Make a change readable: as literals if it is small, else as a query."""
        columns = self.session.describe(query)
        # Rows without columns are only counted: there is nothing to tell them apart by.
        netted = netted and len(columns) > 1
        if netted:
            query = netted_sql(query, columns[:-1])
        if netted or feed.rows is None or feed.rows <= inline.MAX_ROWS:
            fetched = inline.fetch(self.session, query, columns)
            if fetched is not None:
                rows = _netted(fetched)
                self.session.run(temp_view(symbol, _literal_rows(rows, query, columns)))
                return Known("", len(rows))
        if not netted:
            # Planning the query is enough for Delta to refuse the range.
            self.session.run(f"EXPLAIN {query}")
            self.session.run(temp_view(symbol, query))
            return Known("")
        # Netting it once is enough, and then its size is known.
        self.session.run(f"DROP VIEW IF EXISTS {quote(symbol)}")
        self.session.run(f"CACHE TABLE {quote(symbol)} AS {query}")
        count = self.session.run(f"SELECT count(*) FROM {quote(symbol)}")[0][0]
        return Known("", int(count), cached=True)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in names)


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


def _literal_rows(
    rows: Sequence[tuple[Any, ...]], query: str, columns: Sequence[tuple[str, str]]
) -> str:
    if not rows:
        return f"SELECT * FROM ({query}) WHERE FALSE"
    return inline.as_relation(rows, columns)
