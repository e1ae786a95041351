"""Every case file on Spark and Delta Lake, under every strategy.

Each view of a script is created three times, once per strategy, over the same base tables, so that
one refresh covers all of them. `incremental` views take every step; `snapshot` and `hybrid` ones
are refreshed at the first and the last step only, and so also take a jump over all changes at once.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview import Store
from tests.support.cases import CASES, Expect, Script, SignedRow, read_file

pytestmark = pytest.mark.spark

FILES = sorted(CASES.glob("*.test"))
ALL_SCRIPTS = bool(os.environ.get("HV_ALL_CASES"))
LONG = (
    "by_extreme",
    "collect",
    "cross_join",
    "dependent_subquery",
    "filter_clause",
    "flatten",
    "float_total",
    "global_aggregate",
    "group_subquery",
    "grouping_sets",
    "having",
    "in_case",
    "in_subquery",
    "inner_join",
    "join_condition",
    "lateral_subquery",
    "limit",
    "listagg",
    "mixed_types",
    "nested_aggregate",
    "nested_limit",
    "nested_values",
    "odd_names",
    "ordered_window",
    "outer_join",
    "percentile",
    "pivot",
    "pivot_sets",
    "project",
    "range",
    "scalar_subquery",
    "self_join",
    "semi_join",
    "set_operations",
    "shapes",
    "statistics",
    "three_way_join",
    "time_window",
    "total_subquery",
    "union",
    "union_all",
    "value_window",
    "values",
    "views_over_views",
    "window",
)
"""Files for `make test-all` only, so that `make test` stays short."""

PARAMETERS = [
    pytest.param(p, id=p.stem, marks=[pytest.mark.long] if p.stem in LONG else []) for p in FILES
]
STRATEGIES = ("incremental", "snapshot", "hybrid")

ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_type(name: str) -> pa.DataType:
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name)
    return pa.decimal128(int(found[1]), int(found[2])) if found else ARROW[name]


class Bench:
    """A store for one script: base tables written without a JVM, views in three copies."""

    def __init__(self, script: Script, root: Path, spark: Any) -> None:
        self.script = script
        self.store = Store.open(root, spark=spark)
        self.wanted: dict[str, Counter[tuple[Any, ...]]] = {v.name: Counter() for v in script.views}
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {t.name: Counter() for t in script.tables}
        for table in script.tables:
            self._write(table.name, [], "overwrite")
            self.store.add_table(table.name)
        self._create_views()

    def _create_views(self) -> None:
        for strategy in STRATEGIES:
            for view in self.script.views:
                self.store.create_view(None, self._statement(view.name, view.sql, strategy))

    def _statement(self, name: str, sql: str, strategy: str) -> str:
        for view in self.script.views:
            copy = f"`{self.named(view.name, strategy)}`"
            sql = sql.replace(f"`{view.name}`", copy)
            sql = re.sub(rf"(?<![\w`']){re.escape(view.name)}(?![\w`'])", copy, sql)
        return (
            f"CREATE MATERIALIZED VIEW `{self.named(name, strategy)}` "
            f"TBLPROPERTIES ('hybridview.strategy' = '{strategy}') AS {sql}"
        )

    @staticmethod
    def named(view: str, strategy: str) -> str:
        return f"{view}__{strategy}"

    def _schema(self, table: str) -> pa.Schema:
        columns = next(t.columns for t in self.script.tables if t.name == table)
        return pa.schema([(name, arrow_type(kind)) for name, kind in columns])

    def _write(self, table: str, rows: list[tuple[Any, ...]], mode: Any) -> None:
        schema = self._schema(table)
        columns = [[convert(row[i], f.type) for row in rows] for i, f in enumerate(schema)]
        data = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)
        write_deltalake(
            str(self.store.root / "tables" / table),
            data,
            mode=mode,
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def change(self, table: str, rows: tuple[SignedRow, ...]) -> None:
        """Apply signed rows: an append if all come, else the whole table anew."""
        held = self.rows[table]
        if all(row.weight > 0 for row in rows):
            self._write(table, [r.values for r in rows for _ in range(r.weight)], "append")
        for row in rows:
            held[row.values] += row.weight
            assert held[row.values] >= 0, f"{table} does not hold {row.values}"
        if any(row.weight < 0 for row in rows):
            self._write(table, list(held.elements()), "overwrite")

    def expect(self, expects: tuple[Expect, ...]) -> None:
        """Add up what the script expects of each view."""
        for expected in expects:
            for row in expected.rows:
                self.wanted[expected.view][row.values] += row.weight

    def expected(self, view: str) -> Counter[tuple[Any, ...]]:
        wanted = self.wanted[view.rsplit("__", 1)[0]]
        return Counter({plain(row): count for row, count in wanted.items() if count})

    def stored(self, view: str) -> Counter[tuple[Any, ...]]:
        """Read a view's own columns with another Delta reader than Spark, as any engine may."""
        record = next(v for v in self.store.views() if v.name == view)
        if any(set(" ,;{}()=") & set(c.name) for c in record.columns):
            # delta-rs does not read rows of tables with column mapping; Spark does.
            return Counter(plain(tuple(row)) for row in self.store.read(view).collect())
        table = DeltaTable(str(self.store.root / "views" / record.folder)).to_pyarrow_table()
        columns = [table.column(c.name).to_pylist() for c in record.columns]
        return Counter(plain(row) for row in zip(*columns, strict=True))

    def views(self, *strategies: str) -> list[str]:
        return [self.named(v.name, s) for s in strategies for v in self.script.views]


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values as text that does not depend on scale: 1.50 and 1.5 are one number."""
    return tuple(
        None if v is None else format(Decimal(str(v)).normalize(), "f") if _number(v) else _word(v)
        for v in row
    )


def _word(value: Any) -> str:
    """Return a value as a script writes it."""
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any) -> bool:
    try:
        Decimal(str(value))
    except InvalidOperation:
        return False
    return True


def convert(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_string(kind):
        return str(value)
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_floating(kind):
        return float(value)
    return value


def scripts(path: Path) -> list[Script]:
    found = list(read_file(path))
    return found if ALL_SCRIPTS else found[:1]


@pytest.mark.parametrize("path", PARAMETERS)
def test_case_file(path: Path, tmp_path: Path, spark: Any) -> None:
    for number, script in enumerate(scripts(path)):
        bench = Bench(script, tmp_path / str(number), spark)
        last = len(script.refreshes) - 1
        for step, refresh in enumerate(script.refreshes):
            for change in refresh.changes:
                bench.change(change.table, change.rows)
            strategies = STRATEGIES if step in (0, last) else ("incremental",)
            result = bench.store.refresh(bench.views(*strategies))
            for view in result.views:
                check(view, step)
            bench.expect(refresh.expects)
            for view in result.views:
                assert bench.stored(view.name) == bench.expected(view.name), refresh.line
        for name in bench.views(*STRATEGIES):
            verdict = bench.store.verify(name)
            assert verdict.ok, (path.name, verdict)


def check(view: Any, step: int) -> None:
    """Assert what was executed, not only that the rows are right."""
    strategy = view.name.rsplit("__", 1)[1]
    assert not view.error, view.error
    if step == 0:
        assert view.executed == "initial"
    elif view.executed != "none":
        allowed = {strategy} if strategy != "hybrid" else {"incremental", "snapshot", "hybrid"}
        assert view.executed in allowed, (view.name, view.executed, view.reason)
    else:
        assert view.reason == "nothing changed"
