"""A view's old and new definition -> its new rows, made from the stored ones as far as they go.

Stored aggregates serve any column that can be computed from them: another expression over the same
sums, an average of a sum and a count. What is missing is computed by the new load, of which Spark
then only evaluates the added aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass

from hybridview.compiler.identity import equal
from hybridview.compiler.layout import LayoutKind, shape
from hybridview.compiler.program import Compilable, stored_columns
from hybridview.compiler.statements import quote, target


@dataclass(frozen=True, slots=True)
class Backfill:
    """The query of all rows under the new definition; `added` columns need the base tables."""

    sql: str
    added: tuple[str, ...]


def backfill(old: Compilable, new: Compilable, load: str) -> Backfill | None:
    """Return how to make the new rows from the stored ones; None if the groups are others."""
    before, after = shape(old.plan), shape(new.plan)
    if before.aggregate is None or after.aggregate is None or before.having or after.having:
        return None
    layouts = (old.layout, new.layout)
    if any(p.kind is not LayoutKind.KEYED or not p.parts or p.distinct for p in layouts):
        return None
    keys = [[k.expr for k in a.keys] for a in (before.aggregate, after.aggregate)]
    if before.aggregate.input != after.aggregate.input or keys[0] != keys[1]:
        return None
    stored = {s.part: f"t.{quote(s.column)}" for s in old.layout.parts}
    added = [s for s in new.layout.parts if s.part not in stored]
    values = {**stored, **{s.part: f"n.{quote(s.column)}" for s in added}}
    columns = {
        c.name: c.sql
        for c in stored_columns(new, after, values, [f"t.{quote(k)}" for k in old.layout.keys])
    }
    listed = ", ".join(f"{columns[name]} AS {quote(name)}" for name in new.layout.stored)
    sql = f"SELECT {listed}\nFROM {target(new.view)} AS t"
    if added:
        pairs = zip(old.layout.keys, new.layout.keys, strict=True)
        matches = [equal(f"t.{quote(a)}", f"n.{quote(b)}", new.layout.type_of(b)) for a, b in pairs]
        sql += f"\nJOIN (\n{load}\n) AS n ON {' AND '.join(matches) or 'TRUE'}"
    return Backfill(sql, tuple(s.column for s in added))
