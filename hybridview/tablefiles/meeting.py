"""A table and the keys of a change -> the stored rows that have them, and where they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hybridview.tablefiles.change import Place, Row
from hybridview.tablefiles.table import FileTable
from hybridview.tablefiles.values import to_array, to_values

MOST_READ = 64 * 2**20
"""Bytes of a table whose keys are looked through."""
MOST_REWRITTEN = 16 * 2**20
"""Bytes of files that are written anew; more of them are better written by Spark's tasks."""


@dataclass(frozen=True, slots=True)
class Met:
    """Stored rows that some keys were found in."""

    by_key: dict[Row, list[Place]]
    rows: dict[Place, Row]
    """Plain values of all columns."""
    bytes: int
    """The size of the files they are in."""
    files: int


def meet(table: FileTable, names: Sequence[str], keys: Sequence[Row]) -> Met | None:
    """Return the stored rows whose columns `names` have the values of one of the keys.

    None if that is more work than it may be. Without names, all rows are met by the empty key.
    """
    if table.bytes > MOST_READ:
        return None
    wanted = set(keys)
    found: dict[int, list[int]] = {}
    for number, file in enumerate(table.files):
        rows = _candidates(table, table.read(file, names), names, keys) if names else None
        if rows is None or rows:
            found[number] = rows if rows is not None else []
    size = sum(table.files[number].size for number in found)
    if size > MOST_REWRITTEN:
        return None
    columns = [column.name for column in table.columns]
    places = [columns.index(name) for name in names]
    by_key: dict[Row, list[Place]] = defaultdict(list)
    stored: dict[Place, Row] = {}
    for number, positions in found.items():
        rows = table.read(table.files[number], columns)
        if names:
            rows = rows.take(pa.array(positions, pa.int64()))
        else:
            positions = list(range(rows.num_rows))
        values = zip(*(to_values(table.kind(c), rows.column(c)) for c in columns), strict=True)
        for position, row in zip(positions, values, strict=True):
            key = tuple(row[place] for place in places)
            if key in wanted:
                by_key[key].append(Place(number, position))
                stored[Place(number, position)] = row
    return Met(dict(by_key), stored, size, len(found))


def _candidates(
    table: FileTable, rows: pa.Table, names: Sequence[str], keys: Sequence[Row]
) -> list[int]:
    """Return the positions of rows that have, in each column, a value that some key has there."""
    mask: Any = None
    for number, name in enumerate(names):
        values = to_array(table.kind(name), list({key[number] for key in keys}))
        among = pc.is_in(rows.column(name), value_set=values)
        mask = among if mask is None else pc.and_(mask, among)
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found
