"""What the figures should be, what they are, and whether that is met."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hybridview.bench.cells import HAND, HYBRID, RECOMPUTE, STRATEGIES, TIME, Cell, Results
from hybridview.bench.queries import ALL, BY_HAND

SMALL = 0.01
"""The change, in percent of orders, that small changes are judged by."""
LARGE_SCALE, SMALL_SCALE = 10.0, 1.0
ALL_OF_FIFTY = "50 views, all changed / one view"
FIVE_OF_FIFTY = "50 views, 5 changed / one view"


@dataclass(frozen=True, slots=True)
class Line:
    """One target: its bound, what was measured, and from how many cells of how many."""

    name: str
    bound: str
    measured: float | None
    met: bool | None
    """None if it was not measured, or not in full."""
    note: str = ""


def at_least(bound: float) -> tuple[str, Callable[[float], bool]]:
    return f">= {bound:g}", lambda value: value >= bound


def at_most(bound: float) -> tuple[str, Callable[[float], bool]]:
    return f"<= {bound:g}", lambda value: value <= bound


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean; None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def to_best(cell: Cell) -> float | None:
    """Return how many times longer hybrid took than the best of the three strategies."""
    measured = [s for s in map(cell.seconds, STRATEGIES) if s is not None]
    hybrid = cell.seconds(HYBRID)
    return hybrid / min(measured) if hybrid is not None and measured else None


def targets(results: Results) -> tuple[Line, ...]:
    """Return all targets with what was measured of them."""
    best = _known(to_best(cell) for cell in results.cells.values())
    count = f"{len(best)} cells"
    return (
        _to_recompute(results, LARGE_SCALE, at_least(5)),
        _to_recompute(results, SMALL_SCALE, at_least(2)),
        _to_hand(results),
        _line("hybrid / best strategy, median of all cells", at_most(1.1), _median(best), count),
        _line(
            "hybrid / best strategy, 95th percentile", at_most(1.5), percentile(best, 0.95), count
        ),
        _across_scales(results),
        _floor(results, ALL_OF_FIFTY, 15),
        _floor(results, FIVE_OF_FIFTY, 4),
        *(_to_duckdb(results, query) for query in (1, 6)),
    )


def _line(
    name: str,
    bound: tuple[str, Callable[[float], bool]],
    measured: float | None,
    note: str = "",
    complete: bool = True,
) -> Line:
    text, test = bound
    met = test(measured) if measured is not None and complete else None
    return Line(name, text, measured, met, note)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _to_recompute(
    results: Results, scale: float, bound: tuple[str, Callable[[float], bool]]
) -> Line:
    cells = results.at(scale, SMALL)
    known = _known(c.ratio(RECOMPUTE, HYBRID) for c in cells)
    moved = geometric_mean(_known(c.ratio(RECOMPUTE, HYBRID) for c in cells if c.moved))
    note = f"{len(known)} of {len(ALL)} queries"
    if moved is not None:
        note += f"; {moved:.2f} for those whose tables changed"
    name = f"SF{scale:g}, {SMALL:g} %: Spark recompute / hybrid, geometric mean"
    return _line(name, bound, geometric_mean(known), note, len(known) == len(ALL))


def _to_hand(results: Results) -> Line:
    cells = [c for c in results.at(LARGE_SCALE, SMALL) if c.query in BY_HAND]
    known = _known(c.ratio(HYBRID, HAND) for c in cells)
    note = f"{len(known)} of {len(BY_HAND)} queries"
    if known:
        note += f", worst {max(known):.2f}"
    name = f"SF{LARGE_SCALE:g}, {SMALL:g} %: hybrid / hand-written MERGE, geometric mean"
    return _line(name, at_most(1.2), geometric_mean(known), note, len(known) == len(BY_HAND))


def _across_scales(results: Results) -> Line:
    """Compare two scales at the same number of changed orders: a smaller share of more of them."""
    factor = LARGE_SCALE / SMALL_SCALE
    ratios: list[float] = []
    apart: list[float] = []
    for cell in results.at(LARGE_SCALE):
        for other in results.at(SMALL_SCALE):
            same = math.isclose(other.percent, cell.percent * factor)
            mine, theirs = cell.seconds(HYBRID), other.seconds(HYBRID)
            if same and cell.query == other.query and mine is not None and theirs:
                ratios.append(mine / theirs)
                apart += _hours_between(cell, other)
    name = "hybrid SF10 / SF1 at the same absolute change, geometric mean"
    note = f"{len(ratios)} pairs of cells"
    if apart:
        note += f", at most {max(apart):.1f} hours apart"
    return _line(name, at_most(1.5), geometric_mean(ratios), note)


def _hours_between(one: Cell, two: Cell) -> list[float]:
    """Return how far apart two cells were measured: a machine may be slower at another time."""
    if not one.measured or not two.measured:
        return []
    first, second = (datetime.strptime(cell.measured, TIME) for cell in (one, two))
    return [abs((first - second).total_seconds()) / 3600]


def _floor(results: Results, name: str, bound: float) -> Line:
    floor = results.floors.get(name)
    return _line(name, at_most(bound), floor.value if floor else None)


def _to_duckdb(results: Results, query: int) -> Line:
    duck = results.ducks.get((LARGE_SCALE, query))
    cell = results.cells.get((LARGE_SCALE, query, SMALL))
    ours = cell.seconds(HYBRID) if cell else None
    theirs = duck.seconds if duck else None
    ratio = theirs / ours if theirs is not None and ours else None
    name = f"Q{query}, SF{LARGE_SCALE:g}, {SMALL:g} %: DuckDB recompute / hybrid"
    return _line(name, at_least(1), ratio)
