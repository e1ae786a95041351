"""Other names for views and registered tables: records change, rows and history stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hybridview.catalog import Catalog, ViewRecord, as_payload
from hybridview.errors import NameTakenError
from hybridview.operations.context import Context, table_named, view_named
from hybridview.operations.lock import changing, slot
from hybridview.operations.names import check_name
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.rename import rename_source

Entries = list[tuple[str, dict[str, Any]]]


def rename_view(context: Context, old: str, new: str) -> tuple[str, ...]:
    """Rename a view, also in the texts of views that read it; return these."""
    check_name(new, "view")
    with slot(context), changing(context) as catalog:
        view = view_named(catalog, old)
        _check_free(catalog, view.name, new)
        family = (*catalog.hidden(view), view)
        names = {r.name: f"{new}{r.name[len(view.name) :]}" for r in family}
        entries: Entries = [("view_dropped", {"name": r.name, "id": r.id}) for r in family]
        entries += [_entry(_renamed(r, names)) for r in family]
        readers = _readers(catalog, view.name, new)
        context.ledger.append_all([*entries, *map(_entry, readers)])
    return tuple(r.name for r in readers if not r.state_of)


def rename_table(context: Context, old: str, new: str) -> tuple[str, ...]:
    """Register a table under another name, also in the texts of views; return these."""
    check_name(new, "table")
    with slot(context), changing(context) as catalog:
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
    return [
        _renamed(view, {old: new})
        for view in catalog.views.values()
        if old.lower() in {s.lower() for s in view.sources}
    ]


def _renamed(view: ViewRecord, names: Mapping[str, str]) -> ViewRecord:
    """Return a record in which some views or tables have other names, also where it reads them."""
    new = {old.lower(): name for old, name in names.items()}

    def of(name: str) -> str:
        return new.get(name.lower(), name)

    query, canonical = view.query, view.canonical
    for source in view.sources:
        if source.lower() in new:
            query = _with_source(query, source, of(source))
            canonical = _with_source(canonical, source, of(source)) if canonical else ""
    return replace(
        view,
        name=of(view.name),
        query=query,
        canonical=canonical,
        sources={of(n): columns for n, columns in view.sources.items()},
        parts={of(n): columns for n, columns in view.parts.items()},
        over=tuple(of(n) for n in view.over),
        state=of(view.state),
        state_of=of(view.state_of),
    )


def _with_source(query: str, old: str, new: str) -> str:
    return rename_source(query, parse_query(Definition("", query)), old, new)
