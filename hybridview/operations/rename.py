"""Other names for views and registered tables: records change, rows and history stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hybridview.catalog import Catalog, ViewRecord, as_payload
from hybridview.compiler.state import SUFFIX
from hybridview.errors import NameTakenError
from hybridview.operations.context import Context, table_named, view_named
from hybridview.operations.lock import slot
from hybridview.operations.names import check_name
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.rename import rename_source

Entries = list[tuple[str, dict[str, Any]]]


def rename_view(context: Context, old: str, new: str) -> tuple[str, ...]:
    """Rename a view, also in the texts of views that read it; return these."""
    check_name(new, "view")
    with slot(context):
        catalog = context.catalog()
        view = view_named(catalog, old)
        _check_free(catalog, view.name, new)
        entries: Entries = [("view_dropped", {"name": view.name, "id": view.id})]
        if view.state:
            state = catalog.views[view.state.lower()]
            entries.append(("view_dropped", {"name": state.name, "id": state.id}))
            entries.append(_entry(replace(state, name=f"{new}{SUFFIX}", state_of=new)))
        entries.append(
            _entry(replace(view, name=new, state=f"{new}{SUFFIX}" if view.state else ""))
        )
        readers = _readers(catalog, view.name, new)
        context.ledger.append_all([*entries, *map(_entry, readers)])
    return tuple(r.name for r in readers if not r.state_of)


def rename_table(context: Context, old: str, new: str) -> tuple[str, ...]:
    """Register a table under another name, also in the texts of views; return these."""
    check_name(new, "table")
    with slot(context):
        catalog = context.catalog()
        table = table_named(catalog, old)
        _check_free(catalog, table.name, new)
        readers = _readers(catalog, table.name, new)
        entries: Entries = [
            ("table_removed", {"name": table.name}),
            ("table", as_payload(replace(table, name=new))),
        ]
        context.ledger.append_all([*entries, *map(_entry, readers)])
    return tuple(r.name for r in readers if not r.state_of)


def _entry(view: ViewRecord) -> tuple[str, dict[str, Any]]:
    return ("view", as_payload(view))


def _check_free(catalog: Catalog, old: str, new: str) -> None:
    if catalog.schema(new) is not None and new.lower() != old.lower():
        raise NameTakenError(f'the name "{new}" is taken', hint="Choose another name.")


def _readers(catalog: Catalog, old: str, new: str) -> list[ViewRecord]:
    """Return the views that read a source, state tables included, with its new name.

    What they compute is the same, so they keep their program, and their rows need no reload.
    """
    found: list[ViewRecord] = []
    for view in catalog.views.values():
        if old.lower() not in {s.lower() for s in view.sources}:
            continue
        parsed = parse_query(Definition(view.name, view.query))
        sources = {new if n.lower() == old.lower() else n: c for n, c in view.sources.items()}
        query = rename_source(view.query, parsed, old, new)
        found.append(replace(view, query=query, sources=sources))
    return found
