"""Commands that keep views right: refresh, verify, explain, status, history, doctor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from hybridview.cli import render
from hybridview.cli.options import (
    EpochOption,
    JsonOption,
    StoreOption,
    ViewArgument,
    ViewsArgument,
    open_store,
)
from hybridview.cli.output import Progress, guarded, note, say, width
from hybridview.errors import NotRefreshedError
from hybridview.operations.lock import WAIT
from hybridview.schema import Strategy
from hybridview.store import Store


def refresh(
    views: ViewsArgument = None,
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="How; else the view's property, hybridview.toml, or hybrid."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be executed; starts no Spark.")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait while another process refreshes the store.")
    ] = WAIT,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring views up to date with their base tables, and publish one epoch.

    hybrid decides per view from what changed; incremental applies changes only, and fails where
    it cannot; snapshot recomputes. Exit 1 if a view failed.
    """

    def body() -> int:
        opened, _ = open_store(store)
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
                result = opened.refresh(views or (), strategy, wait=wait)
                typer.echo(render.as_json("refresh", {"refresh": result, "ok": result.ok}))
                return 0 if result.ok else 1
            with Progress(names) as progress:
                result = opened.refresh(views or (), strategy, progress, wait, progress.waiting)
        say([render.refresh_summary(result)])
        return 0 if result.ok else 1

    guarded(body, as_json)


def explain(
    view: ViewArgument,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a view's plan, its delta program, its SQL, and why it is (not) incremental."""

    def body() -> int:
        opened, _ = open_store(store)
        found = opened.explain(view)
        if as_json:
            typer.echo(render.as_json("explain", found.as_dict()))
        else:
            typer.echo(str(found))
        return 0

    guarded(body, as_json)


def verify(
    views: ViewsArgument = None,
    epoch: EpochOption = None,
    every_epoch: Annotated[
        bool,
        typer.Option("--every-epoch", help="Verify all epochs, and say which level they prove."),
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute views at their recorded versions and compare both ways. Exit 1 on a difference."""

    def body() -> int:
        opened, _ = open_store(store)
        with opened:
            chosen = views or [v.name for v in opened.views()]
            if every_epoch:
                return _prove(opened, chosen, as_json)
            names = max((len(name) for name in chosen), default=0)
            verdicts = []
            missing: list[str] = []
            for name in chosen:
                try:
                    found = opened.verify(name, epoch)
                except NotRefreshedError as error:
                    note(str(error))
                    missing.append(name)
                    continue
                verdicts.append(found)
                if not as_json:
                    say(render.verdict(found, names, width()))
        bad = sum(not v.ok for v in verdicts)
        if as_json:
            listed = [{**render.json_safe(v), "ok": v.ok} for v in verdicts]
            ok = not bad and not missing
            typer.echo(render.as_json("verify", {"views": listed, "missing": missing, "ok": ok}))
        else:
            say([f"{len(verdicts) - bad} equal, {bad} different"])
        return 1 if bad or missing else 0

    guarded(body, as_json)


def _prove(opened: Store, views: Sequence[str], as_json: bool) -> int:
    names = max((len(name) for name in views), default=0)
    proofs = []
    for name in views:
        proofs.append(opened.prove(name))
        if not as_json:
            say(render.proof(proofs[-1], names))
    ok = all(p.ok for p in proofs)
    if as_json:
        listed = [{**render.json_safe(p), "ok": p.ok} for p in proofs]
        typer.echo(render.as_json("proof", {"views": listed, "ok": ok}))
    return 0 if ok else 1


def status(
    fail_if_stale: Annotated[
        bool, typer.Option("--fail-if-stale", help="Exit 1 unless every view is fresh.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show tables and views, and how far each view is behind. Starts no Spark."""

    def body() -> int:
        opened, _ = open_store(store)
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


def history(
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many refreshes.")] = 10,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show past refreshes: what was executed, why, and how long it took. Starts no Spark."""

    def body() -> int:
        opened, _ = open_store(store)
        records = opened.history(limit)
        if as_json:
            typer.echo(render.as_json("history", {"refreshes": list(records)}))
        else:
            say(render.history(records, width()))
        return 0

    guarded(body, as_json)


def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Look for trouble: Java, packages, folders, tables, views. Starts no Spark."""

    def body() -> int:
        opened, _ = open_store(store)
        found = opened.doctor()
        if as_json:
            typer.echo(render.as_json("doctor", {"findings": list(found)}))
        else:
            say(render.findings(found, width()))
        return 0 if all(f.ok for f in found) else 1

    guarded(body, as_json)
