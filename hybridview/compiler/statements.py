"""The SQL that applies a view's change to its table: one statement, one commit.

Relations have symbolic names: `v@target` is the view's table, `v@change` the change computed for
it. Every statement fails (raise_error) rather than store a row that cannot be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hybridview.compiler import exact
from hybridview.compiler.identity import equal, identity, same
from hybridview.compiler.layout import EPOCH, ROW, Layout
from hybridview.compiler.measures import Kind, Measure, Part
from hybridview.schema import HIDDEN, WEIGHT
from hybridview.sql.lexer import Kind as PieceKind
from hybridview.sql.lexer import Piece, pieces

KEY = f"{HIDDEN}key_"
PART = f"{HIDDEN}part_"
PRESENT = f"{HIDDEN}present"
CORRUPT = "hybridview: rows to take away are not stored"


def quote(name: str) -> str:
    """Return an identifier in backticks, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string literal, whatever it contains."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@dataclass(frozen=True, slots=True)
class Column:
    """A visible column of an aggregate view and its value over the parts, or over its keys."""

    name: str
    sql: str


def target(view: str) -> str:
    return quote(f"{view}@target")


def change(view: str) -> str:
    return quote(f"{view}@change")


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)


def _lines(items: Iterable[str]) -> str:
    return ",\n  ".join(items)


def _fail(type_name: str = "bigint") -> str:
    return f"CAST(raise_error({literal(CORRUPT)}) AS {type_name})"


def _on_keys(layout: Layout) -> str:
    pairs = [
        equal(f"t.{quote(k)}", f"d.{quote(f'{KEY}{i}')}", layout.type_of(k))
        for i, k in enumerate(layout.keys)
    ]
    return " AND ".join(pairs) if pairs else "TRUE"


def unchanged(layout: Layout, columns: Iterable[str], left: str, right: str) -> str:
    """Return a condition that two relations have identical values in all `columns`."""
    return " AND ".join(
        same(f"{left}.{quote(c)}", f"{right}.{quote(c)}", layout.type_of(c)) for c in columns
    )


def new_parts(layout: Layout) -> dict[Part, str]:
    """Return each part's value after the change, as SQL over t (stored) and d (change)."""
    values: dict[Part, str] = {}
    for index, stored in enumerate(layout.parts):
        values[stored.part] = _combine(
            stored.part, f"t.{quote(stored.column)}", f"d.{quote(f'{PART}{index}')}"
        )
    return values


def _combine(part: Part, old: str, change: str) -> str:
    match part.kind:
        case Kind.ROWS | Kind.NONNULL:
            return f"({old} + {change})"
        case Kind.SUM:
            zero = f"CAST(0 AS {part.type.upper()})"
            fresh = f"coalesce({change}, {zero})"
            if not exact.is_integer(part.type):
                fresh = f"CAST({fresh} AS {part.type})"
            total = exact.add(f"coalesce({old}, {zero})", fresh, part.type)
            return f"({total})"
        case Kind.MIN:
            return f"least({old}, {change})"
        case Kind.MAX:
            return f"greatest({old}, {change})"


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows of a change, d, meet the stored rows, t, with the same keys: what becomes of them."""

    view: str
    on: str
    gone: str | None
    """When a stored row goes; the others that are met are updated."""
    updates: tuple[Column, ...]
    """The columns that get a value, over t and d; the others keep theirs."""
    arrives: str | None
    """When a row of the change that meets none is inserted; None for always."""
    inserts: tuple[Column, ...]
    """Every stored column, over d."""

    def statement(self) -> str:
        """Return the MERGE."""
        lines = [
            f"MERGE INTO {target(self.view)} AS t",
            f"USING {change(self.view)} AS d",
            f"ON {self.on}",
        ]
        if self.gone is not None:
            lines.append(f"WHEN MATCHED AND {self.gone} THEN DELETE")
        plain = all(c.sql == f"d.{quote(c.name)}" for c in (*self.updates, *self.inserts))
        separate, before = (_list, "") if plain else (_lines, "\n  ")
        sets = separate(f"{quote(c.name)} = {c.sql}" for c in self.updates)
        lines.append(f"WHEN MATCHED THEN UPDATE SET{before or ' '}{sets}")
        names = _list(quote(c.name) for c in self.inserts)
        values = separate(c.sql for c in self.inserts)
        when = f" AND {self.arrives}" if self.arrives is not None else ""
        lines.append(f"WHEN NOT MATCHED{when} THEN INSERT ({names}) VALUES ({before}{values})")
        return "\n".join(lines)

    def outcome(self, met: str) -> tuple[str, Mapping[str, str]]:
        """Return a condition that a row goes, and the new value of every stored column.

        Both are SQL over t and d; `met` is a condition that there is a stored row. What goes gets
        no value: a mean of no rows is an error.
        """
        gone = f"({met}) AND ({self.gone})" if self.gone is not None else "FALSE"
        updated = {c.name: c.sql for c in self.updates}
        values = {
            c.name: f"CASE WHEN {gone} THEN NULL "
            f"WHEN {met} THEN {updated.get(c.name, f't.{quote(c.name)}')} ELSE {c.sql} END"
            for c in self.inserts
        }
        return gone, values


def add(
    view: str, layout: Layout, updates: tuple[Column, ...], inserts: tuple[Column, ...]
) -> Merge:
    """Return the MERGE that adds partial aggregates to stored ones.

    `updates` and `inserts` give every stored column, the former over t and d, the latter over d.
    """
    rows = layout.rows
    assert rows is not None
    index = layout.parts.index(rows)
    delta = f"d.{quote(f'{PART}{index}')}"
    total = f"t.{quote(rows.column)} + {delta}"
    moved = [c for c in updates if c.sql != f"t.{quote(c.name)}"]
    return Merge(
        view,
        _on_keys(layout),
        f"{total} = 0" if layout.keys else None,
        tuple(_checked(c, rows.column, total) for c in moved),
        None,
        tuple(_checked(c, rows.column, delta, least=1) for c in inserts),
    )


def _checked(column: Column, rows: str, total: str, least: int = 0) -> Column:
    """Return a column's value; a group that would have fewer than `least` rows stops it all."""
    if column.name != rows:
        return column
    return Column(column.name, f"CASE WHEN {total} < {least} THEN {_fail()} ELSE {column.sql} END")


def replace(view: str, layout: Layout) -> Merge:
    """Return the MERGE that puts re-evaluated rows in the place of the touched ones."""
    columns = tuple(Column(c, f"d.{quote(c)}") for c in layout.stored)
    present = f"d.{quote(PRESENT)}"
    return Merge(
        view, _on_keys(layout), f"{present} IS NULL", columns, f"{present} IS NOT NULL", columns
    )


def bounded(merge: str, condition: str) -> str:
    """Return a MERGE that looks for stored rows only where `condition`, over t, holds.

    It must hold for every row that the change can touch.
    """
    at = next(p.start for p in _top_level(merge) if p.kind is PieceKind.WORD and p.text == "WHEN")
    return f"{merge[:at].rstrip()}\n  AND ({condition})\n{merge[at:]}"


def _top_level(sql: str) -> Iterator[Piece]:
    """Yield the pieces of a statement outside all parentheses; a name may look like anything."""
    depth = 0
    for piece in pieces(sql):
        depth += piece.is_sign("(") - piece.is_sign(")")
        if depth == 0:
            yield piece


def insertions(view: str, layout: Layout, epoch: str) -> str:
    """Return the SELECT of the rows a change brings, each as often as it weighs, with new ids."""
    columns = _list(f"d.{quote(c)}" for c in layout.visible)
    return (
        f"SELECT {columns}, CAST({epoch} AS BIGINT) AS {quote(EPOCH)}, "
        f"monotonically_increasing_id() AS {quote(ROW)}\n"
        f"FROM {change(view)} AS d LATERAL VIEW explode(sequence(1, d.{quote(WEIGHT)})) AS copy\n"
        f"WHERE d.{quote(WEIGHT)} > 0"
    )


def append(view: str, layout: Layout, epoch: str) -> str:
    """Return the INSERT for a change that only brings rows: the table is not read."""
    names = _list(quote(c) for c in layout.stored)
    return f"INSERT INTO {target(view)} ({names})\n{insertions(view, layout, epoch)}"


def patch(view: str, layout: Layout, epoch: str) -> str:
    """Return the MERGE that deletes as many copies of each row as went, and inserts new rows.

    The stored copies of a row are ranked by their hidden id and the first ones go; finding fewer
    than must go means that the table is not what its record says.
    """
    matches = unchanged(layout, layout.visible, "t", "d")
    of_row = _list(f"d.{quote(c)}" for c in layout.visible)
    row = _list(key for c in layout.visible for key in identity(f"d.{quote(c)}", layout.type_of(c)))
    gone = (
        f"SELECT {of_row}, t.{quote(EPOCH)}, t.{quote(ROW)},\n"
        f"  -d.{quote(WEIGHT)} AS {quote(WEIGHT)},\n"
        f"  row_number() OVER (PARTITION BY {row} ORDER BY t.{quote(EPOCH)}, t.{quote(ROW)}) "
        f"AS {quote(HIDDEN + 'rank')},\n"
        f"  count(t.{quote(ROW)}) OVER (PARTITION BY {row}) AS {quote(HIDDEN + 'found')}\n"
        f"FROM (SELECT * FROM {change(view)} WHERE {quote(WEIGHT)} < 0) AS d\n"
        f"LEFT JOIN {target(view)} AS t ON {matches}"
    )
    visible = _list(quote(c) for c in layout.visible)
    found, rank, weight = (quote(HIDDEN + "found"), quote(HIDDEN + "rank"), quote(WEIGHT))
    deletions = (
        f"SELECT {visible}, {quote(EPOCH)} AS {quote(HIDDEN + 'old_epoch')}, "
        f"CASE WHEN {found} < {weight} THEN {_fail()} ELSE {quote(ROW)} END "
        f"AS {quote(HIDDEN + 'old_row')}, "
        f"CAST(NULL AS BIGINT) AS {quote(EPOCH)}, CAST(NULL AS BIGINT) AS {quote(ROW)}\n"
        f"FROM ({gone})\nWHERE {rank} <= {weight}"
    )
    arrivals = (
        f"SELECT {visible}, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), "
        f"{quote(EPOCH)}, {quote(ROW)}\nFROM ({insertions(view, layout, epoch)})"
    )
    names = _list(quote(c) for c in layout.stored)
    values = _list(f"d.{quote(c)}" for c in layout.stored)
    return "\n".join(
        [
            f"MERGE INTO {target(view)} AS t",
            f"USING ({deletions}\nUNION ALL\n{arrivals}) AS d",
            f"ON t.{quote(EPOCH)} = d.{quote(HIDDEN + 'old_epoch')} "
            f"AND t.{quote(ROW)} = d.{quote(HIDDEN + 'old_row')}",
            "WHEN MATCHED THEN DELETE",
            f"WHEN NOT MATCHED AND d.{quote(HIDDEN + 'old_row')} IS NULL "
            f"THEN INSERT ({names}) VALUES ({values})",
        ]
    )


def overwrite(view: str, layout: Layout, load: str) -> str:
    """Return the statement that puts a full result in the place of all stored rows."""
    names = _list(quote(c) for c in layout.stored)
    return f"INSERT OVERWRITE {target(view)} ({names})\n{load}"


__all__ = [
    "Measure",
    "Merge",
    "add",
    "append",
    "bounded",
    "literal",
    "overwrite",
    "patch",
    "quote",
    "replace",
]
