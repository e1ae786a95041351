"""A change of TPC-H's orders and lineitems: how many of which kind, and the SQL that makes it.

As TPC-H's refresh functions do: new orders with their lineitems at the end of the key range (RF1),
and orders that go or change, with their lineitems, scattered over it (RF2). Which orders these are
is decided by a hash of their key, so the same tables give the same change.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from hybridview.bench.links import copy_table
from hybridview.bench.queries import CHANGING
from hybridview.deltalog import FolderLog
from hybridview.engine.session import Session, table_at
from hybridview.engine.tuning import running_with

ALL_SIZES = (0.001, 0.01, 0.1, 1.0, 10.0, 50.0)
QUICK_SIZES = (0.01, 1.0, 10.0)
DONE = "change.json"

# One task per file, and small sources sent to every task: a file that a MERGE writes anew then
# holds the rows of one old file, so tables stay sorted by key.
LAYOUT = {
    "spark.sql.files.maxPartitionBytes": "1g",
    "spark.sql.files.openCostInBytes": "1g",
    "spark.sql.autoBroadcastJoinThreshold": "1g",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "1g",
}


@dataclass(frozen=True, slots=True)
class Change:
    """How many orders come, go and change."""

    percent: float
    inserted: int
    deleted: int
    updated: int

    @property
    def orders(self) -> int:
        return self.inserted + self.deleted + self.updated


def change_of(percent: float, orders: int) -> Change:
    """Return the change of a share of orders: half of them new, a quarter gone, a quarter updated.

    At least one of each kind, so that the smallest change of a small table is one of all kinds.
    """
    wanted = round(orders * percent / 100)
    few = max(1, wanted // 4)
    return Change(percent, max(1, wanted - 2 * few), few, few)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that was made: copies of the tables with it, and where it starts."""

    change: Change
    folder: Path
    before: dict[str, int]
    """The version of each table before the change."""

    def table(self, name: str) -> Path:
        return self.folder / name


def folder_name(percent: float) -> str:
    return f"{percent:g}"


def prepare(session: Session, base: Path, folder: Path, change: Change) -> Prepared:
    """Make a change on copies of the base tables, once; later runs find it there."""
    place = folder / folder_name(change.percent)
    done = place / DONE
    if done.exists():
        data = json.loads(done.read_text(encoding="utf-8"))
        if data["change"] == asdict(change):
            return Prepared(change, place, data["before"])
    shutil.rmtree(place, ignore_errors=True)
    before = {name: FolderLog(base / name).latest() for name in CHANGING}
    for name in CHANGING:
        copy_table(base / name, place / name)
    with running_with(session, LAYOUT):
        for statement in statements(place, change):
            session.run(statement)
    shutil.rmtree(place / "picked")
    done.write_text(json.dumps({"change": asdict(change), "before": before}), encoding="utf-8")
    return Prepared(change, place, before)


def statements(place: Path, change: Change) -> tuple[str, ...]:
    """Return the SQL of a change: one INSERT and one MERGE for each table."""
    picked = table_at(str((place / "picked").resolve()))
    orders, lineitem = (table_at(str((place / name).resolve())) for name in CHANGING)
    return (
        _pick(picked, orders, change),
        _insert(orders, "o_orderkey", _columns("o_", ORDERS), picked),
        _insert(lineitem, "l_orderkey", _columns("l_", LINEITEM), picked),
        _merge(orders, "o_orderkey", ORDER_UPDATE, picked),
        _merge(lineitem, "l_orderkey", LINEITEM_UPDATE, picked),
    )


def _pick(picked: str, orders: str, change: Change) -> str:
    """Choose the orders: the first by their hash go, the next change, the next are copied."""
    go, stay = change.deleted, change.deleted + change.updated
    return f"""CREATE TABLE {picked} USING delta AS
        WITH ranked AS (
          SELECT o_orderkey, row_number() OVER (ORDER BY xxhash64(o_orderkey, 7L), o_orderkey) AS n
          FROM {orders})
        SELECT o_orderkey AS old_key,
          CASE WHEN n <= {go} THEN 'delete' WHEN n <= {stay} THEN 'update' ELSE 'copy' END AS kind,
          n - {stay} + (SELECT max(o_orderkey) FROM {orders}) AS new_key
        FROM ranked WHERE n <= {change.orders}"""


def _insert(table: str, key: str, others: str, picked: str) -> str:
    return f"""INSERT INTO {table}
        SELECT new_key, {others} FROM {table} JOIN {picked} ON {key} = old_key
        WHERE kind = 'copy' ORDER BY new_key"""


def _merge(table: str, key: str, update: str, picked: str) -> str:
    return f"""MERGE INTO {table} USING (SELECT * FROM {picked} WHERE kind <> 'copy')
        ON {key} = old_key
        WHEN MATCHED AND kind = 'delete' THEN DELETE
        WHEN MATCHED THEN UPDATE SET {update}"""


def _columns(prefix: str, names: str) -> str:
    return ", ".join(prefix + name for name in names.split())


ORDERS = "custkey orderstatus totalprice orderdate orderpriority clerk shippriority comment"
LINEITEM = (
    "partkey suppkey linenumber quantity extendedprice discount tax returnflag linestatus "
    "shipdate commitdate receiptdate shipinstruct shipmode comment"
)
ORDER_UPDATE = """o_totalprice = o_totalprice + 1,
            o_orderpriority = CASE WHEN o_orderpriority = '1-URGENT' THEN '5-LOW'
              ELSE '1-URGENT' END"""
LINEITEM_UPDATE = """l_quantity = CAST(l_quantity % 50 + 1 AS DECIMAL(15,2)),
            l_discount = CAST((l_discount + 0.01) % 0.11 AS DECIMAL(15,2)),
            l_shipdate = date_add(l_shipdate, 1)"""
