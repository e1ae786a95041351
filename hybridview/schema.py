"""Values shared by every stage: names, columns, versions, strategies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

HIDDEN = "__hv_"
"""Prefix of the columns hybridview adds to a view's table; no user column may start with it."""

WEIGHT = "__hv_weight"
"""Signed multiplicity of a row in a change: +1 inserted, -1 deleted."""

RESERVED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})
"""Names the change feed adds to a table's columns."""


class Strategy(StrEnum):
    """How a user asks for a refresh."""

    SNAPSHOT = "snapshot"
    INCREMENTAL = "incremental"
    HYBRID = "hybrid"


class Executed(StrEnum):
    """What a refresh did to one view."""

    NONE = "none"
    INITIAL = "initial"
    INCREMENTAL = "incremental"
    HYBRID = "hybrid"
    SNAPSHOT = "snapshot"
    FAILED = "failed"
    STALE = "stale"
    BLOCKED = "blocked"


TROUBLE = frozenset({Executed.FAILED, Executed.STALE, Executed.BLOCKED})
"""A view these befell was not brought up to date."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and its type in Spark's own spelling, such as `decimal(12,2)`."""

    name: str
    type: str
    declared: str | None = ""
    """What its table says of a string, such as `char(5)`: its values are strings all the same.
    None if that was not noted, by an earlier version of this program."""

    @property
    def padded(self) -> bool:
        """Whether Spark pads what it is compared with."""
        return re.search(r"\bchar\b", self.declared or "") is not None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a base table or a view, in order."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """Return the column called `name`; names compare without case, as in Spark."""
        wanted = name.lower()
        return next((c for c in self.columns if c.name.lower() == wanted), None)


TableId = str
"""The id in a Delta table's own metadata: survives a move, changes when the table is replaced."""

VersionVector = dict[TableId, int]
"""Which version of each input a result reflects."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text of a view, counted from 1."""

    line: int
    column: int
