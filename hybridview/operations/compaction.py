"""Stored tables whose rows lie badly: when putting them together pays, and doing it.

Many small files are slow to read. And where the rows of a key may lie in any file, a change of few
keys reads, and writes anew, all of them: so large tables are put in the order of their keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import attrgetter
from typing import Any

from deltalake.exceptions import DeltaError

from hybridview.catalog import Catalog, ViewRecord
from hybridview.deltalog import DeltaLog, FolderLog, LogGap
from hybridview.engine.session import Session, quote, table_at
from hybridview.engine.spark_errors import spark_errors
from hybridview.engine.tuning import running_with
from hybridview.filestats import FileBounds
from hybridview.operations.context import Context
from hybridview.operations.duration import spoken_size
from hybridview.plan.compiled import compile_record

MANY = 8
SMALL = 32 * 2**20
"""A table of more files than MANY that are smaller than SMALL on average is compacted."""

TOO_MANY = 64
"""With more files, a refresh compacts it by itself: a second or so, after as many refreshes."""

FILE = 2 * SMALL
"""The size of files that are put together: what one changed row writes anew."""

LARGE = 2 * FILE
"""Bytes of a table from which on it is put in order: others are written anew in a few seconds."""

DISORDER = 0.5
"""The share of a table that is read for one key, from which on it is put in order."""

LEAST_COMMITS = 50
"""How many commits a table has before it is put in order again: what the keys are may forbid it."""

OPTIMIZE = "OPTIMIZE"

MOST_COLUMNS = 2
"""More columns to order by leave little order in each."""

Running = tuple[list[Any], list[int]]


def compaction(log: DeltaLog, many: int | None = None) -> str:
    """Say why compacting a table pays; empty if it does not."""
    size = log.size(log.latest())
    if size.files <= (MANY if many is None else many) or size.bytes / size.files >= SMALL:
        return ""
    return f"{size.files:,} files of {spoken_size(size.bytes / size.files)} on average"


def ordering(view: ViewRecord, log: DeltaLog) -> str:
    """Say why putting a table in the order of its keys pays; empty if it does not."""
    version = log.latest()
    size = log.size(version)
    columns = order_of(view, log, version) if size.files > 1 and size.bytes >= LARGE else ()
    if not columns or _ordered_lately(log, version):
        return ""
    try:
        share = read_for_one(log.bounds(version, columns[0]) or ())
    except TypeError:  # bounds that cannot be compared
        return ""
    if share < DISORDER:
        return ""
    return f"{share:.0%} of {spoken_size(size.bytes)} is read for one {columns[0]}"


def order_of(view: ViewRecord, log: DeltaLog, version: int) -> tuple[str, ...]:
    """Return the columns to order a stored table by: its first keys, of which the log has bounds.

    None where its author said how it is clustered.
    """
    if view.cluster_by:
        return ()
    layout = compile_record(view).layout
    odd = dict(layout.odd)
    keys = [k for k in layout.keys if k not in odd and _has_bounds(log, version, k)]
    return tuple(keys[:MOST_COLUMNS])


def _has_bounds(log: DeltaLog, version: int, column: str) -> bool:
    files = log.bounds(version, column)
    return files is not None and any(file.low is not None for file in files)


def read_for_one(files: Sequence[FileBounds]) -> float:
    """Return the share of a table's rows in files that may have one value, on average."""
    known = [file for file in files if file.low is not None and file.high is not None]
    rows = sum(file.rows for file in known)
    lows, up_to_low = _running(known, attrgetter("low"))
    highs, up_to_high = _running(known, attrgetter("high"))
    # Files that have begun at a value, without those that ended before it.
    found = sum(
        file.rows
        * (up_to_low[bisect_right(lows, file.low)] - up_to_high[bisect_left(highs, file.low)])
        for file in known
    )
    return found / rows**2 if rows else 0.0


def _running(files: Sequence[FileBounds], bound: Callable[[FileBounds], Any]) -> Running:
    """Return bounds of files in order, and how many rows the first so many files have."""
    ordered = sorted(files, key=bound)
    return [bound(file) for file in ordered], [0, *accumulate(file.rows for file in ordered)]


def _ordered_lately(log: DeltaLog, version: int) -> bool:
    with suppress(LogGap):
        for past in range(version, max(version - LEAST_COMMITS, -1), -1):
            if log.commit(past).operation == OPTIMIZE:
                return True
    return False


def put_together(session: Session, view: ViewRecord, log: FolderLog) -> None:
    """Write a table's rows anew in fewer files, in the order of its keys if it is large."""
    version = log.latest()
    large = log.size(version).bytes >= LARGE
    columns = order_of(view, log, version) if large else ()
    order = f" ZORDER BY ({', '.join(map(quote, columns))})" if columns else ""
    settings = {
        "spark.databricks.delta.optimize.minFileSize": str(SMALL),
        "spark.databricks.delta.optimize.maxFileSize": str(FILE),
    }
    with running_with(session, settings):
        session.run(f"{OPTIMIZE} {table_at(str(log.path.resolve()))}{order}")


def compact_one(context: Context, catalog: Catalog, written: Sequence[str]) -> str:
    """Put together one of the tables that a refresh wrote, if that pays; return its name.

    One at a time, so that no refresh pays for many. A refresh is no worse if it does not work.
    """
    if not written:
        return ""  # and Spark need not even be imported
    with suppress(*spark_errors(), DeltaError, OSError, LogGap):
        for name in written:
            view, log = catalog.views[name.lower()], context.log(catalog, name)
            if compaction(log, TOO_MANY) or ordering(view, log):
                put_together(context.worker(), view, log)
                return name
    return ""
