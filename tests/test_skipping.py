"""Conditions by which files are skipped: every row that matters is left, and files do go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridview.compiler import statements
from hybridview.compiler.layout import Layout, LayoutKind
from hybridview.deltalog import FolderLog
from hybridview.engine.session import OWN_SETTINGS
from hybridview.engine.touched import touched
from hybridview.engine.values import (
    LISTED_TOGETHER,
    MOST_SPANS,
    MOST_VALUES,
    NEXT_TO,
    PAGE_ROWS,
    Values,
    condition,
    of_runs,
    of_texts,
    share,
    together,
)
from hybridview.filestats import FileBounds
from hybridview.sql.lexer import pieces

NUMBERS = st.integers(-(2**63), 2**63 - 1)
DATES = st.dates()
DECIMALS = st.decimals(-(10**10), 10**10, places=2)
TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\\'"), max_size=5
)
KINDS: dict[str, Any] = {
    "bigint": NUMBERS,
    "smallint": st.integers(-60, 60),
    "date": DATES,
    "decimal(18,2)": DECIMALS,
    "string": TEXTS,
}
SQL = duckdb.connect()


def holds(where: str, kind: str, value: Any) -> bool:
    """Evaluate a condition on one row, in DuckDB."""
    text = where.replace("`k`", "k").replace("AS string)", "AS varchar)")
    duck_kind = "varchar" if kind == "string" else kind
    query = f"SELECT {text} FROM (SELECT CAST(? AS {duck_kind}) AS k)"
    found = SQL.execute(query, [value]).fetchone()
    assert found is not None
    return found[0] is True


def all_hold(where: str, kind: str, values: Sequence[Any]) -> bool:
    """Evaluate a condition on many rows at once."""
    text = where.replace("`k`", "k").replace("AS string)", "AS varchar)")
    duck_kind = "varchar" if kind == "string" else kind
    rows = f"SELECT CAST(unnest(?) AS {duck_kind}) AS k"
    found = SQL.execute(f"SELECT count(*) FROM ({rows}) WHERE {text}", [[*map(str, values)]])
    return found.fetchone() == (len(values),)


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_let_through(kind: str) -> None:
    @given(st.lists(st.none() | KINDS[kind], max_size=80), st.booleans())
    @settings(max_examples=60, deadline=None)
    def check(values: list[Any], as_runs: bool) -> None:
        texts = [None if v is None else str(v) for v in values]
        found = of_texts(kind, texts)
        assert found is not None
        if as_runs:
            runs = [(t, t) for t in texts if t is not None]
            found = of_runs(kind, runs, None in texts)
            assert found is not None
        assert len(found.spans) <= MOST_SPANS
        where = condition("k", found)
        for value in values:
            assert holds(where, kind, value)
        if None not in values:
            assert not holds(where, kind, None)

    check()


def test_the_widest_gaps_stay_gaps() -> None:
    far = [str(n) for n in (*range(100), *range(1_000_000, 1_000_100))]
    found = of_texts("bigint", far * 2)
    assert found is not None and found.listed is not None
    assert any(low == "1000000" for low, _ in found.spans)
    assert not any(int(low) <= 5_000 <= int(high) for low, high in found.spans)


def test_a_long_list_becomes_spans() -> None:
    found = of_texts("int", [str(7 * n) for n in range(MOST_VALUES + 1)])
    assert found is not None and found.listed is None
    assert " IN " not in condition("k", found)


def test_new_numbers_in_a_row_are_not_listed() -> None:
    """A few hundred scattered rows and many new ones at the end: the scattered ones are listed."""
    scattered, new = range(0, 3000, 10), range(1_000_000, 1_002_000, NEXT_TO)
    found = of_texts("bigint", [str(n) for n in (*scattered, *new)])
    assert found is not None
    assert found.listed == tuple(str(n) for n in scattered)
    assert found.runs == (("1000000", str(new[-1])),)
    where = condition("k", found)
    assert all_hold(where, "bigint", (*scattered, *new))
    assert not holds(where, "bigint", 5) and not holds(where, "bigint", 999_999)


def test_runs_are_kept_when_values_are_put_together() -> None:
    one = of_texts("int", [str(n) for n in range(100, 200)])
    two = of_texts("int", ["7", None, *(str(n) for n in range(150, 170))])
    assert one is not None and two is not None
    found = together([one, two])
    assert found is not None and found.listed == ("7",) and found.null
    where = condition("k", found)
    assert all(holds(where, "int", n) for n in (7, None, *range(100, 200)))
    assert not holds(where, "int", 99)


def ends(kind: str, values: list[Any]) -> list[tuple[str, str]]:
    """Return runs between the values, each from one to the next but one: they overlap."""
    ordered = sorted(values, key=lambda v: v.encode() if kind == "string" else v)
    return [(str(a), str(b)) for a, b in zip(ordered[::2], ordered[1::2], strict=False)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_of_several_changes_is_let_through(kind: str) -> None:
    """Runs and spans of one change may lie inside those of another one, or overlap them."""
    near_each_other = st.integers(0, 3000) if kind == "bigint" else KINDS[kind]
    listed = st.lists(near_each_other, min_size=30, max_size=80)

    @given(st.lists(st.tuples(listed, st.booleans()), min_size=2, max_size=3))
    @settings(max_examples=40, deadline=None)
    def check(changes: list[tuple[list[Any], bool]]) -> None:
        found = [
            of_runs(kind, ends(kind, values), False)
            if as_runs
            else of_texts(kind, [str(v) for v in values])
            for values, as_runs in changes
        ]
        every = together([one for one in found if one is not None])
        assert every is not None and len(every.spans) <= MOST_SPANS
        where = condition("k", every)
        for values, as_runs in changes:
            covered = [e for run in ends(kind, values) for e in run] if as_runs else values
            assert all_hold(where, kind, covered)

    check()


def test_a_short_run_inside_a_long_one_does_not_end_it() -> None:
    long = [(str(n * 10_000), str(n * 10_000 + 9_000)) for n in range(MOST_SPANS)]
    short = [(str(n * 10_000 + 5), str(n * 10_000 + 6)) for n in range(MOST_SPANS)]
    found = of_runs("bigint", [*long, *short], False)
    assert found is not None and found.spans == tuple(long)
    one = of_texts("bigint", [str(n) for n in range(1000, 1100)])
    steps = (*range(1050, 1150, 6), *range(5000, 9000, 300))
    two = of_texts("bigint", [str(n) for n in steps])
    assert one is not None and two is not None
    both = together([one, two])
    assert both is not None and both.listed is not None
    assert all_hold(condition("k", both), "bigint", (*range(1000, 1100), *steps))


def test_a_run_is_in_neighbouring_pages() -> None:
    files = [FileBounds(50 * PAGE_ROWS, n * 1000, n * 1000 + 999, 0) for n in range(4)]
    found = of_texts("bigint", ["500", *(str(n) for n in range(3800, 4000))])
    assert found is not None and found.runs
    assert share(found, files) == (1 + (1 + 10)) / 200


def test_lists_are_short_enough_for_parquet() -> None:
    found = of_texts("int", [str(n) for n in range(0, 7 * MOST_VALUES, 7)])
    assert found is not None and found.listed is not None
    where = condition("k", found)
    lists = re.findall(r" IN \(([^()]*)\)", where)
    lengths = [text.count(",") + 1 for text in lists]
    assert sum(lengths) == MOST_VALUES and max(lengths) <= LISTED_TOGETHER < MOST_VALUES
    assert OWN_SETTINGS["spark.sql.parquet.pushdown.inFilterThreshold"] == str(LISTED_TOGETHER)
    assert holds(where, "int", 7 * MOST_VALUES - 7) and not holds(where, "int", 8)


def test_listed_values_are_in_few_pages_of_a_file() -> None:
    """A large file of which every part has a value is read in part."""
    files = [FileBounds(50 * PAGE_ROWS, n * 1000, n * 1000 + 999, 0) for n in range(4)]
    few = of_texts("bigint", [str(n) for n in range(50, 4000, 100)])
    runs = of_runs("bigint", [("50", "3950")], False)
    with_null = of_texts("bigint", [None, *(str(n) for n in range(50, 4000, 100))])
    assert few is not None and runs is not None and with_null is not None
    assert share(few, files) == 10 / 50
    assert share(runs, files) == 1.0
    assert share(with_null, files) == 1.0, "NULLs may lie in any page"


class Bounds:
    """A log that knows the bounds of some columns, and nothing else."""

    def __init__(self, columns: dict[str, list[FileBounds]]) -> None:
        self.columns = columns

    def bounds(self, version: int, column: str) -> list[FileBounds]:
        return self.columns[column]


def test_a_column_that_skips_files_comes_before_one_that_may_skip_pages() -> None:
    """Nobody knows whether a file's rows are sorted by a column; its bounds are certain."""
    size = 5 * PAGE_ROWS
    log: Any = Bounds(
        {
            "amount": [FileBounds(size, 0, 10**6, 0)] * 10,
            "id": [FileBounds(size, n * 1000, n * 1000 + 999, 0) for n in range(10)],
        }
    )
    rows = [("77", str(n)) for n in range(0, 3000, 100)]  # in three of ten files, all pages
    layout = Layout(LayoutKind.BAG, ("amount", "id"))
    found = touched(layout, (("amount", "int"), ("id", "int")), rows, log, 1)
    assert found is not None and found.column == "id"
    assert found.size.files == 3


def test_no_value_lets_nothing_through() -> None:
    found = of_texts("int", [])
    assert found is not None
    assert condition("k", found) == "FALSE"
    assert condition("k", Values("int", True, (), ())) == "`k` IS NULL"


def test_types_without_a_known_order() -> None:
    assert of_texts("double", ["1.0"]) is None
    assert of_texts("date", ["+12000-01-01"]) is None
    assert of_runs("timestamp", [], False) is None
    assert of_runs("date", [("2020-01-01", "+12000-01-01")], False) is None


def test_several_changes_give_the_values_of_all() -> None:
    small, null = of_texts("int", ["1", "2"]), of_texts("int", [None])
    runs = of_runs("int", [("10", "20")], False)
    assert small and null and runs
    both = together([small, null])
    assert both is not None and both.null and both.listed == ("1", "2")
    mixed = together([small, runs])
    assert mixed is not None and mixed.listed is None
    assert all(holds(condition("k", mixed), "int", n) for n in (1, 2, 10, 15, 20))
    text = of_texts("string", ["1"])
    assert text is not None and together([small, text]) is None


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5), st.lists(NUMBERS, max_size=20))
def test_a_file_with_a_value_is_counted(files: list[tuple[int, int]], values: list[int]) -> None:
    bounds = [FileBounds(1, min(f), max(f), 0) for f in files]
    found = of_texts("bigint", map(str, values))
    assert found is not None
    hit = sum(any(b.low <= v <= b.high for v in values) for b in bounds)
    assert share(found, bounds) * len(bounds) >= hit - 1e-9


def test_bounds_come_from_the_log(tmp_path: Path) -> None:
    first = date(2020, 1, 1)
    for start in (0, 100):
        rows = range(start, start + 100)
        table = pa.table(
            {
                "K": pa.array([n if n else None for n in rows], pa.int64()),
                "d": [first + timedelta(days=n) for n in rows],
                "m": pa.array([Decimal(n) for n in rows], pa.decimal128(10, 2)),
                "s": [f"{n:03}" for n in rows],
                "l": [[n] for n in rows],
            }
        )
        write_deltalake(str(tmp_path), table, mode="append")
    log = FolderLog(tmp_path)
    found = log.bounds(1, "k")
    assert found is not None
    assert sorted((f.rows, f.low, f.high, f.nulls) for f in found) == [
        (100, 1, 99, 1),
        (100, 100, 199, 0),
    ]
    for column, kind, text in (
        ("k", "bigint", "150"),
        ("d", "date", str(first + timedelta(days=150))),
        ("m", "decimal(10,2)", "150.00"),
        ("s", "string", "150"),
    ):
        files, values = log.bounds(1, column), of_texts(kind, [text])
        assert files is not None and values is not None
        assert share(values, files) == 0.5, column
    nulls = of_texts("bigint", [None])
    assert nulls is not None and share(nulls, found) == 0.5
    assert log.bounds(1, "l") is None
    assert log.bounds(1, "none") is None


@pytest.mark.parametrize("bound", ["+12000-01-01", "-0044-03-15"])
def test_a_date_that_python_has_not_is_no_bound(tmp_path: Path, bound: str) -> None:
    """Such a file is not skipped; the other one still is."""
    days = pa.table({"d": [date(2020, 1, 1)]})
    for _ in range(2):
        write_deltalake(str(tmp_path), days, mode="append")
    log = FolderLog(tmp_path)
    commit = log.folder / f"{1:020d}.json"
    ends = ("min", "max")
    plain, odd = (
        ",".join(f'\\"{end}Values\\":{{\\"d\\":\\"{day}\\"}}' for end in ends)
        for day in ("2020-01-01", bound)
    )
    text = commit.read_text(encoding="utf-8")
    assert plain in text
    commit.write_text(text.replace(plain, odd), encoding="utf-8")
    files, values = log.bounds(1, "d"), of_texts("date", ["2021-01-01"])
    assert files is not None and values is not None
    assert {file.low for file in files} == {date(2020, 1, 1), None}
    assert share(values, files) == 0.5


@pytest.mark.parametrize("key", ["k", "a\nWHEN b", "it`s WHEN", "(", "'"])
def test_a_bounded_merge_differs_by_its_condition_alone(key: str) -> None:
    """Whatever the columns are called, and whatever stands inside parentheses."""
    change = Layout(LayoutKind.KEYED, (key,), (key,))
    bag = Layout(LayoutKind.BAG, (key,))
    for merge in (statements.replace("v", change).statement(), statements.patch("v", bag, "1")):
        found = statements.bounded(merge, "t.x = 1")
        words = [piece.text for piece in pieces(found)]
        added = ["AND", "(", "t", ".", "x", "=", "1", ")", "WHEN", "MATCHED"]
        at = next(i for i in range(len(words)) if words[i : i + len(added)] == added)
        assert words[:at] + words[at + 8 :] == [piece.text for piece in pieces(merge)]
