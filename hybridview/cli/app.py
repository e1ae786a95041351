"""The hybridview command: arguments -> Store -> render -> exit code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hybridview.cli import render
from hybridview.cli.output import Progress, guarded, note, say, width
from hybridview.config import Config, find_config
from hybridview.errors import UsageError
from hybridview.schema import Strategy
from hybridview.store import Store

app = typer.Typer(
    name="hybridview",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Keep SQL views on Delta Lake up to date: incrementally where that is cheaper, by
    recompute where that is cheaper, always with the answer a recompute would give.

    A first session: hybridview demo, then hybridview init warehouse, hybridview table add orders
    PATH, hybridview create totals "SELECT ...", hybridview refresh.""",
)
table_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Register base tables, or forget them."
)
app.add_typer(table_app, name="table")

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
    list[str] | None, typer.Argument(help="Views; all if none.", metavar="[VIEW]...")
]


def _open(path: Path | None, create: bool = False) -> tuple[Store, Config]:
    config = find_config(Path.cwd())
    root = path or config.store or Path.cwd()
    store = Store.open(
        root,
        create=create,
        settings=config.spark,
        default_strategy=config.strategy or Strategy.HYBRID,
    )
    return store, config


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new store.")] = Path("."),
    as_json: JsonOption = False,
) -> None:
    """Make a new store in a folder."""

    def body() -> int:
        store = Store.open(folder, create=True)
        if as_json:
            typer.echo(render.as_json("store", {"root": str(store.root), "epoch": store.epoch}))
        else:
            say([f"store in {store.root}, epoch {store.epoch}"])
            say([f"next: hybridview --help, or: hybridview table add NAME PATH --store {folder}"])
        return 0

    guarded(body, as_json)


@table_app.command("add")
def table_add(
    name: Annotated[str, typer.Argument(help="Name for views to use.")],
    location: Annotated[
        str | None,
        typer.Argument(help="Folder or catalog name; else the store's tables/NAME."),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="Column of the key; repeat for several.")
    ] = None,
    enable_change_feed: Annotated[
        bool, typer.Option("--enable-change-feed", help="Turn the change data feed on.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Point an existing name to another table.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a Delta table so that views can read it."""

    def body() -> int:
        opened, _ = _open(store)
        with opened:
            record = opened.add_table(name, location, key or (), enable_change_feed, replace)
        if as_json:
            typer.echo(render.as_json("table", {"table": record}))
        else:
            say([f"table {record.name}: {len(record.columns)} columns, {record.location}"])
        return 0

    guarded(body, as_json)


@table_app.command("remove")
def table_remove(
    name: Annotated[str, typer.Argument(help="Name of the table.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a base table that no view reads; its data stay."""

    def body() -> int:
        opened, _ = _open(store)
        opened.remove_table(name)
        if as_json:
            typer.echo(render.as_json("table_removed", {"name": name}))
        else:
            say([f"table {name} is forgotten; its data stay"])
        return 0

    guarded(body, as_json)


@app.command()
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
        text = file.read_text(encoding="utf-8") if file is not None else sql or ""
        opened, _ = _open(store)
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
            say([f"next: hybridview refresh {record.name}"])
        return 0

    guarded(body, as_json)


@app.command()
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
        opened, config = _open(store)
        with opened:
            for table, location in config.tables.items():
                if table.lower() not in {t.name.lower() for t in opened.tables()}:
                    opened.add_table(table, location)
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


@app.command()
def refresh(
    views: ViewsArgument = None,
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="How; else the view's property, hybridview.toml, or hybrid."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be executed; starts no Spark.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring views up to date with their base tables, and publish one epoch.

    hybrid decides per view from what changed; incremental applies changes only, and fails where
    it cannot; snapshot recomputes. Exit 1 if a view failed.
    """

    def body() -> int:
        opened, _ = _open(store)
        with opened:
            if dry_run:
                planned = opened.plan(views or (), strategy)
                if as_json:
                    typer.echo(render.as_json("plan", planned.as_dict()))
                else:
                    say(render.plan(planned, width()))
                return 0
            names = max((len(v.name) for v in opened.views()), default=0)
            if as_json:
                result = opened.refresh(views or (), strategy)
                typer.echo(render.as_json("refresh", {"refresh": result, "ok": result.ok}))
                return 0 if result.ok else 1
            with Progress(names) as progress:
                result = opened.refresh(views or (), strategy, progress)
        say([render.refresh_summary(result)])
        return 0 if result.ok else 1

    guarded(body, as_json)


@app.command()
def explain(
    view: Annotated[str, typer.Argument(help="Name of the view.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a view's plan, its delta program, its SQL, and why it is (not) incremental."""

    def body() -> int:
        opened, _ = _open(store)
        found = opened.explain(view)
        if as_json:
            typer.echo(render.as_json("explain", found.as_dict()))
        else:
            typer.echo(str(found))
        return 0

    guarded(body, as_json)


@app.command()
def verify(
    views: ViewsArgument = None,
    epoch: Annotated[int | None, typer.Option(help="An older epoch.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute views at their recorded versions and compare both ways. Exit 1 on a difference."""

    def body() -> int:
        opened, _ = _open(store)
        with opened:
            records = {v.name.lower(): v for v in opened.views()}
            chosen = views or [v.name for v in records.values()]
            verdicts = []
            for name in chosen:
                found = opened.verify(name, epoch)
                verdicts.append(found)
                if not as_json:
                    columns = [c.name for c in records[name.lower()].columns]
                    say(render.verdict(found, columns, width()))
        bad = sum(not v.ok for v in verdicts)
        if as_json:
            listed = [{**render.json_safe(v), "ok": v.ok} for v in verdicts]
            typer.echo(render.as_json("verify", {"views": listed, "ok": not bad}))
        else:
            say([f"{len(verdicts) - bad} equal, {bad} different"])
        return 1 if bad else 0

    guarded(body, as_json)


@app.command()
def status(
    fail_if_stale: Annotated[
        bool, typer.Option("--fail-if-stale", help="Exit 1 unless every view is fresh.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show tables and views, and how far each view is behind. Starts no Spark."""

    def body() -> int:
        opened, _ = _open(store)
        now = opened.status()
        if as_json:
            typer.echo(render.as_json("status", {"status": now, "stale": now.stale}))
        else:
            say(render.status(now, width()))
        if fail_if_stale and now.stale:
            note(f"not fresh: {', '.join(now.stale)}")
            return 1
        return 0

    guarded(body, as_json)


@app.command()
def history(
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many refreshes.")] = 10,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show past refreshes: what was executed, why, and how long it took. Starts no Spark."""

    def body() -> int:
        opened, _ = _open(store)
        records = opened.history(limit)
        if as_json:
            typer.echo(render.as_json("history", {"refreshes": list(records)}))
        else:
            say(render.history(records, width()))
        return 0

    guarded(body, as_json)


def _print_rows(frame: Any, limit: int, as_json: bool) -> None:
    found = frame.take(limit + 1)
    shown = found[:limit]
    if as_json:
        data = {"columns": frame.columns, "rows": [list(r) for r in shown]}
        typer.echo(render.as_json("rows", {**data, "more": len(found) > limit}))
        return
    say(render.rows(frame.columns, shown, width()))
    more = ", and more" if len(found) > limit else ""
    say([f"{len(shown)} rows{more}"])


@app.command()
def show(
    view: Annotated[str, typer.Argument(help="Name of the view.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many rows.")] = 20,
    epoch: Annotated[int | None, typer.Option(help="An older epoch.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a view's rows."""

    def body() -> int:
        opened, _ = _open(store)
        with opened:
            _print_rows(opened.read(view, epoch), limit, as_json)
        return 0

    guarded(body, as_json)


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="A SELECT over views and tables.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many rows.")] = 100,
    epoch: Annotated[int | None, typer.Option(help="Read views at an older epoch.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a query; all views in it are read at one published epoch. Changes nothing."""

    def body() -> int:
        opened, _ = _open(store)
        with opened:
            _print_rows(opened.sql(statement, epoch), limit, as_json)
        return 0

    guarded(body, as_json)


@app.command()
def drop(
    view: Annotated[str, typer.Argument(help="Name of the view.")],
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also drop the views that read it.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop a view and the table that holds its rows."""

    def body() -> int:
        opened, _ = _open(store)
        dropped = opened.drop_view(view, cascade)
        if as_json:
            typer.echo(render.as_json("drop", {"dropped": dropped}))
        else:
            say(f"dropped {name}" for name in dropped)
        return 0

    guarded(body, as_json)


@app.command()
def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Look for trouble: Java, packages, folders, tables, views. Starts no Spark."""

    def body() -> int:
        opened, _ = _open(store)
        found = opened.doctor()
        if as_json:
            typer.echo(render.as_json("doctor", {"findings": list(found)}))
        else:
            say(render.findings(found, width()))
        return 0 if all(f.ok for f in found) else 1

    guarded(body, as_json)


@app.command()
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


def main() -> None:
    """Run the command line."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    app()


if __name__ == "__main__":
    main()
