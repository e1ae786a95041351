"""The log of a base table between two versions -> what changed, without reading a row."""

from __future__ import annotations

from dataclasses import dataclass

from hybridview.deltalog import FEED_PROPERTY, Commit, CommitKind, DeltaLog, LogGap


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
    unreadable: str = ""
    """Why the change feed cannot give this range; empty if it can."""


def change_facts(source: str, log: DeltaLog, start: int, end: int) -> ChangeFacts:
    """Classify the commits after `start` up to `end`."""
    if start == end:
        return ChangeFacts(source, start, end, False, False, 0, None)
    if start > end:
        reason = f'"{source}" went back from version {start} to {end}'
        return ChangeFacts(source, start, end, True, False, 0, None, reason)
    try:
        commits = [log.commit(version) for version in range(start + 1, end + 1)]
    except LogGap as gap:
        reason = f'the log of "{source}" no longer has all commits after {start}: {gap}'
        return ChangeFacts(source, start, end, True, False, 0, None, reason)
    moved = [c for c in commits if c.kind is not CommitKind.DATA_FREE]
    if not moved:
        return ChangeFacts(source, start, end, False, False, 0, None)
    return ChangeFacts(
        source,
        start,
        end,
        True,
        all(c.kind is CommitKind.APPEND for c in moved),
        sum(c.rows for c in moved),
        log.row_count(end),
        _unreadable(source, commits),
    )


def _unreadable(source: str, commits: list[Commit]) -> str:
    """Say why the feed of a range cannot be read: it was off, or the columns changed."""
    for commit in commits:
        if commit.metadata is None:
            continue
        properties = commit.metadata.get("configuration") or {}
        if str(properties.get(FEED_PROPERTY, "false")).lower() != "true":
            return f'the change feed of "{source}" was off at version {commit.version}'
        if commit.operation not in ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMNS"):
            return (
                f'"{source}" was redefined at version {commit.version} ({commit.operation.lower()})'
            )
    return ""
