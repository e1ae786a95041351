"""What a statement has to read, by the logs of its tables: files that cannot be skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from deltalake.exceptions import DeltaError

from hybridview.deltalog import DeltaLog, LogGap
from hybridview.engine.session import quote
from hybridview.filestats import Size
from hybridview.plan.steps import Apply, Feed, Pinned

Log = Callable[[str], DeltaLog]
UNKNOWN = (LogGap, DeltaError, OSError)
"""What is raised where a log cannot tell a size."""


def of_tables(sources: Iterable[Pinned], log: Log) -> Size:
    """Return the size of whole tables."""
    return sum((size_of(s.name, s.version, log) for s in sources), Size())


def of_change(
    view: str,
    step: Apply,
    sources: Iterable[Pinned],
    near: Mapping[str, Size],
    stored_version: int | None,
    log: Log,
) -> Size:
    """Return what computing a change reads besides the changes of its sources."""
    whole = [s for s in sources if step.reads(quote(f"{s.name}@new"))]
    found = of_tables(whole, log)
    found = sum((near[read.symbol] for read in step.near), found)
    if step.reads(quote(f"{view}@target")):
        found += size_of(view, stored_version, log)
    return found


def of_feeds(feeds: Iterable[Feed], ends: Mapping[str, int], log: Log) -> Size:
    """Return the size of the change files between two versions, or of what is compared."""
    found = Size()
    for feed in feeds:
        table, end = log(feed.name), ends[feed.name]
        if feed.compare:
            found += size_of(feed.name, feed.start, log) + size_of(feed.name, end, log)
            continue
        try:
            sizes = [table.feed_size(version) for version in range(feed.start + 1, end + 1)]
        except LogGap:
            continue
        found = sum(sizes, found)
    return found


def size_of(name: str, version: int | None, log: Log) -> Size:
    """Return the size of a table; nothing if its log cannot tell: no refresh fails for that."""
    with suppress(*UNKNOWN):
        return log(name).size(version) if version is not None else Size()
    return Size()
