"""Cells are measured here: seeds of all contenders, rounds in rotating order, verification."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hybridview.bench.cells import (
    HAND,
    INCREMENTAL,
    LEAST_ROUNDS,
    MOST_ROUNDS,
    RECOMPUTE,
    SNAPSHOT,
    STRATEGIES,
    Cell,
    Round,
    rotated,
    still_to_run,
)
from hybridview.bench.changes import Prepared
from hybridview.bench.contenders import (
    DATABASE,
    VIEW,
    Contender,
    Hand,
    Refresh,
    Tables,
    attempt,
    contenders,
    declare,
    name_table,
    warm,
)
from hybridview.bench.data import Data
from hybridview.bench.links import copy_table, show_commits
from hybridview.bench.meter import Meter
from hybridview.bench.queries import CHANGING, TABLES, hand_program, tables_of
from hybridview.engine.session import Session, table_at
from hybridview.store import Store

BASE = "base"
Say = Callable[[str], None]


class Query:
    """One query at one scale: its contenders, loaded once, and the rounds they run."""

    def __init__(self, spark: Any, session: Session, data: Data, number: int, say: Say) -> None:
        self.session, self.data, self.number, self.say = session, data, number, say
        self.meter = Meter(spark)
        declared = data.folder / "declared"
        declare(declared, spark, {name: data.table(name) for name in TABLES})
        self.contenders = contenders(spark, session, number, declared)
        self.folder = data.folder / "rounds" / f"q{number}"
        self.count = 0
        program = hand_program(number)
        used = {*tables_of(number), *(program.tables if program else ())}
        self.tables = tuple(t for t in TABLES if t in used)

    def __enter__(self) -> Query:
        """Load the result once for each kind of contender; the strategies share one seed."""
        self.say(f"q{self.number}: first load")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.session.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self.session.run(f"USE {DATABASE}")
        tables = Tables({t: self.data.table(t) for t in self.tables}, {})
        self._name(tables)
        done: set[Path] = set()
        for contender in self.contenders:
            seed = self._seed(contender)
            if seed not in done:
                contender.seed(seed, tables)
                done.add(seed)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _seed(self, contender: Contender) -> Path:
        name = "store" if contender.name in STRATEGIES else contender.name
        return self.folder / "seed" / name

    def measure(
        self, prepared: Prepared, least: int = LEAST_ROUNDS, most: int = MOST_ROUNDS
    ) -> Cell:
        """Run the rounds of one cell, verify the last ones, and return what they cost."""
        if not self.count:
            # The JVM compiles what it runs; this is not counted. Recomputes ran for the first load.
            fresh = [c for c in self.contenders if c.name not in (RECOMPUTE, SNAPSHOT)]
            self._round(prepared, fresh, 0)
        rounds: dict[str, tuple[Round, ...]] = {c.name: () for c in self.contenders}
        verified: dict[str, bool] = {}
        while names := still_to_run(rounds, least, most):
            number = max(len(done) for done in rounds.values())
            chosen = [c for c in self.contenders if c.name in names]
            for name, done in self._round(prepared, chosen, number, verified).items():
                rounds[name] = (*rounds[name], done)
            self.say(
                f"q{self.number} {prepared.change.percent:g} % round {number + 1}: "
                + ", ".join(f"{name} {rounds[name][-1].seconds:.2f}s" for name in names)
            )
        return Cell(
            self.data.scale,
            self.number,
            prepared.change.percent,
            prepared.change.orders,
            rounds,
            verified,
            self.meter.memory(),
        )

    def _round(
        self,
        prepared: Prepared,
        chosen: Sequence[Contender],
        number: int,
        verified: dict[str, bool] | None = None,
    ) -> dict[str, Round]:
        """Let contenders apply the change, each from a copy of its seed; then look at the results.

        Results are verified in the first round: in the later ones all is the same.
        """
        self.count += 1
        folder = self.folder / f"{self.count}"
        tables = self._copy_tables(prepared, folder)
        self._name(Tables({t: tables.paths[t] for t in CHANGING if t in tables.paths}, {}))
        for contender in chosen:
            contender.take(self._seed(contender), folder / contender.name, tables)
        for name in tables.before:
            show_commits(prepared.table(name), tables.paths[name], tables.before[name])
        # Else the contender that runs first would read the new commits for all of them.
        warm(self.session, folder)
        found = {
            c.name: self.meter.measure(lambda c=c: attempt(c), folder / c.name)  # type: ignore[misc]
            for c in rotated(chosen, number)
        }
        if verified is not None and not verified:
            verified.update(verify(self.session, chosen, found))
        shutil.rmtree(folder)
        return found

    def _copy_tables(self, prepared: Prepared, folder: Path) -> Tables:
        """Copy the tables that change, as they were before."""
        paths = {t: self.data.table(t) for t in self.tables}
        before: dict[str, int] = {}
        for name in CHANGING:
            if name not in paths:
                continue
            paths[name] = (folder / BASE / name).resolve()
            before[name] = prepared.before[name]
            copy_table(prepared.table(name), paths[name], before[name])
        return Tables(paths, before)

    def _name(self, tables: Tables) -> None:
        for name, path in tables.paths.items():
            name_table(self.session, name, path)


def verify(
    session: Session, chosen: Sequence[Contender], found: dict[str, Round]
) -> dict[str, bool]:
    """Say of each result whether it is right.

    One view is recomputed from its author's text and compared both ways; the other strategies must
    hold the same rows as it, and the table kept by hand those of its own query.
    """
    right: dict[str, bool] = {}
    stores = {
        c.name: c.store
        for c in chosen
        if isinstance(c, Refresh) and c.store is not None and not found[c.name].problem
    }
    order = sorted(stores, key=lambda name: name != INCREMENTAL)
    for name in order:
        if name == order[0]:
            right[name] = stores[name].verify(VIEW).ok
        else:
            right[name] = not _differences(session, stores[order[0]], stores[name])
    for contender in chosen:
        if isinstance(contender, Hand) and not found[HAND].problem:
            right[HAND] = not contender.differences()
    return right


def _differences(session: Session, one: Store, two: Store) -> int:
    """Count the rows that two stores' views do not share."""
    columns = ", ".join(f"`{c.name}`" for c in one.views()[0].columns)
    first, second = (f"SELECT {columns} FROM {table_at(s.location(VIEW))}" for s in (one, two))
    both = (f"{first} EXCEPT ALL {second}", f"{second} EXCEPT ALL {first}")
    return sum(int(session.run(f"SELECT count(*) FROM ({query})")[0][0]) for query in both)
