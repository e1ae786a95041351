"""Commands for the warm engine: up, down."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from hybridview.cli import render
from hybridview.cli.options import JsonOption, StoreOption, open_store
from hybridview.cli.output import guarded, note, say
from hybridview.engine.warm.use import EngineStatus
from hybridview.operations.engine import IDLE, described
from hybridview.store import Store


def up(
    idle: Annotated[
        str, typer.Option(help="How long it stays up without a command that uses it.")
    ] = IDLE,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep Spark running for this store, so that commands need not start it.

    Every command finds the engine by itself. It is a process of yours on this machine, reachable
    for nobody else; it ends by itself when it is not used, or with: hybridview down.
    """

    def body() -> int:
        opened, _ = open_store(store)
        found, started = _start(opened, idle)
        if as_json:
            typer.echo(render.as_json("up", {"engine": found, "started": started}))
        else:
            say([f"engine {'is up' if started else 'was up already'}: {described(found)}"])
        return 0

    guarded(body, as_json)


def _start(opened: Store, idle: str) -> tuple[EngineStatus, bool]:
    if not sys.stderr.isatty():
        return opened.up(idle, note)
    with Console(stderr=True).status("looking for the engine") as shown:
        return opened.up(idle, lambda text: shown.update(f"{text} ..."))


def down(
    force: Annotated[
        bool, typer.Option("--force", help="Also while another command uses it.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the engine of this store. Commands work without it, and start Spark themselves."""

    def body() -> int:
        opened, _ = open_store(store)
        pid = opened.down(force)
        if as_json:
            typer.echo(render.as_json("down", {"pid": pid, "ended": pid is not None}))
        else:
            say(
                ["the engine was not up" if pid is None else f"engine is down: process {pid} ended"]
            )
        return 0

    guarded(body, as_json)
