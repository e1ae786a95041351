"""Random rows and random batches of changes for the tables of random views.

Few values, so that groups, duplicates and NULLs collide; updates that change nothing, rows that
come and go in one batch, batches that only bring rows, batches of nothing.
"""

from __future__ import annotations

from decimal import Decimal
from random import Random

from tests.support.cases import Change, Refresh, Row, SignedRow, Table, Value

TABLES = (
    Table("r", (("k", "int"), ("a", "int"), ("x", "decimal(10,2)"), ("s", "string"))),
    Table("t", (("k", "int"), ("b", "int"), ("y", "decimal(12,3)"), ("s", "string"))),
    Table("u", (("k", "int"), ("c", "int"), ("d", "string"))),
)

VALUES: dict[str, tuple[Value, ...]] = {
    "int": (None, 0, 1, 2, 3, -1),
    "decimal(10,2)": (None, Decimal("1.50"), Decimal("2.25"), Decimal("-1.50"), Decimal("0.00")),
    "decimal(12,3)": (None, Decimal("1.500"), Decimal("0.125"), Decimal("-2.250")),
    "string": (None, "a", "b", "B", "xy", ""),
}


def random_stream(rng: Random, batches: int, read: set[str]) -> tuple[Refresh, ...]:
    """Return first rows and `batches` batches of changes that the rows before them allow.

    Most changes go to the tables that are `read`; the others show that nothing is done for them.
    """
    rows: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    first: list[Change] = []
    for table in TABLES:
        rows[table.name] = [_row(rng, table) for _ in range(rng.randint(0, 6))]
        if rows[table.name]:
            first.append(Change(table.name, tuple(SignedRow(1, r) for r in rows[table.name])))
    refreshes = [Refresh(0, tuple(first))]
    # A view's program depends on which tables change, and how; the same few ways come again with
    # other rows, so that most of a run's time goes into rows, not into compiling.
    ways = [_way(rng, read) for _ in range(3)]
    for _ in range(batches):
        changes: list[Change] = []
        for table, style in zip(TABLES, rng.choice(ways), strict=True):
            signed = _batch(rng, table, rows[table.name], style)
            changes += [Change(table.name, tuple(signed))] if signed else []
        refreshes.append(Refresh(0, tuple(changes)))
    return tuple(refreshes)


def _way(rng: Random, read: set[str]) -> tuple[str, ...]:
    """Return how each table changes in a batch."""
    style = rng.choice(("any",) * 7 + ("append",) * 3 + ("delete", "nothing"))
    choices = (style, style, "nothing")
    if style == "any":
        choices = ("mixed", "mixed", "mixed", "append", "delete", "nothing")
    ways = [rng.choice(choices) for _ in TABLES]
    if style != "nothing" and rng.random() < 0.95:
        ways = [w if t.name in read else "nothing" for w, t in zip(ways, TABLES, strict=True)]
        if set(ways) == {"nothing"}:
            place = rng.choice([i for i, table in enumerate(TABLES) if table.name in read])
            ways[place] = choices[0]
    return tuple(ways)


def _row(rng: Random, table: Table) -> Row:
    return tuple(rng.choice(VALUES[type_name]) for _, type_name in table.columns)


def _batch(rng: Random, table: Table, rows: list[Row], style: str) -> list[SignedRow]:
    """Return a batch for one table and apply it to `rows`."""
    signed: list[SignedRow] = []

    def come(row: Row) -> None:
        rows.append(row)
        signed.append(SignedRow(1, row))

    def go() -> Row:
        row = rows.pop(rng.randrange(len(rows)))
        signed.append(SignedRow(-1, row))
        return row

    actions = {
        "nothing": (),
        "append": ("insert",),
        "delete": ("delete",),
        "mixed": ("insert", "insert", "delete", "delete", "update", "update", "no-op", "passing"),
    }[style]
    if not actions:
        return []
    for _ in range(rng.randint(1, 3)):
        action = rng.choice(actions)
        if action == "insert":
            come(rng.choice(rows) if rows and rng.random() < 0.2 else _row(rng, table))
        elif action == "passing":
            come(_row(rng, table))
            signed.append(SignedRow(-1, rows.pop()))
        elif rows and action == "delete":
            go()
        elif rows and action == "update":
            old = list(go())
            place = rng.randrange(len(old))
            old[place] = rng.choice(VALUES[table.columns[place][1]])
            come(tuple(old))
        elif rows and action == "no-op":
            come(go())
    return signed
