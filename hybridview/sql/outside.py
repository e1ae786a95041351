"""References to columns from outside a subquery, inside its plan.

They are no columns of any input, so a plan with some of them is not complete: `dependent` makes it
so, by joining the values that they take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from hybridview.algebra.expressions import Expr, column
from hybridview.algebra.plan import (
    Aggregate,
    Constant,
    Filter,
    Flatten,
    Join,
    Outer,
    Plan,
    Project,
    Repeat,
    Semi,
    Top,
    Window,
)
from hybridview.algebra.walk import walk

SAME_VALUES = "hybridview_same_values"
"""Marks an equality of values of one type, in which equal values cannot be told apart."""

_EXACT = frozenset(
    {"tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "boolean"}
)


def outside(name: str, kind: str) -> exp.Placeholder:
    """Return a reference to the plan column `name` of a query around this one."""
    return exp.Placeholder(this=name, kind=kind)


def taken(expr: Expr) -> Iterator[str]:
    """Yield the columns that an expression takes from outside."""
    for found in expr.find_all(exp.Placeholder):
        yield found.this


def bound(expr: Expr, columns: Mapping[str, str]) -> Expr:
    """Return an expression whose references are columns now, as far as these have them."""

    def replace(node: Expr) -> Expr:
        if isinstance(node, exp.Placeholder) and node.this in columns:
            return column(columns[node.this])
        return node

    return expr.copy().transform(replace)


def taken_by(plan: Plan) -> tuple[str, ...]:
    """Return the columns that a plan takes from outside, each once, in order."""
    found = (n for node in walk(plan) for e in expressions_of(node) for n in taken(e))
    return tuple(dict.fromkeys(found))


def expressions_of(node: Plan) -> Iterator[Expr]:
    """Yield the expressions of one operator of a query."""
    match node:
        case Filter(_, condition):
            yield condition
        case Project(_, columns):
            yield from (named.expr for named in columns)
        case Join(_, _, on) | Outer(_, _, on) | Semi(_, _, on):
            yield from (() if on is None else (on,))
        case Aggregate(_, keys, measures):
            yield from (named.expr for named in (*keys, *measures))
        case Window(_, partition, functions):
            yield from partition
            yield from (named.expr for named in functions)
        case Repeat(_, expr) | Flatten(_, expr):
            yield expr
        case Top(_, order):
            yield from order
        case Constant(_, rows):
            yield from (value for row in rows for value in row)


def mark_same_values(expr: Expr, left: str, right: str) -> None:
    """Mark an equality whose sides have these types, if one side can stand for the other.

    Equal floating point numbers may differ in the sign of zero, equal strings in their spelling
    under a collation.
    """
    exact = left in _EXACT or left.startswith("decimal(")
    if left == right and exact:
        expr.meta[SAME_VALUES] = True
