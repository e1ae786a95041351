"""Fixed costs: what a refresh costs beyond the change it applies, one line each."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hybridview.bench.cells import Floor, rotated
from hybridview.bench.compiling import compiling
from hybridview.bench.links import copy_store
from hybridview.bench.meter import Meter, commits_below
from hybridview.bench.queries import ALL
from hybridview.bench.shell import run_command, time_command
from hybridview.bench.targets import ALL_OF_FIFTY, FIVE_OF_FIFTY
from hybridview.bench.vectors import deletion_vectors
from hybridview.catalog import FOLDER
from hybridview.deltalog import FEED_PROPERTY
from hybridview.engine.session import Session, SparkPort, table_at
from hybridview.store import Store

Say = Callable[[str], None]
TOTALS = "SELECT k, sum(x) AS s, count(*) AS n FROM base GROUP BY k"
START = """
import time
began = time.perf_counter()
from hybridview.engine.local import start_local
port = start_local()
port.run("SELECT 1")
print(time.perf_counter() - began)
port.stop()
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large the tables of the floors are, and how often each one is measured."""

    rows: int = 1_000_000
    groups: int = 100_000
    changed: int = 100
    rounds: int = 5
    stores: tuple[int, ...] = (1, 10, 50)
    """How many views the stores have that share one base table."""
    few: int = 5
    """How many of the views a small change concerns."""
    commands: int = 3
    """How often a refresh is run as a command, without and with an engine that is up."""
    fan_rounds: int = 1
    start: bool = True
    vectors: int = 2_000_000
    """Rows of the tables that deletion vectors are tried on."""
    compiled: tuple[int, ...] = ALL
    """The queries of TPC-H that are compiled."""


@dataclass
class Ground:
    """A base table with a change feed, and the stores over it."""

    port: SparkPort
    folder: Path
    extent: Extent
    session: Session = field(init=False)
    inserted: int = 0

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.session = self.port.writer()
        self.session.run(
            f"CREATE TABLE {table_at(self.base)} USING delta "
            f"TBLPROPERTIES ('{FEED_PROPERTY}' = 'true') AS SELECT id, "
            f"id % {self.extent.groups} AS k, id % {self.buckets} AS bucket, "
            f"CAST(id % 1000 AS DECIMAL(10,2)) AS x FROM range({self.extent.rows})"
        )

    @property
    def base(self) -> str:
        return str((self.folder / "base").resolve())

    @property
    def buckets(self) -> int:
        return max(self.extent.stores)

    def change(self, buckets: int) -> None:
        """Insert some rows, into the first so many buckets."""
        first = self.extent.rows + self.inserted
        self.inserted += self.extent.changed
        self.session.run(
            f"INSERT INTO {table_at(self.base)} SELECT id, (id * 37) % {self.extent.groups}, "
            f"id % {buckets}, CAST(5.25 AS DECIMAL(10,2)) "
            f"FROM range({first}, {first + self.extent.changed})"
        )

    def store(self, name: str, views: dict[str, str]) -> Store:
        """Return a new store with loaded views over the base table."""
        store = Store.open(self.folder / name, spark=self.port.spark)
        store.add_table("base", self.base)
        for view, text in views.items():
            store.create_view(view, text)
        store.refresh()
        return store


def measure_floors(
    port: SparkPort, folder: Path, say: Say, extent: Extent | None = None
) -> Iterator[Floor]:
    """Measure all floors; each one is handed out as soon as it is there."""
    extent = extent or Extent()
    if extent.start:
        say("floors: start of the local session")
        yield _start()
    ground = Ground(port, folder, extent)
    if extent.compiled:
        say("floors: compiling")
        yield compiling(port, folder / "tpch", extent.compiled)
    say("floors: one view")
    store = ground.store("one", {"totals": TOTALS})
    yield from small_change(ground, store)
    yield from nothing_changed(ground, store)
    yield from commands(ground)
    if extent.commands:
        say("floors: a small change by the command")
        yield from as_a_command(ground)
    if extent.vectors:
        say("floors: deletion vectors")
        yield from deletion_vectors(
            ground.session, folder / "vectors", extent.vectors, extent.rounds
        )
    yield from many_views(ground, say)
    shutil.rmtree(folder, ignore_errors=True)


def _start() -> Floor:
    """Measure in a process of its own: this one has a session already."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    note = "with a first statement"
    return Floor("start of the local session", float(done.stdout.split()[-1]), "s", note=note)


def nothing_changed(ground: Ground, store: Store) -> Iterator[Floor]:
    meter, seconds = Meter(ground.port.spark), []
    jobs = meter.jobs()
    for _ in range(ground.extent.rounds):
        started = time.perf_counter()
        store.refresh()
        seconds.append(time.perf_counter() - started)
    yield Floor("nothing changed, warm process", statistics.median(seconds), "s", 0.1)
    yield Floor("nothing changed, Spark jobs", meter.jobs() - jobs, "jobs", 0)


def commands(ground: Ground) -> Iterator[Floor]:
    """Run commands from a shell that has no Java: what starts a JVM fails there."""
    store = str(ground.folder / "one")
    yield time_command("refresh, nothing changed", ("refresh", "--store", store), 1.5)
    yield time_command("status", ("status", "--store", store))
    yield time_command("history", ("history", "--store", store))
    yield time_command("explain", ("explain", "totals", "--store", store))
    ground.change(ground.buckets)
    yield time_command("refresh --dry-run", ("refresh", "--dry-run", "--store", store))


def small_change(ground: Ground, store: Store) -> Iterator[Floor]:
    """Refresh after a small change, against one bare MERGE into the same table and one append."""
    session, folder = ground.session, ground.folder
    copy_store(Path(store.location("totals")), folder / "bare")
    bare, staged, log = (table_at(str((folder / n).resolve())) for n in ("bare", "staged", "log"))
    session.run(f"CREATE TABLE {log} (kind STRING, payload STRING) USING delta")

    def by_hand() -> None:
        session.run(
            f"MERGE INTO {bare} t USING {staged} d ON t.k = d.k "
            "WHEN MATCHED THEN UPDATE SET s = t.s + d.s, n = t.n + d.n "
            "WHEN NOT MATCHED THEN INSERT (k, s, n) VALUES (d.k, d.s, d.n)"
        )
        session.run(f"INSERT INTO {log} VALUES ('refresh', 'done')")

    def by_refresh() -> None:
        state = store.refresh(strategy="incremental").views[0]
        assert state.executed == "incremental", state.error or state.reason

    measured: dict[str, list[float]] = {"bare": [], "refresh": []}
    both = (("bare", by_hand), ("refresh", by_refresh))
    for number in range(ground.extent.rounds + 2):
        ground.change(ground.buckets)
        first = ground.extent.rows + ground.inserted - ground.extent.changed
        session.run(
            f"CREATE OR REPLACE TABLE {staged} USING delta AS SELECT k, sum(x) AS s, "
            f"count(*) AS n FROM {table_at(ground.base)} WHERE id >= {first} GROUP BY k"
        )
        for name, action in rotated(both, number):
            started = time.perf_counter()
            action()
            measured[name].append(time.perf_counter() - started)
    # The first two rounds let the JVM compile what it runs.
    middle = {name: statistics.median(seconds[2:]) for name, seconds in measured.items()}
    yield Floor(
        "one small change / one bare MERGE + one append",
        middle["refresh"] / middle["bare"],
        "x",
        1.5,
        f"{middle['refresh']:.2f} s / {middle['bare']:.2f} s",
    )
    yield Floor("one small change, warm process", middle["refresh"], "s")


def as_a_command(ground: Ground) -> Iterator[Floor]:
    """Refresh after a small change from a shell: with a Spark of its own, then by the engine."""
    where = ("--store", str(ground.folder / "one"))
    count = ground.extent.commands
    yield _small_commands(ground, where, "one small change, the command starts Spark", count)
    seconds, problem = run_command(("up", *where))
    yield Floor("hybridview up", seconds, "s", note=_failed(problem))
    try:
        # The first two let the engine's JVM compile what it runs.
        _small_commands(ground, where, "", 2)
        name = "one small change, the command attaches to the engine"
        yield _small_commands(ground, where, name, count)
    finally:
        run_command(("down", *where))


def _small_commands(ground: Ground, where: tuple[str, str], name: str, count: int) -> Floor:
    runs = []
    for _ in range(count):
        ground.change(ground.buckets)
        runs.append(run_command(("refresh", "--strategy", "incremental", *where)))
    problem = next((problem for _, problem in runs if problem), "")
    return Floor(name, statistics.median(s for s, _ in runs), "s", note=_failed(problem))


def _failed(problem: str) -> str:
    return f"FAILED: {problem}" if problem else ""


@dataclass(frozen=True, slots=True)
class Fan:
    """One refresh of a store with many views."""

    seconds: float
    beside: float
    """Seconds before the first view begins and after the last one ends: planning, bookkeeping."""
    commits: int
    """Commits to the bookkeeping table."""


def many_views(ground: Ground, say: Say) -> Iterator[Floor]:
    """Refresh stores of one and of many views over one base table."""
    stores: dict[int, Store] = {}
    for count in ground.extent.stores:
        say(f"floors: {count} views over one table")
        texts = {
            f"v{i}": TOTALS.replace("GROUP BY", f"WHERE bucket = {i} GROUP BY")
            for i in range(count)
        }
        stores[count] = ground.store(f"store_{count}", texts)
    every: dict[int, list[Fan]] = {count: [] for count in stores}
    some: dict[int, list[Fan]] = {count: [] for count in stores}
    sizes = tuple(stores)
    # The store with one view gets a round more that is not counted: it has the least to average.
    ground.change(ground.buckets)
    _refresh(stores[sizes[0]])
    for number in range(ground.extent.fan_rounds):
        for found, buckets in ((every, ground.buckets), (some, ground.extent.few)):
            ground.change(buckets)
            for count in rotated(sizes, number):
                found[count].append(_refresh(stores[count]))
    for count in sizes:
        fans = every[count]
        yield Floor(
            f"planning and bookkeeping, {count} view{'s' * (count > 1)}",
            statistics.median(f.beside for f in fans),
            "s",
            note=f"{fans[-1].commits} bookkeeping commit",
        )
    one, most = sizes[0], sizes[-1]
    yield _fan_ratio(ALL_OF_FIFTY, every[most], every[one], 15)
    yield _fan_ratio(FIVE_OF_FIFTY, some[most], some[one], 4)


def _fan_ratio(name: str, most: list[Fan], one: list[Fan], bound: float) -> Floor:
    high, low = (statistics.median(f.seconds for f in fans) for fans in (most, one))
    return Floor(name, high / low, "x", bound, f"{high:.2f} s / {low:.2f} s")


def _refresh(store: Store) -> Fan:
    before = commits_below(store.root / FOLDER)
    heard: list[float] = []
    started = time.perf_counter()
    result = store.refresh(
        strategy="incremental", listener=lambda *_: heard.append(time.perf_counter())
    )
    seconds = time.perf_counter() - started
    assert result.ok, next(v.error or v.reason for v in result.views if v.error)
    # Views run at the same time: their own seconds would add up to more than there were.
    beside = seconds - (heard[-1] - heard[0])
    return Fan(seconds, beside, commits_below(store.root / FOLDER) - before)
