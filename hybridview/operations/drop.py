"""Dropping views: their record, and the table that holds their rows."""

from __future__ import annotations

import shutil

from hybridview.errors import InUseError
from hybridview.operations.context import Context, view_named


def drop_view(context: Context, name: str, cascade: bool = False) -> tuple[str, ...]:
    """Drop a view, and with `cascade` all views that read it; return what was dropped."""
    catalog = context.catalog()
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
            hint=f"Run: hybridview drop {view.name} --cascade",
        )
    for dropped in order:
        record = catalog.views[dropped.lower()]
        records = [record, *([catalog.views[record.state.lower()]] if record.state else [])]
        # The record goes first: a folder without a record is an orphan, a record without its
        # folder would be a broken view.
        context.ledger.append_all([("view_dropped", {"name": r.name, "id": r.id}) for r in records])
        for r in records:
            shutil.rmtree(context.view_path(r), ignore_errors=True)
    return tuple(order)
