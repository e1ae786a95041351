"""What a change has to do, and what a recompute would -> which of the two takes less time.

A plain model. To apply a change takes

    fixed + looks for rows near changes * LOOKING
          + large changes * KEEPING + their rows * FETCHED
          + rows of changes * CHANGED + rows that are only added up * ADDED
          + rows looked at again * AGAIN
          + bytes to read / READ + bytes to write / WRITE

of which only what is still to be done counts: what was done already is lost in either case. A
recompute takes

    fixed + tables * TABLE + bytes to read / READ + those it joins / JOINED + bytes to write / WRITE

Bytes are those of the files by the log, for the columns that are used, each time they are read; a
setting of Spark's that makes all of it faster or slower leaves the choice as it is. The constants
are estimates for a machine of two cores, from the benchmark's cells. They need not be exact,
because where two ways cost nearly the same, either is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

APPLYING = 0.3
"""Seconds of a change that reads and writes next to nothing, and looks for no rows near it."""
LOOKING = 0.25
"""Seconds for each source that is looked at near changes, by one of its columns: a join more, and
two to five jobs. Measured: 0.4 seconds without any, 0.9 with two, 1.5 with four."""
KEEPING = 0.85
"""Seconds for each change that is too large for literals: it is netted and kept in memory, and its
values are looked up there."""
FETCHED = 1.2e-6
"""Seconds for each row of such a change. Measured, with KEEPING: two changes of 75 thousand rows
take 1.5 to 2.2 seconds, of 750 thousand 1.9 to 3.2."""
CHANGED = 0.8e-6
"""Seconds for each row of a change once it is there: it is joined on several sides."""
ADDED = 0.6e-6
"""Seconds for each row of a change that is not fetched first, but added up as it is read."""
AGAIN = 1e-6
"""Seconds for each row near a change that is kept in memory, each time it is looked at there: it is
joined, added up, sent around. Measured: 0.5 to 1.1e-6, the fewer rows the more."""
LOADING = 0.4
"""Seconds of a recompute that reads and writes next to nothing."""
TABLE = 0.15
"""Seconds for each table that a recompute reads: most are joined, which takes jobs."""
READ = 120e6
"""Bytes of columns that are read, decoded, joined and added up in a second."""
JOINED = 60e6
"""Bytes of a table that a recompute joins to others, in a second: it sorts its rows or sends them
around, while the rows of a change are few and go to where the others are. A table of which
conditions of its own let few rows through is read, and little more."""
WRITE = 40e6
"""Bytes of a view's table that are written in a second."""
SMALL = 30e6
"""Bytes of columns; where a recompute reads less, a change is applied. A second may be lost by
that, but not the rows that stay: after a recompute, whoever reads the view's feed sees them all."""
MARGIN = 1.1
"""How much cheaper a recompute must look: what is known of it is only an estimate."""

_FIXED, _TEXT, _NESTED = 3.0, 12.0, 40.0
"""What values take in a file, in bytes: numbers and dates; texts; lists, maps and structs."""


@dataclass(frozen=True, slots=True)
class Applying:
    """What is left to do until a change is applied."""

    looks: int = 0
    """How many sources are looked at near changes, each by one of its columns."""
    large: float = 0.0
    """Changes too large for literals; one that several views read counts in part."""
    fetched: float = 0.0
    """Their rows."""
    changed: float = 0.0
    """Rows of changes."""
    added: float = 0.0
    """Rows of changes that are read once, to be added up."""
    again: int = 0
    """Rows near changes that are kept in memory, as often as they are looked at."""
    read: float = 0.0
    """Bytes of used columns, as often as they are read."""
    written: float = 0.0
    """Bytes."""

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        rows = self.changed * CHANGED + self.added * ADDED + self.again * AGAIN
        fetching = self.large * KEEPING + self.fetched * FETCHED
        fixed = APPLYING + self.looks * LOOKING
        return fixed + fetching + rows + self.read / READ + self.written / WRITE


@dataclass(frozen=True, slots=True)
class Loading:
    """What a recompute has to do."""

    tables: int = 1
    """How many tables it reads, as often as it reads them."""
    read: float = 0.0
    """Bytes of used columns, as often as they are read."""
    joined: float = 0.0
    """Those of tables that it joins as a whole."""
    written: float = 0.0
    """Bytes."""

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        fixed = LOADING + self.tables * TABLE
        return fixed + self.read / READ + self.joined / JOINED + self.written / WRITE


def used_share(types: Iterable[tuple[str, str]], used: Sequence[str]) -> float:
    """Return the share of a table's bytes that its used columns have, by their types."""
    wanted = {name.lower() for name in used}
    widths = [(name.lower() in wanted, _width(kind)) for name, kind in types]
    total = sum(width for _, width in widths)
    return sum(width for is_used, width in widths if is_used) / total if total else 1.0


def _width(kind: str) -> float:
    if kind.startswith(("array", "map", "struct", "variant")):
        return _NESTED
    return _TEXT if kind.startswith(("string", "binary", "char", "varchar")) else _FIXED


def dearer(applying: Applying, loading: Loading) -> str:
    """Say why a recompute is the cheaper way; empty if it is not."""
    if loading.read < SMALL or applying.seconds <= loading.seconds * MARGIN:
        return ""
    return (
        f"applying the change would take about {applying.seconds:.1f} s, "
        f"recomputing {loading.seconds:.1f} s"
    )
