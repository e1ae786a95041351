"""The columns of a SELECT list while they are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.sql.aggregates import is_aggregate


@dataclass(frozen=True, slots=True)
class Item:
    """One output column: its name, whether its author chose it, its plan expression, its type."""

    name: str
    certain: bool
    expr: Expr
    written: Expr | None = None
    """As the user wrote it, unless it is one of the columns of a star."""
    type: str = ""


def label(expr: Expr, taken: set[str]) -> str:
    """Name a computed column after its expression, so that plans read well.

    Names compare without case in SQL, so two expressions may need a number to stay apart.
    """
    plain = isinstance(expr, exp.Column)
    label = expr.name if plain else expr.sql(dialect="spark").replace("`", "")
    name, number = label, 1
    while name.lower() in taken:
        number += 1
        name = f"{label} ({number})"
    taken.add(name.lower())
    return name


def aggregate_calls(node: Expr) -> Iterator[Expr]:
    """Yield the aggregate calls of an expression; not what a window computes, nor a subquery."""
    if isinstance(node, exp.Query | exp.Subquery):
        return
    if isinstance(node, exp.Window):
        for part in (*node.this.iter_expressions(), *node.iter_expressions()):
            if part is not node.this:
                yield from aggregate_calls(part)
        return
    if is_aggregate(node):
        yield node
    for child in node.iter_expressions():
        yield from aggregate_calls(child)
