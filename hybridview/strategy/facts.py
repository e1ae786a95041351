"""The log of a base table between two versions -> what changed, without reading a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from hybridview.deltalog import Commit, CommitKind, DeltaLog, LogGap, TableInfo
from hybridview.strategy.vacuumed import vacuumed
from hybridview.tablefiles.fields import Field

PLAIN = "!$&'()*+,:;=@"
"""What Spark leaves as it is in a file's name, besides letters, digits and `_.-~`."""


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """What happened to one source since a view last saw it."""

    source: str
    start: int
    """The version the view reflects."""
    end: int | None
    """The version being refreshed to; None for a view that is refreshed in the same epoch."""
    changed: bool
    appended: bool
    rows: int
    total: int | None
    compare: str = ""
    """Why the change feed cannot give this range, so that two versions are compared instead."""
    files: tuple[str, ...] | None = None
    """The files the two versions may differ in, by all names they may have; None if not known."""
    rewritten: bool = False
    """Whether some commit put other contents in the place of all: most rows may cancel."""
    unreadable: str = ""
    """Why the change cannot be found at all; empty if it can."""


def change_facts(source: str, log: DeltaLog, start: int, now: TableInfo) -> ChangeFacts:
    """Classify the commits after `start` up to the pinned version."""
    end = now.version
    if start == end:
        return ChangeFacts(source, start, end, False, False, 0, None)
    if start > end:
        reason = f'"{source}" went back from version {start} to {end}'
        return ChangeFacts(source, start, end, True, False, 0, None, unreadable=reason)
    try:
        commits = [log.commit(version) for version in range(start + 1, end + 1)]
    except LogGap as gap:
        reason = f'the log of "{source}" no longer has all commits after {start} ({gap})'
        unreadable = "" if log.readable(start) else reason
        # Nobody knows how many rows changed: as many as there are, to be careful.
        total = log.row_count(end)
        return ChangeFacts(
            source, start, end, True, False, total or 0, total, reason, unreadable=unreadable
        )
    moved = [c for c in commits if c.changes_rows]
    compare = _not_in_feed(source, log, start, commits, now) or vacuumed(source, log, moved)
    if not moved and not compare:
        return ChangeFacts(source, start, end, False, False, 0, None)
    total = log.row_count(end)
    rewritten = any(c.kind is CommitKind.REWRITE for c in moved)
    if not compare:
        appended = all(c.kind is CommitKind.APPEND for c in moved)
        rows = sum(c.rows for c in moved)
        return ChangeFacts(source, start, end, True, appended, rows, total, rewritten=rewritten)
    if not log.readable(start):
        lost = f"{compare}, and version {start} cannot be read any more"
        return ChangeFacts(source, start, end, True, False, 0, total, compare, unreadable=lost)
    files = _files(log, start, commits, now)
    rows = sum(c.file_rows for c in commits) if files is not None else total or 0
    return ChangeFacts(source, start, end, True, False, rows, total, compare, files, rewritten)


def _files(
    log: DeltaLog, start: int, commits: list[Commit], now: TableInfo
) -> tuple[str, ...] | None:
    """Return the files in which two versions may differ; None if in all."""
    before = log.info(start).fields
    for name, field in now.fields.items():
        if name in before and before[name].ids != field.ids:
            # Dropped and added again: an untouched file reads differently now.
            return None
    names = (name for c in commits for name in c.files)
    return tuple(dict.fromkeys(spelled for name in names for spelled in _spellings(name)))


def _spellings(name: str) -> tuple[str, ...]:
    """Return a file's name as the log spells it, as the disk does, and as Spark does.

    Spark calls `my data.parquet` by an encoded name, `my%20data.parquet`: that of the log if it
    wrote the log, but other writers encode more than it does. A name too many does no harm: a file
    that both versions have cancels.
    """
    on_disk = unquote(name)
    encoded = "".join(quote(c, safe=PLAIN) if c.isascii() else c for c in on_disk)
    return name, on_disk, encoded


def _not_in_feed(
    source: str, log: DeltaLog, start: int, commits: list[Commit], now: TableInfo
) -> str:
    """Say why the feed of a range cannot be read: it was off, or the table was redefined."""
    if all(c.metadata is None for c in commits):
        if now.has_feed or not any(c.changes_rows for c in commits):
            return ""
        return f'the change feed of "{source}" is off'
    try:
        return _redefined(source, log.info(start), commits)
    except LogGap:
        return f'version {start} of "{source}" is gone from its log'


def _redefined(source: str, before: TableInfo, commits: list[Commit]) -> str:
    feed, fields = before.has_feed, before.fields
    for commit in commits:
        turned = commit.turns_feed
        feed = feed if turned is None else turned
        if commit.changes_rows and not feed:
            return f'the change feed of "{source}" was off at version {commit.version}'
        found = commit.fields
        if found is None:
            continue
        if not _only_added(fields, found):
            # The feed is read with the newest columns, and refuses a range across such a commit.
            what = f"({commit.operation.lower()})"
            return f'"{source}" was redefined at version {commit.version} {what}'
        fields = found
    return ""


def _only_added(before: Mapping[str, Field], after: Mapping[str, Field]) -> bool:
    """Say whether every column is still there, the same one, with its type."""
    for name, old in before.items():
        new = after.get(name)
        if new is None or new.type != old.type:
            return False
        # Ids that were not there before are given to columns that stay what they are.
        if not old.ids.items() <= new.ids.items():
            return False
    return True


__all__ = ["ChangeFacts", "change_facts"]
