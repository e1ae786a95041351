"""Commits of a Delta log: their class, and what each means for a view. No JVM."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview.deltalog import CommitKind, FolderLog, LogGap, read_commit
from hybridview.strategy.facts import ChangeFacts, change_facts

FEED = {"delta.enableChangeDataFeed": "true"}


def schema(*columns: tuple[str, str, int | None]) -> str:
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number} if number is not None else {},
        }
        for name, kind, number in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


def info(operation: str, **more: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "timestamp": 1, **more}}


def add(path: str = "a.parquet", change: bool = True, rows: int = 5) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path, "dataChange": change, "stats": stats}}


def remove(path: str = "b.parquet", change: bool = True) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": change, "stats": '{"numRecords": 3}'}}


METADATA = {
    "metaData": {"id": "x", "schemaString": schema(("a", "long", None)), "configuration": FEED}
}
PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
CDC = {"cdc": {"path": "_change_data/c.parquet"}}


@pytest.mark.parametrize(
    ("actions", "kind", "rows"),
    [
        ([info("OPTIMIZE"), add(change=False), remove(change=False)], CommitKind.DATA_FREE, 0),
        ([info("VACUUM END")], CommitKind.DATA_FREE, 0),
        ([info("SET TBLPROPERTIES"), METADATA], CommitKind.METADATA, 0),
        ([info("ADD COLUMNS"), METADATA], CommitKind.METADATA, 0),
        ([info("UPGRADE PROTOCOL"), PROTOCOL], CommitKind.PROTOCOL, 0),
        ([info("ADD COLUMNS"), METADATA, PROTOCOL], CommitKind.PROTOCOL, 0),
        ([info("WRITE"), add()], CommitKind.APPEND, 5),
        ([info("WRITE"), METADATA, add()], CommitKind.APPEND, 5),
        ([info("DELETE"), remove()], CommitKind.ROWS, 3),
        ([info("UPDATE"), add(), remove(), CDC], CommitKind.ROWS, 8),
        (
            [info("MERGE", operationMetrics={
                "numTargetRowsInserted": "1",
                "numTargetRowsUpdated": "2",
                "numTargetRowsDeleted": "0",
            }), add(), remove(), CDC],
            CommitKind.ROWS,
            3,
        ),
        ([info("WRITE"), add(), remove()], CommitKind.REWRITE, 8),
        ([info("RESTORE"), add(), remove()], CommitKind.REWRITE, 8),
        ([info("CREATE OR REPLACE TABLE AS SELECT"), METADATA, add(), remove()],
         CommitKind.REWRITE, 8),
        ([info("TRUNCATE"), remove()], CommitKind.ROWS, 3),
    ],
)  # fmt: skip
def test_classes(actions: list[dict[str, Any]], kind: CommitKind, rows: int) -> None:
    commit = read_commit(7, actions)
    assert (commit.kind, commit.rows) == (kind, rows)
    assert commit.changes_rows == (kind in ("append", "rows", "rewrite"))


def test_a_path_in_the_log_is_encoded() -> None:
    commit = read_commit(1, [info("WRITE"), add("p=a%20b/part%2520.parquet")])
    assert commit.files == ("part%2520.parquet",)


@pytest.fixture
def log(tmp_path: Path) -> FolderLog:
    """A table with one file at version 0 and an appended one at version 1; its feed is on."""
    path = tmp_path / "t"
    for x in (1, 2):
        data = pa.table({"a": [x], "b": [x]})
        write_deltalake(str(path), data, mode="append", configuration=FEED)
    return FolderLog(path)


def commit(log: FolderLog, *actions: dict[str, Any]) -> None:
    """Write the next commit by hand."""
    path = log.folder / f"{log.latest() + 1:020d}.json"
    path.write_text("\n".join(json.dumps(action) for action in actions))


def redefine(log: FolderLog, operation: str, text: str, feed: bool = True) -> None:
    meta = json.loads((log.folder / f"{0:020d}.json").read_text().splitlines()[0])
    first = [json.loads(line) for line in (log.folder / f"{0:020d}.json").read_text().splitlines()]
    meta = next(a["metaData"] for a in first if "metaData" in a)
    properties = FEED if feed else {}
    commit(
        log,
        info(operation),
        {"metaData": {**meta, "schemaString": text, "configuration": properties}},
    )


def facts(log: FolderLog, start: int) -> ChangeFacts:
    return change_facts("t", log, start, log.info())


PLAIN = schema(("a", "long", None), ("b", "long", None))


def test_what_an_append_means(log: FolderLog) -> None:
    found = facts(log, 0)
    assert (found.changed, found.appended, found.rows, found.total) == (True, True, 1, 2)
    assert (found.compare, found.unreadable) == ("", "")


def test_what_moves_no_row_costs_nothing(log: FolderLog) -> None:
    DeltaTable(str(log.path)).optimize.compact()
    redefine(log, "SET TBLPROPERTIES", PLAIN)
    redefine(
        log, "ADD COLUMNS", schema(("a", "long", None), ("b", "long", None), ("c", "long", None))
    )
    found = facts(log, 1)
    assert (found.changed, found.compare) == (False, "")


def test_an_added_column_leaves_the_feed_readable(log: FolderLog) -> None:
    redefine(
        log, "ADD COLUMNS", schema(("a", "long", None), ("b", "long", None), ("c", "long", None))
    )
    found = facts(log, 0)
    assert (found.changed, found.compare) == (True, "")


def test_a_dropped_or_retyped_column_ends_the_feed(log: FolderLog) -> None:
    redefine(log, "DROP COLUMNS", schema(("a", "long", None)))
    found = facts(log, 0)
    assert found.compare == '"t" was redefined at version 2 (drop columns)'
    assert found.files is not None and len(found.files) == 1
    redefine(log, "CHANGE COLUMN", schema(("a", "string", None)))
    assert "redefined at version 3 (change column)" in facts(log, 2).compare


def test_a_feed_that_was_off(log: FolderLog) -> None:
    redefine(log, "SET TBLPROPERTIES", PLAIN, feed=False)
    assert not facts(log, 1).changed
    write_deltalake(str(log.path), pa.table({"a": [3], "b": [3]}), mode="append")
    found = facts(log, 1)
    assert found.compare == 'the change feed of "t" was off at version 3'
    assert (found.rows, found.total, found.appended) == (1, 3, False)
    assert facts(log, 2).compare == 'the change feed of "t" is off'


def test_a_log_with_a_gap(log: FolderLog) -> None:
    """The versions may still be there though the commits between them are not."""
    write_deltalake(str(log.path), pa.table({"a": [3], "b": [3]}), mode="append")
    DeltaTable(str(log.path)).create_checkpoint()
    (log.folder / f"{1:020d}.json").unlink()
    found = facts(log, 0)
    assert "no longer has all commits after 0" in found.compare
    assert found.unreadable == "" and found.files is None
    (log.folder / f"{0:020d}.json").unlink()
    found = facts(log, 0)
    assert found.unreadable
    with pytest.raises(LogGap):
        log.info(0)


@pytest.mark.parametrize("contents", [b'{"add": ', b"\xff\xfe"])
def test_a_commit_that_cannot_be_read_is_a_gap(log: FolderLog, contents: bytes) -> None:
    write_deltalake(str(log.path), pa.table({"a": [3], "b": [3]}), mode="append")
    DeltaTable(str(log.path)).create_checkpoint()
    (log.folder / f"{1:020d}.json").write_bytes(contents)
    found = facts(log, 0)
    assert "no longer has all commits after 0" in found.compare
    assert found.unreadable == ""


def test_a_version_whose_files_are_gone(log: FolderLog) -> None:
    redefine(log, "DROP COLUMNS", schema(("a", "long", None)))
    assert log.readable(0)
    for file in log.path.glob("*.parquet"):
        file.unlink()
    assert not log.readable(0)
    assert "version 0 cannot be read any more" in facts(log, 0).unreadable


def stored(path: str, **more: Any) -> dict[str, Any]:
    """An added file as a whole table can be read from it."""
    stats = json.dumps({"numRecords": 100})
    about = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    return {"add": {"path": path, **about, "stats": stats, **more}}


@pytest.mark.parametrize(
    ("path", "spellings"),
    [
        ("plain-0.c000.parquet", {"plain-0.c000.parquet"}),
        ("p=1/my%20data.parquet", {"my%20data.parquet", "my data.parquet"}),
        (
            "caf%C3%A9%20%3D.parquet",
            {"caf%C3%A9%20%3D.parquet", "caf\u00e9 =.parquet", "caf\u00e9%20=.parquet"},
        ),
    ],
)
def test_a_file_is_looked_for_by_every_name_it_may_have(
    log: FolderLog, path: str, spellings: set[str]
) -> None:
    """Spark's name of a file is encoded; rows of one that is not listed would be left out."""
    redefine(log, "SET TBLPROPERTIES", PLAIN, feed=False)
    commit(log, info("CONVERT"), stored(path))
    found = facts(log, 2)
    assert found.compare == 'the change feed of "t" is off'
    assert found.files is not None and set(found.files) == spellings
    assert (len(found.files), found.rows) == (len(spellings), 100)


def mapped(name: str, kind: Any, number: int) -> dict[str, Any]:
    about = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": about}


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_to(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


@pytest.mark.parametrize("around", [lambda kind: kind, array_of, map_to])
def test_a_field_dropped_and_added_again_is_another_one(log: FolderLog, around: Any) -> None:
    """As a column is: every file reads differently now, and nothing was written."""

    def columns(*fields: dict[str, Any]) -> str:
        return json.dumps(struct_of(mapped("a", "long", 1), mapped("s", around(inside(fields)), 2)))

    def inside(fields: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        return struct_of(mapped("K", "integer", 3), *fields)

    redefine(log, "ADD COLUMNS", columns(mapped("x", "integer", 4)))
    redefine(log, "DROP COLUMNS", columns())
    redefine(log, "ADD COLUMNS", columns(mapped("x", "integer", 5)))
    found = facts(log, 2)
    assert found.compare == '"t" was redefined at version 3 (drop columns)'
    assert found.files is None
    redefine(log, "RESTORE", columns(mapped("x", "integer", 4)))
    found = facts(log, 4)
    assert (found.changed, found.files) == (True, None)
    assert found.compare == '"t" was redefined at version 5 (restore)'
    assert facts(log, 2).files is not None


def test_fields_that_swap_their_names_are_others(log: FolderLog) -> None:
    def columns(first: str, second: str) -> str:
        inside = struct_of(mapped(first, "integer", 2), mapped(second, "integer", 3))
        return json.dumps(struct_of(mapped("s", inside, 1)))

    redefine(log, "ADD COLUMNS", columns("x", "y"))
    redefine(log, "RENAME COLUMN", columns("y", "x"))
    assert facts(log, 2).files is None


def test_ids_that_columns_are_given_leave_the_feed_readable(log: FolderLog) -> None:
    text = json.dumps(struct_of(mapped("a", "long", 1), mapped("b", "long", 2)))
    redefine(log, "SET TBLPROPERTIES", text)
    assert not facts(log, 1).changed


Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
"""The deletion vector of the rows 3, 4, 7, 11, 18 and 29."""


def vector_file() -> bytes:
    """A file of this deletion vector: a version, its size, itself and a checksum."""
    rows = base64.b85decode(INLINE.translate(str.maketrans(Z85, B85)))
    return b"\x01" + struct.pack(">i", len(rows)) + rows + struct.pack(">I", zlib.crc32(rows))


def with_vector(log: FolderLog, kind: str, text: str) -> dict[str, Any]:
    """Commit a file with a deletion vector; return what the log says of that."""
    (log.path / "f.parquet").touch()
    features = ["deletionVectors"]
    numbers = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol = {**numbers, "readerFeatures": features, "writerFeatures": features}
    about = {"storageType": kind, "pathOrInlineDv": text, "sizeInBytes": 44, "cardinality": 6}
    vector = about if kind == "i" else {**about, "offset": 1}
    added = stored("f.parquet", deletionVector=vector)
    commit(log, info("DELETE"), {"protocol": protocol}, added)
    return vector


@pytest.mark.parametrize("kind", ["u", "p"])
def test_a_version_whose_deletion_vectors_are_gone(
    log: FolderLog, tmp_path: Path, kind: str
) -> None:
    """VACUUM takes them as it takes other files; the example of a name is the protocol's."""
    inside = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    file = log.path / inside if kind == "u" else tmp_path / "else where" / "v.bin"
    file.parent.mkdir()
    file.write_bytes(vector_file())
    name = "ab^-aqEH.-t@S}K{vb[*k^" if kind == "u" else file.as_uri()
    removed = {**remove("f.parquet")["remove"], "deletionVector": with_vector(log, kind, name)}
    commit(log, info("DELETE"), {"remove": removed})
    assert log.readable(2)
    file.unlink()
    assert not log.readable(2) and log.readable(1) and log.readable(3)


def test_a_deletion_vector_in_the_log_needs_no_file(log: FolderLog) -> None:
    with_vector(log, "i", INLINE)
    assert log.readable(2)


def test_a_version_is_readable_whatever_its_files_are_called(
    log: FolderLog, tmp_path: Path
) -> None:
    """A partition's folder may have a `%` in its own name; a clone's files lie elsewhere."""
    files = [log.path / "p=a%20b" / "x y.parquet", tmp_path / "else where" / "z.parquet"]
    for file in files:
        file.parent.mkdir()
        file.touch()
    commit(log, info("WRITE"), stored("p=a%2520b/x%20y.parquet"), stored(files[1].as_uri()))
    for file in files:
        assert log.readable(2)
        file.rename(file.with_suffix(".gone"))
        assert not log.readable(2)
        file.with_suffix(".gone").rename(file)
