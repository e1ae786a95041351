"""A Delta table's log -> versions, commits and statistics, read from its files without a JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.exceptions import TableNotFoundError as _NotDelta

from hybridview.filestats import FileBounds, Size, bounds_of, column_values, size_of
from hybridview.opened import named, opened
from hybridview.schema import Column, TableId
from hybridview.tablefiles.fields import Field, declared, read_fields
from hybridview.tablefiles.fields import field_type as field_type
from hybridview.tablefiles.file_paths import file_paths

_COMMIT_FILE = re.compile(r"(\d{20})\.json")
FEED_PROPERTY = "delta.enableChangeDataFeed"
FILE_RETENTION = "delta.deletedFileRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"


class CommitKind(StrEnum):
    """What a commit did to a table.

    data-free: moved or described data (OPTIMIZE, statistics). metadata: properties, comments or
    columns. protocol: what a reader must know. The others changed rows: by adding files only, by
    changing some rows, or by putting other contents in the place of all.
    """

    DATA_FREE = "data-free"
    METADATA = "metadata"
    PROTOCOL = "protocol"
    APPEND = "append"
    ROWS = "rows"
    REWRITE = "rewrite"


REWRITES = ("WRITE", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "RESTORE")


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table's log, as far as a refresh needs it."""

    version: int
    operation: str
    kind: CommitKind
    rows: int
    """Rows added plus rows removed, as well as the log tells."""
    timestamp: int
    metadata: dict[str, Any] | None = None
    """The table's metadata, if this commit changed it."""
    user_metadata: str = ""
    user: str = ""
    transactions: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """The files it added or took away, by their last name as the log spells it: encoded."""
    file_rows: int = 0
    """The rows in these files."""

    @property
    def changes_rows(self) -> bool:
        return self.kind in (CommitKind.APPEND, CommitKind.ROWS, CommitKind.REWRITE)

    @property
    def fields(self) -> Mapping[str, Field] | None:
        """The table's columns after this commit, if it set them."""
        if self.metadata is None:
            return None
        return read_fields(json.loads(self.metadata["schemaString"]))

    @property
    def turns_feed(self) -> bool | None:
        """Whether the change feed is on after this commit; None if it leaves that alone."""
        if self.metadata is None:
            return None
        properties = self.metadata.get("configuration") or {}
        return str(properties.get(FEED_PROPERTY, "false")).lower() == "true"


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table at one version."""

    id: TableId
    version: int
    columns: tuple[Column, ...]
    properties: Mapping[str, str]
    fields: Mapping[str, Field] = field(default_factory=dict)

    @property
    def has_feed(self) -> bool:
        return self.properties.get(FEED_PROPERTY, "false").lower() == "true"


class LogGap(Exception):
    """A commit that the log does not have any more, or not in a form that can be read."""


class DeltaLog(Protocol):
    """What a refresh asks a table's log."""

    def exists(self) -> bool: ...

    def latest(self) -> int: ...

    def info(self, version: int | None = None) -> TableInfo: ...

    def commit(self, version: int) -> Commit: ...

    def readable(self, version: int) -> bool: ...

    def missing_files(self, version: int) -> tuple[str, ...]: ...

    def row_count(self, version: int) -> int | None: ...

    def size(self, version: int) -> Size: ...

    def bounds(self, version: int, column: str) -> tuple[FileBounds, ...] | None: ...

    def feed_size(self, version: int) -> Size: ...

    def stamp(self, version: int) -> str: ...


class FolderLog:
    """The log of a Delta table in a local folder; what it says of a version's files is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "_delta_log"
        self.known_files: dict[int, Any] = {}

    def exists(self) -> bool:
        return next(self._versions(), None) is not None

    def latest(self) -> int:
        """Return the newest version; raises LogGap if there is no log."""
        newest = max(self._versions(), default=None)
        if newest is None:
            raise LogGap(f"no Delta log in {self.path}")
        return newest

    def _versions(self) -> Iterator[int]:
        if not self.folder.is_dir():
            return
        for entry in self.folder.iterdir():
            found = _COMMIT_FILE.fullmatch(entry.name)
            if found:
                yield int(found[1])

    def info(self, version: int | None = None) -> TableInfo:
        """Return the table's id, columns and properties at a version (the newest if None)."""
        try:
            table = opened(self.path, version)
        except _NotDelta:
            raise LogGap(f"no Delta log in {self.path}") from None
        except DeltaError as error:
            raise LogGap(f"version {version} cannot be read: {error}") from None
        schema = json.loads(table.schema().to_json())
        metadata = table.metadata()
        return TableInfo(
            str(metadata.id),
            table.version(),
            tuple(Column(f["name"], field_type(f), declared(f)) for f in schema["fields"]),
            dict(metadata.configuration),
            read_fields(schema),
        )

    def readable(self, version: int) -> bool:
        """Say whether a version can still be read: its log, and every file of it.

        The list of files does not name their deletion vectors, so these are read to see whether
        they are there.
        """
        try:
            table = DeltaTable(named(self.path), version=version)
            names = column_values(table.get_add_actions(flatten=True), "path")
            if "deletionVectors" in (table.protocol().reader_features or ()):
                table.deletion_vectors()
        except (DeltaError, OSError):
            return False
        # What lies on another disk counts as gone: nobody looks for it there.
        found = (file_paths(self.path, {"path": name}) for name in names)
        return all(paths and paths[0].exists() for paths in found)

    def row_count(self, version: int) -> int | None:
        """Return the number of rows by file statistics; None if some file has none."""
        return self.size(version).rows

    def size(self, version: int) -> Size:
        """Return how much a version holds."""
        return size_of(self._files(version))

    def bounds(self, version: int, column: str) -> tuple[FileBounds, ...] | None:
        """Return the bounds of a column in every file; None if the log has none of it."""
        return bounds_of(self._files(version), column)

    def _files(self, version: int) -> Any:
        if version not in self.known_files:
            self.known_files[version] = opened(self.path, version).get_add_actions(flatten=True)
        return self.known_files[version]

    def commit(self, version: int) -> Commit:
        """Read one commit; raises LogGap if the log was cleaned past it."""
        return read_commit(version, self.actions(version))

    def stamp(self, version: int) -> str:
        """Return what tells a commit from another one of the same number; empty if nothing does.

        That is the name of a file it added or took away: no other commit has it.
        """
        path = self.folder / f"{version:020d}.json"
        with suppress(OSError, ValueError, KeyError), path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(('{"add":', '{"remove":', '{"cdc":')):
                    (action,) = json.loads(line).values()
                    return str(action["path"]).rsplit("/", 1)[-1]
        return ""

    def missing_files(self, version: int) -> tuple[str, ...]:
        """Return the files that the change feed of a commit would read and that are gone.

        The feed reads a commit's own change files if it wrote any, else what it added and removed.
        """
        files = self._feed_files(version)
        paths = (path for file in files for path in file_paths(self.path, file))
        return tuple(str(path) for path in paths if not path.exists())

    def feed_size(self, version: int) -> Size:
        """Return how much the change feed reads for one commit."""
        files = self._feed_files(version)
        return Size(len(files), sum(int(f.get("size") or 0) for f in files), None)

    def _feed_files(self, version: int) -> list[dict[str, Any]]:
        return [file for _, file in feed_actions(self.actions(version))]

    def actions(self, version: int) -> list[dict[str, Any]]:
        """Return all that a commit says; raises LogGap if it cannot be read any more."""
        path = self.folder / f"{version:020d}.json"
        try:
            # Not splitlines(): JSON may hold U+2028 and the like as they are.
            lines = path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            raise LogGap(f"commit {version} of {self.path.name} is gone") from None
        except UnicodeDecodeError:
            raise LogGap(f"commit {version} of {self.path.name} is no text") from None
        try:
            return [json.loads(line) for line in lines if line.strip()]
        except json.JSONDecodeError:
            raise LogGap(f"commit {version} of {self.path.name} is no JSON") from None


def feed_actions(actions: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the files that the change feed of a commit consists of, each with its kind.

    These are the commit's own change files if it wrote any, else what it added and removed.
    """
    return [("cdc", a["cdc"]) for a in actions if "cdc" in a] or [
        (k, a[k])
        for a in actions
        for k in ("add", "remove")
        if k in a and a[k].get("dataChange", True)
    ]


def read_commit(version: int, actions: list[dict[str, Any]]) -> Commit:
    """Classify a commit from its actions.

    Only files whose `dataChange` is true matter: OPTIMIZE moves rows between files and says so.
    """
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    added = [a["add"] for a in actions if "add" in a and a["add"].get("dataChange", True)]
    removed = [
        a["remove"] for a in actions if "remove" in a and a["remove"].get("dataChange", True)
    ]
    touched = [a[k] for a in actions for k in ("add", "remove") if k in a]
    feed_files = any("cdc" in a for a in actions)
    operation = str(info.get("operation", ""))
    if not added and not removed and not feed_files:
        kind = _quiet_kind(actions)
    elif not removed and not feed_files:
        kind = CommitKind.APPEND
    elif not feed_files and operation in REWRITES:
        kind = CommitKind.REWRITE
    else:
        kind = CommitKind.ROWS
    return Commit(
        version,
        operation,
        kind,
        _changed_rows(info, added, removed) if added or removed else 0,
        int(info.get("timestamp", 0)),
        next((a["metaData"] for a in actions if "metaData" in a), None),
        _user_metadata(info),
        str(info.get("userName") or info.get("engineInfo") or ""),
        {a["txn"]["appId"]: int(a["txn"]["version"]) for a in actions if "txn" in a},
        tuple(dict.fromkeys(str(a["path"]).rsplit("/", 1)[-1] for a in touched)),
        sum(_records(a) for a in touched),
    )


def _quiet_kind(actions: list[dict[str, Any]]) -> CommitKind:
    """Classify a commit that changed no row."""
    if any("protocol" in a for a in actions):
        return CommitKind.PROTOCOL
    if any("metaData" in a for a in actions):
        return CommitKind.METADATA
    return CommitKind.DATA_FREE


def _user_metadata(info: dict[str, Any]) -> str:
    return str(info.get("userMetadata") or "")


_ROW_METRICS = {
    "MERGE": (
        ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
        ("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted"),
    ),
    "UPDATE": (("numUpdatedRows",), ("num_updated_rows",)),
    "DELETE": (("numDeletedRows",), ("num_deleted_rows",)),
}
"""How Spark and delta-rs call the numbers of changed rows, by operation."""


def _changed_rows(
    info: dict[str, Any], added: list[dict[str, Any]], removed: list[dict[str, Any]]
) -> int:
    """Count changed rows: from the operation's own metrics, else from file statistics."""
    metrics = info.get("operationMetrics") or {}
    for names in _ROW_METRICS.get(str(info.get("operation", "")), ()):
        if all(name in metrics for name in names):
            return sum(int(metrics[name]) for name in names)
    return sum(_records(action) for action in (*added, *removed))


def _records(action: dict[str, Any]) -> int:
    try:
        return int(json.loads(action.get("stats") or "{}").get("numRecords", 0))
    except ValueError:
        return 0


def pin(latest: Callable[[], dict[str, int]], attempts: int = 20) -> dict[str, int]:
    """Read all versions until two readings agree: a state that existed at one moment.

    Versions only grow, so if nothing moved between the two readings, all of the first one held
    together at the moment between them.
    """
    first = latest()
    for _ in range(attempts):
        second = latest()
        if first == second:
            return first
        first = second
    # A table that commits faster than we can list: the newest reading is still a valid cut for
    # each table, and every read of the refresh uses it.
    return first
