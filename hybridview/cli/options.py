"""What several commands share: the store they work on, and their common options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hybridview.cli.output import note
from hybridview.config import Config, find_config
from hybridview.operations.context import PARALLEL
from hybridview.schema import Strategy
from hybridview.store import Store

StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        "-s",
        help="Folder of the store. Else HYBRIDVIEW_STORE, hybridview.toml, or this folder.",
        envvar="HYBRIDVIEW_STORE",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ViewsArgument = Annotated[
    list[str] | None, typer.Argument(help="Views; all if none.", metavar="VIEW")
]
ViewArgument = Annotated[str, typer.Argument(help="Name of the view.")]
EpochOption = Annotated[int | None, typer.Option(help="An older epoch; else the newest.")]
LatestOption = Annotated[
    bool,
    typer.Option("--latest", help="Each view's newest commit, published or not, not one epoch."),
]


def open_store(path: Path | None, create: bool = False) -> tuple[Store, Config]:
    """Open the store a command means: its option, else hybridview.toml, else this folder."""
    config = find_config(Path.cwd())
    root = path or config.store or Path.cwd()
    store = Store.open(
        root,
        create=create,
        settings=config.spark,
        default_strategy=config.strategy or Strategy.HYBRID,
        parallel=config.parallel or PARALLEL,
        warm=note,
    )
    return store, config
