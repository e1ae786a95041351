"""Scalar expressions of a plan: sqlglot trees whose columns name a plan's output columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

Expr = exp.Expr


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the column it fills."""

    name: str
    expr: Expr


def column(name: str) -> exp.Column:
    """Return a reference to the plan column `name`."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def qualified(name: str, table: str) -> exp.Column:
    """Return a reference to column `name` of the relation aliased `table`."""
    return exp.Column(
        this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True)
    )


def columns_of(expr: Expr) -> tuple[str, ...]:
    """Return the plan columns an expression reads, in order, without repeats."""
    return tuple(dict.fromkeys(found.name for found in expr.find_all(exp.Column)))


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """Return a copy of `expr` with each column replaced by what it stands for."""

    def replace(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and node.name in replacements:
            return wrapped(replacements[node.name])
        return node

    return expr.copy().transform(replace, copy=False)


def wrapped(expr: Expr) -> Expr:
    """Return a copy that keeps its meaning inside any other expression."""
    inner = expr.copy()
    plain = (exp.Column, exp.Literal, exp.Func, exp.Paren, exp.Null, exp.Boolean)
    # AND, OR and RLIKE are functions to sqlglot, but they are written as operators.
    operators = (exp.Binary, exp.Unary, exp.Predicate)
    if isinstance(inner, exp.Paren) or (
        isinstance(inner, plain) and not isinstance(inner, operators)
    ):
        return inner
    return exp.Paren(this=inner)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Split `a AND b AND c` into its parts."""
    inner = condition.unnest() if isinstance(condition, exp.Paren) else condition
    if isinstance(inner, exp.And):
        return (*conjuncts(inner.left), *conjuncts(inner.right))
    return (condition,)


def conjunction(conditions: tuple[Expr, ...]) -> Expr | None:
    """Join conditions with AND; None if there are none."""
    if not conditions:
        return None
    return exp.and_(*(c.copy() for c in conditions))


def same(left: Expr, right: Expr) -> Expr:
    """Return `left <=> right`: equal, or both NULL."""
    return exp.NullSafeEQ(this=wrapped(left), expression=wrapped(right))
