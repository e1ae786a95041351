"""VALUES, and a SELECT without FROM -> constant rows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.algebra.plan import Constant
from hybridview.sql.aggregates import is_aggregate
from hybridview.sql.relation import Relation, Unique
from hybridview.sql.scope import NoRule, Output, Scope, Unresolved


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
