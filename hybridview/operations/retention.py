"""How long the changes of base tables stay readable, against what views have not seen of them.

Two clocks run. VACUUM may remove change files, and files a commit took away, once they are older
than the table's deleted-file retention, although the log still lists them; and the log itself is
cleaned after its own retention. Until the earlier of the two a change is certainly there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hybridview.catalog import Catalog, ViewRecord
from hybridview.deltalog import (
    FILE_RETENTION,
    LOG_RETENTION,
    Commit,
    CommitKind,
    FolderLog,
    LogGap,
)
from hybridview.operations.context import Context
from hybridview.operations.duration import seconds, spoken
from hybridview.strategy.vacuumed import vacuumed

DEFAULTS = {FILE_RETENTION: 7 * 86400.0, LOG_RETENTION: 30 * 86400.0}

WARN_SHARE = 0.25
"""Below this share of a table's retention the time left is worth a warning."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a table keeps removed files, and its log, in seconds."""

    files: float
    log: float

    @property
    def changes(self) -> float:
        """How long a change stays readable for certain."""
        return min(self.files, self.log)


def retention(properties: Mapping[str, str]) -> Retention:
    """Read a table's properties; a text that is no time counts as Delta's default."""

    def read(name: str) -> float:
        found = seconds(properties.get(name, ""))
        return DEFAULTS[name] if found is None else found

    return Retention(read(FILE_RETENTION), read(LOG_RETENTION))


@dataclass(frozen=True, slots=True)
class Need:
    """What a view has not seen yet of one base table: from when, and until when it can be read."""

    view: str
    table: str
    until: float
    """When the oldest of these changes may go, in seconds since 1970."""
    kept: float
    """How long the table keeps changes, in seconds."""
    gone: str = ""
    """Which of them cannot be read any more, and what follows; empty if all can."""

    def left(self, now: float) -> float:
        return max(self.until - now, 0.0)

    def urgent(self, now: float) -> bool:
        """Say whether it is time to refresh the view, or too late."""
        return bool(self.gone) or self.left(now) < WARN_SHARE * self.kept

    def warning(self, now: float) -> str:
        """Return what threatens, or what happened; empty if there is time."""
        if self.gone:
            return self.gone
        if not self.urgent(now):
            return ""
        left = self.left(now)
        when = f"in {spoken(left)}" if left else "any time"
        return f'VACUUM may remove changes of "{self.table}" it has not seen {when}'


def needs(context: Context, catalog: Catalog, view: ViewRecord) -> tuple[Need, ...]:
    """Return what a view needs of the base tables it reads; nothing if it has seen everything."""
    state = catalog.state(view)
    found: list[Need] = []
    for source in view.sources:
        table = catalog.tables.get(source.lower())
        if table is None or state is None or table.table_id not in state.inputs:
            continue
        log = FolderLog(context.table_path(table))
        need = _need(view.name, table.name, log, state.inputs[table.table_id])
        if need is not None:
            found.append(need)
    return tuple(found)


def _need(view: str, table: str, log: FolderLog, start: int) -> Need | None:
    try:
        info = log.info()
    except LogGap:
        return None  # the table is gone, and with it more than its changes
    kept = retention(info.properties)
    commits: list[Commit] = []
    for version in range(start + 1, info.version + 1):
        try:
            commits.append(log.commit(version))
        except LogGap:
            gone = f'the log of "{table}" no longer has commit {version}'
            return Need(view, table, 0.0, kept.changes, _outcome(gone, log, start))
    first = next((i for i, c in enumerate(commits) if c.changes_rows), None)
    if first is None:
        return None
    until = _until(commits[first:], kept)
    if info.has_feed:
        gone = vacuumed(table, log, commits[first:])
    else:
        # Without a feed two versions are compared, and the older one must still be there.
        lost = not log.readable(start)
        gone = f'version {start} of "{table}" cannot be read any more' if lost else ""
    return Need(view, table, until, kept.changes, _outcome(gone, log, start))


def _outcome(gone: str, log: FolderLog, start: int) -> str:
    """Add what the next refresh will do about changes that are gone."""
    if not gone:
        return ""
    how = "compares two versions" if log.readable(start) else "recomputes the view"
    return f"{gone}; the next refresh {how}"


def _until(commits: list[Commit], kept: Retention) -> float:
    """Return when the first of some commits may become unreadable.

    What it appended is part of the table until a later commit takes it away: the retention of
    files begins there.
    """
    until = commits[0].timestamp / 1000 + kept.log
    takes = next((c for c in commits if _may_take_files(c)), None)
    return until if takes is None else min(until, takes.timestamp / 1000 + kept.files)


def _may_take_files(commit: Commit) -> bool:
    return commit.kind not in (CommitKind.APPEND, CommitKind.METADATA, CommitKind.PROTOCOL)
