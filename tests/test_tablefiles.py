"""Small tables are changed without Spark: rows, change feed, statistics, and who may not."""

from __future__ import annotations

import json
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview.deltalog import CommitKind, FolderLog
from hybridview.tablefiles import change as changing
from hybridview.tablefiles import meeting
from hybridview.tablefiles.change import Change, Mark, Place, Taken, commit
from hybridview.tablefiles.meeting import meet
from hybridview.tablefiles.table import FileTable, open_table
from hybridview.tablefiles.values import kind_of, to_array, to_values

FEED = {"delta.enableChangeDataFeed": "true"}
MARK = Mark("view", 7, '{"hybridview": 1}', "hybridview")


def stored(folder: Path, rows: list[dict[str, Any]], **more: Any) -> FileTable:
    """Make a table of small columns and open it."""
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    data = pa.Table.from_pylist(rows, schema)
    write_deltalake(str(folder), data, **{"configuration": FEED, "mode": "append", **more})
    return opened(folder)


def opened(folder: Path) -> FileTable:
    table = open_table(folder, DeltaTable(str(folder)).version())
    assert table is not None
    return table


def rows_of(folder: Path) -> list[dict[str, Any]]:
    read = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return sorted(read, key=lambda row: (row["k"] is None, row["k"] or 0, row["s"] or ""))


def feed_of(folder: Path, version: int) -> list[tuple[Any, ...]]:
    feed = DeltaTable(str(folder)).load_cdf(starting_version=version, ending_version=version)
    read = pa.table(feed.read_all())
    columns = [read.column(name).to_pylist() for name in ("_change_type", "k", "s")]
    return sorted(zip(*columns, strict=True), key=repr)


def write(table: FileTable, change: Change) -> int:
    return commit(table, change, MARK, lambda: None)


def test_rows_go_change_and_come(tmp_path: Path) -> None:
    table = stored(tmp_path, [{"k": 1, "s": "a"}, {"k": 2, "s": "b"}, {"k": None, "s": None}])
    met = meet(table, ["k"], [(1,), (None,), (9,)])
    assert met is not None
    assert met.by_key == {(1,): [Place(0, 0)], (None,): [Place(0, 2)]}
    assert met.rows[Place(0, 0)] == (1, "a")
    version = write(table, Change([Place(0, 2)], {Place(0, 0): (1, "A")}, [(9, "new"), (9, "new")]))
    assert version == 1
    assert rows_of(tmp_path) == [
        {"k": 1, "s": "A"},
        {"k": 2, "s": "b"},
        {"k": 9, "s": "new"},
        {"k": 9, "s": "new"},
    ]
    assert feed_of(tmp_path, 1) == [
        ("delete", None, None),
        ("insert", 9, "new"),
        ("insert", 9, "new"),
        ("update_postimage", 1, "A"),
        ("update_preimage", 1, "a"),
    ]
    made = FolderLog(tmp_path).commit(1)
    assert (made.kind, made.rows, made.user_metadata) == (CommitKind.ROWS, 4, MARK.user_metadata)
    assert dict(made.transactions) == {"view": 7}


def test_rows_that_only_come_are_an_append(tmp_path: Path) -> None:
    table = stored(tmp_path, [{"k": 1, "s": "a"}])
    write(table, Change(arrived=[(2, "b")]))
    made = FolderLog(tmp_path).commit(1)
    assert (made.kind, made.rows, len(made.files)) == (CommitKind.APPEND, 1, 1)
    assert feed_of(tmp_path, 1) == [("insert", 2, "b")]
    assert [row["k"] for row in rows_of(tmp_path)] == [1, 2]


def test_a_table_may_become_empty_and_fill_again(tmp_path: Path) -> None:
    table = stored(tmp_path, [{"k": 1, "s": "a"}])
    write(table, Change(gone=[Place(0, 0)]))
    assert rows_of(tmp_path) == []
    again = opened(tmp_path)
    assert again.files == ()
    write(again, Change(arrived=[(5, "e")]))
    assert rows_of(tmp_path) == [{"k": 5, "s": "e"}]


def test_small_files_become_one(tmp_path: Path) -> None:
    for number in range(3):
        table = stored(tmp_path, [{"k": number, "s": "x"}])
    assert len(table.files) == 3
    met = meet(table, ["k"], [(1,)])
    assert met is not None
    ((place,),) = met.by_key.values()
    write(table, Change(updated={place: (1, "y")}))
    assert len(opened(tmp_path).files) == 1
    assert [row["s"] for row in rows_of(tmp_path)] == ["x", "y", "x"]
    assert len(feed_of(tmp_path, 3)) == 2


def test_of_a_larger_table_only_touched_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "ONE_FILE", 0)
    for number in range(3):
        table = stored(tmp_path, [{"k": 10 * number + n, "s": "x"} for n in range(5)])
    met = meet(table, ["k"], [(11,), (99,)])
    assert met is not None and met.files == 1
    ((place,),) = met.by_key.values()
    write(table, Change([place], {}, [(99, "z")]))
    made = FolderLog(tmp_path).commit(3)
    assert len(made.files) == 2
    assert [r["k"] for r in rows_of(tmp_path)] == [0, 1, 2, 3, 4, 10, 12, 13, 14, 20, 21, 22, 23,
                                                   24, 99]  # fmt: skip


def test_rows_keep_their_order(tmp_path: Path) -> None:
    table = stored(tmp_path, [{"k": n, "s": "x"} for n in range(100)])
    write(table, Change([Place(0, 3)], {Place(0, 50): (50, "y")}))
    after = opened(tmp_path)
    read = after.read(after.files[0], ["k"]).column("k").to_pylist()
    assert read == [n for n in range(100) if n != 3]


def test_what_is_too_large_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored(tmp_path, [{"k": 1, "s": "a"}])
    monkeypatch.setattr(meeting, "MOST_REWRITTEN", 10)
    assert meet(table, ["k"], [(1,)]) is None
    assert meet(table, ["k"], [(2,)]) is not None  # nothing to write anew
    monkeypatch.setattr(meeting, "MOST_READ", 10)
    assert meet(table, ["k"], [(2,)]) is None


def test_one_of_many_writers_makes_a_version(tmp_path: Path) -> None:
    table = stored(tmp_path, [{"k": 0, "s": ""}])
    lost: list[int] = []
    start = threading.Barrier(8)

    def one(number: int) -> None:
        start.wait()
        try:
            write(table, Change(arrived=[(number, "w")]))
        except Taken:
            lost.append(number)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lost) == 7
    assert len(rows_of(tmp_path)) == 2
    assert DeltaTable(str(tmp_path)).version() == 1
    assert not list((tmp_path / "_delta_log").glob(".*.tmp"))


def test_a_change_that_fails_before_its_commit_leaves_nothing(tmp_path: Path) -> None:
    table = stored(tmp_path, [{"k": 1, "s": "a"}])
    before = sorted(p.name for p in tmp_path.rglob("*.parquet"))

    def fail() -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        commit(table, Change([Place(0, 0)]), MARK, fail)
    assert sorted(p.name for p in tmp_path.rglob("*.parquet")) == before
    assert DeltaTable(str(tmp_path)).version() == 0


@pytest.mark.parametrize(
    "configuration, more",
    [
        ({"delta.appendOnly": "true"}, {}),
        ({}, {"partition_by": ["k"]}),
        ({"delta.enableDeletionVectors": "true"}, {}),
    ],
    ids=["append only", "partitioned", "deletion vectors"],
)
def test_tables_that_ask_for_more_are_left_to_spark(
    tmp_path: Path, configuration: dict[str, str], more: dict[str, Any]
) -> None:
    data = pa.table({"k": [1], "s": ["a"]})
    write_deltalake(str(tmp_path), data, configuration=configuration, **more)
    assert open_table(tmp_path, 0) is None


def test_a_table_with_a_constraint_is_left_to_spark(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"k": [1]}))
    DeltaTable(str(tmp_path)).alter.add_constraint({"positive": "k > 0"})
    assert open_table(tmp_path, 1) is None


def test_a_column_of_an_unknown_type_is_left_to_spark(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"k": pa.array([[1]], pa.list_(pa.int64()))}))
    assert open_table(tmp_path, 0) is None


def test_a_checkpoint_is_written_with_the_commit_that_is_due(tmp_path: Path) -> None:
    for number in range(9):
        stored(tmp_path, [{"k": number, "s": "a"}])
    log = tmp_path / "_delta_log"
    assert write(opened(tmp_path), Change([Place(0, 0)])) == 9
    assert not list(log.glob("*.checkpoint.parquet")) and not (log / "_last_checkpoint").exists()
    # Spark leaves a checksum beside its own; it would not fit what is written here.
    (log / "._last_checkpoint.crc").write_bytes(b"crc of another file")
    assert write(opened(tmp_path), Change(arrived=[(100, "b")])) == 10
    assert [path.name for path in log.glob("*.checkpoint.parquet")] == [
        f"{10:020d}.checkpoint.parquet"
    ]
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 10
    assert not (log / "._last_checkpoint.crc").exists()
    kept = pq.read_table(log / f"{10:020d}.checkpoint.parquet", columns=["remove"])
    assert kept.num_rows - kept.column("remove").null_count == 9, "VACUUM asks how old they are"
    rows = rows_of(tmp_path)
    for version in range(11):
        (log / f"{version:020d}.json").unlink()
    assert rows_of(tmp_path) == rows
    assert len(rows) == 9 and {"k": 100, "s": "b"} in rows
    assert DeltaTable(str(tmp_path)).transaction_version("view") == 7


@pytest.mark.parametrize("error", [OSError, ValueError, KeyError, TypeError])
def test_a_checkpoint_that_fails_is_no_fault_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: Any) -> None:
        raise error("the disk is full")

    stored(tmp_path, [{"k": 1, "s": "a"}], configuration={"delta.checkpointInterval": "1"})
    table = opened(tmp_path)
    assert table.checkpoints
    monkeypatch.setattr(changing, "opened", fail)
    assert write(table, Change(arrived=[(2, "b")])) == 1
    assert len(rows_of(tmp_path)) == 2


def test_one_of_ten_checkpoints_is_left_to_spark(tmp_path: Path) -> None:
    """It clears the log of what is too old, too."""
    stored(tmp_path, [{"k": 0, "s": "a"}], configuration={"delta.checkpointInterval": "2"})
    for number in range(1, 20):
        assert write(opened(tmp_path), Change(arrived=[(number, "a")])) == number
    assert open_table(tmp_path, 19) is None
    stored(tmp_path, [{"k": 20, "s": "a"}])
    assert open_table(tmp_path, 20) is not None
    written = sorted((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert {int(path.name[:20]) for path in written} >= set(range(2, 20, 2))


@pytest.mark.parametrize(
    ("kept", "here"),
    [
        ("interval 30 days", True),
        ("interval 1 week", True),
        ("30 days", False),
        ("INTERVAL 30 DAYS", False),
        ("interval '30' days", False),
    ],
)
def test_how_long_files_that_are_gone_are_listed_is_read_as_spark_reads_it(
    tmp_path: Path, kept: str, here: bool
) -> None:
    """What delta-rs cannot read is a week to it: VACUUM then takes files that are to be kept."""
    properties = {"delta.checkpointInterval": "2", "delta.deletedFileRetentionDuration": kept}
    table = stored(tmp_path, [{"k": 0, "s": "a"}], configuration=properties)
    assert write(table, Change(arrived=[(1, "b")])) == 1
    assert (open_table(tmp_path, 1) is not None) == here


def test_checkpoints_of_tables_with_more_in_their_log_are_left_to_spark(tmp_path: Path) -> None:
    """Of their clustering, for one: it is a domain's record."""
    stored(tmp_path, [{"k": 0, "s": "a"}], configuration={"delta.checkpointInterval": "1"})

    def clustered(action: dict[str, Any]) -> None:
        if "protocol" in action:
            features = ["appendOnly", "invariants", "changeDataFeed"]
            features += ["domainMetadata", "clustering"]
            action["protocol"] = {
                "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features
            }  # fmt: skip

    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        clustered(action)
    first.write_text("\n".join(json.dumps(action) for action in actions))
    assert open_table(tmp_path, 0) is None
    first.write_text(first.read_text().replace('"delta.checkpointInterval": "1"', '"x": "1"'))
    assert open_table(tmp_path, 0) is not None


VALUES: list[tuple[str, str, Any]] = [
    ("tinyint", "-128", -128),
    ("bigint", "-9223372036854775808", -(2**63)),
    ("double", "1.0E-5", 1e-5),
    ("double", "-0.0", -0.0),
    ("boolean", "true", True),
    ("string", "ü\u2028'\\", "ü\u2028'\\"),
    ("binary", "00FF", b"\x00\xff"),
    ("date", "1969-12-31", -1),
    ("timestamp", "-1", -1),
    ("timestamp_ntz", "1970-01-01 00:00:00.000001", 1),
    ("decimal(38,6)", "12345678901234567890123456789012.345678", None),
    ("decimal(10,8)", "1E-8", None),
]


@pytest.mark.parametrize("type_name, text, value", VALUES, ids=[f"{v[0]} {v[1]}" for v in VALUES])
def test_values_survive(type_name: str, text: str, value: Any) -> None:
    kind = kind_of(type_name)
    assert kind is not None
    plain = kind.parse(text)
    assert plain == (Decimal(text) if value is None else value)
    assert to_values(kind, to_array(kind, [plain, None])) == [plain, None]
    assert kind.parse(kind.show(plain)) == plain


@pytest.mark.parametrize(
    "type_name, text",
    [("date", "10000-01-01"), ("bigint", "9223372036854775808"), ("decimal(3,1)", "100.0")],
)
def test_values_that_cannot_be_carried_are_refused(type_name: str, text: str) -> None:
    kind = kind_of(type_name)
    assert kind is not None
    with pytest.raises((ValueError, OverflowError, pa.ArrowException)):
        to_array(kind, [kind.parse(text)])


def test_floats_and_what_has_parts_are_not_carried() -> None:
    names = ("float", "array<int>", "string collate UTF8_LCASE", "interval day")
    assert [kind_of(name) for name in names] == [None] * 4


def test_statistics_bound_what_is_there(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("n", pa.decimal128(10, 2)),
            ("long", pa.string()),
            ("d", pa.date32()),
            ("t", pa.timestamp("us", "UTC")),
            ("f", pa.float64()),
            ("b", pa.bool_()),
            ("none", pa.int32()),
        ]
    )
    empty = pa.Table.from_pylist([], schema)
    write_deltalake(str(tmp_path), empty)
    table = opened(tmp_path)
    rows = [
        (Decimal("1.50"), "a" * 40, 0, 1_000_001, 1.5, True, None),
        (Decimal("-2.25"), "b" * 40, 5, 2_000_001, float("nan"), None, None),
    ]
    write(table, Change(arrived=rows))
    (line,) = [
        json.loads(text)["add"]
        for text in (tmp_path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
        if '"add"' in text
    ]
    assert json.loads(line["stats"], parse_float=Decimal) == {
        "numRecords": 2,
        "minValues": {
            "n": Decimal("-2.25"),
            "long": "a" * 32,
            "d": "1970-01-01",
            "t": "1970-01-01T00:00:01.000Z",
        },
        "maxValues": {
            "n": Decimal("1.50"),
            "d": "1970-01-06",
            "t": "1970-01-01T00:00:02.001Z",
        },
        "nullCount": {"n": 0, "long": 0, "d": 0, "t": 0, "f": 0, "b": 1, "none": 2},
    }
    read = DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert read[0]["t"] == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    assert read[1]["d"] == date(1970, 1, 6)


def test_a_reader_finds_nan_where_it_looks_for_large_numbers(tmp_path: Path) -> None:
    """It is larger than all numbers; a file whose bounds leave it out would not be looked at."""
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
    write_deltalake(str(tmp_path), schema.empty_table(), configuration=FEED)
    write(opened(tmp_path), Change(arrived=[(1, 3.0, 3.0)]))
    met = meet(opened(tmp_path), ["k"], [(1,)])
    assert met is not None
    ((place,),) = met.by_key.values()
    write(opened(tmp_path), Change(updated={place: (1, 4.0, 4.0)}, arrived=[(2, float("nan"), 5)]))
    (file,) = (tmp_path / f.path for f in opened(tmp_path).files)
    (feed,) = (tmp_path / "_change_data").glob("*.parquet")
    for path, rows in ((file, [(2,)]), (feed, [(2,)])):
        group = pq.ParquetFile(path).metadata.row_group(0)
        assert [group.column(n).statistics is not None for n in range(3)] == [True, False, True]
        found = duckdb.sql(f"SELECT k FROM read_parquet('{path}') WHERE x > 5").fetchall()
        assert found == rows
