"""Dropping views: their record, and the table that holds their rows."""

from __future__ import annotations

import shutil

from hybridview.catalog import Catalog
from hybridview.errors import InUseError, run
from hybridview.operations.context import Context, view_named
from hybridview.operations.lock import changing


def drop_view(context: Context, name: str, cascade: bool = False) -> tuple[str, ...]:
    """Drop a view, and with `cascade` all views that read it; return what was dropped."""
    with changing(context) as catalog:
        return _drop(context, catalog, name, cascade)


def _drop(context: Context, catalog: Catalog, name: str, cascade: bool) -> tuple[str, ...]:
    view = view_named(catalog, name)
    order: list[str] = []

    def visit(current: str) -> None:
        for reader in catalog.dependents(current):
            visit(reader)
        if current not in order:
            order.append(current)

    visit(view.name)
    readers = catalog.dependents(view.name)
    if readers and not cascade:
        raise InUseError(
            f'view "{view.name}" is read by other views',
            detail=f"Views: {', '.join(readers)}.",
            hint=run("drop", view.name, "--cascade"),
        )
    groups = []
    for dropped in order:
        record = catalog.views[dropped.lower()]
        groups.append([record, *catalog.hidden(record)])
    # Before anything goes: a folder that leads out of the store stops it all.
    folders = {r.id: context.view_path(r) for records in groups for r in records}
    for records in groups:
        # The record goes first: a folder without a record is an orphan, a record without its
        # folder would be a broken view.
        context.ledger.append_all([("view_dropped", {"name": r.name, "id": r.id}) for r in records])
        for r in records:
            shutil.rmtree(folders[r.id], ignore_errors=True)
    return tuple(order)
