"""Keeping a store small: expire epochs, compact and vacuum its own tables, remove leftovers.

Planned without Spark; `--dry-run` stops there. Base tables are never touched.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybridview.catalog import FOLDER, Catalog, RefreshRecord, ViewRecord
from hybridview.deltalog import FILE_RETENTION, LOG_RETENTION, DeltaLog, FolderLog, LogGap
from hybridview.engine.faults import BETWEEN_WORKS, reach
from hybridview.engine.session import Session, table_at
from hybridview.engine.spark_errors import first_line, spark_errors
from hybridview.engine.tuning import running_with
from hybridview.errors import UsageError
from hybridview.inside import inside
from hybridview.opened import named
from hybridview.operations.compaction import compaction, ordering, put_together
from hybridview.operations.context import VIEWS, Context
from hybridview.operations.duration import seconds, spoken, spoken_size
from hybridview.operations.lock import WAIT, slot
from hybridview.operations.needed import Needed, needed_versions
from hybridview.operations.orphans import orphans
from hybridview.operations.retention import retention

KEEP = "7 days"
"""How long an epoch can be read after the next one was published, unless the user says."""

HOUR = 3600.0
VACUUM_SETTINGS = {
    # The bound is what epochs and children need, not how long a stranger's query may take.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta 4.4 ignores RETAIN otherwise, unless it is 0.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # Files are listed in so many tasks; the default of 10,000 takes minutes for two folders.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


@dataclass(frozen=True, slots=True)
class Work:
    """One thing to do, and why."""

    verb: str
    """expire, retain, compact, vacuum or remove"""
    target: str
    """epochs, a view, a folder of the store"""
    reason: str
    view_id: str = ""
    """The view whose table it is."""
    epochs: tuple[int, ...] = ()
    """The epochs that expire."""
    since: float | None = None
    """What was in use at or after this moment stays, in seconds since 1970; for vacuum."""
    days: int = 0
    """How long a table is to keep removed files; for retain."""
    error: str = ""
    """Why it could not be done."""


@dataclass(frozen=True, slots=True)
class MaintainResult:
    """What was planned or done, in order."""

    works: tuple[Work, ...]
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(work.error for work in self.works)


def keep_time(text: str) -> float:
    """Read how long epochs are kept."""
    found = seconds(text)
    if found is None:
        raise UsageError(f'"{text}" is not a time', hint='Write it like: --keep "7 days"')
    return found


def plan_maintain(context: Context, keep: float) -> tuple[Work, ...]:
    """Return everything there is to do now; starts no Spark and writes nothing."""
    catalog, now = context.catalog(), time.time()
    expired, kept = _split(catalog, keep, now)
    works = [_expire(expired, kept, keep)] if expired else []
    needed = needed_versions(context, catalog, kept)
    for view in catalog.ordered():
        works += _table(context, catalog, view, needed.get(view.id, {}), keep, now)
    works += _ledger(context)
    works += [Work("remove", f"{VIEWS}/{name}", "no view uses it") for name in orphans(context)]
    return tuple(works)


def maintain(
    context: Context,
    keep: float,
    told: Callable[[Work], None] | None = None,
    wait: float = WAIT,
    waiting: Callable[[str], None] | None = None,
) -> MaintainResult:
    """Plan and do it, while no refresh runs; what fails does not stop the rest."""
    begun = time.monotonic()
    done: list[Work] = []
    with slot(context, wait, waiting):
        for work in plan_maintain(context, keep):
            reach(BETWEEN_WORKS)
            error = _attempt(context, work)
            done.append(replace(work, error=error))
            if told is not None:
                told(done[-1])
    return MaintainResult(tuple(done), round(time.monotonic() - begun, 3))


def _split(
    catalog: Catalog, keep: float, now: float
) -> tuple[list[RefreshRecord], list[RefreshRecord]]:
    """Return the epochs that expire and those that stay, oldest first.

    An epoch is what readers saw until the next one: its time starts there. So every state of the
    last `keep` can be read, and the newest always.
    """
    readable = catalog.refreshes.readable()
    expired = [
        record
        for record, after in itertools.pairwise(readable)
        if _published_at(after) < now - keep
    ]
    return expired, [r for r in readable if r not in expired]


def _published_at(record: RefreshRecord) -> float:
    return datetime.fromisoformat(record.started_at).timestamp() + record.seconds


def _expire(expired: list[RefreshRecord], kept: list[RefreshRecord], keep: float) -> Work:
    epochs = tuple(r.epoch for r in expired)
    target = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {_ranges(epochs)}"
    ago = f" more than {spoken(keep)} ago" if keep else ""
    stay = _ranges(tuple(r.epoch for r in kept))
    return Work("expire", target, f"replaced by newer ones{ago}; {stay} can be read", epochs=epochs)


def _ranges(numbers: tuple[int, ...]) -> str:
    """Return `1-4, 6` for 1, 2, 3, 4, 6."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{g[0]}-{g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)


def _table(
    context: Context, catalog: Catalog, view: ViewRecord, needed: Needed, keep: float, now: float
) -> Iterator[Work]:
    """Plan for one stored table: longer retention, compaction, vacuum."""
    log = context.log(catalog, view.name)
    if not log.exists():
        return
    info = log.info()
    why = compaction(log) or ordering(view, log)
    if why:
        yield Work("compact", view.name, why, view.id)
    try:
        current = _current(log, info.version)
        older = {version: who for version, who in needed.items() if version < current}
        since = min((log.commit(v).timestamp / 1000 for v in older), default=None)
    except LogGap:
        return  # when it was made nobody knows any more: everything stays
    wanted = max(keep, HOUR * _hours(since, now))
    own = retention(info.properties)
    if own.changes < wanted:
        days = max(365, math.ceil(2 * wanted / 86400))
        reason = f"VACUUM may remove what epochs need after {spoken(own.changes)}"
        yield Work("retain", view.name, f"{reason}; {days} days are safe", view.id, days=days)
        return  # Delta has forgotten when older files were removed, and would take them
    going = _removable(log.path, _hours(since, now))
    if going:
        stays = f"; version {min(older)} stays for {older[min(older)]}" if older else ""
        yield Work("vacuum", view.name, f"{going}{stays}", view.id, since=since)


def _current(log: DeltaLog, version: int) -> int:
    """Return the oldest version that reads the same files as the newest: VACUUM commits, too."""
    while version and not log.commit(version).files:
        version -= 1
    return version


def _hours(since: float | None, now: float) -> int:
    """Return for how many hours removed files stay.

    A file that a version reads was removed after that version was made. One hour more covers what
    time passes until VACUUM starts; if nothing older is needed, an hour is all.
    """
    return 1 if since is None else max(math.ceil((now - since) / HOUR), 0) + 1


def _removable(path: Path, hours: int) -> str:
    """Say what VACUUM would remove from a table; empty if nothing."""
    try:
        names = DeltaTable(named(path)).vacuum(hours, True, False, full=True)
    except DeltaError as error:
        return f"files unused for {hours:,} hours ({str(error).splitlines()[0]})"
    files = [path / name for name in names]
    if not files:
        return ""
    total = sum(file.stat().st_size for file in files if file.exists())
    count = "1 file" if len(files) == 1 else f"{len(files):,} files"
    unused = "an hour" if hours == 1 else f"{hours:,} hours"
    return f"{count}, {spoken_size(total)}, unused for {unused}"


def _ledger(context: Context) -> Iterator[Work]:
    """Plan for the bookkeeping table: nobody reads its older versions."""
    few = compaction(FolderLog(context.ledger.path))
    if few:
        yield Work("compact", FOLDER, few)
    going = _removable(context.ledger.path, 1)
    if going:
        yield Work("vacuum", FOLDER, going)


def _attempt(context: Context, work: Work) -> str:
    """Do one thing; return why it could not be done."""
    try:
        _do(context, work)
    except spark_errors() as error:
        return first_line(error)
    except (OSError, DeltaError) as error:
        return str(error).splitlines()[0]
    return ""


def _do(context: Context, work: Work) -> None:
    if work.verb == "expire":
        at = datetime.now(UTC).isoformat(timespec="seconds")
        context.ledger.append("expired", {"epochs": list(work.epochs), "at": at})
    elif work.verb == "remove":
        shutil.rmtree(inside(context.root, VIEWS, work.target.removeprefix(f"{VIEWS}/")))
    elif work.view_id:
        catalog = context.catalog()
        view = next(v for v in catalog.views.values() if v.id == work.view_id)
        if work.verb == "compact":
            put_together(context.worker(), view, context.log(catalog, view.name))
        else:
            _run(context.worker(), work, table_at(str(context.view_path(view).resolve())))
    elif work.verb == "compact":
        DeltaTable(named(context.ledger.path)).optimize.compact()
    else:
        DeltaTable(named(context.ledger.path)).vacuum(1, False, False, full=True)


def _run(session: Session, work: Work, table: str) -> None:
    """Let Spark vacuum one stored table, or keep for longer what it removed."""
    if work.verb == "retain":
        names = (LOG_RETENTION, FILE_RETENTION)
        pairs = ", ".join(f"'{name}' = 'interval {work.days} days'" for name in names)
        session.run(f"ALTER TABLE {table} SET TBLPROPERTIES ({pairs})")
    else:
        with running_with(session, VACUUM_SETTINGS):
            session.run(f"VACUUM {table} RETAIN {_hours(work.since, time.time())} HOURS")
