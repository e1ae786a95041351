"""Symbolic relations -> temporary views of the engine's own session, each made once per refresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hybridview.engine import inline
from hybridview.engine.netting import netted_sql
from hybridview.engine.session import Session, literal, quote, table_at, temp_view
from hybridview.engine.spark_errors import refuses_feed, spark_errors
from hybridview.plan.steps import Feed, NearRead, Pinned
from hybridview.schema import WEIGHT

_SIGN = "CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"


MOST_VALUES = 200
"""How many values of a column are listed; beyond that their range is given."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a column as text (None is NULL), and their type."""

    type: str
    found: frozenset[str | None]


@dataclass(frozen=True, slots=True)
class Known:
    """A relation that was made: what for, how many rows if counted, and whether it is kept."""

    query: str
    rows: int | None = None
    cached: bool = False
    values: Mapping[str, Values] | None = None
    """The different values of each column of a change that was fetched."""


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
        self.known[symbol] = replace(made, query=wanted)
        return made.rows

    def near(self, read: NearRead, source: Pinned) -> None:
        """Make a relation of the rows of a source near some changes, if their values are known."""
        query = self._at(source)
        found = [self._values(table, column) for table, column in read.found_in]
        if all(values is not None for values in found):
            query += f" WHERE {_is_one_of(read.column, [v for v in found if v is not None])}"
        self._register(read.symbol, query)

    def _values(self, table: str, column: str) -> Values | None:
        known = self.known.get(f"{table}@changes")
        if known is None or known.values is None:
            return None
        return known.values.get(column.lower())

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
                return Known("", len(rows), values=_values_of(rows, columns))
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


def _values_of(
    rows: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, str]]
) -> dict[str, Values]:
    return {
        name.lower(): Values(kind, frozenset(row[place] for row in rows))
        for place, (name, kind) in enumerate(columns)
    }


def _is_one_of(column: str, found: Sequence[Values]) -> str:
    """Return a condition on a column: it has one of these values, or lies between them.

    The column stands alone and the literals have its type: so Delta Lake can skip files by it.
    """
    kind = found[0].type
    texts = {value for values in found for value in values.found}
    listed = sorted(value for value in texts if value is not None)
    conditions = [f"{quote(column)} IS NULL"] if None in texts else []
    if len(listed) > MOST_VALUES:
        # The smallest and the largest of values, not of their texts.
        all_of = f"array({', '.join(inline.typed(value, kind) for value in listed)})"
        return " OR ".join(
            [*conditions, f"{quote(column)} BETWEEN array_min({all_of}) AND array_max({all_of})"]
        )
    if listed:
        values = ", ".join(inline.typed(value, kind) for value in listed)
        conditions.append(f"{quote(column)} IN ({values})")
    return " OR ".join(conditions) or "FALSE"


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
