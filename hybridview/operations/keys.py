"""Declared keys and foreign keys: read what a user wrote, and see whether the rows agree.

They are believed by refreshes, which leave out what they say is empty; so they are checked when
they are declared, and again by `verify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridview.catalog import Catalog, ForeignKey, TableRecord
from hybridview.compiler.links import Link
from hybridview.engine.session import Session, quote, table_at
from hybridview.errors import (
    KeyViolationError,
    UnknownColumnError,
    UnknownTableError,
    UsageError,
    run,
)
from hybridview.operations.suggest import closest
from hybridview.schema import Column, TableSchema

ARROW = "->"
SHOWN = 3
"""How many rows that break a key are shown."""


def read_key(schema: TableSchema, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a key as the table spells them."""
    return tuple(_column(schema, name).name for name in names)


def read_reference(catalog: Catalog, schema: TableSchema, text: str) -> ForeignKey:
    """Read `column, column -> table`; the table is registered, and its key declared."""
    left, arrow, right = text.partition(ARROW)
    names = [name.strip() for name in left.strip().removeprefix("(").removesuffix(")").split(",")]
    if not arrow or not right.strip() or not all(names):
        raise UsageError(
            f'"{text}" is not a foreign key',
            hint=f'Write it like: "customer_id {ARROW} customers", or "a, b {ARROW} other"',
        )
    target = catalog.tables.get(right.strip().lower())
    if target is None:
        known = [table.name for table in catalog.tables.values()]
        raise UnknownTableError(
            f'there is no table "{right.strip()}" to refer to',
            detail=closest(right.strip(), known, "tables"),
            hint=run("table", "add", right.strip(), "PATH", "--key", "COLUMN"),
        )
    if not target.key:
        raise UsageError(
            f'table "{target.name}" has no declared key to refer to',
            hint=run("table", "add", target.name, target.location, "--key", "COLUMN", "--replace"),
        )
    columns = read_key(schema, names)
    _check_types(schema, columns, target)
    return ForeignKey(columns, target.table_id, target.key)


def check_key(session: Session, name: str, relation: str, key: tuple[str, ...]) -> None:
    """Make sure that no two rows have the same key."""
    problem = broken_key(session, relation, key)
    if problem:
        raise KeyViolationError(
            f'({", ".join(key)}) is not a key of table "{name}"',
            detail=f"{problem}.",
            hint="Declare the columns that identify a row, or no key.",
        )


def check_reference(session: Session, name: str, paths: Mapping[str, str], link: Link) -> None:
    """Make sure that what every row refers to is there."""
    problem = broken_link(session, link, {n: table_at(path) for n, path in paths.items()})
    if problem:
        raise KeyViolationError(
            f'({", ".join(link.columns)}) of table "{name}" is not a foreign key',
            detail=f"{problem}.",
            hint=f'Add what is missing to "{link.target}" first, or declare no foreign key.',
        )


def broken_key(session: Session, relation: str, key: tuple[str, ...]) -> str:
    """Return some keys that occur more than once; empty if none does."""
    columns = ", ".join(quote(c) for c in key)
    repeated = session.run(
        f"SELECT {columns}, count(*) AS n FROM {relation} "
        f"GROUP BY {columns} HAVING count(*) > 1 LIMIT {SHOWN}"
    )
    return "; ".join(f"{tuple(row[:-1])} occurs {row[-1]} times" for row in repeated)


def broken_link(session: Session, link: Link, relations: Mapping[str, str]) -> str:
    """Return some values that refer to nothing; empty if there are none."""
    columns = ", ".join(f"r.{quote(c)}" for c in link.columns)
    pairs = zip(link.columns, link.key, strict=True)
    same = " AND ".join(f"r.{quote(c)} = s.{quote(k)}" for c, k in pairs)
    there = " AND ".join(f"r.{quote(c)} IS NOT NULL" for c in link.columns)
    lost = session.run(
        f"SELECT DISTINCT {columns} FROM {relations[link.table]} AS r "
        f"LEFT ANTI JOIN {relations[link.target]} AS s ON {same} WHERE {there} LIMIT {SHOWN}"
    )
    shown = ", ".join(str(tuple(row)) for row in lost)
    return f"{link.table} refers to {shown}, not in {link.target}" if lost else ""


def _check_types(schema: TableSchema, columns: tuple[str, ...], target: TableRecord) -> None:
    if len(columns) != len(target.key):
        raise UsageError(
            f'the key of table "{target.name}" has other columns: {", ".join(target.key)}',
            hint="Name as many columns, in the order of the key.",
        )
    for name, key in zip(columns, target.key, strict=True):
        own, other = _column(schema, name).type, _column(target.schema, key).type
        if own != other:
            raise UsageError(
                f'"{name}" of table "{schema.name}" cannot refer to "{key}" of "{target.name}"',
                detail=f"Their types differ: {own} and {other}.",
            )


def _column(schema: TableSchema, name: str) -> Column:
    found = schema.find(name)
    if found is None:
        raise UnknownColumnError(
            f'table "{schema.name}" has no column "{name}"',
            detail=closest(name, list(schema.names), "columns"),
        )
    return found
