"""A Delta table's log -> versions, commits and statistics, read from its files without a JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError as _NotDelta

from hybridview.schema import Column, TableId

_COMMIT_FILE = re.compile(r"(\d{20})\.json")
FEED_PROPERTY = "delta.enableChangeDataFeed"


class CommitKind(StrEnum):
    """What a commit did to a table's rows."""

    DATA_FREE = "data-free"
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


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table at one version."""

    id: TableId
    version: int
    columns: tuple[Column, ...]
    properties: Mapping[str, str]

    @property
    def has_feed(self) -> bool:
        return self.properties.get(FEED_PROPERTY, "false").lower() == "true"


class LogGap(Exception):
    """A commit that is no longer in the log."""


class DeltaLog(Protocol):
    """What a refresh asks a table's log."""

    def exists(self) -> bool: ...

    def latest(self) -> int: ...

    def info(self, version: int | None = None) -> TableInfo: ...

    def commit(self, version: int) -> Commit: ...

    def row_count(self, version: int) -> int | None: ...


class FolderLog:
    """The log of a Delta table in a local folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "_delta_log"

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
            table = DeltaTable(str(self.path), version=version)
        except _NotDelta:
            raise LogGap(f"no Delta log in {self.path}") from None
        schema = json.loads(table.schema().to_json())
        metadata = table.metadata()
        return TableInfo(
            str(metadata.id),
            table.version(),
            tuple(Column(f["name"], spark_type(f["type"])) for f in schema["fields"]),
            dict(metadata.configuration),
        )

    def row_count(self, version: int) -> int | None:
        """Return the number of rows by file statistics; None if some file has none."""
        actions = DeltaTable(str(self.path), version=version).get_add_actions(flatten=True)
        if "num_records" not in actions.schema.names:
            return None
        counts: list[Any] = [value.as_py() for value in actions.column("num_records")]  # type: ignore[attr-defined]
        if any(count is None for count in counts):
            return None
        return int(sum(counts))

    def commit(self, version: int) -> Commit:
        """Read one commit; raises LogGap if the log was cleaned past it."""
        path = self.folder / f"{version:020d}.json"
        try:
            # Not splitlines(): JSON may hold U+2028 and the like as they are.
            lines = path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            raise LogGap(f"commit {version} of {self.path.name} is gone") from None
        return read_commit(version, [json.loads(line) for line in lines if line.strip()])


def read_commit(version: int, actions: list[dict[str, Any]]) -> Commit:
    """Classify a commit from its actions.

    Only files whose `dataChange` is true matter: OPTIMIZE moves rows between files and says so.
    """
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    added = [a["add"] for a in actions if "add" in a and a["add"].get("dataChange", True)]
    removed = [
        a["remove"] for a in actions if "remove" in a and a["remove"].get("dataChange", True)
    ]
    feed_files = any("cdc" in a for a in actions)
    operation = str(info.get("operation", ""))
    if not added and not removed and not feed_files:
        kind = CommitKind.DATA_FREE
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
        _changed_rows(info, added, removed) if kind is not CommitKind.DATA_FREE else 0,
        int(info.get("timestamp", 0)),
        next((a["metaData"] for a in actions if "metaData" in a), None),
        _user_metadata(info),
        str(info.get("userName") or info.get("engineInfo") or ""),
        {a["txn"]["appId"]: int(a["txn"]["version"]) for a in actions if "txn" in a},
    )


def _user_metadata(info: dict[str, Any]) -> str:
    return str(info.get("userMetadata") or "")


_ROW_METRICS = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    "UPDATE": ("numUpdatedRows",),
    "DELETE": ("numDeletedRows",),
}


def _changed_rows(
    info: dict[str, Any], added: list[dict[str, Any]], removed: list[dict[str, Any]]
) -> int:
    """Count changed rows: from the operation's own metrics, else from file statistics."""
    metrics = info.get("operationMetrics") or {}
    names = _ROW_METRICS.get(str(info.get("operation", "")), ())
    if names and all(name in metrics for name in names):
        return sum(int(metrics[name]) for name in names)
    return sum(_records(action) for action in (*added, *removed))


def _records(action: dict[str, Any]) -> int:
    try:
        return int(json.loads(action.get("stats") or "{}").get("numRecords", 0))
    except ValueError:
        return 0


def spark_type(node: Any) -> str:
    """Return a type of a Delta schema in Spark's own spelling."""
    names = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
    if isinstance(node, str):
        return names.get(node, node)
    match node["type"]:
        case "array":
            return f"array<{spark_type(node['elementType'])}>"
        case "map":
            return f"map<{spark_type(node['keyType'])},{spark_type(node['valueType'])}>"
        case _:
            fields = ",".join(
                f"{_field(f['name'])}:{spark_type(f['type'])}" for f in node["fields"]
            )
            return f"struct<{fields}>"


def _field(name: str) -> str:
    """Return a struct field's name as a type spells it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


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
