"""Which rows of a table go, change and come -> new files, one commit; without Spark.

A commit is complete or it is not there: its files are written first, under names of their own, and
the log gets its entry by a hard link, which fails if somebody else has made that version.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hybridview.opened import opened
from hybridview.tablefiles.statistics import statistics
from hybridview.tablefiles.table import DataFile, FileTable
from hybridview.tablefiles.values import to_array

ONE_FILE = 2**20
"""Bytes of a table that is kept in one file: it is all written anew."""
CHANGE_TYPE = "_change_type"
PROLEPTIC = {b"org.apache.spark.version": b"4.0.0"}
"""Tells Spark that dates are in today's calendar, as it writes them itself since 3.0."""

Row = tuple[Any, ...]
"""Plain values of all columns of a table, in their order."""


class Place(NamedTuple):
    """Where a stored row is: the number of its file, and of the row in it."""

    file: int
    row: int


@dataclass(slots=True)
class Change:
    """What becomes of a table's rows."""

    gone: list[Place] = field(default_factory=list)
    updated: dict[Place, Row] = field(default_factory=dict)
    arrived: list[Row] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        return {
            "inserted": len(self.arrived),
            "updated": len(self.updated),
            "deleted": len(self.gone),
        }

    @property
    def touched(self) -> set[int]:
        """The files that stored rows go from or change in."""
        return {place.file for place in (*self.gone, *self.updated)}


@dataclass(frozen=True, slots=True)
class Mark:
    """What a commit says of itself: the transaction it is, and whatever its writer adds."""

    transaction: str
    number: int
    user_metadata: str
    engine: str


class Taken(Exception):
    """The version that a commit was to become is there already."""


def commit(table: FileTable, change: Change, mark: Mark, before_commit: Callable[[], None]) -> int:
    """Write a change as the next version of a table, and return it.

    `before_commit` is called when all files are written. Raises Taken, and whatever reading and
    writing files raises; then the table is as it was.
    """
    made: list[Path] = []
    try:
        actions = _write_files(table, change, made)
        before_commit()
    except Exception:
        for path in made:
            with suppress(OSError):
                path.unlink()
        raise
    # From here on the files stay: who knows what became of a link that failed.
    version = table.version + 1
    _enter(table.folder / "_delta_log", version, _entry(table, change, mark, actions))
    if table.checkpoints:
        # Without one, readers go back to the checkpoint before it. Whatever goes wrong here, the
        # commit is there: nobody may take it for one that is not.
        with suppress(Exception):
            # Spark's checksum of a file that is replaced here: it would take that for damaged.
            (table.folder / "_delta_log" / "._last_checkpoint.crc").unlink(missing_ok=True)
            opened(table.folder, version).create_checkpoint()
    return version


def _write_files(table: FileTable, change: Change, made: list[Path]) -> list[dict[str, Any]]:
    """Write new files in the place of the touched ones, and what changed beside them."""
    names = [column.name for column in table.columns]
    groups = [[number] for number in sorted(change.touched)]
    if groups and table.bytes <= ONE_FILE:
        groups = [list(range(len(table.files)))]
    arrived = _rows(table, change.arrived)
    if not groups:
        assert arrived.num_rows, "a change of nothing is not written"
        return [_add(table, arrived, made)]
    # New rows go to the smallest file that is written anyway.
    sizes = [sum(table.files[number].size for number in group) for group in groups]
    home = sizes.index(min(sizes))
    actions: list[dict[str, Any]] = []
    feed: list[pa.Table] = []
    for number, group in enumerate(groups):
        old = {n: table.read(table.files[n], names) for n in group}
        kept, before, after, gone = _apply(table, change, old)
        fresh = pa.concat_tables([kept, arrived]) if number == home else kept
        if fresh.num_rows:
            actions.append(_add(table, fresh, made))
        actions += [_remove(table.files[n]) for n in group]
        for rows, what in (
            (before, "update_preimage"),
            (after, "update_postimage"),
            (gone, "delete"),
        ):
            feed.append(_labelled(rows, what))
    feed.append(_labelled(arrived, "insert"))
    if table.has_feed:
        actions.append(_feed_file(table, pa.concat_tables(feed), made))
    return actions


def _apply(
    table: FileTable, change: Change, old: Mapping[int, pa.Table]
) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    """Return the rows of some files after a change, in their order; and those that it concerned.

    These are the rows before and after an update, and those that go.
    """
    start: dict[int, int] = {}
    total = 0
    for number, rows in old.items():
        start[number] = total
        total += rows.num_rows
    stored = pa.concat_tables(old.values())
    updated = [(start[p.file] + p.row, row) for p, row in change.updated.items() if p.file in old]
    gone = [start[p.file] + p.row for p in change.gone if p.file in old]
    after = _rows(table, [row for _, row in updated])
    takes = list(range(total))
    for number, (place, _) in enumerate(updated):
        takes[place] = total + number
    absent = set(gone)
    takes = [take for place, take in enumerate(takes) if place not in absent]
    kept = pa.concat_tables([stored, after]).take(pa.array(takes, pa.int64()))
    before = stored.take(pa.array([place for place, _ in updated], pa.int64()))
    return kept, before, after, stored.take(pa.array(gone, pa.int64()))


def _rows(table: FileTable, rows: Sequence[Row]) -> pa.Table:
    columns = [
        to_array(table.kind(column.name), [row[number] for row in rows])
        for number, column in enumerate(table.columns)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema([c.name for c in table.columns]))


def _labelled(rows: pa.Table, what: str) -> pa.Table:
    return rows.append_column(CHANGE_TYPE, pa.array([what] * rows.num_rows, pa.string()))


def _write(path: Path, rows: pa.Table, made: list[Path]) -> None:
    path.parent.mkdir(exist_ok=True)
    made.append(path)
    pq.write_table(
        rows.replace_schema_metadata(PROLEPTIC),
        path,
        compression="snappy",
        store_schema=False,
        store_decimal_as_integer=True,
        write_page_index=True,
        write_statistics=_bounded(rows),
    )


def _bounded(rows: pa.Table) -> list[str]:
    """Return the columns whose bounds a file may tell.

    Arrow leaves NaN out of them; but it is larger than all numbers for Spark and others, which
    would not look for it where the largest is small.
    """
    return [
        name
        for name, column in zip(rows.column_names, rows.columns, strict=True)
        if not pa.types.is_floating(column.type) or not pc.any(pc.is_nan(column)).as_py()
    ]


def _add(table: FileTable, rows: pa.Table, made: list[Path]) -> dict[str, Any]:
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    path = table.folder / name
    _write(path, rows, made)
    about = path.stat()
    return {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": about.st_size,
            "modificationTime": int(about.st_mtime * 1000),
            "dataChange": True,
            "stats": statistics(rows, table.types),
        }
    }


def _remove(file: DataFile) -> dict[str, Any]:
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": _now(),
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.size,
        }
    }


def _feed_file(table: FileTable, rows: pa.Table, made: list[Path]) -> dict[str, Any]:
    name = f"_change_data/cdc-00000-{uuid.uuid4()}.c000.snappy.parquet"
    path = table.folder / name
    _write(path, rows, made)
    size = path.stat().st_size
    return {"cdc": {"path": name, "partitionValues": {}, "size": size, "dataChange": False}}


def _entry(
    table: FileTable,
    change: Change,
    mark: Mark,
    actions: list[dict[str, Any]],
) -> str:
    """Return the text of a commit."""
    counts = change.counts
    appends = not any("remove" in action for action in actions)
    metrics = {
        "numTargetRowsInserted": counts["inserted"],
        "numTargetRowsUpdated": counts["updated"],
        "numTargetRowsDeleted": counts["deleted"],
        "numTargetFilesAdded": sum("add" in a for a in actions),
        "numTargetFilesRemoved": sum("remove" in a for a in actions),
        "numTargetChangeFilesAdded": sum("cdc" in a for a in actions),
    }
    if appends:
        metrics = {"numFiles": len(actions), "numOutputRows": counts["inserted"]}
    info = {
        "timestamp": _now(),
        "operation": "WRITE" if appends else "MERGE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"} if appends else {},
        "readVersion": table.version,
        "isolationLevel": "Serializable",
        # What was there was looked at, or whoever sees to it that keys are not repeated would err.
        "isBlindAppend": False,
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        "userMetadata": mark.user_metadata,
        "engineInfo": mark.engine,
        "txnId": str(uuid.uuid4()),
    }
    txn = {"appId": mark.transaction, "version": mark.number, "lastUpdated": _now()}
    lines = [{"commitInfo": info}, {"txn": txn}, *actions]
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def _enter(log: Path, version: int, text: str) -> None:
    """Make a commit visible, if nobody else has made that version."""
    final = log / f"{version:020d}.json"
    draft = log / f".{final.name}.{uuid.uuid4()}.tmp"
    try:
        draft.write_text(text, encoding="utf-8")
        os.link(draft, final)
    except FileExistsError:
        raise Taken(f"version {version} is there already") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _now() -> int:
    return time.time_ns() // 1_000_000
