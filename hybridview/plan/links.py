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


def keys_of(catalog: Catalog, source: str, column: str) -> tuple[str, ...]:
    """Return the tables whose declared key a column is, or refers to, alone."""
    table = catalog.tables.get(source.lower())
    if table is None:
        return ()
    found = [table.name] if _same(table.key, (column,)) else []
    by_id = {other.table_id: other for other in catalog.tables.values()}
    for reference in table.references:
        target = by_id.get(reference.table_id)
        if (
            target is not None
            and target.key == reference.key
            and _same(reference.columns, (column,))
        ):
            found.append(target.name)
    return tuple(found)


def _same(names: Sequence[str], others: Sequence[str]) -> bool:
    return [name.lower() for name in names] == [name.lower() for name in others]


def used_key(catalog: Catalog, source: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the declared key of a table, if all of it is among some columns; else nothing."""
    table = catalog.tables.get(source.lower())
    key = table.key if table is not None else ()
    known = {name.lower() for name in columns}
    return key if all(name.lower() in known for name in key) else ()
