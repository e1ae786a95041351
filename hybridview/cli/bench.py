"""The command that measures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hybridview.cli.output import guarded, note, say


def bench(
    scale: Annotated[float, typer.Option(help="Scale of TPC-H; 1 is about 1 GB.")] = 1.0,
    queries: Annotated[
        str | None, typer.Option(help="Queries, such as 1,3,6; all, or none.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Changes in percent of orders, such as 0.01,1; or all.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Rounds of each cell, at least.", min=1)] = 3,
    most_repeats: Annotated[
        int | None, typer.Option(help="Rounds where the spread is wide.  [default: 7]")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="8 queries, 3 sizes, 3 rounds: some 20 minutes.")
    ] = False,
    floors: Annotated[bool, typer.Option(help="Measure fixed costs too.")] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Measure anew what is measured already.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Only print what was measured before.")
    ] = False,
    settings: Annotated[
        bool,
        typer.Option("--settings", help="Measure settings of the local session instead."),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where data and results are kept.  [default: in your cache]"),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the report as a page into this folder, too.")
    ] = None,
    driver_memory: Annotated[str, typer.Option(help="Memory of Spark's driver.")] = "6g",
) -> None:
    """Measure refreshes of TPC-H views against recomputes and MERGEs written by hand.

    All 22 queries with six change sizes, unless you choose. Every finished cell is kept: a run that
    was stopped goes on where it ended.
    """

    def body() -> int:
        from hybridview.bench import run

        if settings:
            say(run.settings(repeats, note, page))
            return 0
        place = folder or run.default_folder()
        if not report:
            wanted = run.wanted(place, scale, queries, sizes, (repeats, most_repeats), quick)
            measured = replace(wanted, floors=floors, again=again, driver_memory=driver_memory)
            run.run(measured, note)
        lines, right = run.show(place, page)
        say(lines)
        return 0 if right else 1

    guarded(body)
