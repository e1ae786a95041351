"""The change feed of some commits -> its rows, as texts, without Spark; None if it is Spark's.

Delta Lake plans a change feed commit by commit, each as a query of its own, and Spark opens its
files as if they were large. For the few rows of a small change this takes many times as long as
reading them. What a feed holds is told by the protocol: a commit's own change files, if it wrote
any; else the rows of the files it added, and of those it took away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from hybridview.deltalog import FolderLog, LogGap, feed_actions, field_type
from hybridview.opened import opened
from hybridview.schema import Column
from hybridview.tablefiles.file_paths import file_paths
from hybridview.tablefiles.parquet import UNFIT, read_columns
from hybridview.tablefiles.values import Kind, kind_of, to_array, to_values

READABLE = {"timestampNtz", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of a table for readers. Of deletion vectors, commits that have one are Spark's."""
MAPPING = "delta.columnMapping.mode"
TYPE = "_change_type"
SIGNS = {"insert": "1", "update_postimage": "1", "delete": "-1", "update_preimage": "-1"}
PARTS = ("string", "date", "tinyint", "smallint", "int", "bigint", "boolean")
"""Types of partition columns, whose values are texts in the log, of which there is one spelling."""
MOST_FILES, MOST_BYTES = 1_000, 2**26
"""More files, or larger ones, are better read by Spark's tasks."""

OLDEST = {
    "date": pa.scalar(-141_427, pa.int32()),
    "timestamp": pa.scalar(-2_208_988_800_000_000, pa.int64()),
    "timestamp_ntz": pa.scalar(-2_208_988_800_000_000, pa.int64()),
}
"""1582-10-15, and 1900-01-01: what is older may be written in another calendar, or in another time
zone; who wrote the file decides that, and Spark knows the rules."""

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class FeedRows:
    """Rows that came and went: texts of some columns, and a last one that is 1 or -1."""

    columns: tuple[Column, ...]
    rows: list[Texts]


def read_feed(
    folder: Path, start: int, end: int, columns: Sequence[str], most: int
) -> FeedRows | None:
    """Return what changed after `start` up to `end`; None if it is more than `most` rows.

    None, too, if anything about the table, the commits or the files is not known here. The columns
    keep the spelling they are asked for in.
    """
    if start > end:
        return None  # no range at all: Spark will say so
    try:
        table = _open(folder, end, columns)
        if table is None:
            return None
        rows: list[Texts] = []
        size = 0
        for files, change in enumerate(_changes(folder, start, end)):
            size += change.path.stat().st_size
            if files == MOST_FILES or size > MOST_BYTES:
                return None
            rows += table.read(change, most - len(rows))
    except (DeltaError, LogGap, *UNFIT):
        return None
    shown = zip(columns, table.columns, strict=True)
    return FeedRows(tuple(Column(name, column.type) for name, column in shown), rows)


@dataclass(frozen=True, slots=True)
class _Change:
    """A file of a feed."""

    path: Path
    sign: str
    """What all its rows weigh; empty if each row says what became of it."""
    partition: Mapping[str, str | None] | None
    """The values of partition columns; None if the log does not tell them."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns that are wanted, as the table spells them, and those that files do not hold."""

    columns: tuple[Column, ...]
    partitioned_by: frozenset[str]

    def read(self, change: _Change, at_most: int) -> list[Texts]:
        """Return the rows of a file."""
        kinds = {c.name: _kind(c) for c in self.columns if c.name not in self.partitioned_by}
        marks = {} if change.sign else {TYPE: _kind(Column(TYPE, "string"))}
        read = read_columns(change.path, kinds | marks, at_most)
        shown: list[Sequence[str | None]] = []
        for column in self.columns:
            if column.name in self.partitioned_by:
                shown.append([_part(column, change.partition)] * read.num_rows)
            else:
                shown.append(_texts(column, read.column(column.name)))
        if change.sign:
            shown.append([change.sign] * read.num_rows)
        else:
            shown.append([SIGNS[mark] for mark in read.column(TYPE).to_pylist()])
        return list(zip(*shown, strict=True))


def _open(folder: Path, version: int, wanted: Sequence[str]) -> _Table | None:
    """Return some columns of a table at a version; None if it asks for more than we know."""
    table = opened(folder, version)
    protocol, metadata = table.protocol(), table.metadata()
    if protocol.min_reader_version > 1 and not (
        protocol.min_reader_version == 3 and set(protocol.reader_features or ()) <= READABLE
    ):
        return None
    if metadata.configuration.get(MAPPING, "none").lower() != "none":
        return None
    fields = {f["name"].lower(): f for f in json.loads(table.schema().to_json())["fields"]}
    columns = []
    for name in wanted:
        field: dict[str, Any] = fields[name.lower()]
        # What else is said of a column may change how it is read: CHAR is padded, for one.
        if kind_of(field_type(field)) is None or set(field.get("metadata") or {}) - {"comment"}:
            return None
        columns.append(Column(field["name"], field_type(field)))
    parts = frozenset(metadata.partition_columns)
    if any(column.name in parts and column.type not in PARTS for column in columns):
        return None
    return _Table(tuple(columns), parts)


def _changes(folder: Path, start: int, end: int) -> Iterator[_Change]:
    """Give the files of the feed; raises ValueError if a commit is not one of rows alone."""
    log = FolderLog(folder)
    for version in range(start + 1, end + 1):
        actions = log.actions(version)
        if any("metaData" in action or "protocol" in action for action in actions):
            raise ValueError(f"commit {version} is about more than rows")
        for what, file in feed_actions(actions):
            if file.get("deletionVector"):
                raise ValueError(f"commit {version} has deletion vectors")
            (path,) = file_paths(folder, file)
            sign = {"cdc": "", "add": "1", "remove": "-1"}[what]
            yield _Change(path, sign, file.get("partitionValues"))


def _kind(column: Column) -> Kind:
    found = kind_of(column.type)
    assert found is not None, "columns of other kinds are not read"
    return found


def _part(column: Column, values: Mapping[str, str | None] | None) -> str | None:
    """Return the value that a partition column has in a file.

    No text is no value. For Spark, an empty one is an empty string, or no value of any other type;
    the protocol says that it is none at all, and delta-rs writes it for empty strings. Texts that
    Spark would not write, it may not read as we do.
    """
    if values is None:
        raise ValueError(f"nobody says what {column.name} is")
    text, kind = values.get(column.name), _kind(column)
    if text is None or (not text and column.type.lower() != "string"):
        return None
    value = kind.parse(text)
    if kind.show(value) != text:
        raise ValueError(f"{column.name} is spelled in a way of its own")
    to_array(kind, [value])  # raises if it does not fit
    return text


def _texts(column: Column, read: pa.ChunkedArray) -> list[str | None]:
    kind = _kind(column)
    oldest = OLDEST.get(column.type)
    if oldest is not None:
        lowest = pc.min(read.cast(kind.raw))
        if lowest.is_valid and lowest.as_py() < oldest.as_py():
            raise ValueError(f"{column.name} has old dates")
    return [None if value is None else kind.show(value) for value in to_values(kind, read)]
