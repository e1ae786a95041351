"""hybridview.toml: where it is found, what wins over what, and what it may say."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from hybridview.config import find_config
from hybridview.errors import UsageError
from hybridview.store import Store
from tests.cli.terminal import (
    STORE,
    invoke,
    invoke_in_folder,
    orders,
    records,
    without_spark,
    write_table,
)


def configure(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hybridview.toml").write_text(text, encoding="utf-8")


def store_shown(command: str = "status --json") -> str:
    """Return the folder of the store that a command without --store means."""
    result = invoke_in_folder(command)
    assert result.exit_code == 0, result.output
    return str(json.loads(result.stdout)["status"]["root"])


def test_the_file_is_found_in_a_folder_above(tmp_path: Path) -> None:
    configure(tmp_path, 'store = "warehouse"')
    Store.open(tmp_path / "warehouse")
    below = tmp_path / "team" / "views"
    below.mkdir(parents=True)
    with contextlib.chdir(below), without_spark():
        assert Path(store_shown()) == tmp_path / "warehouse"


def test_the_nearest_file_wins(tmp_path: Path) -> None:
    configure(tmp_path, 'store = "far"')
    configure(tmp_path / "team", 'store = "near"')
    assert find_config(tmp_path / "team").store == tmp_path / "team" / "near"


def test_the_flag_wins_over_the_environment_and_the_file(tmp_path: Path) -> None:
    for name in ("flag", STORE, "file"):
        Store.open(tmp_path / name)
    configure(tmp_path, 'store = "file"')
    with contextlib.chdir(tmp_path), without_spark():
        assert json.loads(invoke("status --json --store flag").stdout)["status"]["root"] == "flag"
        assert json.loads(invoke("status --json").stdout)["status"]["root"] == STORE
        assert Path(store_shown()) == tmp_path / "file"


def test_without_a_file_this_folder_is_the_store(tmp_path: Path) -> None:
    Store.open(tmp_path)
    with contextlib.chdir(tmp_path), without_spark():
        assert Path(store_shown()).resolve() == tmp_path.resolve()


def test_paths_count_from_the_folder_of_the_file(tmp_path: Path) -> None:
    configure(tmp_path, 'views = "models"\n[tables]\norders = "data/orders"\nsales = "main.sales"')
    found = find_config(tmp_path)
    assert found.views == tmp_path / "models"
    locations = {name: table.location for name, table in found.tables.items()}
    assert locations == {"orders": str(tmp_path / "data" / "orders"), "sales": "main.sales"}


def test_a_table_may_have_keys(tmp_path: Path) -> None:
    text = (
        '[tables.orders]\nlocation = "data/orders"\nkey = ["id"]\nreferences = ["c -> customers"]'
    )
    configure(tmp_path, text)
    found = find_config(tmp_path).tables["orders"]
    assert (found.key, found.references) == (("id",), ("c -> customers",))


@pytest.mark.parametrize("wrong", ["3", '{ key = ["id"] }', '{ location = "x", keys = ["id"] }'])
def test_a_table_is_a_location_with_keys(tmp_path: Path, wrong: str) -> None:
    configure(tmp_path, f"[tables]\norders = {wrong}")
    with pytest.raises(UsageError, match="orders"):
        find_config(tmp_path)


def test_an_unknown_key_is_a_mistake(tmp_path: Path) -> None:
    configure(tmp_path, 'stratgy = "hybrid"')
    with pytest.raises(UsageError) as raised:
        find_config(tmp_path)
    assert 'unknown key "stratgy"' in raised.value.fact
    assert raised.value.detail == 'Did you mean "strategy"?'


def test_spark_settings_need_no_quotes(tmp_path: Path) -> None:
    configure(tmp_path, "[spark]\nspark.sql.shuffle.partitions = 2\n'spark.ui.enabled' = 'true'")
    assert find_config(tmp_path).spark == {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "true",
    }


@pytest.mark.parametrize("text", ["store = 5", "tables = 5", "[views]\na = 1"])
def test_a_value_of_the_wrong_type_is_a_mistake(tmp_path: Path, text: str) -> None:
    configure(tmp_path, text)
    with pytest.raises(UsageError):
        find_config(tmp_path)


@pytest.mark.spark
def test_flag_then_property_then_file_then_hybrid(shop: Path) -> None:
    text = (
        "CREATE MATERIALIZED VIEW own TBLPROPERTIES ('hybridview.strategy' = 'incremental')\n"
        "AS SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id"
    )
    Path("own.sql").write_text(text, encoding="utf-8")
    assert invoke("create --file own.sql").exit_code == 0
    assert invoke("refresh own").exit_code == 0
    write_table(Path(STORE, "tables", "orders"), orders([11]))

    def planned(flag: str = "") -> dict[str, tuple[str, bool]]:
        """Return what would be executed, and whether because it was asked for."""
        result = invoke(f"refresh totals own --dry-run --json {flag}")
        views: list[dict[str, Any]] = json.loads(result.stdout)["views"]
        return {v["name"]: (v["executed"], v["reason"].startswith("asked for")) for v in views}

    chosen, incremental, snapshot = (
        ("incremental", False),
        ("incremental", True),
        ("snapshot", True),
    )
    with without_spark():
        assert planned() == {"totals": chosen, "own": incremental}
        configure(shop, 'strategy = "snapshot"')
        assert planned() == {"totals": snapshot, "own": incremental}
        assert planned("--strategy snapshot") == {"totals": snapshot, "own": snapshot}
        assert planned("--strategy hybrid") == {"totals": chosen, "own": chosen}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a file, an empty store, a table outside it, and one view."""
    configure(tmp_path, 'store = "warehouse"\nviews = "models"\n[tables]\nsales = "data/orders"')
    Store.open(tmp_path / "warehouse")
    write_table(tmp_path / "data" / "orders", orders([1, 2, 3]))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "spent.sql").write_text("SELECT sum(amount) AS total FROM sales")
    return tmp_path


@pytest.mark.spark
def test_apply_registers_the_tables_of_the_file(spark: Any, project: Path) -> None:
    with contextlib.chdir(project / "models"):
        result = invoke_in_folder("apply")
    assert result.exit_code == 0, result.output
    store = Store.open(project / "warehouse", create=False)
    assert [(t.name, t.location) for t in store.tables()] == [
        ("sales", str(project / "data" / "orders"))
    ]
    assert [v.name for v in store.views()] == ["spent"]


def test_a_dry_run_of_apply_changes_nothing(project: Path) -> None:
    before = records(project / "warehouse")
    with contextlib.chdir(project), without_spark():
        result = invoke_in_folder("apply --dry-run")
    assert result.exit_code == 0, result.output
    assert records(project / "warehouse") == before
