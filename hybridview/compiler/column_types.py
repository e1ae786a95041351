"""A plan + the types of its tables' columns -> the types of its own, where they are certain.

A condition, or a list of values, may be carried from one column to another only where both have
the same type: '01' = 1 holds, and 1 = '1', but '01' = '1' does not; and an integer in a UNION with
a double is written 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named
from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Distinct,
    Domain,
    Empty,
    Expand,
    Filter,
    Flatten,
    Join,
    Negate,
    Outer,
    Partial,
    Plan,
    Project,
    Reference,
    Repeat,
    Restrict,
    Scan,
    Semi,
    Top,
    Union,
    Window,
    output,
)

Sources = Mapping[str, Mapping[str, str]]
"""Types of the columns of each table; names in lower case."""
NOTHING: Sources = {}
"""No type is known."""
Types = Mapping[str, str]
"""Columns of a plan whose types are certain, as Spark writes them."""

VOID = "void"
"""The type of a bare NULL: in a union it takes that of the other arms."""


class ColumnTypes:
    """Types of plans, looked at once for every part; `known` are those of computed relations."""

    def __init__(self, sources: Sources, known: Mapping[str, Types] | None = None) -> None:
        self.sources = sources
        self.known = known or {}
        self.done: dict[int, tuple[Plan, Types]] = {}

    def of(self, plan: Plan) -> Types:
        if id(plan) not in self.done:
            self.done[id(plan)] = (plan, self._of(plan))
        return self.done[id(plan)][1]

    def column(self, table: str, name: str) -> str:
        """Return the type of a table's column; empty if it is not certain."""
        found = self.sources.get(table.lower(), {}).get(name.lower(), "").lower()
        # Without its digits, it may be any decimal.
        return "" if found == "decimal" else found

    def _of(self, plan: Plan) -> Types:
        match plan:
            case Scan(table, alias, columns) | Changes(table, alias, columns):
                found = {f"{alias}.{c}": self.column(table, c) for c in columns}
                return {name: kind for name, kind in found.items() if kind}
            case Reference(name, _):
                return self.known.get(name, {})
            case (
                Filter(child)
                | Negate(child)
                | Consolidate(child)
                | Expand(child)
                | Repeat(child)
                | Distinct(child)
                | Restrict(child)
                | Semi(child)
                | Top(child)
            ):
                return self.of(child)
            case Flatten(child) | Window(child):
                own = set(output(child))
                return {name: kind for name, kind in self.of(child).items() if name in own}
            case Project(child, columns) | Domain(child, columns):
                return self._named(columns, child)
            case Aggregate(child, keys, _) | Partial(child, keys, _):
                return self._named(keys, child)
            case Join(left, right) | Outer(left, right):
                return {**self.of(left), **self.of(right)}
            case Union(inputs, names):
                arms = [
                    [self.of(arm).get(name) for name in output(arm)]
                    for arm in inputs
                    if not isinstance(arm, Empty)
                ]
                merged = ((n, _merged(a[i] for a in arms)) for i, n in enumerate(names))
                return {name: kind for name, kind in merged if kind}
            case _:
                return {}

    def _named(self, columns: Iterable[Named], child: Plan) -> Types:
        below = self.of(child)
        found = {named.name: _type_of(named.expr, below) for named in columns}
        return {name: kind for name, kind in found.items() if kind}


def _type_of(expr: Expr, below: Types) -> str | None:
    match expr:
        case exp.Column():
            return below.get(expr.name)
        case exp.Null():
            return VOID
        case exp.Cast():
            text: str = expr.to.sql(dialect="spark").lower().replace(" ", "")
            return text if text.startswith("decimal(") or text in _CAST else None
        case _:
            return None


_CAST = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "boolean"}) | {
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
}
"""Types that sqlglot writes as Spark does."""


def _merged(kinds: Iterable[str | None]) -> str | None:
    """Return the type that arms of a union have in common; None if it is not certain."""
    found = set(kinds)
    if len(found) > 1:
        found -= {VOID}
    return found.pop() if len(found) == 1 else None


def same_in_all_arms(union: Union, types: ColumnTypes) -> frozenset[str]:
    """Return the columns of a union that have one type, known of every arm."""
    kinds = [[types.of(arm).get(name) for name in output(arm)] for arm in union.inputs]
    return frozenset(
        name
        for place, name in enumerate(union.names)
        if len(found := {arm[place] for arm in kinds}) == 1 and not found & {None, VOID}
    )


def typed_null(kind: str | None) -> Expr:
    """Return NULL, of a type if that is known."""
    if kind is None or not (kind in _CAST or kind.startswith("decimal(")):
        return exp.Null()
    return exp.cast(exp.Null(), kind, dialect="spark")


__all__ = ["ColumnTypes", "same_in_all_arms", "typed_null"]
