"""A store with the eight empty tables of TPC-H and its 22 queries as views, without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from hybridview import Store
from hybridview.engine.session import Session
from tests.support.recorded_session import RecordedSession, load
from tests.support.tpch import COLUMNS, query

ANSWERS = Path(__file__).parents[1] / "golden" / "explain" / "types.json"
FEED = {"delta.enableChangeDataFeed": "true"}
ARROW = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32()}
NUMBERS = range(1, 23)


def view_of(number: int) -> str:
    return f"q{number:02}"


def open_store(root: Path, spark: Session | None = None) -> tuple[Store, RecordedSession]:
    """Return a store without views; types come from the kept answers, or from Spark if given."""
    for name, columns in COLUMNS.items():
        kinds = {c: ARROW.get(k) or pa.decimal128(15, 2) for c, k in columns.items()}
        empty = pa.schema(list(kinds.items())).empty_table()
        write_deltalake(str(root / "tables" / name), empty, configuration=FEED)
    store = Store.open(root)
    for name in COLUMNS:
        store.add_table(name)
    session = RecordedSession({} if spark is not None else load(ANSWERS), spark)
    store._context._port = session
    return store, session


def define(store: Store, numbers: range = NUMBERS) -> None:
    for number in numbers:
        store.create_view(view_of(number), query(number))
