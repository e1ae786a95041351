"""A store in a test's folder: base tables by SQL, views by name, and what its commits say."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hybridview import Store
from hybridview.catalog import ViewState
from hybridview.deltalog import Commit, FolderLog
from hybridview.engine import direct
from hybridview.engine.session import OWN_SETTINGS, Session, SparkPort, temp_view

FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"

ROW = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
"""A row as text, every digit of it."""

_groups = itertools.count()


class Warehouse:
    """A store and the session its base tables are written with."""

    def __init__(self, root: Path, spark: Any) -> None:
        self.root = root
        self.spark = spark
        self.store = Store.open(root, spark=spark)

    def copy(self, root: Path) -> Warehouse:
        """Return the same store in another folder; a store may be copied as it may be moved."""
        shutil.copytree(self.root, root)
        return Warehouse(root, self.spark)

    def sql(self, statement: str) -> Any:
        """Run a statement in which {orders} stands for the store's table "orders"."""
        return self.spark.sql(re.sub(r"\{(\w+)\}", lambda m: self.named(m[1]), statement))

    def named(self, table: str) -> str:
        return f"delta.`{self.root}/tables/{table}`"

    def table(self, name: str, columns: str, rows: str = "") -> None:
        """Create a base table in the store's tables/ folder, with rows if any are given."""
        self.sql(f"CREATE TABLE {{{name}}} ({columns}) {FEED}")
        if rows:
            self.sql(f"INSERT INTO {{{name}}} {rows}")

    def views(self, queries: Mapping[str, str]) -> None:
        for name, query in queries.items():
            self.store.create_view(name, query)

    def refresh(self, strategy: str | None = None, *views: str) -> dict[str, ViewState]:
        """Refresh views (all if none are named) and return what became of each."""
        return {state.name: state for state in self.store.refresh(views, strategy).views}

    def executed(self, strategy: str | None = None, *views: str) -> dict[str, str]:
        """Refresh views (all if none are named) and return what was executed for each."""
        return {name: state.executed for name, state in self.refresh(strategy, *views).items()}

    def log(self, view: str) -> FolderLog:
        record = next(v for v in self.store.views() if v.name == view)
        return FolderLog(self.root / "views" / record.folder)

    def versions(self) -> dict[str, int]:
        """Return the newest version of every view's table."""
        return {v.name: self.log(v.name).latest() for v in self.store.views()}

    def newest_commit(self, view: str) -> Commit:
        log = self.log(view)
        return log.commit(log.latest())

    def rows(self, view: str) -> list[tuple[Any, ...]]:
        """Return a view's published rows, sorted by their text."""
        return sorted((tuple(row) for row in self.store.read(view).collect()), key=repr)

    def assert_exact(self, *names: str) -> None:
        """Compare views (all if none are named) with their queries over the newest base tables.

        One query for all of them, and the comparison is Python's: nothing of the engine is used.
        """
        session = self.spark.newSession()
        for table in self.store.tables():
            path = self.store._context.table_path(table)
            session.sql(f"SELECT * FROM delta.`{path}`").createOrReplaceTempView(f"`{table.name}`")
        sides = []
        for view in self.store.views():
            session.sql(view.query).createOrReplaceTempView(f"`{view.name}`")
            if names and view.name not in names:
                continue
            columns = ", ".join(f"`{c.name}`" for c in view.columns)
            stored = f"SELECT {columns} FROM delta.`{self.root}/views/{view.folder}`"
            for side, query in (("query", f"SELECT * FROM `{view.name}`"), ("stored", stored)):
                sides.append(f"SELECT '{view.name}', '{side}', {ROW} FROM ({query})")
        found: dict[str, dict[str, list[str]]] = {}
        for view_name, side, row in session.sql(" UNION ALL ".join(sides)).collect():
            found.setdefault(view_name, {"query": [], "stored": []})[side].append(row)
        different = {n: s for n, s in found.items() if sorted(s["query"]) != sorted(s["stored"])}
        assert different == {}

    def assert_verified(self, *names: str) -> None:
        """Let the store itself verify views (all if none are named)."""
        for view in self.store.views():
            if not names or view.name in names:
                verdict = self.store.verify(view.name)
                assert verdict.ok, verdict


class RecordingPort(SparkPort):
    """A session port that writes down every statement it is given."""

    def __init__(self, spark: Any, statements: list[str]) -> None:
        super().__init__(spark)
        self.statements = statements

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        return super().run(sql)

    def register(self, name: str, query: str) -> None:
        self.statements.append(temp_view(name, query))
        super().register(name, query)

    def writer(self) -> Session:
        port = RecordingPort(self.spark.newSession(), self.statements)
        port.set(OWN_SETTINGS)
        return port


def record(store: Store, spark: Any) -> list[str]:
    """Let a store use a recording port; return the list that fills."""
    statements: list[str] = []
    store._context._port = RecordingPort(spark, statements)
    store._context._workers = []
    return statements


def next_job(spark: Any) -> int:
    """Run one job and return its number; jobs are numbered one by one."""
    group = f"probe-{next(_groups)}"
    context = spark.sparkContext
    context.setJobGroup(group, "probe")
    spark.range(1).collect()
    context.setLocalProperty("spark.jobGroup.id", None)
    for _ in range(100):  # the tracker hears of jobs a moment later
        found = context.statusTracker().getJobIdsForGroup(group)
        if found:
            return int(max(found))
        time.sleep(0.05)
    raise AssertionError("the status tracker does not know the probe's job")


def leave_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every change be written by a statement, however small it is."""
    monkeypatch.setattr(direct, "open_table", lambda *_: None)
