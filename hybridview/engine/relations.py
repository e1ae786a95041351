"""Symbolic relations -> temporary views of the engine's own session, each made once per refresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hybridview.engine import inline
from hybridview.engine.session import Session, quote, table_at, temp_view
from hybridview.plan.steps import Pinned
from hybridview.schema import WEIGHT

_SIGN = "CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"


class Relations:
    """Registers `orders@new`, `orders@changes`, `v@target` and, for an author's text, `orders`."""

    def __init__(
        self, session: Session, path: Callable[[str], str], known: dict[str, str] | None = None
    ) -> None:
        self.session = session
        self.path = path
        self.known = {} if known is None else known

    def _register(self, name: str, query: str) -> None:
        if self.known.get(name) != query:
            self.session.run(temp_view(name, query))
            self.known[name] = query

    def _columns(self, names: Sequence[str]) -> str:
        return ", ".join(quote(name) for name in names)

    def _at(self, source: Pinned) -> str:
        assert source.version is not None
        columns = self._columns(source.columns)
        return f"SELECT {columns} FROM {table_at(self.path(source.name), source.version)}"

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

    def changes(
        self, name: str, columns: Sequence[str], start: int, end: int, rows: int | None
    ) -> None:
        """Make `name@changes`: the feed after `start` up to `end`, with weights.

        `rows` is what the log says about its size. A small feed is fetched once, netted, and
        stands as literals in the statements of every view that reads it.
        """
        wanted = f"{start + 1}-{end} of {', '.join(columns)}"
        symbol = f"{name}@changes"
        if self.known.get(symbol) == wanted:
            return
        listed = self._columns(columns)
        if start == end:
            # The feed refuses an empty range.
            table = table_at(self.path(name), end)
            query = f"SELECT {listed}, 1 AS {quote(WEIGHT)} FROM {table} WHERE FALSE"
        else:
            feed = f"{name}@feed"
            self.session.register_feed(feed, self.path(name), start + 1, end)
            query = f"SELECT {listed}, {_SIGN} AS {quote(WEIGHT)} FROM {quote(feed)}"
            if rows is None or rows <= inline.MAX_ROWS:
                query = self._netted(query) or query
        self.session.run(temp_view(symbol, query))
        self.known[symbol] = wanted

    def _netted(self, query: str) -> str | None:
        """Fetch a change and cancel what cancels; None if it is too large to fetch.

        Cancelled are updates that change nothing, and rows that came and went again. A row that
        counts twice stays twice: delta programs rely on weights of +1 and -1.
        """
        columns = self.session.describe(query)
        fetched = inline.fetch(self.session, query, columns)
        if fetched is None:
            return None
        weights: Counter[tuple[Any, ...]] = Counter()
        for row in fetched:
            weights[row[:-1]] += int(row[-1])
        netted = [
            (*row, "1" if weight > 0 else "-1")
            for row, weight in weights.items()
            for _ in range(abs(weight))
        ]
        if not netted:
            return f"SELECT * FROM ({query}) WHERE FALSE"
        return inline.as_relation(netted, columns)
