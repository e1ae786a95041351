"""Compiled views + their sources as they are now -> the columns that each view reads of them."""

from __future__ import annotations

from collections.abc import Mapping

from hybridview.catalog import Catalog
from hybridview.plan.compiled import Compiled
from hybridview.plan.sources import BasePin

Used = dict[str, tuple[str, ...]]
"""Columns of each source, by its name in lower case."""


def used_columns(
    catalog: Catalog, pins: Mapping[str, BasePin], compiled: Mapping[str, Compiled]
) -> dict[str, Used]:
    """Return the columns of each source that a view may use, and that exist; by view."""
    return {
        view: {
            name.lower(): _present(catalog, pins, name, tuple(c.name for c in used))
            for name, used in {**one.uses, **catalog.views[view].parts}.items()
        }
        for view, one in compiled.items()
    }


def used_by_any(used: Mapping[str, Used]) -> Used:
    """Return the columns of each source that any of the views may use."""
    found: dict[str, dict[str, None]] = {}
    for columns_of in used.values():
        for name, columns in columns_of.items():
            found.setdefault(name, {}).update(dict.fromkeys(columns))
    return {name: tuple(columns) for name, columns in found.items()}


def _present(
    catalog: Catalog, pins: Mapping[str, BasePin], source: str, names: tuple[str, ...]
) -> tuple[str, ...]:
    parent, pin = catalog.views.get(source.lower()), pins.get(source.lower())
    info = pin.info if pin else None
    now = parent.columns if parent else info.columns if info else ()
    there = {c.name.lower() for c in now}
    return tuple(name for name in names if name.lower() in there)


__all__ = ["used_by_any", "used_columns"]
