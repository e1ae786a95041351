"""One cell of the benchmark: a query, a change size, and what each contender's rounds cost.

Pure data: which rounds are run in which order, when the spread asks for more of them, medians, and
the file that keeps finished cells, so that a run goes on where another one ended.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hybridview.bench.queries import CHANGING, tables_of
from hybridview.errors import UsageError

SCHEMA = 1
LEAST_ROUNDS, MOST_ROUNDS = 3, 7
WIDE = 0.25
"""A contender whose rounds differ by more than this share of their median is measured again."""
NOTICEABLE = 0.1
"""Seconds; rounds that differ by less agree, whatever share of their median that is."""
LONG = 5.0
"""Seconds; what takes longer and has agreeing rounds is not repeated for the sake of others."""
SLOW, PATIENCE = 10, 60.0
"""What takes so many times the recompute, and more than so many seconds, is measured once."""

TIME = "%Y-%m-%d %H:%M UTC"
"""How a time is written."""

RECOMPUTE = "recompute"
SNAPSHOT = "snapshot"
INCREMENTAL = "incremental"
HYBRID = "hybrid"
HAND = "hand"
CONTENDERS = (RECOMPUTE, SNAPSHOT, INCREMENTAL, HYBRID, HAND)
STRATEGIES = (SNAPSHOT, INCREMENTAL, HYBRID)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Round:
    """What one run of one contender cost."""

    seconds: float
    jobs: int
    commits: int
    bytes_read: int
    executed: str = ""
    """What hybridview did; empty for the others."""
    problem: str = ""
    """Why there is no result; empty if there is one."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A finished cell: all rounds of all contenders, from one state and by one change."""

    scale: float
    query: int
    percent: float
    """The changed share of orders, in percent."""
    orders: int
    """The number of changed orders."""
    rounds: Mapping[str, tuple[Round, ...]]
    verified: Mapping[str, bool]
    memory: Mapping[str, int] = field(default_factory=dict)
    """The largest resident memory so far, in bytes, by process: jvm, python."""
    measured: str = ""
    """When it was finished, in UTC: cells of one file may come from several runs."""

    @property
    def key(self) -> tuple[float, int, float]:
        return self.scale, self.query, self.percent

    def seconds(self, contender: str) -> float | None:
        """Return a contender's median; None if it was not measured or gave no result."""
        return middle(self.rounds.get(contender, ()))

    def ratio(self, above: str, below: str) -> float | None:
        """Return how many times longer one contender took than another."""
        first, second = self.seconds(above), self.seconds(below)
        return first / second if first is not None and second else None

    @property
    def moved(self) -> bool:
        """Whether the change concerned the query's tables at all; its result may stay the same."""
        return bool(set(CHANGING) & set(tables_of(self.query)))

    def last(self, contender: str) -> Round | None:
        rounds = self.rounds.get(contender, ())
        return rounds[-1] if rounds else None


@dataclass(frozen=True, slots=True)
class Duck:
    """DuckDB's recompute of one query at one scale: no table is written."""

    scale: float
    query: int
    rounds: tuple[float, ...]
    rows: int
    problem: str = ""

    @property
    def seconds(self) -> float | None:
        return statistics.median(self.rounds) if self.rounds else None


@dataclass(frozen=True, slots=True)
class Floor:
    """One fixed cost: a figure, its unit, and what it should be at most, if that was set."""

    name: str
    value: float
    unit: str
    target: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.value <= self.target


@dataclass
class Results:
    """Everything measured so far, in one file."""

    cells: dict[tuple[float, int, float], Cell] = field(default_factory=dict)
    ducks: dict[tuple[float, int], Duck] = field(default_factory=dict)
    floors: dict[str, Floor] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)

    def scales(self) -> tuple[float, ...]:
        return tuple(sorted({cell.scale for cell in self.cells.values()}))

    def at(self, scale: float, percent: float | None = None) -> tuple[Cell, ...]:
        """Return the cells of a scale, of one change size if it is given, by query and size."""
        return tuple(
            cell
            for key, cell in sorted(self.cells.items())
            if cell.scale == scale and percent in (None, cell.percent)
        )


def rotated(contenders: Sequence[T], number: int) -> tuple[T, ...]:
    """Return the contenders in the order of a round: each one is first in turn.

    Every other round goes backwards, or one contender would always run right after the same other
    one, and find in memory what that one has just read.
    """
    count = len(contenders)
    step = -1 if number % 2 else 1
    return tuple(contenders[(number + step * i) % count] for i in range(count))


def middle(rounds: Sequence[Round]) -> float | None:
    """Return the median seconds of rounds; None if one of them gave no result."""
    if not rounds or any(r.problem for r in rounds):
        return None
    return statistics.median(r.seconds for r in rounds)


def spread(rounds: Sequence[Round]) -> float:
    """Return the distance of the slowest and the fastest round, as a share of the median."""
    seconds = [r.seconds for r in rounds]
    middle_one = statistics.median(seconds) if seconds else 0.0
    return (max(seconds) - min(seconds)) / middle_one if middle_one else 0.0


def _differ(rounds: Sequence[Round]) -> bool:
    """Say whether rounds differ so much that their median may be off."""
    seconds = [r.seconds for r in rounds]
    return spread(rounds) > WIDE and max(seconds) - min(seconds) > NOTICEABLE


def still_to_run(
    rounds: Mapping[str, Sequence[Round]], least: int = LEAST_ROUNDS, most: int = MOST_ROUNDS
) -> tuple[str, ...]:
    """Return the contenders that need another round, in the order they were given.

    All of them run `least` rounds. Then they go on together while the spread of one is wide:
    rounds of one contender alone would meet another state of the machine than the others did. Only
    those that take long, and agree, have been measured enough. What failed, or is hopelessly slow,
    is not repeated at all.
    """
    recompute = rounds.get(RECOMPUTE, ())
    limit = max(PATIENCE, SLOW * recompute[0].seconds) if recompute else PATIENCE
    alive = [
        name
        for name, done in rounds.items()
        if not any(r.problem or (r.seconds > limit and name != RECOMPUTE) for r in done)
    ]
    done = max((len(rounds[name]) for name in alive), default=0)
    if done < least:
        return tuple(alive)
    wide = {name for name in alive if _differ(rounds[name])}
    if done >= most or not wide:
        return ()
    return tuple(name for name in alive if name in wide or (middle(rounds[name]) or 0) <= LONG)


def read_results(path: Path) -> Results:
    """Read the file of results; empty if there is none yet."""
    if not path.exists():
        return Results()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"its schema is {data['schema']}, this program writes {SCHEMA}")
        return _from_json(data)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f'"{path}" holds no results of this benchmark',
            detail=f"{type(error).__name__}: {error}.",
            hint=f"Move it away: mv {path} {path}.old",
        ) from None


def _from_json(data: dict[str, Any]) -> Results:
    cells = [
        Cell(
            **{
                **cell,
                "rounds": {n: tuple(Round(**r) for r in rs) for n, rs in cell["rounds"].items()},
            }
        )
        for cell in data["cells"]
    ]
    ducks = [Duck(**{**duck, "rounds": tuple(duck["rounds"])}) for duck in data["duckdb"]]
    floors = [Floor(**floor) for floor in data["floors"]]
    return Results(
        {cell.key: cell for cell in cells},
        {(duck.scale, duck.query): duck for duck in ducks},
        {floor.name: floor for floor in floors},
        dict(data["machine"]),
    )


def write_results(path: Path, results: Results) -> None:
    """Replace the file of results in one step: a run that is killed leaves the old one."""
    data = {
        "schema": SCHEMA,
        "machine": results.machine,
        "cells": [asdict(cell) for _, cell in sorted(results.cells.items())],
        "duckdb": [asdict(duck) for _, duck in sorted(results.ducks.items())],
        "floors": [asdict(floor) for floor in results.floors.values()],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def wanted_cells(
    results: Results,
    scale: float,
    queries: Sequence[int],
    sizes: Sequence[float],
    again: bool = False,
) -> dict[int, tuple[float, ...]]:
    """Return the sizes that are still to be measured, by query; all of them with `again`."""
    found = {
        query: tuple(s for s in sizes if again or (scale, query, s) not in results.cells)
        for query in queries
    }
    return {query: todo for query, todo in found.items() if todo}
