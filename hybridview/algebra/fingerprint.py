"""Plan -> a value that two plans share if they compute the same rows, whatever their names are.

Every use of a table has an alias of its own, and computed columns are named after their
expressions; so two uses of one common table expression are not equal. Here a column is the place
it has among the columns of an operator's inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named
from hybridview.algebra.plan import Plan, Scan, children, output

Fingerprint = tuple[Any, ...]


def fingerprint(plan: Plan) -> Fingerprint:
    """Return what a plan computes; columns count by their place."""
    if isinstance(plan, Scan):
        return ("Scan", plan.table.lower(), plan.columns)
    inputs = children(plan)
    names = [name for child in inputs for name in output(child)]
    places = {name: f"${place}" for place, name in enumerate(names)}
    own = [
        _value(getattr(plan, field.name), places)
        for field in fields(plan)
        if field.name not in ("input", "inputs", "left", "right", "domain", "names")
    ]
    return (type(plan).__name__, *(fingerprint(child) for child in inputs), *own)


def _value(value: Any, places: Mapping[str, str]) -> Any:
    match value:
        case Named(_, expr):
            return _text(expr, places)
        case exp.Expr():
            return _text(value, places)
        case tuple():
            return tuple(_value(item, places) for item in value)
        case _:
            return value


def _text(expr: Expr, places: Mapping[str, str]) -> str:
    def place(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and node.name in places:
            return exp.Var(this=places[node.name])
        return node

    return expr.copy().transform(place).sql(dialect="spark")
