"""The hybridview command: which commands there are, in the order a newcomer needs them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from hybridview.cli import bench, define, engine, maintain, query, upkeep
from hybridview.cli.output import guarded

HELP = """Keep SQL views on Delta Lake up to date: incrementally where that is cheaper, by
recompute where that is cheaper, always with the answer a recompute would give.

Start with "hybridview demo". For a store of your own: "hybridview init warehouse",
"hybridview table add orders PATH", "hybridview create totals 'SELECT ...'" and
"hybridview refresh"."""

app = typer.Typer(
    name="hybridview",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=HELP,
)
table_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Register base tables, or forget them."
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hybridview {metadata.version('hybridview')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Nothing but the options that come before a command."""


def demo(
    folder: Annotated[
        Path | None, typer.Option("--keep", help="Keep the demo store in this folder.")
    ] = None,
) -> None:
    """Watch views follow three days of changes in a shop and an order book."""

    def body() -> int:
        from hybridview.cli.demo import run_demo

        return run_demo(folder)

    guarded(body)


app.command()(demo)
app.command()(define.init)
app.add_typer(table_app, name="table")
table_app.command("add")(define.table_add)
table_app.command("rename")(define.table_rename)
table_app.command("remove")(define.table_remove)
app.command()(define.create)
app.command()(define.apply)
app.command()(maintain.refresh)
app.command()(maintain.status)
app.command()(query.show)
app.command()(query.sql)
app.command()(maintain.explain)
app.command()(maintain.verify)
app.command()(maintain.history)
app.command()(define.rename)
app.command()(define.drop)
app.command()(maintain.doctor)
app.command()(upkeep.maintain)
app.command()(engine.up)
app.command()(engine.down)
app.command()(bench.bench)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
