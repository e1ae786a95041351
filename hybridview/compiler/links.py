"""Declared foreign keys + a join -> the terms of its change that are known to be empty."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, conjuncts
from hybridview.algebra.plan import (
    Aggregate,
    Filter,
    Flatten,
    Join,
    Outer,
    Plan,
    Project,
    Repeat,
    Scan,
    Semi,
    Window,
    output,
)


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key: `columns` of a row of `table` hold a NULL, or the `key` of a row of `target`.

    The key is unique in `target`. Both are declared, and hold in every state that is refreshed to.
    """

    table: str
    columns: tuple[str, ...]
    target: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table} ({', '.join(self.columns)}) -> {self.target}"


def meets_nothing(
    condition: Expr | None, held: Plan, changed: Plan, links: frozenset[Link]
) -> frozenset[str]:
    """Return the scans of `changed`, by alias, whose new rows have no partner in the old `held`.

    R.fk -> S.key, S only gained rows:   R_old * dS = 0   where the condition says R.fk = S.key

    What R_old refers to was in S_old; keys are unique, so no new row of S has such a key. A NULL
    equals nothing.
    """
    if not links or condition is None:
        return frozenset()
    pairs: dict[tuple[Scan, Scan], set[tuple[str, str]]] = {}
    for part in conjuncts(condition):
        if not (isinstance(part, exp.EQ) and _is_column(part.this) and _is_column(part.expression)):
            continue
        for here, there in ((part.this, part.expression), (part.expression, part.this)):
            refers, key = _origin(held, here.name, _KEEPS_VALUES), _origin(changed, there.name)
            if refers is not None and key is not None:
                pairs.setdefault((refers[0], key[0]), set()).add((refers[1], key[1]))
    return frozenset(
        target.alias
        for (table, target), equal in pairs.items()
        for link in links
        if (link.table, link.target) == (table.table, target.table)
        and set(zip(link.columns, link.key, strict=True)) <= equal
    )


def _is_column(expr: Expr) -> bool:
    return isinstance(expr, exp.Column) and not expr.table


_LINEAR = (Filter, Project, Join, Repeat, Flatten, Semi)
"""A row of their input's change has its own rows in their change, independent of other rows."""

_KEEPS_VALUES = (*_LINEAR, Outer, Aggregate, Window)
"""A column that they pass on holds values of their input, or NULL."""


def _origin(plan: Plan, name: str, through: tuple[type, ...] = _LINEAR) -> tuple[Scan, str] | None:
    """Return the scan whose column shows as `name`, if only some operators are in between."""
    if isinstance(plan, Scan):
        prefix = f"{plan.alias}."
        column = name.removeprefix(prefix)
        return (plan, column) if name.startswith(prefix) and column in plan.columns else None
    if isinstance(plan, Outer) and Outer not in through:
        # Its change is linear in its left side.
        return _origin(plan.left, name, through) if name in output(plan.left) else None
    if not isinstance(plan, through):
        return None
    match plan:
        case Project(child, shown) | Aggregate(child, shown):
            inner = next((c.expr for c in shown if c.name == name and _is_column(c.expr)), None)
            return None if inner is None else _origin(child, inner.name, through)
        case Join(left, right) | Outer(left, right):
            return _origin(left if name in output(left) else right, name, through)
        case Filter(child) | Repeat(child) | Flatten(child) | Semi(child) | Window(child):
            return _origin(child, name, through) if name in output(child) else None
        case _:
            return None


__all__ = ["Link", "meets_nothing"]
