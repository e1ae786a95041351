"""The command that keeps a store small: maintain."""

from __future__ import annotations

from typing import Annotated

import typer

from hybridview.cli import render
from hybridview.cli.options import JsonOption, StoreOption, open_store
from hybridview.cli.output import guarded, note, say, width
from hybridview.operations.lock import WAIT
from hybridview.operations.maintain import KEEP, Work


def maintain(
    keep: Annotated[
        str | None,
        typer.Option(
            help=f'How long replaced epochs can be read; else hybridview.toml, or "{KEEP}".'
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done; starts no Spark.")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait while another process refreshes the store.")
    ] = WAIT,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Expire old epochs, compact and vacuum the store's own tables, remove leftovers.

    What a kept epoch or a view needs stays. Base tables are not touched. Exit 1 if something
    could not be done.
    """

    def tell(work: Work) -> None:
        if not as_json:
            say(render.work(work, width()))

    def body() -> int:
        opened, config = open_store(store)
        with opened:
            span = keep or config.keep or KEEP
            result = opened.maintain(dry_run, span, tell, wait, note)
        if as_json:
            data = {"works": list(result.works), "dry_run": dry_run, "ok": result.ok}
            typer.echo(render.as_json("maintain", data))
        else:
            say([render.maintain_summary(result, dry_run)])
        return 0 if result.ok else 1

    guarded(body, as_json)
