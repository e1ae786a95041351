"""What users expect and once did not get: each test was found by trying."""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import STORE, invoke, orders, write_table
from tests.cli.test_golden import Change, run_change

pytestmark = pytest.mark.spark

Test = Callable[..., None]
ORDERS = Path(STORE, "tables", "orders")


def hint_of(command: str) -> str:
    """Run a command that fails; return the command its hint tells to run."""
    result = invoke(command)
    found = re.search(r"hybridview (.+)", re.findall(r"(?m)^hint: (.+)$", result.stderr)[-1])
    assert found, result.stderr
    return found[1]


def add_extremes() -> None:
    """Add a view that is computed from a state table."""
    invoke("create extremes 'SELECT min(amount) AS low, max(amount) AS high FROM orders'")
    assert invoke("refresh extremes").exit_code == 0


def test_a_query_that_fails_while_it_runs_is_not_our_bug(shop: Path) -> None:
    result = invoke("sql 'SELECT 1 / (sku - sku) AS x FROM prices'")
    assert result.exit_code == 2 and "DIVIDE_BY_ZERO" in result.stderr


@pytest.mark.parametrize("command", ["status", "doctor", "show totals"])
def test_a_missing_view_folder_is_reported(shop: Path, command: str) -> None:
    shutil.rmtree(Path(STORE, "views", "totals"))
    result = invoke(command)
    assert result.exit_code != 3 and "totals" in result.output


def test_a_store_that_cannot_be_written_is_named(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception is the one deltalake 1.6 raises for a user without permission."""
    from deltalake.exceptions import DeltaError

    def refuse(*_: Any, **__: Any) -> None:
        raise DeltaError("Generic LocalFileSystem error: Permission denied (os error 13)")

    monkeypatch.setattr("hybridview.catalog.write_deltalake", refuse)
    result = invoke("drop large")
    assert "error HV203" in result.stderr and result.exit_code == 2


def test_a_view_that_differs_can_be_recomputed(shop: Path, spark: Any) -> None:
    run_change(spark, Change("UPDATE {views/totals} SET total = 0", as_ours="totals"))
    assert invoke("refresh totals").exit_code == 0
    assert invoke("verify totals").exit_code == 1
    assert invoke("refresh totals --strategy snapshot").exit_code == 0
    assert invoke("verify totals").exit_code == 0


def test_verify_reports_a_change_by_hand(shop: Path, spark: Any) -> None:
    run_change(spark, Change("UPDATE {views/totals} SET total = 0"))
    result = invoke("verify totals")
    assert result.exit_code == 1 and "totals" in result.stdout


def test_verify_goes_on_after_a_view_without_rows(shop: Path) -> None:
    invoke("create aaa 'SELECT sku FROM prices'")
    result = invoke("verify aaa large")
    assert "large  equal" in result.stdout


def test_a_failed_view_prints_an_error_and_no_log(shop: Path) -> None:
    logging.Logger.manager.loggerDict.pop("SQLQueryContextLogger")  # as in a new process
    Path("zero.sql").write_text("SELECT 1 / (sku - sku) AS x FROM prices", encoding="utf-8")
    invoke("create zero --file zero.sql")
    result = invoke("refresh zero")
    assert result.exit_code == 1 and "HV303" in result.stderr
    assert '"logger"' not in result.stderr


def test_an_unusual_statement_prints_an_error_and_no_warning(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = invoke("sql 'SHOW TABLES'")
    assert "HV403" in result.stderr
    assert not [r for r in caplog.records if r.name == "sqlglot"]


def test_a_state_table_is_not_shown_as_a_view(shop: Path) -> None:
    add_extremes()
    write_table(ORDERS, orders([11]))
    result = invoke("refresh extremes")
    assert result.stdout.startswith("[1/1] extremes ")


@pytest.mark.parametrize(
    "command",
    ["show extremes@state", "create v 'SELECT * FROM `extremes@state`'", "drop extremes@state"],
)
def test_a_state_table_cannot_be_used_as_a_view(shop: Path, command: str) -> None:
    add_extremes()
    result = invoke(command)
    assert result.exit_code == 2, result.output
    assert "@state" not in "".join(re.findall("(?m)^detail.*$", result.stderr))


def test_history_lists_what_a_refresh_did(shop: Path) -> None:
    write_table(ORDERS, orders([11]))
    invoke("refresh totals")
    newest = invoke("history --limit 1").stdout
    assert "totals" in newest and "shares" not in newest


@pytest.mark.parametrize("command", ["status", "history --limit 1", "doctor"])
def test_why_a_view_failed_can_be_seen_later(shop: Path, command: str) -> None:
    Path("zero.sql").write_text("SELECT 1 / (sku - sku) AS x FROM prices", encoding="utf-8")
    invoke("create shares --file zero.sql --replace")
    assert invoke("refresh shares").exit_code == 1
    assert "DIVIDE_BY_ZERO" in invoke(command).stdout


def test_the_hint_for_a_taken_name_works(shop: Path) -> None:
    assert (
        "Add --replace to the same command"
        in invoke("create totals 'SELECT id FROM orders'").stderr
    )
    assert invoke("create totals 'SELECT id FROM orders' --replace").exit_code == 0


def test_the_hint_for_a_table_named_as_a_view_works(shop: Path) -> None:
    assert "Choose another name" in invoke("table add large shop/tables/orders").stderr


def test_the_hints_for_a_replaced_table_lead_out(shop: Path) -> None:
    shutil.rmtree(ORDERS)
    write_table(ORDERS, orders([1, 2, 3]))
    assert invoke(hint_of("refresh totals")).exit_code == 0
    assert invoke("refresh totals").exit_code == 0


def test_the_hint_for_a_path_registers_it(shop: Path) -> None:
    write_table(Path("data", "sales"), {"id": [1]})
    path = Path("data", "sales").resolve()
    hint = hint_of(f"create v 'SELECT * FROM delta.`{path}`'")
    assert shlex.split(hint) == ["table", "add", "sales", str(path)]


def test_apply_tells_the_line_of_the_file(shop: Path) -> None:
    Path("views").mkdir()
    Path("views", "v.sql").write_text("SELECT id, amuont FROM orders", encoding="utf-8")
    assert "at: views/v.sql:1:12" in invoke("apply views").stderr


def test_create_tells_the_line_of_the_file(shop: Path) -> None:
    query = "SELECT id,\n  collect_set(id) OVER (ORDER BY id)\nFROM orders"
    text = f"CREATE MATERIALIZED VIEW v AS\n{query}"
    Path("v.sql").write_text(text, encoding="utf-8")
    assert "at v.sql:3:" in invoke("create --file v.sql").stdout


def test_the_place_of_an_error_by_spark_is_right(shop: Path) -> None:
    result = invoke("sql 'SELECT nosuch FROM totals'")
    assert "pos 22" not in result.stderr, "it is at position 7"


def test_a_syntax_error_is_told_in_words(shop: Path) -> None:
    assert "<class" not in invoke("create v 'SELECT id FROM orders WHERE'").stderr


def test_the_hint_for_an_estimate_names_the_exact_function(shop: Path) -> None:
    result = invoke("create v 'SELECT approx_count_distinct(id) AS n FROM orders'")
    assert "count(DISTINCT" in result.stderr


def test_a_file_in_another_encoding_is_a_mistake(shop: Path) -> None:
    Path("v.sql").write_bytes("SELECT 'é' AS x".encode("latin-1"))
    assert invoke("create v --file v.sql").exit_code == 2


def test_create_takes_the_name_of_the_file(shop: Path) -> None:
    Path("cheap.sql").write_text("SELECT sku FROM prices WHERE price < 6", encoding="utf-8")
    result = invoke("create --file cheap.sql --json")
    assert result.exit_code == 0 and json.loads(result.stdout)["view"]["name"] == "cheap"
