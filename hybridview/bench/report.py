"""Results -> text: times and ratios, what was done for them, floors, targets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hybridview.bench.cells import (
    CONTENDERS,
    HAND,
    HYBRID,
    INCREMENTAL,
    RECOMPUTE,
    Cell,
    Floor,
    Results,
    spread,
)
from hybridview.bench.targets import Line, geometric_mean, targets, to_best

LEFT = ("query", "hybrid did", "floor", "target", "note", "")


def report(results: Results) -> list[str]:
    """Return the whole report, line by line."""
    lines = [f"{name}: {value}" for name, value in results.machine.items()]
    for scale in results.scales():
        lines += ["", *scale_report(results, scale)]
    if results.floors:
        lines += ["", "Floors", *floor_table(results.floors.values())]
    lines += ["", "Targets", *target_table(targets(results))]
    wrong = [
        f"q{c.query} at {c.percent:g} % of SF{c.scale:g}: {name}"
        for c in results.cells.values()
        for name, right in c.verified.items()
        if not right
    ]
    checked = sum(len(c.verified) for c in results.cells.values())
    verdict = f"NO, THESE DIFFER: {'; '.join(wrong)}" if wrong else "all right"
    return [*lines, "", f"verified: {checked} results, {verdict}"]


def all_right(results: Results) -> bool:
    return all(all(cell.verified.values()) for cell in results.cells.values())


def scale_report(results: Results, scale: float) -> list[str]:
    """Return the tables of one scale."""
    cells = results.at(scale)
    sizes = sorted({cell.percent for cell in cells})
    lines = [f"SF{scale:g}: seconds (median) and ratios{_when(cells)}"]
    lines += [*time_table(results, cells), ""]
    lines += [f"SF{scale:g}: jobs / commits / MB read", *work_table(cells), ""]
    lines += [f"SF{scale:g}: geometric means", *mean_table(results, scale, sizes)]
    peaks = [cell.memory for cell in cells if cell.memory]
    if peaks:
        largest = {name: max(p.get(name, 0) for p in peaks) for name in ("jvm", "python")}
        shown = ", ".join(f"{name} {size / 1e9:.1f} GB" for name, size in largest.items())
        lines += ["", f"peak memory: {shown}"]
    return lines


def time_table(results: Results, cells: Iterable[Cell]) -> list[str]:
    head = ("query", "change %", *CONTENDERS, "duckdb", "rec/hyb", "hyb/hand", "hyb/best")
    rows: list[tuple[str, ...]] = [(*head, "spread", "hybrid did")]
    for cell in cells:
        duck = results.ducks.get((cell.scale, cell.query))
        wide = max((spread(r) for r in cell.rounds.values()), default=0.0)
        rows.append(
            (
                f"q{cell.query}",
                f"{cell.percent:g}",
                *(_seconds(cell, name) for name in CONTENDERS),
                _number(duck.seconds if duck else None),
                _number(cell.ratio(RECOMPUTE, HYBRID)),
                _number(cell.ratio(HYBRID, HAND)),
                _number(to_best(cell)),
                f"{wide:.0%}",
                _executed(cell),
            )
        )
    return table(rows)


def work_table(cells: Iterable[Cell]) -> list[str]:
    rows: list[tuple[str, ...]] = [("query", "change %", *CONTENDERS)]
    for cell in cells:
        rows.append((f"q{cell.query}", f"{cell.percent:g}", *(_work(cell, n) for n in CONTENDERS)))
    return table(rows)


def mean_table(results: Results, scale: float, sizes: Sequence[float]) -> list[str]:
    """Return ratios over all queries, and over those whose tables changed, by size."""
    rows = [("change %", "rec/hyb", "of changed", "rec/inc", "hyb/hand", "crossovers below")]
    for size in sizes:
        cells = results.at(scale, size)
        moved = [c for c in cells if c.moved]
        crossed = sum(1 for q in {c.query for c in cells} if _crossed(results, scale, q, size))
        rows.append(
            (
                f"{size:g}",
                _mean(cells, RECOMPUTE, HYBRID),
                _mean(moved, RECOMPUTE, HYBRID),
                _mean(moved, RECOMPUTE, INCREMENTAL),
                _mean(cells, HYBRID, HAND),
                f"{crossed} of {len(moved)}",
            )
        )
    return table(rows)


def crossover(cells: Sequence[Cell], one: str = INCREMENTAL, two: str = RECOMPUTE) -> float | None:
    """Return the change size from which `one` takes longer than `two`; None if it never does.

    Between two measured sizes both times are taken to be straight lines on logarithmic scales. If
    it takes longer at the smallest size already, that size is returned.
    """
    points = [
        (math.log(cell.percent), math.log(ratio))
        for cell in sorted(cells, key=lambda c: c.percent)
        if (ratio := cell.ratio(one, two)) is not None
    ]
    if points and points[0][1] > 0:
        return math.exp(points[0][0])
    for (x, low), (next_x, high) in pairwise(points):
        if low <= 0 < high:
            return math.exp(x + (next_x - x) * (0 - low) / (high - low))
    return None


def floor_table(floors: Iterable[Floor]) -> list[str]:
    rows = [("floor", "measured", "", "at most", "met", "note")]
    for floor in floors:
        bound = "" if floor.target is None else f"{floor.target:g}"
        rows.append(
            (floor.name, f"{floor.value:.3g}", floor.unit, bound, _met(floor.met), floor.note)
        )
    return table(rows)


def target_table(lines: Iterable[Line]) -> list[str]:
    rows = [("target", "bound", "measured", "met", "note")]
    for line in lines:
        met = "not measured" if line.measured is None else _met(line.met) or "in part"
        rows.append((line.name, line.bound, _number(line.measured), met, line.note))
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out rows in columns; the first row has their names."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    left = [name in LEFT for name in rows[0]]
    return [
        "  ".join(
            text.ljust(width) if to_left else text.rjust(width)
            for text, width, to_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in rows
    ]


def _when(cells: Sequence[Cell]) -> str:
    """Say when cells were measured: those of several runs may stand in one table."""
    times = sorted({cell.measured for cell in cells} - {""})
    if not times:
        return ""
    unknown = sum(not cell.measured for cell in cells)
    earlier = f" ({unknown} of {len(cells)} cells earlier)" if unknown else ""
    return f", measured {times[0]}" + (f" to {times[-1]}" if times[1:] else "") + earlier


def _met(met: bool | None) -> str:
    return "" if met is None else "met" if met else "MISSED"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _seconds(cell: Cell, name: str) -> str:
    last = cell.last(name)
    return "failed" if last and last.problem else _number(cell.seconds(name))


def _work(cell: Cell, name: str) -> str:
    last = cell.last(name)
    if last is None or last.problem:
        return "-"
    return f"{last.jobs} / {last.commits} / {last.bytes_read / 1e6:.1f}"


def _executed(cell: Cell) -> str:
    last = cell.last(HYBRID)
    return last.executed if last else ""


def _mean(cells: Iterable[Cell], above: str, below: str) -> str:
    ratios = [r for c in cells if (r := c.ratio(above, below)) is not None]
    return _number(geometric_mean(ratios))


def _crossed(results: Results, scale: float, query: int, size: float) -> bool:
    found = crossover([c for c in results.at(scale) if c.query == query])
    return found is not None and found <= size
