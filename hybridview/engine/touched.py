"""A fetched change and the log of its view's table -> the part of the table it can touch.

A MERGE compares every stored row with the change, unless its condition says where to look. Each
row that the change can touch has one of the change's values in every key; in a bag, in every
column. The column that lets most files be skipped says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hybridview.compiler.layout import Layout, LayoutKind
from hybridview.compiler.statements import KEY
from hybridview.deltalog import DeltaLog
from hybridview.engine.values import (
    USEFUL_SHARE,
    Values,
    of_texts,
    share,
    share_of_files,
    unskipped,
)
from hybridview.filestats import Size, total


class Touched(NamedTuple):
    """A stored column, the values that touched rows have in it, and the files they can lie in."""

    column: str
    values: Values
    size: Size


def touched(
    layout: Layout,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[tuple[Any, ...]],
    log: DeltaLog,
    version: int,
) -> Touched | None:
    """Return which part of a stored table a change can touch; None if all is read."""
    best: tuple[tuple[float, float], Touched] | None = None
    for stored, place, kind in _pairs(layout, columns):
        values = of_texts(kind, (row[place] for row in rows))
        files = log.bounds(version, stored) if values is not None else None
        if values is None or files is None:
            continue
        if len(files) < 2:
            return None
        # Files are skipped for certain; pages, if the rows of a file are sorted by the column.
        left = share_of_files(values, files), share(values, files)
        if best is None or left < best[0]:
            best = (left, Touched(stored, values, total(unskipped(values, files))))
    return best[1] if best is not None and best[0][1] <= USEFUL_SHARE else None


def _pairs(layout: Layout, columns: Sequence[tuple[str, str]]) -> list[tuple[str, int, str]]:
    """Return the stored columns that rows are found by; each with its place and type in a change.

    Columns whose identity is finer than Spark's equality are left out.
    """
    places = {name: (place, kind) for place, (name, kind) in enumerate(columns)}
    if layout.kind is LayoutKind.BAG:
        named = [(name, name) for name in layout.visible]
    else:
        named = [(name, f"{KEY}{number}") for number, name in enumerate(layout.keys)]
    odd = dict(layout.odd)
    return [
        (stored, *places[changed])
        for stored, changed in named
        if stored not in odd and changed in places
    ]
