"""Fixtures of the command line tests: a small refreshed store, and copies of it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.terminal import STORE, invoke, orders, quiet_pyspark, steady_clock, write_table

VIEWS = {
    "totals": "SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id",
    "lines": "SELECT o.amount, c.region FROM orders o JOIN customers c ON o.customer_id = c.id",
    "newest": "SELECT id, array_max(collect_set(id) OVER (ORDER BY id DESC)) AS newest FROM orders",
    "shares": "SELECT sku, 100 / price AS share FROM prices",
    "large": "SELECT customer_id FROM totals WHERE total > 10",
}


@pytest.fixture(scope="session")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a refreshed store; every test works on a copy."""
    folder = tmp_path_factory.mktemp("command-line")
    with contextlib.chdir(folder), quiet_pyspark():
        tables: dict[str, dict[str, Any]] = {
            "orders": orders(list(range(1, 11))),
            "customers": {
                "id": pa.array([0, 1, 2], pa.int32()),
                "region": ["north", "south", "west"],
            },
            "prices": {"sku": pa.array([1, 2], pa.int32()), "price": pa.array([5, 8], pa.int32())},
        }
        for name, columns in tables.items():
            write_table(Path(STORE, "tables", name), columns)
        commands = [f"init {STORE}"]
        commands += [f"create {name} '{query}'" for name, query in VIEWS.items()]
        for command in (*commands, "refresh"):
            result = invoke(command)
            assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def shop(template: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the store, in a folder that commands are run in."""
    folder = tmp_path / "work"
    shutil.copytree(template, folder)
    with contextlib.chdir(folder), quiet_pyspark(), steady_clock():
        yield folder
