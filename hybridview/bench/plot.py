"""Results -> a picture: time against change size, one panel per query, the crossover marked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from hybridview.bench.cells import (
    HAND,
    HYBRID,
    INCREMENTAL,
    RECOMPUTE,
    SNAPSHOT,
    Cell,
    Results,
)
from hybridview.bench.report import crossover

STYLES: dict[str, dict[str, Any]] = {
    RECOMPUTE: {"color": "#7f7f7f", "marker": "s", "label": "Spark recompute + overwrite"},
    SNAPSHOT: {"color": "#e69f00", "marker": "v", "label": "hybridview snapshot"},
    INCREMENTAL: {
        "color": "#56b4e9",
        "marker": "o",
        "label": "hybridview incremental",
        "linewidth": 4.5,
        "alpha": 0.6,
    },
    HAND: {"color": "#009e73", "marker": "D", "label": "MERGE written by hand"},
    HYBRID: {"color": "#d55e00", "marker": "*", "label": "hybridview hybrid"},
}
"""Colours that can be told apart by everybody. Hybrid is drawn last, over what it chose."""
ACROSS = 4
ROOM = 1.6
"""How far the axis of sizes reaches beyond the smallest and the largest, as a factor."""


def draw(results: Results, scale: float, folder: Path) -> tuple[Path, ...]:
    """Write the picture of one scale as PNG and SVG; nothing if matplotlib is not there."""
    try:
        import matplotlib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return ()
    matplotlib.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    queries = sorted({cell.query for cell in results.at(scale)})
    if not queries:
        return ()
    across = min(ACROSS, len(queries))
    down = math.ceil(len(queries) / across)
    figure, axes = pyplot.subplots(
        down, across, figsize=(3.6 * across, 2.9 * down + 1.1), squeeze=False, sharex=True
    )
    panels = [panel for row in axes for panel in row]
    for panel, query in zip(panels, queries, strict=False):
        _panel(panel, results, scale, query)
    # By itself an axis with one size only, and logarithms, has no width.
    sizes = sorted({cell.percent for cell in results.at(scale)})
    panels[0].set_xlim(sizes[0] / ROOM, sizes[-1] * ROOM)
    panels[0].set_xticks(sizes, [f"{size:g}" for size in sizes])
    for panel in panels[len(queries) :]:
        panel.set_axis_off()
    # A panel with none below it shows the numbers of the axis that its column shares.
    for panel in panels[max(0, len(queries) - across) : len(queries)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("changed orders, %")
    lines = _legend(figure, panels[: len(queries)], across)
    figure.suptitle(f"TPC-H SF{scale:g}: seconds to bring a view up to date")
    bottom = (0.25 + 0.22 * lines) / (2.9 * down + 1.1)
    figure.tight_layout(rect=(0, bottom, 1, 0.99))
    paths = tuple(folder / f"bench-sf{scale:g}.{kind}" for kind in ("png", "svg"))
    for path in paths:
        figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return paths


def _panel(panel: Any, results: Results, scale: float, query: int) -> None:
    from matplotlib.ticker import LogLocator  # type: ignore[import-not-found, unused-ignore]

    cells = [cell for cell in results.at(scale) if cell.query == query]
    for name, style in STYLES.items():
        points = _points(cells, name)
        if points:
            panel.plot(*zip(*points, strict=True), markersize=5, **style)
    duck = results.ducks.get((scale, query))
    if duck is not None and duck.seconds is not None:
        panel.axhline(duck.seconds, color="black", linestyle=":", linewidth=1, label="DuckDB")
    cross = crossover(cells)
    if cross is not None:
        panel.axvline(cross, color="#cc79a7", linestyle="--", linewidth=1, label="crossover")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(f"Q{query}{_crossover_text(cells, cross)}", size=10)
    panel.minorticks_off()
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.grid(visible=True, alpha=0.3)


def _points(cells: list[Cell], name: str) -> list[tuple[float, float]]:
    return [(c.percent, s) for c in cells if (s := c.seconds(name)) is not None]


def _crossover_text(cells: list[Cell], cross: float | None) -> str:
    if cross is None:
        return ""
    smallest = math.isclose(cross, min(cell.percent for cell in cells))
    return f", crossover {'below ' if smallest else ''}{cross:.2g} %"


def _legend(figure: Any, panels: list[Any], across: int) -> int:
    """Explain every line once, below all panels; return how many rows of text that takes."""
    shown: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    columns = min(across, len(shown))
    figure.legend(list(shown.values()), list(shown), loc="lower center", ncol=columns, fontsize=9)
    return math.ceil(len(shown) / columns)
