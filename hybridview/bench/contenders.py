"""The ways to keep a query's result up to date: each one in a folder of its own, in one session.

A contender is set up once per query in a seed folder, from the tables before any change. For each
round it gets a copy of that folder and of the changed tables, so that all contenders apply the same
change from the same state, as often as one likes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hybridview.bench.cells import RECOMPUTE, STRATEGIES
from hybridview.bench.links import copy_store
from hybridview.bench.meter import tables_below
from hybridview.bench.queries import CHANGING, HandProgram, hand_program, query_text, tables_of
from hybridview.catalog import FOLDER
from hybridview.deltalog import FolderLog
from hybridview.engine.session import Session, literal, table_at
from hybridview.engine.spark_errors import first_line, spark_errors
from hybridview.schema import TROUBLE
from hybridview.store import Store

DATABASE = "hybridview_bench"
VIEW = "result"
ORDERS, ORDER_KEY = "orders", "o_orderkey"
REFERENCES = {"lineitem": ("l_orderkey -> orders",)}


@dataclass(frozen=True, slots=True)
class Tables:
    """The base tables as a contender meets them: where each one is, and from which version on."""

    paths: dict[str, Path]
    before: dict[str, int]
    """The newest version that the contenders have seen, for each table that changes."""


class Contender(Protocol):
    """One way to keep a result up to date."""

    @property
    def name(self) -> str: ...

    def seed(self, folder: Path, tables: Tables) -> None:
        """Compute the result in a new folder."""

    def take(self, seed: Path, folder: Path, tables: Tables) -> None:
        """Get ready in a copy of the seed; the tables have not changed yet."""

    def run(self) -> tuple[str, str]:
        """Bring the result up to date; return what was executed, and a problem."""


class Recompute:
    """Spark runs the query and overwrites a table."""

    name = RECOMPUTE

    def __init__(self, session: Session, query: int) -> None:
        self.session, self.query = session, query
        self.table = ""

    def seed(self, folder: Path, tables: Tables) -> None:
        # Columns are numbered: not every name a query gives can be a column of a table.
        names = ", ".join(f"c{i}" for i, _ in enumerate(self.session.describe(self._text)))
        create = f"CREATE TABLE {table_at(str(folder.resolve()))} USING delta AS"
        self.session.run(f"{create} SELECT * FROM ({self._text}) AS t ({names})")

    def take(self, seed: Path, folder: Path, tables: Tables) -> None:
        copy_store(seed, folder)
        self.table = table_at(str(folder.resolve()))

    def run(self) -> tuple[str, str]:
        self.session.run(f"INSERT OVERWRITE {self.table} {self._text}")
        return "", ""

    @property
    def _text(self) -> str:
        return query_text(self.query)


class Hand:
    """A MERGE written by hand, from the change feeds."""

    name = "hand"

    def __init__(self, session: Session, program: HandProgram) -> None:
        self.session, self.program = session, program
        self.tables = Tables({}, {})

    @property
    def target(self) -> str:
        return f"hand_q{self.program.query}"

    def seed(self, folder: Path, tables: Tables) -> None:
        self.session.run(
            f"CREATE TABLE {table_at(str(folder.resolve()))} USING delta AS {self.program.create}"
        )

    def take(self, seed: Path, folder: Path, tables: Tables) -> None:
        copy_store(seed, folder)
        self.tables = tables
        name_table(self.session, self.target, folder)

    def run(self) -> tuple[str, str]:
        for table in self.program.feeds:
            path, seen = self.tables.paths[table], self.tables.before[table]
            latest = FolderLog(path).latest()
            self.session.register_feed(f"f_{table}", str(path), seen + 1, latest)
        for statement in (*self.program.prepare, self.program.merge):
            self.session.run(statement)
        return "", ""

    def differences(self) -> int:
        """Count the rows that the table has too many, and those it misses."""
        create, target = self.program.create, f"SELECT * FROM {self.target}"
        both = (f"{create} EXCEPT ALL {target}", f"{target} EXCEPT ALL {create}")
        return sum(int(self.session.run(f"SELECT count(*) FROM ({q})")[0][0]) for q in both)


class Refresh:
    """A store of hybridview's with one view, refreshed by one strategy, bookkeeping included."""

    def __init__(self, spark: Any, query: int, strategy: str, declared: Path) -> None:
        self.spark, self.query, self.name = spark, query, strategy
        self.declared = declared
        self.store: Store | None = None

    def seed(self, folder: Path, tables: Tables) -> None:
        copy_store(self.declared, folder)
        store = Store.open(folder, spark=self.spark, create=False)
        store.create_view(VIEW, query_text(self.query))
        state = store.refresh().views[0]
        if state.executed in TROUBLE:
            raise RuntimeError(f"q{self.query} was not loaded: {state.error or state.reason}")

    def take(self, seed: Path, folder: Path, tables: Tables) -> None:
        copy_store(seed, folder)
        self.store = Store.open(folder, spark=self.spark, create=False)
        for name in tables_of(self.query):
            if name in CHANGING:
                declare_table(self.store, name, tables.paths[name])
        self.store.refresh()  # nothing changed yet: this opens what a store opens once

    def run(self) -> tuple[str, str]:
        assert self.store is not None
        state = self.store.refresh(strategy=self.name).views[0]
        failed = state.executed in TROUBLE
        return str(state.executed), (state.error or state.reason) if failed else ""


def declare(folder: Path, spark: Any, tables: Mapping[str, Path]) -> None:
    """Make a store that knows all tables, for those of all queries: keys are checked by scans."""
    if folder.exists() and _knows(Store.open(folder, spark=spark), tables):
        return
    shutil.rmtree(folder, ignore_errors=True)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    store = Store.open(unfinished, spark=spark)
    for name in sorted(tables, key=lambda name: name in REFERENCES):
        declare_table(store, name, tables[name])
    unfinished.rename(folder)


def _knows(store: Store, tables: Mapping[str, Path]) -> bool:
    """Say whether a store has these tables where they are: the benchmark's folder may be moved."""
    return all(store.location(name) == str(path.resolve()) for name, path in tables.items())


def declare_table(store: Store, name: str, path: Path) -> None:
    """Register a table, with the keys of TPC-H that matter when orders change."""
    key = (ORDER_KEY,) if name == ORDERS else ()
    store.add_table(name, path, key=key, references=REFERENCES.get(name, ()), replace=True)


def contenders(spark: Any, session: Session, query: int, declared: Path) -> tuple[Contender, ...]:
    """Return all contenders of a query; stores start from one that knows all tables."""
    program = hand_program(query)
    return (
        Recompute(session, query),
        *(Refresh(spark, query, strategy, declared) for strategy in STRATEGIES),
        *((Hand(session, program),) if program else ()),
    )


def attempt(contender: Contender) -> tuple[str, str]:
    """Run a contender; what Spark refuses is a problem of this contender, not of the benchmark."""
    try:
        return contender.run()
    except spark_errors() as error:
        return "", first_line(error)


def name_table(session: Session, name: str, path: Path) -> None:
    """Make a Delta table known under a name, as the programs written by hand expect it."""
    session.run(f"DROP TABLE IF EXISTS {name}")
    session.run(f"CREATE TABLE {name} USING delta LOCATION {literal(str(path.resolve()))}")


def warm(session: Session, folder: Path) -> None:
    """Let Spark read the logs of all tables in a folder, as it has in a process that goes on."""
    for table in sorted(tables_below(folder)):
        if table.name == FOLDER:
            continue  # Spark does not read a store's bookkeeping
        session.run(f"DESCRIBE DETAIL {table_at(str(table.resolve()))}")
