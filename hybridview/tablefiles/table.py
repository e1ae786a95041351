"""A stored table at a version -> its files and their rows; None if it asks for more than we know.

Delta Lake's protocol lists what a writer must respect. A table is only changed here if each of
these is known to be respected; all others are Spark's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from hybridview.deltalog import FEED_PROPERTY, field_type
from hybridview.filestats import column_values
from hybridview.opened import opened
from hybridview.schema import Column
from hybridview.tablefiles.parquet import read_columns
from hybridview.tablefiles.values import Kind, kind_of

READABLE = {"timestampNtz"}
"""Features of a table for readers."""
RESPECTED = READABLE | {
    "appendOnly",
    "invariants",
    "changeDataFeed",
    "clustering",
    "domainMetadata",
}
"""Those for writers: rows are clustered later, by OPTIMIZE; domains stay as they are; and there are
no invariants (see `_plain_fields`)."""
OLD_PROTOCOLS = (2, 4)
"""Before features had names: appendOnly and invariants; with checks and the change feed."""
CHECKPOINTS = "delta.checkpointInterval"
CHECKPOINTED = {"appendOnly", "invariants", "changeDataFeed", "timestampNtz"}
"""Features of a table whose checkpoints are written here; all but a few, see `SPARKS`."""
KEPT = "delta.deletedFileRetentionDuration"
DURATION = re.compile(r"interval \d+ (second|minute|hour|day|week)s?")
SPARKS = 10
"""Of so many checkpoints one is Spark's, with its commit: it clears the log of old entries, too."""
PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+\.parquet")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table, by its path in the log."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table that can be changed without Spark."""

    folder: Path
    version: int
    columns: tuple[Column, ...]
    files: tuple[DataFile, ...]
    has_feed: bool
    checkpoints: bool = False
    """Whether the next version gets a checkpoint."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def types(self) -> dict[str, str]:
        return {column.name: column.type for column in self.columns}

    def kind(self, name: str) -> Kind:
        found = kind_of(self.types[name])
        assert found is not None, "a table has columns of known kinds only"
        return found

    def schema(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([pa.field(name, self.kind(name).arrow) for name in names])

    def read(self, file: DataFile, names: Sequence[str]) -> pa.Table:
        """Return some columns of a file; raises ValueError if it is not as others are."""
        return read_columns(self.folder / file.path, {name: self.kind(name) for name in names})


def open_table(folder: Path, version: int) -> FileTable | None:
    """Return a table at a version; None if it is not one that is changed here."""
    try:
        table = opened(folder, version)
        properties = dict(table.metadata().configuration)
        fields = json.loads(table.schema().to_json())["fields"]
        known = (
            _respected(table.protocol())
            and not table.metadata().partition_columns
            and _plain_fields(fields)
            and not any(name.lower().startswith("delta.constraints.") for name in properties)
            and properties.get("delta.appendOnly", "false").lower() != "true"
        )
        due = (version + 1) % (interval := int(properties.get(CHECKPOINTS, "10"))) == 0
        theirs = not _checkpointed(table.protocol(), properties, version + 1, interval)
        if not known or (due and theirs):
            return None
        actions = table.get_add_actions(flatten=True)
    except (DeltaError, ValueError, KeyError):
        return None
    paths = [str(value) for value in column_values(actions, "path")]
    sizes = [int(value) for value in column_values(actions, "size_bytes")]
    if not all(PLAIN_PATH.fullmatch(path) for path in paths):
        return None
    return FileTable(
        folder,
        version,
        tuple(Column(f["name"], field_type(f)) for f in fields),
        tuple(DataFile(path, size) for path, size in zip(paths, sizes, strict=True)),
        properties.get(FEED_PROPERTY, "false").lower() == "true",
        due,
    )


def _checkpointed(
    protocol: Any, properties: Mapping[str, str], version: int, interval: int
) -> bool:
    """Say whether the checkpoint of a version is written here, not by Spark.

    Files that are gone stay listed in it as long as the table says; delta-rs does not know all ways
    to say so, and would take a week for it.
    """
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    kept = properties.get(KEPT)
    return (
        features <= CHECKPOINTED
        and version % (SPARKS * interval) != 0
        and (kept is None or DURATION.fullmatch(kept) is not None)
    )


def _respected(protocol: Any) -> bool:
    reader = protocol.min_reader_version
    if reader != 1 and (reader != 3 or not set(protocol.reader_features or ()) <= READABLE):
        return False  # deletion vectors, mapped columns, ...
    if protocol.min_writer_version == 7:
        return set(protocol.writer_features or ()) <= RESPECTED
    return protocol.min_writer_version in OLD_PROTOCOLS


def _plain_fields(fields: list[dict[str, Any]]) -> bool:
    """Say whether columns have types known here, and nothing to be checked or generated."""
    return all(
        kind_of(field_type(field)) is not None
        and field.get("nullable", True)
        and set(field.get("metadata") or {}) <= {"comment"}
        for field in fields
    )
