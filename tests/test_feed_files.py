"""The change feed of small changes is read without Spark: what it holds, and what is left to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview.schema import Column
from hybridview.tablefiles import feed as reading
from hybridview.tablefiles.feed import FeedRows, read_feed

FEED = {"delta.enableChangeDataFeed": "true"}
MOST = 10_000

MOMENT = datetime(2024, 2, 29, 12, 30, 0, 1500)
EVERY: dict[str, tuple[pa.DataType, Any, str, str]] = {
    "t": (pa.int8(), -7, "tinyint", "-7"),
    "s": (pa.int16(), 300, "smallint", "300"),
    "i": (pa.int32(), 70_000, "int", "70000"),
    "l": (pa.int64(), 2**40, "bigint", str(2**40)),
    "d": (pa.float64(), float("nan"), "double", "NaN"),
    "b": (pa.bool_(), True, "boolean", "true"),
    "x": (pa.string(), 'é "\n', "string", 'é "\n'),
    "y": (pa.binary(), b"\x00\xff", "binary", "00FF"),
    "n": (pa.decimal128(10, 2), Decimal("1.50"), "decimal(10,2)", "1.50"),
    "day": (pa.date32(), date(2024, 2, 29), "date", "2024-02-29"),
    "at": (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC), "timestamp", "1709209800001500"),
    "wall": (pa.timestamp("us"), MOMENT, "timestamp_ntz", "2024-02-29 12:30:00.001500"),
}
"""An Arrow type, a value, the type in SQL, and the value's text, by a column's name."""


def table(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema, **more: Any) -> None:
    data = pa.Table.from_pylist(rows, schema)
    write_deltalake(str(folder), data, **{"configuration": FEED, "mode": "append", **more})


PLAIN = pa.schema([("k", pa.int64()), ("s", pa.string())])


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A table with two rows at version 1; then one comes, one changes, one goes."""
    folder = tmp_path / "t"
    table(folder, [{"k": 1, "s": "a"}], PLAIN)
    table(folder, [{"k": 2, "s": None}], PLAIN)
    table(folder, [{"k": 3, "s": "c"}, {"k": 3, "s": "c"}], PLAIN)
    DeltaTable(str(folder)).update(updates={"s": "'b'"}, predicate="k = 2")
    DeltaTable(str(folder)).delete("k = 1")
    return folder


def rows_of(found: FeedRows | None) -> list[tuple[str | None, ...]]:
    assert found is not None
    return sorted(found.rows, key=repr)


def commit(folder: Path, change: Any) -> None:
    """Let a function change the actions of the newest commit."""
    path = max((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    change(actions)
    path.write_text("\n".join(json.dumps(action) for action in actions))


def test_rows_that_came_changed_and_went(changed: Path) -> None:
    read = read_feed(changed, 1, 4, ["S", "k"], MOST)
    assert read is not None
    assert read.columns == (Column("S", "string"), Column("k", "bigint")), "as it was asked for"
    assert rows_of(read) == [
        ("a", "1", "-1"),
        ("b", "2", "1"),
        ("c", "3", "1"),
        ("c", "3", "1"),
        (None, "2", "-1"),
    ]
    assert rows_of(read_feed(changed, 2, 3, ["k"], MOST)) == [("2", "-1"), ("2", "1")]
    assert rows_of(read_feed(changed, 1, 2, [], MOST)) == [("1",), ("1",)], "rows are counted"
    assert rows_of(read_feed(changed, 4, 4, ["k"], MOST)) == []


@pytest.mark.parametrize("name", EVERY)
def test_values_of_every_type(tmp_path: Path, name: str) -> None:
    kind, value, spelled, text = EVERY[name]
    table(tmp_path, [{name: None}], pa.schema([(name, kind)]))
    table(tmp_path, [{name: value}, {name: None}], pa.schema([(name, kind)]))
    read = read_feed(tmp_path, 0, 1, [name], MOST)
    assert rows_of(read) == sorted([(text, "1"), (None, "1")], key=repr)
    assert read is not None and read.columns == (Column(name, spelled),)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), {"a b/c": "a b/c", "": "", None: None}),
        (pa.int32(), {-5: "-5", None: None}),
        (pa.date32(), {date(2024, 1, 2): "2024-01-02"}),
        (pa.bool_(), {True: "true", False: "false"}),
    ],
    ids=str,
)
def test_partition_columns_are_read_from_the_log(
    tmp_path: Path, kind: pa.DataType, values: dict[Any, str | None]
) -> None:
    schema = pa.schema([("p", kind), ("k", pa.int64())])
    rows = [{"p": value, "k": 1} for value in values]
    table(tmp_path, rows, schema, partition_by=["p"])
    table(tmp_path, rows, schema)
    DeltaTable(str(tmp_path)).update(updates={"k": "k + 1"})
    came = [(text, "1", "1") for text in values.values()]
    assert rows_of(read_feed(tmp_path, 0, 1, ["p", "k"], MOST)) == sorted(came, key=repr)
    both = [(t, k, w) for t in values.values() for k, w in (("1", "-1"), ("2", "1"))]
    updated = rows_of(read_feed(tmp_path, 1, 2, ["p", "k"], MOST))
    assert updated == sorted([*both, *both], key=repr)


def test_a_partition_column_that_the_log_does_not_tell(tmp_path: Path) -> None:
    """A removed file need not say in which partition it was; of a NULL there need be no word."""
    schema = pa.schema([("p", pa.string()), ("k", pa.int64())])
    table(tmp_path, [{"p": "a", "k": 1}], schema, partition_by=["p"])
    table(tmp_path, [{"p": "b", "k": 2}], schema)

    def silent(actions: list[dict[str, Any]]) -> None:
        next(a["add"] for a in actions if "add" in a)["partitionValues"] = {}

    commit(tmp_path, silent)
    assert rows_of(read_feed(tmp_path, 0, 1, ["p"], MOST)) == [(None, "1")]
    table(tmp_path, [], schema, partition_by=["p"], mode="overwrite")

    def unknown(actions: list[dict[str, Any]]) -> None:
        for removed in (a["remove"] for a in actions if "remove" in a):
            removed.pop("partitionValues", None)

    commit(tmp_path, unknown)
    assert read_feed(tmp_path, 1, 2, ["p"], MOST) is None
    assert rows_of(read_feed(tmp_path, 1, 2, ["k"], MOST)) == [("1", "-1"), ("2", "-1")]


def test_a_partition_column_of_many_spellings_is_left_to_spark(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.decimal128(4, 1)), ("k", pa.int64())])
    table(tmp_path, [{"p": Decimal("1.0"), "k": 1}], schema, partition_by=["p"])
    table(tmp_path, [{"p": Decimal("1.0"), "k": 2}], schema)
    assert read_feed(tmp_path, 0, 1, ["p"], MOST) is None
    assert rows_of(read_feed(tmp_path, 0, 1, ["k"], MOST)) == [("2", "1")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.date32(), "20240105"),
        (pa.date32(), "2024-W01-5"),
        (pa.int32(), "1_000"),
        (pa.int32(), "99999999999"),
        (pa.int8(), "300"),
        (pa.bool_(), "TRUE"),
    ],
    ids=str,
)
def test_a_partition_spelled_in_another_way_is_left_to_spark(
    tmp_path: Path, kind: pa.DataType, text: str
) -> None:
    schema = pa.schema([("p", kind), ("k", pa.int64())])
    table(tmp_path, [{"p": None, "k": 1}], schema, partition_by=["p"])
    table(tmp_path, [], schema, partition_by=["p"], mode="overwrite")

    def respell(actions: list[dict[str, Any]]) -> None:
        # Of files that are there delta-rs reads it, too, and refuses.
        next(a["remove"] for a in actions if "remove" in a)["partitionValues"] = {"p": text}

    commit(tmp_path, respell)
    assert read_feed(tmp_path, 0, 1, ["p", "k"], MOST) is None


def test_too_many_rows_or_files_are_left_to_spark(
    changed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_feed(changed, 1, 4, ["k"], 5) is not None
    assert read_feed(changed, 1, 4, ["k"], 4) is None
    assert read_feed(changed, 1, 2, [], 1) is None
    with monkeypatch.context() as patch:
        patch.setattr(reading, "MOST_FILES", 2)
        assert read_feed(changed, 1, 4, ["k"], MOST) is None
        assert read_feed(changed, 1, 3, ["k"], MOST) is not None
    monkeypatch.setattr(reading, "MOST_BYTES", 100)
    assert read_feed(changed, 1, 2, ["k"], MOST) is None, "few rows may be large"


def test_a_commit_about_more_than_rows_is_left_to_spark(changed: Path) -> None:
    DeltaTable(str(changed)).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 9 days"}
    )
    assert read_feed(changed, 1, 5, ["k"], MOST) is None
    assert read_feed(changed, 1, 4, ["k"], MOST) is not None, "what came later does not matter"
    table(changed, [{"k": 9, "s": "z"}], PLAIN)
    assert rows_of(read_feed(changed, 5, 6, ["k"], MOST)) == [("9", "1")]


def test_moved_rows_are_no_change(changed: Path) -> None:
    DeltaTable(str(changed)).optimize.compact()
    newest = DeltaTable(str(changed)).version()
    assert newest > 4
    assert rows_of(read_feed(changed, 4, newest, ["k"], MOST)) == []


def drop_column(folder: Path) -> None:
    (file,) = (a["add"] for a in added(folder))
    pq.write_table(pa.table({"s": pa.array(["c"])}), folder / file["path"])


def other_type(folder: Path) -> None:
    (file,) = (a["add"] for a in added(folder))
    pq.write_table(pa.table({"k": pa.array([3], pa.int32())}), folder / file["path"])


def old_calendar(folder: Path) -> None:
    (file,) = (a["add"] for a in added(folder))
    marked = pa.table({"k": pa.array([3])}).replace_schema_metadata(
        {"org.apache.spark.legacyDateTime": ""}
    )
    pq.write_table(marked, folder / file["path"])


def lost(folder: Path) -> None:
    (file,) = (a["add"] for a in added(folder))
    (folder / file["path"]).unlink()


def no_parquet(folder: Path) -> None:
    (file,) = (a["add"] for a in added(folder))
    (folder / file["path"]).write_bytes(b"nothing")


def elsewhere(folder: Path) -> None:
    def change(actions: list[dict[str, Any]]) -> None:
        next(a["add"] for a in actions if "add" in a)["path"] = "s3://bucket/part.parquet"

    commit(folder, change)


def vector(folder: Path) -> None:
    def change(actions: list[dict[str, Any]]) -> None:
        add = next(a["add"] for a in actions if "add" in a)
        add["deletionVector"] = {
            "storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1
        }  # fmt: skip

    commit(folder, change)


def added(folder: Path) -> list[dict[str, Any]]:
    path = max((folder / "_delta_log").glob("*.json"))
    actions = (json.loads(line) for line in path.read_text().splitlines())
    return [action for action in actions if "add" in action]


@pytest.mark.parametrize(
    "damage",
    [drop_column, other_type, old_calendar, lost, no_parquet, elsewhere, vector],
    ids=lambda f: f.__name__,
)
def test_files_that_are_not_as_others_are_left_to_spark(tmp_path: Path, damage: Any) -> None:
    table(tmp_path, [{"k": 1, "s": "a"}], PLAIN)
    table(tmp_path, [{"k": 3, "s": "c"}], PLAIN)
    assert read_feed(tmp_path, 0, 1, ["k"], MOST) is not None
    damage(tmp_path)
    assert read_feed(tmp_path, 0, 1, ["k"], MOST) is None


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (pa.date32(), date(1582, 10, 14), date(1582, 10, 15)),
        (pa.timestamp("us", "UTC"), datetime(1899, 12, 31, tzinfo=UTC), datetime(1900, 1, 1)),
        (pa.timestamp("us"), datetime(1899, 12, 31), datetime(1900, 1, 1)),
    ],
    ids=str,
)
def test_old_dates_are_left_to_spark(tmp_path: Path, kind: pa.DataType, old: Any, new: Any) -> None:
    schema = pa.schema([("at", kind), ("k", pa.int64())])
    table(tmp_path, [{"at": None, "k": 1}], schema)
    table(
        tmp_path,
        [{"at": new.replace(tzinfo=UTC) if hasattr(kind, "tz") and kind.tz else new, "k": 2}],
        schema,
    )
    table(tmp_path, [{"at": old, "k": 3}], schema)
    assert read_feed(tmp_path, 0, 1, ["at"], MOST) is not None
    assert read_feed(tmp_path, 0, 2, ["at"], MOST) is None
    assert read_feed(tmp_path, 0, 2, ["k"], MOST) is not None, "nobody asks for them"


@pytest.mark.parametrize("kind", [pa.float32(), pa.list_(pa.int64())], ids=str)
def test_types_that_text_does_not_carry_are_left_to_spark(
    tmp_path: Path, kind: pa.DataType
) -> None:
    schema = pa.schema([("f", kind), ("k", pa.int64())])
    table(tmp_path, [{"f": None, "k": 1}], schema)
    table(tmp_path, [{"f": None, "k": 2}], schema)
    assert read_feed(tmp_path, 0, 1, ["f"], MOST) is None
    assert rows_of(read_feed(tmp_path, 0, 1, ["k"], MOST)) == [("2", "1")]


def settings(folder: Path, change: Any) -> None:
    """Change what the first commit says of the table and of its readers."""
    path = min((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        change(action)
    path.write_text("\n".join(json.dumps(action) for action in actions))


def padded(action: dict[str, Any]) -> None:
    if "metaData" in action:
        schema = json.loads(action["metaData"]["schemaString"])
        schema["fields"][1]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
        action["metaData"]["schemaString"] = json.dumps(schema)


def mapped(action: dict[str, Any]) -> None:
    if "metaData" in action:
        action["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"


def unknown(action: dict[str, Any]) -> None:
    if "protocol" in action:
        action["protocol"] = {
            "minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"],
        }  # fmt: skip


@pytest.mark.parametrize("change", [padded, mapped, unknown], ids=lambda f: f.__name__)
def test_tables_that_are_read_otherwise_are_left_to_spark(changed: Path, change: Any) -> None:
    settings(changed, change)
    assert read_feed(changed, 1, 4, ["s"], MOST) is None


@pytest.mark.parametrize("names", [["nothing"], ["k", "nothing"]], ids=str)
def test_an_unknown_column_is_left_to_spark(changed: Path, names: Sequence[str]) -> None:
    assert read_feed(changed, 1, 4, names, MOST) is None


def test_what_is_gone_is_left_to_spark(changed: Path, tmp_path: Path) -> None:
    (changed / "_delta_log" / f"{3:020d}.json").unlink()
    assert read_feed(changed, 1, 4, ["k"], MOST) is None
    assert read_feed(tmp_path / "nowhere", 0, 1, ["k"], MOST) is None
    shutil.rmtree(changed)
    assert read_feed(changed, 1, 4, ["k"], MOST) is None
