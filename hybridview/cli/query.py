"""Commands that print rows: show, sql."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hybridview.cli import render
from hybridview.cli.options import (
    EpochOption,
    JsonOption,
    LatestOption,
    StoreOption,
    ViewArgument,
    open_store,
)
from hybridview.cli.output import guarded, say, say_rows, width
from hybridview.engine.connect import port_of
from hybridview.engine.interrupt import interruptible
from hybridview.engine.spark_errors import as_query_error, spark_errors


def show(
    view: ViewArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many rows.")] = 20,
    epoch: EpochOption = None,
    latest: LatestOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a view's rows, at the newest published epoch unless asked otherwise."""

    def body() -> int:
        opened, _ = open_store(store)
        with opened:
            _print_rows(opened.read(view, epoch, latest), limit, as_json)
        return 0

    guarded(body, as_json)


def sql(
    statement: Annotated[str, typer.Argument(help="A SELECT over views and tables.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many rows.")] = 100,
    epoch: EpochOption = None,
    latest: LatestOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a query over views and base tables. It changes nothing.

    All views are read at one epoch, the newest published one. Base tables are read at their newest
    version; with --epoch at the version that epoch saw. Other tables of Spark's catalog are read as
    they are. Not run: anything but one SELECT, files by their path (parquet.`...`, delta.`...`),
    scripts (TRANSFORM) and calls into Java (reflect).
    """

    def body() -> int:
        opened, _ = open_store(store)
        with opened:
            _print_rows(opened.sql(statement, epoch, latest), limit, as_json)
        return 0

    guarded(body, as_json)


def _print_rows(frame: Any, limit: int, as_json: bool) -> None:
    try:
        with interruptible(port_of(frame.sparkSession).cancel):
            found = frame.take(limit + 1)
    except spark_errors() as error:
        raise as_query_error(error, "<sql>") from None
    shown = found[:limit]
    if as_json:
        data = {"columns": frame.columns, "rows": [list(r) for r in shown]}
        typer.echo(render.as_json("rows", {**data, "more": len(found) > limit}))
        return
    say_rows(render.rows(frame.columns, shown, width()))
    more = ", and more" if len(found) > limit else ""
    say([f"{len(shown)} rows{more}"])
