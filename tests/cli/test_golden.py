"""One small shop, every command: what a user sees is kept as golden files.

The whole story runs once; each test compares one command of it. HV_UPDATE_GOLDEN=1 writes the
files anew.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.main import get_command
from typer.testing import Result

from hybridview.cli.app import app
from hybridview.deltalog import FolderLog
from tests.cli.terminal import (
    STORE,
    check_golden,
    invoke,
    quiet_pyspark,
    steady_clock,
    transcript,
    without_spark,
    write_table,
)
from tests.support.fake_engine import use_fakes

VIEWS = {
    "revenue": """CREATE MATERIALIZED VIEW revenue
COMMENT 'Revenue and number of orders per region'
CLUSTER BY (region)
AS SELECT c.region, sum(o.amount) AS revenue, count(*) AS orders
FROM orders o JOIN customers c ON o.customer_id = c.id
GROUP BY c.region;
""",
    "ranges": "SELECT customer_id, min(amount) AS low, max(amount) AS high\n"
    "FROM orders GROUP BY customer_id\n",
    "lines": "SELECT o.id, c.region, o.amount\n"
    "FROM orders o JOIN customers c ON o.customer_id = c.id\n",
    "extremes": "SELECT min(amount) AS lowest, max(amount) AS highest FROM orders\n",
    "newest": "SELECT id, array_max(collect_set(id) OVER (ORDER BY id DESC)) AS newest "
    "FROM orders\n",
    "shares": "SELECT sku, 100 / price AS share FROM prices\n",
    "large_shares": "SELECT sku FROM shares WHERE share > 10\n",
}


@dataclass(frozen=True)
class Step:
    """One command of the story."""

    name: str
    """Of its golden file; empty if only what follows is of interest."""
    command: str
    exit_code: int = 0
    spark: bool = True
    """False: the command must not start Spark."""


@dataclass(frozen=True)
class Change:
    """A statement on base tables or view tables, run by somebody else; {orders} is a folder."""

    sql: str
    as_ours: str = ""
    """A view whose newest commit is imitated: its mark is put on the statement's commit."""


@dataclass(frozen=True)
class File:
    """A file that its author writes."""

    path: str
    text: str


STORY: tuple[Step | Change | File, ...] = (
    Step("init", "init shop", spark=False),
    Step("status_empty", "status", spark=False),
    Step("history_empty", "history", spark=False),
    Step("table_add", "table add orders --key id"),
    Step("table_add_folder", "table add spare data/spare", spark=False),
    Step("table_remove", "table remove spare", spark=False),
    Step("", "table add customers"),
    Step("", "table add prices"),
    Step("create", "create big 'SELECT id, amount FROM orders WHERE amount > 20'"),
    Step("apply_dry_run", "apply views --dry-run", spark=False),
    Step("apply", "apply views"),
    File("views/lines.sql", VIEWS["lines"] + "WHERE o.amount > 1\n"),
    Step("apply_replace_dry_run", "apply views --dry-run", spark=False),
    Step("apply_replace", "apply views"),
    File("last.sql", f"CREATE MATERIALIZED VIEW last AS\n{VIEWS['newest']}"),
    Step("create_file", "create --file last.sql"),
    Step("create_json", "create last 'SELECT sku FROM prices' --replace --json"),
    Step("apply_allow_drop", "apply views --allow-drop"),
    Step("refresh_first_dry_run", "refresh revenue --dry-run", spark=False),
    Step("refresh_first", "refresh"),
    Step("refresh_nothing", "refresh", spark=False),
    Step("status", "status", spark=False),
    Step("show", "show revenue"),
    Step("show_limit", "show lines --limit 2"),
    Step("sql", "sql 'SELECT l.region, count(*) AS n FROM lines l GROUP BY ALL ORDER BY 1'"),
    Step("explain_additive", "explain revenue", spark=False),
    Step("explain_affected_keys", "explain ranges", spark=False),
    Step("explain_bag", "explain lines", spark=False),
    Step("explain_snapshot", "explain newest", spark=False),
    Step("explain_piecewise", "explain extremes", spark=False),
    Change("INSERT INTO {orders} VALUES (11, 1, 15.25), (12, 3, 2.00)"),
    Change("UPDATE {prices} SET price = 0 WHERE sku = 3"),
    Step("status_behind", "status --fail-if-stale", 1, spark=False),
    Step("refresh_dry_run", "refresh --dry-run", spark=False),
    Step("refresh", "refresh", 1),
    Step("status_failed", "status", spark=False),
    Step("doctor_failed", "doctor", 1, spark=False),
    Step("history", "history", spark=False),
    Step("refresh_json", "refresh --json", 1),
    Change("UPDATE {prices} SET price = 4 WHERE sku = 3"),
    Step("refresh_repaired", "refresh shares large_shares"),
    Step("verify", "verify revenue newest"),
    Step("doctor", "doctor", spark=False),
    Change("UPDATE {views/ranges} SET low = low - 1 WHERE customer_id = 1"),
    Step("status_foreign", "status", spark=False),
    Step("doctor_foreign", "doctor", 1, spark=False),
    Step("verify_foreign", "verify ranges", 1),
    Step("refresh_foreign", "refresh ranges"),
    Change("UPDATE {views/revenue} SET orders = orders + 1 WHERE region = 'north'", "revenue"),
    Step("", "refresh revenue", spark=False),
    Step("verify_different", "verify revenue", 1),
    Step("show_old_epoch", "show revenue --epoch 1"),
    Step("status_json", "status --json", spark=False),
    Step("history_json", "history --limit 1 --json", spark=False),
    Step("plan_json", "refresh --dry-run --json", spark=False),
    Step("explain_json", "explain revenue --json", spark=False),
    Step("doctor_json", "doctor --json", spark=False),
    Step("show_json", "show revenue --json"),
    Step("sql_json", "sql 'SELECT 1 AS one' --json"),
    Step("verify_json", "verify lines --json"),
    Step("table_add_json", "table add spare data/spare --json", spark=False),
    Step("table_remove_json", "table remove spare --json", spark=False),
    Step("apply_json", "apply views --dry-run --json", spark=False),
    Step("verify_every_epoch", "verify ranges --every-epoch"),
    Step("rename", "rename ranges spans", spark=False),
    Step("rename_json", "rename spans ranges --json", spark=False),
    Step("table_rename", "table rename customers clients", spark=False),
    Step("table_rename_json", "table rename clients customers --json", spark=False),
    Step("drop", "drop newest", spark=False),
    Step("drop_cascade", "drop shares --cascade", spark=False),
    Step("drop_json", "drop extremes --json", spark=False),
    Change(
        "CREATE TABLE {views/left} USING delta TBLPROPERTIES ('hybridview.view' = 'left') "
        "AS SELECT 1 AS one"
    ),
    Step("maintain_dry_run", "maintain --keep '0 days' --dry-run", spark=False),
    Step("maintain_json", "maintain --dry-run --json", spark=False),
    Step("maintain", "maintain --keep '0 days'", spark=False),
    Step("maintain_nothing", "maintain", spark=False),
    Step("show_expired", "show revenue --epoch 1", 2, spark=False),
    Step("down_when_down", "down", spark=False),
    Step("up", "up", spark=False),
    Step("up_again", "up", spark=False),
    Step("up_json", "up --json", spark=False),
    Step("status_up", "status", spark=False),
    Step("down", "down", spark=False),
    Step("down_json", "down --json", spark=False),
    Step("init_json", "init other --json", spark=False),
    Step("error_json", "show nosuch --json", 2, spark=False),
    Step("refresh_unknown_strategy", "refresh --strategy fast", 2, spark=False),
)
STEPS = {step.name: step for step in STORY if isinstance(step, Step) and step.name}
TEXTS = [name for name in STEPS if not name.endswith("_json")]
WITH_SQL = ("explain", "refresh_dry_run", "refresh_first_dry_run")
"""Steps that print SQL, whose lines may be longer than the terminal is wide."""

JSON = {
    "init_json": ("store", {"root", "epoch"}),
    "table_add_json": ("table", {"table"}),
    "table_remove_json": ("table_removed", {"name"}),
    "create_json": ("view", {"view", "incremental"}),
    "apply_json": ("apply", {"actions", "done"}),
    "refresh_json": ("refresh", {"refresh", "ok"}),
    "plan_json": ("plan", {"store_id", "epoch", "attempt", "strategy", "views"}),
    "status_json": ("status", {"status", "stale"}),
    "history_json": ("history", {"refreshes"}),
    "explain_json": (
        "explain",
        {
            *("view", "incremental", "reasons", "plan", "layout"),
            *("method", "kept", "change", "apply", "snapshot", "advice", "parts", "relevant"),
        },
    ),
    "doctor_json": ("doctor", {"findings"}),
    "show_json": ("rows", {"columns", "rows", "more"}),
    "sql_json": ("rows", {"columns", "rows", "more"}),
    "verify_json": ("verify", {"views", "missing", "ok"}),
    "drop_json": ("drop", {"dropped"}),
    "rename_json": ("renamed", {"old", "new", "readers"}),
    "table_rename_json": ("renamed", {"old", "new", "readers"}),
    "maintain_json": ("maintain", {"works", "dry_run", "ok"}),
    "up_json": ("up", {"engine", "started"}),
    "down_json": ("down", {"pid", "ended"}),
    "error_json": ("error", {"error"}),
}

Story = dict[str, tuple[Result, str]]
"""Every command of the story by its name: what came of it, and its text."""


@pytest.fixture(scope="module")
def story(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Play the whole story; return what each command printed."""
    told: Story = {}
    with (
        contextlib.chdir(tmp_path_factory.mktemp("golden")),
        steady_clock(),
        quiet_pyspark(),
        pytest.MonkeyPatch.context() as patch,
    ):
        use_fakes(patch, Path("state"))
        write_tables()
        for step in STORY:
            match step:
                case Step(name, command, exit_code, uses_spark):
                    with contextlib.nullcontext() if uses_spark else without_spark():
                        result = invoke(command)
                    if not name:
                        assert result.exit_code == exit_code, result.output
                    told[name] = (result, transcript(command, result))
                case Change():
                    run_change(spark, step)
                case File(path, text):
                    Path(path).write_text(text, encoding="utf-8")
    return told


def write_tables() -> None:
    """Write the shop's base tables, where `init shop` will find them, and the view files."""
    money = pa.decimal128(10, 2)
    amounts = pa.array([Decimal(3 * i) + Decimal("0.5") for i in range(1, 11)], money)
    tables: dict[str, dict[str, Any]] = {
        f"{STORE}/tables/orders": {
            "id": pa.array(range(1, 11), pa.int32()),
            "customer_id": pa.array([i % 3 + 1 for i in range(1, 11)], pa.int32()),
            "amount": amounts,
        },
        f"{STORE}/tables/customers": {
            "id": pa.array([1, 2, 3], pa.int32()),
            "region": pa.array(["north", "south", None]),
        },
        f"{STORE}/tables/prices": {
            "sku": pa.array(range(1, 6), pa.int32()),
            "price": pa.array([5, 20, 25, 40, 50], pa.int32()),
        },
        "data/spare": {"id": pa.array([1], pa.int32())},
    }
    for path, columns in tables.items():
        write_table(Path(path), columns)
    Path("views").mkdir()
    for name, text in VIEWS.items():
        Path("views", f"{name}.sql").write_text(text, encoding="utf-8")


def run_change(spark: Any, change: Change) -> None:
    """Run a statement as another user would, or with the mark of a view's newest commit."""

    def folder(name: re.Match[str]) -> str:
        path = name[1] if "/" in name[1] else f"tables/{name[1]}"
        return f"delta.`{Path(STORE, path).resolve()}`"

    session = spark.newSession()
    if change.as_ours:
        log = FolderLog(Path(STORE, "views", change.as_ours))
        # As a commit that wrote all rows anew: it claims to know what came before it.
        mark = json.dumps({**json.loads(log.commit(log.latest()).user_metadata), "base": None})
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", mark)
    session.sql(re.sub(r"\{([\w/]+)\}", folder, change.sql)).collect()


@pytest.mark.spark
@pytest.mark.parametrize("name", TEXTS)
def test_text(story: Story, name: str) -> None:
    result, text = story[name]
    check_golden(f"cli/{name}.txt", text)
    assert result.exit_code == STEPS[name].exit_code
    if not name.startswith(WITH_SQL):
        assert max(map(len, result.stdout.splitlines()), default=0) <= 100


@pytest.mark.spark
@pytest.mark.parametrize("name", JSON)
def test_json(story: Story, name: str) -> None:
    result, text = story[name]
    assert result.exit_code == STEPS[name].exit_code, text
    data = json.loads(result.stdout)
    kind, keys = JSON[name]
    assert (data.pop("schema"), data.pop("kind")) == (1, kind)
    assert set(data) == keys


def test_every_command_is_told() -> None:
    """A command without golden text or JSON is a gap in this file."""
    texts = {STEPS[name].command.split(" -")[0] for name in TEXTS}
    objects = {STEPS[name].command.split(" -")[0] for name in JSON}
    for command in commands():
        if command not in ("demo", "bench"):
            assert any(t.startswith(command) for t in texts), f"no text of {command}"
            assert any(t.startswith(command) for t in objects), f"no JSON of {command}"


def commands() -> list[str]:
    """Return all commands of the app, `table add` among them."""
    root: Any = get_command(app)
    found: list[str] = []
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        found += [f"{name} {below}" for below in inner] if inner else [name]
    return found


@pytest.mark.parametrize("command", ["", "table", *commands()])
def test_help(command: str) -> None:
    call = f"{command} --help".strip()
    result = invoke(call)
    assert result.exit_code == 0
    check_golden(f"cli/help_{command.replace(' ', '_') or 'app'}.txt", transcript(call, result))
