"""Declared foreign keys of the catalog -> links between the sources of a view."""

from __future__ import annotations

from collections.abc import Sequence

from hybridview.catalog import Catalog
from hybridview.compiler.links import Link


def links(catalog: Catalog, sources: Sequence[str]) -> frozenset[Link]:
    """Return the declared foreign keys among some tables, under the names they are given here."""
    spelled = {name.lower(): name for name in sources}
    by_id = {table.table_id: table for table in catalog.tables.values()}
    found: set[Link] = set()
    for name in spelled.values():
        table = catalog.tables.get(name.lower())
        for reference in table.references if table is not None else ():
            target = by_id.get(reference.table_id)
            # A table that was replaced since, or has another key now, is not the one meant.
            if target is None or target.key != reference.key:
                continue
            if target.name.lower() in spelled:
                other = spelled[target.name.lower()]
                found.add(Link(name, reference.columns, other, reference.key))
    return frozenset(found)


def used_key(catalog: Catalog, source: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the declared key of a table, if all of it is among some columns; else nothing."""
    table = catalog.tables.get(source.lower())
    key = table.key if table is not None else ()
    known = {name.lower() for name in columns}
    return key if all(name.lower() in known for name in key) else ()
