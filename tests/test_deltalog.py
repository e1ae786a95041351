"""Commits of a Delta log: their class, and what each means for a view. No JVM."""

from __future__ import annotations

import json
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
    assert commit.files == ("part%20.parquet",)


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


def test_a_version_whose_files_are_gone(log: FolderLog) -> None:
    redefine(log, "DROP COLUMNS", schema(("a", "long", None)))
    assert log.readable(0)
    for file in log.path.glob("*.parquet"):
        file.unlink()
    assert not log.readable(0)
    assert "version 0 cannot be read any more" in facts(log, 0).unreadable
