"""The benchmark from end to end: data, changes, cells, floors, report; goes on where it ended."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from hybridview.bench.cells import (
    LEAST_ROUNDS,
    MOST_ROUNDS,
    TIME,
    Results,
    read_results,
    wanted_cells,
    write_results,
)
from hybridview.bench.changes import ALL_SIZES, QUICK_SIZES, Prepared, change_of, prepare
from hybridview.bench.data import Data, load
from hybridview.bench.duck import measure_duckdb
from hybridview.bench.floors import Extent, measure_floors
from hybridview.bench.page import write_page, write_settings
from hybridview.bench.plot import draw
from hybridview.bench.queries import ALL, QUICK
from hybridview.bench.report import all_right, report
from hybridview.bench.rounds import Query, Say
from hybridview.bench.settings import measure_settings
from hybridview.bench.targets import FIVE_OF_FIFTY
from hybridview.engine.local import start_local
from hybridview.engine.session import Session, SparkPort
from hybridview.errors import UsageError

RESULTS = "results.json"
REPORT = "report.txt"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and where to keep it."""

    folder: Path
    scale: float = 1.0
    queries: tuple[int, ...] = ALL
    sizes: tuple[float, ...] = ALL_SIZES
    least: int = LEAST_ROUNDS
    most: int = MOST_ROUNDS
    floors: bool = True
    again: bool = False
    driver_memory: str = "6g"
    fan_rounds: int = LEAST_ROUNDS
    """How often a store of fifty views is refreshed."""


def wanted(
    folder: Path,
    scale: float,
    queries: str | None,
    sizes: str | None,
    repeats: tuple[int, int | None],
    quick: bool,
) -> Plan:
    """Return what a user asked for; everything, or the quick choice, where nothing was said."""
    least, most = repeats
    return Plan(
        folder,
        scale,
        QUICK if quick and queries is None else read_queries(queries or "all"),
        QUICK_SIZES if quick and sizes is None else read_sizes(sizes or "all"),
        least,
        max(least, most or (least if quick else MOST_ROUNDS)),
        fan_rounds=1 if quick else least,
    )


def default_folder() -> Path:
    """Return where data and results are kept if nobody says where."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "hybridview" / "bench"


def read_queries(text: str) -> tuple[int, ...]:
    """Read query numbers, such as `1,3,6` or `q1 q3`; `all`, or `none`."""
    if text.strip().lower() in ("all", "none"):
        return ALL if text.strip().lower() == "all" else ()
    try:
        found = tuple(int(word.lower().removeprefix("q")) for word in _words(text))
    except ValueError:
        found = (0,)
    if not found or not set(found) <= set(ALL):
        raise UsageError(
            f'"{text}" names no queries of TPC-H',
            hint="Write: --queries 1,3,6 (1 to 22), all, or none",
        )
    return tuple(dict.fromkeys(found))


def read_sizes(text: str) -> tuple[float, ...]:
    """Read change sizes in percent of orders, such as `0.01,1`; `all`."""
    if text.strip().lower() == "all":
        return ALL_SIZES
    try:
        found = tuple(float(word.removesuffix("%")) for word in _words(text))
    except ValueError:
        found = ()
    if not found or not all(0 < size <= 100 for size in found):
        raise UsageError(
            f'"{text}" gives no change sizes',
            hint="Write: --sizes 0.01,1,10 (percent of orders, up to 100), or all",
        )
    return tuple(sorted(set(found)))


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def run(plan: Plan, say: Say, port: SparkPort | None = None) -> Results:
    """Measure what is still missing, and keep each cell as soon as it is finished."""
    path = plan.folder / RESULTS
    results = read_results(path)
    results.machine = machine(plan)
    todo = wanted_cells(results, plan.scale, plan.queries, plan.sizes, plan.again)
    # The last of the floors: without it they were interrupted.
    floors = plan.floors and (plan.again or FIVE_OF_FIFTY not in results.floors)
    if not todo and not floors:
        say("everything is measured already; --again measures it anew")
        return results
    plan.folder.mkdir(parents=True, exist_ok=True)
    own = port is None
    port = port or start_local(
        {
            "spark.driver.memory": plan.driver_memory,
            "spark.sql.warehouse.dir": str((plan.folder / "catalog").resolve()),
            # Bytes that tasks read are counted when they end, not some time later.
            "spark.ui.liveUpdate.period": "0",
            # And bytes that Parquet reads in the background are not counted at all.
            "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        }
    )
    try:
        if todo:
            _measure_cells(plan, port, results, todo, say)
        if floors:
            for floor in measure_floors(
                port, plan.folder / "floors", say, Extent(fan_rounds=plan.fan_rounds)
            ):
                results.floors[floor.name] = floor
                write_results(path, results)
    finally:
        if own:
            port.stop()
    return results


def _measure_cells(
    plan: Plan, port: SparkPort, results: Results, todo: dict[int, tuple[float, ...]], say: Say
) -> None:
    session = port.writer()
    say(f"SF{plan.scale:g}: loading tables")
    data = load(session, plan.folder, plan.scale)
    changes = _prepare(session, data, sorted({s for sizes in todo.values() for s in sizes}), say)
    for query, sizes in todo.items():
        if plan.again or (plan.scale, query) not in results.ducks:
            results.ducks[plan.scale, query] = measure_duckdb(data, query)
        with Query(port.spark, session, data, query, say) as measured:
            for size in sizes:
                cell = measured.measure(changes[size], plan.least, plan.most)
                results.cells[cell.key] = replace(cell, measured=_now())
                write_results(plan.folder / RESULTS, results)


def _prepare(
    session: Session, data: Data, sizes: Sequence[float], say: Say
) -> dict[float, Prepared]:
    found: dict[float, Prepared] = {}
    for size in sizes:
        change = change_of(size, data.rows["orders"])
        say(f"SF{data.scale:g}: change of {size:g} %, {change.orders:,} orders")
        found[size] = prepare(session, data.base, data.folder / "changes", change)
    return found


def show(folder: Path, page: Path | None = None) -> tuple[list[str], bool]:
    """Return the report of what was measured, and whether all was right; draw the pictures.

    With `page`, it becomes a page in that folder too.
    """
    results = read_results(folder / RESULTS)
    if not results.cells and not results.floors:
        raise UsageError(
            f'nothing was measured in "{folder}"', hint="Measure with: hybridview bench --quick"
        )
    lines = report(results)
    (folder / REPORT).write_text("\n".join(lines) + "\n", encoding="utf-8")
    pictures = [path for scale in results.scales() for path in draw(results, scale, folder)]
    shown = [f"results: {folder / RESULTS}"]
    if page is not None:
        shown.append(f"page: {write_page(page, lines, folder / RESULTS, pictures)}")
    lines += ["", *shown]
    lines += [f"picture: {path}" for path in pictures]
    if results.cells and not pictures:
        lines += ["no picture: matplotlib is missing. Run: pip install 'hybridview[bench]'"]
    return lines, all_right(results)


def settings(repeats: int, say: Say, page: Path | None = None) -> list[str]:
    """Measure settings of the local session; return a table, and make a page in a folder of it."""
    lines = measure_settings(repeats, say)
    if page is None:
        return lines
    return [*lines, "", f"page: {write_settings(page, lines, repeats, _now())}"]


def machine(plan: Plan) -> dict[str, str]:
    """Say what the figures were measured on."""
    versions = [f"{p} {metadata.version(p)}" for p in ("hybridview", "pyspark", "delta-spark")]
    return {
        "measured": _now(),
        "machine": f"{os.cpu_count()} cores, {_memory()}, {platform.system()} "
        f"{platform.machine()}; driver memory {plan.driver_memory}",
        "versions": ", ".join([*versions, f"Python {platform.python_version()}"]),
    }


def _now() -> str:
    return datetime.now(UTC).strftime(TIME)


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "unknown memory"
    return f"{size / 2**30:.0f} GB"
