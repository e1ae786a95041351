"""Symbolic relations -> temporary views of the engine's own session, each made once per refresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hybridview.engine.session import Session, quote, table_at, temp_view
from hybridview.plan.steps import Pinned
from hybridview.schema import WEIGHT


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

    def changes(self, name: str, columns: Sequence[str], start: int, end: int) -> None:
        """Make `name@changes`: the feed after `start` up to `end`, with weights."""
        listed = self._columns(columns)
        if start == end:
            # The feed refuses an empty range.
            table = table_at(self.path(name), end)
            query = f"SELECT {listed}, 1 AS {quote(WEIGHT)} FROM {table} WHERE FALSE"
            self._register(f"{name}@changes", query)
            return
        feed = f"{name}@feed"
        wanted = f"feed {start + 1}-{end}"
        if self.known.get(feed) != wanted:
            self.session.register_feed(feed, self.path(name), start + 1, end)
            self.known[feed] = wanted
            self.known.pop(f"{name}@changes", None)
        weight = (
            "CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END "
            f"AS {quote(WEIGHT)}"
        )
        self._register(f"{name}@changes", f"SELECT {listed}, {weight} FROM {quote(feed)}")
