"""The sample data: equal to what its generator makes, consistent day by day, fit for its views.

Needs neither Spark nor a JVM. The changes are applied here by a few lines of plain Python that
share nothing with the generator, and the views run on the result in DuckDB.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import duckdb
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

SAMPLE_DATA = Path(__file__).resolve().parent.parent / "sample_data"

Row = tuple[object, ...]
Key = tuple[object, ...]
Bag = Counter[Row]

KEYS = {
    "shop/customers": ("id",),
    "shop/products": ("id",),
    "shop/orders": ("id",),
    "shop/order_items": ("order_id", "product_id"),
    "book/bids": ("id",),
    "book/asks": ("id",),
}
NULLABLE = {
    "shop/customers": {"region"},
    "shop/products": {"category"},
    "shop/orders": {"customer_id", "discount"},
    "shop/order_items": {"amount"},
    "book/bids": set[str](),
    "book/asks": set[str](),
}
# big_regions reads revenue_by_region, so that one is created first.
VIEWS = (
    "revenue_by_region",
    "big_regions",
    "open_orders",
    "customer_segments",
    "price_range",
    "book_depth",
    "top_customers",
)


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "sample_data_generate", SAMPLE_DATA / "generate.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = load_generator()


def stored(table: str, day: int) -> pa.Table | None:
    """A file's content, or None if the table did not change on that day."""
    data_set, name = table.split("/")
    path = SAMPLE_DATA / data_set / f"day{day}" / f"{name}.parquet"
    return pq.read_table(path) if path.exists() else None


def rows_of(content: pa.Table | None) -> list[Row]:
    return list(zip(*content.to_pydict().values(), strict=True)) if content is not None else []


def columns_of(table: str) -> list[str]:
    initial = stored(table, 0)
    assert initial is not None
    return list(initial.column_names)


def key_of(table: str, row: Row) -> Key:
    columns = columns_by_table()[table]
    return tuple(row[columns.index(column)] for column in KEYS[table])


@cache
def columns_by_table() -> dict[str, list[str]]:
    return {table: columns_of(table) for table in KEYS}


def changes(table: str, day: int) -> list[tuple[str, Row]]:
    return [(str(op), tuple(row)) for op, *row in rows_of(stored(table, day))]


@cache
def state(table: str, day: int) -> Bag:
    """The rows of a table after a day's changes."""
    if day == 0:
        return Counter(rows_of(stored(table, 0)))
    today = changes(table, day)
    replaced = {key_of(table, row) for op, row in today if op != "insert"}
    kept = {
        row: copies
        for row, copies in state(table, day - 1).items()
        if key_of(table, row) not in replaced
    }
    return Counter(kept) + Counter(row for op, row in today if op != "delete")


def keys(bag: Bag, table: str) -> Counter[Key]:
    counted: Counter[Key] = Counter()
    for row, copies in bag.items():
        counted[key_of(table, row)] += copies
    return counted


def values(table: str, day: int, column: str) -> list[object]:
    position = columns_by_table()[table].index(column)
    return [row[position] for row in state(table, day).elements()]


def no_op_updates(table: str, day: int) -> list[Row]:
    before = state(table, day - 1)
    return [row for op, row in changes(table, day) if op == "update" and row in before]


# --- Files ---------------------------------------------------------------------------------------


def test_files_hold_what_the_generator_makes() -> None:
    assert generator.differences(SAMPLE_DATA) == []


def test_generator_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    generator.write_files(tmp_path / "first")
    generator.write_files(tmp_path / "second")
    paths = generator.existing_paths(tmp_path / "first")
    assert paths == generator.tables().keys()
    for path in paths:
        first, second = (tmp_path / run / path for run in ("first", "second"))
        assert first.read_bytes() == second.read_bytes(), path


def test_check_finds_missing_extra_and_other_content(tmp_path: Path) -> None:
    generator.write_files(tmp_path)
    products = tmp_path / "shop/day0/products.parquet"
    pq.write_table(pq.read_table(products).slice(1), products)
    (tmp_path / "book/day0/asks.parquet").rename(tmp_path / "book/day3/asks.parquet")
    assert sorted(generator.differences(tmp_path)) == [
        "book/day0/asks.parquet: missing",
        "book/day3/asks.parquet: not generated",
        "shop/day0/products.parquet: other content",
    ]
    generator.write_files(tmp_path)
    assert generator.differences(tmp_path) == []


def test_check_exits_with_1_on_differences_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "HERE", tmp_path)
    assert generator.main(["--check"]) == 1
    assert list(tmp_path.iterdir()) == []
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0


def test_files_are_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE_DATA.rglob("*.parquet")) < 3_000_000


# --- Content -------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", KEYS)
def test_change_files_have_op_and_then_the_columns_of_the_table(table: str) -> None:
    initial = stored(table, 0)
    assert initial is not None
    for day in (1, 2, 3):
        changed = stored(table, day)
        if changed is not None:
            assert changed.schema.remove(0) == initial.schema
            assert changed.column_names[0] == "op"
            assert set(changed["op"].to_pylist()) <= {"insert", "delete", "update"}


@pytest.mark.parametrize("table", KEYS)
def test_nulls_are_in_the_nullable_columns_and_only_there(table: str) -> None:
    initial = stored(table, 0)
    assert initial is not None
    assert {name for name in initial.column_names if initial[name].null_count} == NULLABLE[table]
    assert {field.name for field in initial.schema if field.nullable} == NULLABLE[table]


def test_unusual_values_are_present() -> None:
    amounts = [amount for amount in values("shop/order_items", 0, "amount") if amount is not None]
    assert any(amount == 0 for amount in amounts)
    assert any(str(amount).startswith("-") for amount in amounts)
    assert any(not str(amount).endswith(".00") for amount in amounts)
    assert any(not str(name).isascii() for name in values("shop/customers", 0, "name"))
    assert any(copies > 1 for copies in state("shop/order_items", 0).values())
    assert set(values("shop/orders", 0, "status")) == {"open", "paid", "shipped", "returned"}


@pytest.mark.parametrize("table", KEYS)
def test_keys_are_unique_but_for_duplicates_of_whole_order_items(table: str) -> None:
    for day in (0, 1, 2, 3):
        bag = state(table, day)
        assert len({key_of(table, row) for row in bag}) == len(bag)
        if table != "shop/order_items":
            assert set(bag.values()) == {1}


@pytest.mark.parametrize("day", [1, 2, 3])
@pytest.mark.parametrize("table", KEYS)
def test_changes_fit_the_state_they_apply_to(table: str, day: int) -> None:
    before = state(table, day - 1)
    existing = keys(before, table)
    today = changes(table, day)
    for op, row in today:
        if op == "insert":
            assert key_of(table, row) not in existing
        elif op == "update":
            assert existing[key_of(table, row)] == 1  # else it would be open which row it means
        else:
            assert row in before  # the full old row
    touched = Counter(key_of(table, row) for op, row in today if op != "insert")
    assert set(touched.values()) <= {1}
    inserted = Counter(row for op, row in today if op == "insert")
    assert len({key_of(table, row) for row in inserted}) == len(inserted)
    if table != "shop/order_items":
        assert set(inserted.values()) <= {1}


@pytest.mark.parametrize("day", [0, 1, 2, 3])
def test_references_have_their_targets(day: int) -> None:
    customers = set(values("shop/customers", day, "id"))
    orders = set(values("shop/orders", day, "id"))
    products = set(values("shop/products", day, "id"))
    assert set(values("shop/orders", day, "customer_id")) <= customers | {None}
    assert set(values("shop/order_items", day, "order_id")) <= orders
    assert set(values("shop/order_items", day, "product_id")) <= products


# --- Days ----------------------------------------------------------------------------------------


def test_not_every_table_changes_every_day() -> None:
    unchanged = {(table, day) for table in KEYS for day in (1, 2, 3) if not changes(table, day)}
    assert unchanged == {("shop/products", 1), ("book/asks", 3)}


def test_day_1_moves_customers_to_and_from_null() -> None:
    position = columns_by_table()["shop/customers"].index("region")
    before = {key_of("shop/customers", row): row for row in state("shop/customers", 0)}
    moves = [
        (before[key_of("shop/customers", row)][position], row[position])
        for op, row in changes("shop/customers", 1)
        if op == "update"
    ]
    assert any(old is None and new is not None for old, new in moves)
    assert any(old is not None and new is None for old, new in moves)


def test_day_2_has_updates_that_change_nothing() -> None:
    assert no_op_updates("shop/orders", 2)
    assert no_op_updates("book/bids", 2)
    # All that happens to customers on day 2: a new version of the table with the same rows.
    assert len(no_op_updates("shop/customers", 2)) == len(changes("shop/customers", 2)) == 1
    assert state("shop/customers", 2) == state("shop/customers", 1)


def test_day_2_deletes_orders_with_their_items_including_duplicates() -> None:
    deleted = {row[0] for op, row in changes("shop/orders", 2) if op == "delete"}
    assert deleted
    assert not deleted & set(values("shop/order_items", 2, "order_id"))
    before = state("shop/order_items", 1)
    deleted_items = [row for op, row in changes("shop/order_items", 2) if op == "delete"]
    assert any(before[row] > 1 for row in deleted_items)


def test_day_3_updates_at_least_half_of_products() -> None:
    updated = [row for op, row in changes("shop/products", 3) if op == "update"]
    assert len(updated) * 2 >= state("shop/products", 2).total()
    assert not no_op_updates("shop/products", 3)


def test_day_3_is_a_burst_on_bids() -> None:
    assert len(changes("book/bids", 3)) * 2 >= state("book/bids", 2).total()


# --- Views ---------------------------------------------------------------------------------------


def view_query(name: str) -> str:
    text = (SAMPLE_DATA / "views" / f"{name}.sql").read_text(encoding="utf-8")
    shape = re.fullmatch(
        r"(?:-- [^\n]+\n)+"
        rf"CREATE MATERIALIZED VIEW {name}\n"
        r"COMMENT '[^'\n]+'\n"
        r"AS (SELECT.+)\n",
        text,
        re.DOTALL,
    )
    assert shape, f"{name}.sql is not of the usual shape"
    return shape.group(1)


@cache
def view_rows(day: int) -> dict[str, Bag]:
    """The content of every view after a day, computed by DuckDB."""
    with duckdb.connect() as connection:
        for table in KEYS:
            initial = stored(table, 0)
            assert initial is not None
            rows = [
                dict(zip(initial.column_names, row, strict=True))
                for row in state(table, day).elements()
            ]
            connection.register("incoming", pa.Table.from_pylist(rows, schema=initial.schema))
            connection.execute(f"CREATE TABLE {table.split('/')[1]} AS SELECT * FROM incoming")
            connection.unregister("incoming")
        for view in VIEWS:
            connection.execute(f"CREATE TABLE {view} AS {view_query(view)}")
        return {
            view: Counter(connection.execute(f"SELECT * FROM {view}").fetchall()) for view in VIEWS
        }


def test_every_view_file_is_tested() -> None:
    assert {path.stem for path in (SAMPLE_DATA / "views").glob("*.sql")} == set(VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_views_have_rows_on_day_0(view: str) -> None:
    assert view_rows(0)[view]


def test_open_orders_is_a_bag() -> None:
    assert any(copies > 1 for copies in view_rows(0)["open_orders"].values())


def test_top_customers_are_ten() -> None:
    assert view_rows(0)["top_customers"].total() == 10


@pytest.mark.parametrize(
    ("view", "changing_days"),
    [
        ("revenue_by_region", {1, 2, 3}),
        ("big_regions", {1, 2}),
        ("open_orders", {1, 2, 3}),
        ("customer_segments", {1, 3}),
        ("price_range", {2, 3}),
        ("book_depth", {1, 2, 3}),
        ("top_customers", {2}),
    ],
)
def test_views_change_on_the_days_the_readme_says(view: str, changing_days: set[int]) -> None:
    changed = {day for day in (1, 2, 3) if view_rows(day)[view] != view_rows(day - 1)[view]}
    assert changed == changing_days
