"""What a change has to do, and what a recompute would -> which of the two takes less time.

A plain model, the same for both:

    seconds = fixed + bytes to read / READ + rows of changes * CHANGED
              + rows looked at again * AGAIN
              + bytes to write / WRITE

Bytes are those of the files by the log, for the columns that are used, each time they are read; a
setting of Spark's that makes all of it faster or slower leaves the choice as it is. The constants
are estimates for a machine of two cores. They need not be exact, because where two ways cost nearly
the same, either is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

APPLYING = 1.0
"""Seconds of a change that reads and writes next to nothing: two short queries, a MERGE at most."""
LOADING = 0.9
"""Seconds of a recompute that reads and writes next to nothing."""
READ = 120e6
"""Bytes of columns that are read, decoded, joined and added up in a second."""
JOINED = 2.0
"""How many times longer a recompute takes for each byte of a table that it joins to others: it
sorts its rows or sends them around, while the rows of a change are few and go to where the others
are. A table of which conditions of its own let few rows through is read, and little more."""
WRITE = 40e6
"""Bytes of a view's table that are written in a second."""
CHANGED = 8e-6
"""Seconds for each row of a change: it is netted, kept, joined on several sides."""
AGAIN = 1.5e-6
"""Seconds for each row near a change that is kept in memory, each time it is looked at there: it is
joined, added up, sent around. Measured: 0.5 to 2.5e-6, the fewer rows the more."""
SMALL = 30e6
"""Bytes of columns; where a recompute reads less, a change is applied. A second may be lost by
that, but not the rows that stay: after a recompute, whoever reads the view's feed sees them all."""
MARGIN = 1.1
"""How much cheaper a recompute must look: what is known of it is only an estimate."""

_FIXED, _TEXT, _NESTED = 3.0, 12.0, 40.0
"""What values take in a file, in bytes: numbers and dates; texts; lists, maps and structs."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one way to refresh a view has to do."""

    read: float = 0.0
    """Bytes of used columns, as often as they are read."""
    changed: int = 0
    """Rows of changes."""
    written: float = 0.0
    """Bytes."""
    again: int = 0
    """Rows near changes that are kept in memory, as often as they are looked at."""


def seconds_to_apply(work: Work) -> float:
    """Return about how long applying a change takes."""
    rows = work.changed * CHANGED + work.again * AGAIN
    return APPLYING + work.read / READ + rows + work.written / WRITE


def seconds_to_load(work: Work) -> float:
    """Return about how long a recompute takes."""
    return LOADING + work.read / READ + work.written / WRITE


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


def dearer(applying: Work, loading: Work) -> str:
    """Say why a recompute is the cheaper way; empty if it is not."""
    apply, load = seconds_to_apply(applying), seconds_to_load(loading)
    if loading.read < SMALL or apply <= load * MARGIN:
        return ""
    return f"applying the change would take about {apply:.1f} s, recomputing {load:.1f} s"
