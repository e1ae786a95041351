"""Commands that define things: init, table add, table remove, create, apply, drop."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hybridview.cli import render
from hybridview.cli.options import JsonOption, StoreOption, ViewArgument, open_store
from hybridview.cli.output import guarded, say
from hybridview.errors import UsageError
from hybridview.operations.apply import read_view_file
from hybridview.store import Store


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new store.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Make a new store in a folder."""

    def body() -> int:
        store = Store.open(folder, create=True)
        if as_json:
            typer.echo(render.as_json("store", {"root": str(store.root), "epoch": store.epoch}))
        else:
            say([f"store in {store.root}, epoch {store.epoch}"])
            add = shlex.join(("hybridview", "table", "add", "NAME", "PATH", "--store", str(folder)))
            say([f"next: hybridview --help, or: {add}"])
        return 0

    guarded(body, as_json)


def table_add(
    name: Annotated[str, typer.Argument(help="Name for views to use.")],
    location: Annotated[
        str | None,
        typer.Argument(help="Folder or catalog name; else the store's tables/NAME."),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="Column of the key; repeat for several.")
    ] = None,
    references: Annotated[
        list[str] | None,
        typer.Option(help='Foreign key, such as "customer_id -> customers"; repeat for several.'),
    ] = None,
    enable_change_feed: Annotated[
        bool, typer.Option("--enable-change-feed", help="Turn the change data feed on.")
    ] = False,
    without_change_feed: Annotated[
        bool,
        typer.Option("--without-change-feed", help="Find changes by comparing versions: slower."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Point an existing name to another table.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a Delta table so that views can read it."""

    def body() -> int:
        opened, _ = open_store(store)
        with opened:
            record = opened.add_table(
                name,
                location,
                key or (),
                enable_change_feed,
                replace,
                without_change_feed,
                references or (),
            )
        if as_json:
            typer.echo(render.as_json("table", {"table": record}))
        else:
            say([f"table {record.name}: {len(record.columns)} columns, {record.location}"])
        return 0

    guarded(body, as_json)


def table_rename(
    old: Annotated[str, typer.Argument(help="Name of the table.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a table under another name. Views that read it follow; no row is touched."""

    def body() -> int:
        opened, _ = open_store(store)
        _say_renamed("table", old, new, opened.rename_table(old, new), as_json)
        return 0

    guarded(body, as_json)


def rename(
    old: ViewArgument,
    new: Annotated[str, typer.Argument(help="Its new name.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rename a view, with its rows and its history. Views that read it follow."""

    def body() -> int:
        opened, _ = open_store(store)
        _say_renamed("view", old, new, opened.rename_view(old, new), as_json)
        return 0

    guarded(body, as_json)


def _say_renamed(what: str, old: str, new: str, readers: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        typer.echo(render.as_json("renamed", {"old": old, "new": new, "readers": readers}))
        return
    say([f"{what} {old} is now {new}"])
    if readers:
        say([f"  its name was changed in: {', '.join(readers)}; change it in their files too"])


def table_remove(
    name: Annotated[str, typer.Argument(help="Name of the table.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a base table that no view reads; its data stay."""

    def body() -> int:
        opened, _ = open_store(store)
        opened.remove_table(name)
        if as_json:
            typer.echo(render.as_json("table_removed", {"name": name}))
        else:
            say([f"table {name} is forgotten; its data stay"])
        return 0

    guarded(body, as_json)


def create(
    name: Annotated[str | None, typer.Argument(help="Name; else the one in the file.")] = None,
    sql: Annotated[str | None, typer.Argument(help="SELECT ...; else --file.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="File with the view.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change an existing view; its name stays.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Define a view: a SELECT, or a file with CREATE MATERIALIZED VIEW. Refresh loads it."""

    def body() -> int:
        if (sql is None) == (file is None):
            raise UsageError(
                "give the SELECT or --file, one of them",
                hint='Write: hybridview create totals "SELECT ..." or: create --file totals.sql',
            )
        if file is not None and not file.is_file():
            raise UsageError(f'there is no file "{file}"')
        text = read_view_file(file) if file is not None else sql or ""
        opened, _ = open_store(store)
        with opened:
            source = str(file) if file is not None else "<sql>"
            record = opened.create_view(name, text, replace, source)
            how = opened.explain(record.name)
        if as_json:
            typer.echo(render.as_json("view", {"view": record, "incremental": how.incremental}))
        else:
            kind = "incremental" if how.incremental else "snapshot"
            say([f"view {record.name}: {len(record.columns)} columns, {kind}"])
            say(f"  {reason}" for reason in how.reasons)
            say([f"next: {shlex.join(('hybridview', 'refresh', record.name))}"])
        return 0

    guarded(body, as_json)


def apply(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of .sql files; else the one in hybridview.toml.")
    ] = None,
    allow_drop: Annotated[
        bool, typer.Option("--allow-drop", help="Drop views that no file defines.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the store match a folder of view files: create, replace, drop."""

    def body() -> int:
        opened, config = open_store(store)
        with opened:
            known = {t.name.lower() for t in opened.tables()}
            for name, table in config.tables.items():
                if name.lower() in known:
                    continue
                if not as_json:
                    say([f"add table  {name}  {table.location}"])
                if not dry_run:
                    opened.add_table(name, table.location, table.key, references=table.references)
            found = opened.plan_apply(folder or config.views)
            if not as_json:
                say(render.actions(found, allow_drop) or ["no view files"])
            done = () if dry_run else opened.apply(found, allow_drop)
        if as_json:
            listed = [{"verb": a.verb, "view": a.view, "reason": a.reason} for a in found]
            typer.echo(render.as_json("apply", {"actions": listed, "done": len(done)}))
        elif not dry_run:
            say([f"{len(done)} changed, {len(found) - len(done)} left as they are"])
        return 0

    guarded(body, as_json)


def drop(
    view: ViewArgument,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also drop the views that read it.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop a view and the table that holds its rows."""

    def body() -> int:
        opened, _ = open_store(store)
        dropped = opened.drop_view(view, cascade)
        if as_json:
            typer.echo(render.as_json("drop", {"dropped": dropped}))
        else:
            say(f"dropped {name}" for name in dropped)
        return 0

    guarded(body, as_json)
