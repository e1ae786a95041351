"""VALUES, range(...) and a SELECT without FROM -> constant rows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.algebra.plan import Constant
from hybridview.sql.aggregates import is_aggregate
from hybridview.sql.relation import Relation, Unique
from hybridview.sql.scope import NoRule, Output, Scope, Unresolved

MOST_NUMBERS = 1000
"""How many rows of range(...) are listed."""


def values(node: exp.Values, expression: Callable[[Expr, Scope], Expr]) -> Relation:
    """Return the rows of VALUES; Spark calls their columns col1, col2, ..."""
    rows = tuple(tuple(_value(e, expression) for e in _listed(row)) for row in node.expressions)
    names = tuple(f"col{i + 1}" for i in range(len(rows[0])))
    if any(len(row) != len(names) for row in rows):
        raise NoRule("VALUES of rows of different widths", node)
    return Relation(Constant(names, rows), tuple(Output(n, n) for n in names))


def one_row(unique: Unique) -> Constant:
    """Return what a SELECT without FROM reads: one row, with a column that nobody asks for."""
    return Constant((f"{unique('nothing')}.one",), ((exp.Literal.number(1),),))


def is_range(node: Expr) -> bool:
    """Say whether a source is range(...), the table of some numbers."""
    call = node.this if isinstance(node, exp.Table) else None
    return isinstance(call, exp.Anonymous) and call.name.lower() == "range"


def numbers(node: Expr) -> exp.Values:
    """Return the rows of range([start,] end [, step]); its column is called id."""
    found = [_integer(argument) for argument in node.this.expressions]
    if not 1 <= len(found) <= 3 or (len(found) == 3 and not found[2]):
        raise NoRule("range of other than three numbers", node)
    listed = range(*found)
    if not 0 < len(listed) <= MOST_NUMBERS:
        raise NoRule(f"range of no numbers, or of more than {MOST_NUMBERS},", node)
    rows = (exp.cast(exp.Literal.number(number), "bigint") for number in listed)
    return exp.Values(expressions=[exp.Tuple(expressions=[row]) for row in rows])


def _integer(node: Expr) -> int:
    sign, literal = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(literal, exp.Literal) or not literal.is_int:
        raise NoRule("range up to what is no number", node)
    return sign * int(literal.name)


def _listed(row: Expr) -> list[Expr]:
    return list(row.expressions) if isinstance(row, exp.Tuple) else [row]


def _value(node: Expr, expression: Callable[[Expr, Scope], Expr]) -> Expr:
    """Resolve a value where no name means anything."""
    if any(is_aggregate(part) for part in node.walk()):
        raise NoRule("aggregate in VALUES", node)
    try:
        return expression(node, Scope(()))
    except Unresolved:
        raise NoRule("column in VALUES", node) from None
