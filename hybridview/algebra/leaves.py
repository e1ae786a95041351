"""What a plan reads: tables, as they are now, and their changes."""

from __future__ import annotations

from dataclasses import dataclass

KEPT, GONE = "kept", "gone"
"""Parts of a table's change, by what became of the declared keys of its rows."""


@dataclass(frozen=True, slots=True)
class Near:
    """Where the values of a table's `column` are found: in columns of some changes.

    Rows with other values need not be read: nothing that is computed from them would be used.
    """

    column: str
    found_in: tuple[tuple[str, str], ...]
    """The symbols of the changes, and their columns."""
    exact: bool = False
    """Whether rows with other values are better not read on: they would be netted, or added up,
    before a join leaves them out."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a table at the version being refreshed to, or at least those that are `near`."""

    table: str
    alias: str
    columns: tuple[str, ...]
    near: Near | None = None

    @property
    def symbol(self) -> str:
        """The name of the relation that it reads."""
        if self.near is None:
            return f"{self.table}@new"
        values = ", ".join(f"{symbol}.{column}" for symbol, column in self.near.found_in)
        how = "only" if self.near.exact else "in"
        return f"{self.table}@near {self.near.column} {how} {values}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows a table gained (+1) and lost (-1) since the last refresh; or a `part` of them."""

    table: str
    alias: str
    columns: tuple[str, ...]
    part: str = ""
    """KEPT: of keys that were there and still are. GONE: of keys that are there no more."""

    @property
    def symbol(self) -> str:
        """The name of the relation that it reads."""
        return f"{self.table}@{self.part or 'changes'}"
