"""Names, comments and paths that would break out of SQL text: they work, and do nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.compiler.statements import literal
from hybridview.errors import ReservedNameError
from tests.spark.warehouse import FEED, Warehouse, record
from tests.support.odd_names import quoted

pytestmark = pytest.mark.spark

PATHS = (
    'it\'s `my` "data"',
    "ünï 数 #hash ?query=1&x +plus",
    "{x} [1] * co:lon ~ $d ${user.name}",
    "semi; DROP TABLE odd_canary; -- /* x */, a=b",
)
"""Folders of base tables; a slash makes two of them."""

MIXED = 'it\'s "x" a.b; DROP TABLE odd_canary; -- /* */ ${env:HOME} {x} %s \\1 ../../up ünï'
COLUMNS = (
    'it\'s "x"; DROP TABLE odd_canary; -- /*',
    "a.b",
    "${env:HOME} {x} %s \\1",
    "two\nlines",
    " ünï 数 😀 ",
    "../../up",
)


def append(path: Path, ids: list[int]) -> None:
    """Write rows without Spark; the folder has a plain name meanwhile, for the writer's sake."""
    plain = path.parent / "plain"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(plain)
    rows = pa.table({"id": pa.array(ids, pa.int32())})
    write_deltalake(
        str(plain), rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"}
    )
    plain.rename(path)


def everything(folder: Path) -> set[str]:
    """Return all folders and files, but for what is inside of Delta tables and of the store."""
    found = set()
    for path in folder.iterdir():
        if (path / "_delta_log").is_dir() or (path / "_hybridview").is_dir():
            found.add(path.name)
        elif path.is_dir():
            found |= {f"{path.name}/{name}" for name in everything(path)}
        else:
            found.add(path.name)
    return found


def test_odd_names_everywhere(spark: Any, tmp_path: Path) -> None:
    root = tmp_path / "my `store`'s {folder} ${env:HOME} #1 ?x ünï"
    shop = Warehouse(root, spark)
    spark.sql("CREATE TABLE odd_canary (id INT) USING delta")
    writer = spark.newSession()
    writer.conf.set("spark.sql.variable.substitute", "false")
    for number, name in enumerate(PATHS):
        append(tmp_path / "tables" / name, [number])
        shop.store.add_table(f"{number} of {MIXED}", tmp_path / "tables" / name)
    columns = ", ".join(f"{quoted(c)} INT" for c in COLUMNS)
    base = f"delta.{quoted(str(tmp_path / 'columns'))}"
    mapping = FEED.replace("(", "('delta.columnMapping.mode' = 'name', ")
    writer.sql(f"CREATE TABLE {base} ({columns}) {mapping}")
    row = ", ".join(str(n) for n in range(len(COLUMNS)))
    writer.sql(f"INSERT INTO {base} VALUES ({row})")
    shop.store.add_table(MIXED, tmp_path / "columns", key=COLUMNS[:2])
    before = everything(tmp_path)

    paths = " UNION ALL ".join(
        f"SELECT id FROM {quoted(f'{n} of {MIXED}')}" for n in range(len(PATHS))
    )
    listed = ", ".join(quoted(c) for c in COLUMNS)
    first, second, third = (quoted(c) for c in COLUMNS[-3:])
    fields = ", ".join(f"{literal(f'{n} `{c}`')}, {n}" for n, c in enumerate(COLUMNS * 5))
    table = quoted(MIXED)
    views = {
        "every path": paths,
        f"{MIXED} all": f"SELECT {listed} FROM {table}",
        f"{MIXED} sums": f"CREATE MATERIALIZED VIEW {quoted(f'{MIXED} sums')} "
        f"COMMENT {literal(MIXED)} CLUSTER BY ({first}) "
        f"TBLPROPERTIES ({literal(MIXED)} = {literal(MIXED)}) "
        f"AS SELECT {first}, sum({second}) AS {second}, max({third}) AS {third} "
        f"FROM {table} GROUP BY {first}",
        f"{MIXED} struct": f"SELECT {first}, named_struct({fields}) AS {second} FROM {table}",
        f"{MIXED} child": f"SELECT {first}, {second} FROM {quoted(f'{MIXED} struct')}",
    }
    # The last two are only defined: a child must be able to spell the type of such a struct.
    shop.views(views)
    statements = record(shop.store, spark)
    maintained = list(views)[:3]
    states = shop.store.refresh(maintained).views
    assert [state.executed for state in states] == ["initial"] * 3
    assert any("${env:HOME}" in statement for statement in statements)

    for number, name in enumerate(PATHS):
        append(tmp_path / "tables" / name, [100 + number])
    writer.sql(f"INSERT INTO {base} VALUES ({row.replace('0', '7', 1)}), ({row})")
    writer.sql(f"DELETE FROM {base} WHERE {quoted(COLUMNS[0])} = 0")
    states = shop.store.refresh(maintained, strategy="incremental").views
    assert [(s.executed, s.method, s.error) for s in states] == [
        ("incremental", "patch", ""),
        ("incremental", "patch", ""),
        ("incremental", "replace", ""),
    ]
    shop.assert_verified(*maintained[1:])

    found = shop.store.sql("SELECT count(*), sum(id) FROM `every path`").collect()
    assert [tuple(r) for r in found] == [(2 * len(PATHS), 2 * (0 + 1 + 2 + 3) + 400)]
    found = shop.store.sql(f"SELECT {second} FROM {quoted(f'{MIXED} sums')}", epoch=2).collect()
    assert [tuple(r) for r in found] == [(COLUMNS.index(" ünï 数 😀 "),)]
    found = shop.store.sql(f"SELECT {listed} FROM {table}", epoch=1).collect()
    assert [tuple(r) for r in found] == [tuple(range(len(COLUMNS)))]
    assert shop.store.read(f"{MIXED} all", epoch=1).columns == list(COLUMNS)
    log = shop.log(f"{MIXED} sums")
    detail = writer.sql(f"DESCRIBE DETAIL delta.{quoted(str(log.path.resolve()))}").collect()[0]
    assert (detail["description"], detail["clusteringColumns"]) == (MIXED, [first])
    assert detail["properties"]["hybridview.view"] == f"{MIXED} sums"

    assert spark.sql("SELECT count(*) FROM odd_canary").collect()[0][0] == 0
    assert everything(tmp_path) == before, "nothing appeared beside the store"
    for name in reversed(list(views)):
        shop.store.drop_view(name)
    spark.sql("DROP TABLE odd_canary")
    assert list((root / "views").iterdir()) == []
    assert everything(tmp_path) == before


def test_a_backtick_in_the_name_of_a_column(spark: Any, tmp_path: Path) -> None:
    """Delta Lake cannot merge into such a table, so no view gets one; reading one is fine."""
    shop = Warehouse(tmp_path / "store", spark)
    mapping = FEED.replace("(", "('delta.columnMapping.mode' = 'name', ")
    shop.sql(f"CREATE TABLE {{ticks}} (`a``b` INT, ```` INT) {mapping}")
    for query in ("SELECT `a``b` FROM ticks", "SELECT sum(````) FROM ticks"):
        with pytest.raises(ReservedNameError) as caught:
            shop.store.create_view("v", query)
        assert "backtick" in caught.value.detail
    shop.store.create_view("v", "SELECT `a``b` AS a, sum(````) AS s FROM ticks GROUP BY `a``b`")
    shop.store.refresh()
    shop.sql("INSERT INTO {ticks} VALUES (1, 2), (1, 3)")
    assert shop.executed("incremental") == {"v": "incremental"}
    assert shop.rows("v") == [(1, 5)]


def test_a_catalog_table_in_an_odd_folder(spark: Any, tmp_path: Path) -> None:
    """Its location comes back from Spark as an address."""
    folder = tmp_path / "sp ace ünï #1"
    spark.sql(f"CREATE TABLE located (id INT) {FEED} LOCATION {literal(str(folder))}")
    shop = Warehouse(tmp_path / "store", spark)
    assert Path(shop.store.add_table("named", "default.located").location) == folder
    spark.sql("DROP TABLE located")
