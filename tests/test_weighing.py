"""The work of a recompute, by the logs of its tables and by what its text does to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine.settled import Settled
from hybridview.engine.weighing import of_load
from hybridview.filestats import Size
from hybridview.plan.steps import Load, Pinned, ViewPlan
from hybridview.schema import Executed
from hybridview.strategy.costs import JOINED
from tests.support.tpch_store import define, open_store


@dataclass(frozen=True)
class Table:
    """A log that knows a size, and two columns of the same width."""

    bytes: int
    columns: tuple[Any, ...] = ()

    def size(self, _: int) -> Size:
        return Size(1, self.bytes, 1)

    def info(self, _: int) -> Any:
        @dataclass
        class Column:
            name: str
            type: str = "int"

        return Table(self.bytes, (Column("a"), Column("b")))


LOGS = {"orders": Table(1000), "lines": Table(6000), "result": Table(70)}


def work(*tables: str, few_of: tuple[str, ...] = (), **readings: int) -> float:
    sources = tuple(Pinned(name, name, 3, ("a",)) for name in tables)
    view = ViewPlan("result", "id", "result", Executed.SNAPSHOT, "", sources, stored_version=1)
    settled = Settled(view, sources, None, {}, {})
    load = Load("SELECT", False, readings, few_of)
    return of_load(settled, load, lambda name: LOGS[name]).read  # type: ignore[arg-type, return-value]


def test_one_table_is_read() -> None:
    assert work("lines") == 3000


def test_joined_tables_are_sorted_or_sent_around_too() -> None:
    assert work("orders", "lines") == (500 + 3000) * JOINED


def test_of_a_table_with_conditions_of_its_own_little_is_sent_around() -> None:
    assert work("orders", "lines", few_of=("lines",)) == 500 * JOINED + 3000


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_read_several_times_counts_as_often(times: int) -> None:
    assert work("orders", lines=2, orders=times) == 500 * times


def test_the_plan_says_of_which_tables_few_rows_matter(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    define(store, range(20, 21))
    (view,) = store.plan().views
    assert isinstance(view.step, Load)
    assert view.step.few_of == ("lineitem", "nation", "part")
