"""A plan -> the columns whose value Spark's own answer leaves open.

Where a query takes several values for one, any of them may stand for all: the spelling of a group
under a collation that ignores case, or the sign of zero in the smallest of -0.0 and 0.0. Two right
answers may then differ, and which one Spark gives depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.algebra.plan import (
    Aggregate,
    Flatten,
    Join,
    Outer,
    Plan,
    Project,
    Union,
    Window,
    children,
    output,
)
from hybridview.compiler.identity import read_type
from hybridview.compiler.kinds import Kinds, Recorded, kind_of, kinds


class Open(IntEnum):
    """What is open: nothing, the sign of a zero, the spelling of a string and what follows."""

    NOTHING = 0
    SIGN = 1
    SPELLING = 2


def openness(plan: Plan, recorded: Recorded) -> dict[str, Open]:
    """Return what is open about each column of a plan; the rest is the same for every order."""
    match plan:
        case Project(child, columns):
            below = openness(child, recorded)
            return {c.name: _of(c.expr, below) for c in columns}
        case Join(left, right, _) | Outer(left, right, _):
            return {**openness(left, recorded), **openness(right, recorded)}
        case Union(inputs, names):
            arms = [[openness(a, recorded)[n] for n in output(a)] for a in inputs]
            return {n: max(arm[i] for arm in arms) for i, n in enumerate(names)}
        case Aggregate(child, keys, measures):
            below, types = openness(child, recorded), kinds(child, recorded)
            found = {k.name: _key(k.expr, below, types, recorded) for k in keys}
            return found | {m.name: _measure(m.expr, below, types, recorded) for m in measures}
        case Flatten(child, generator, names):
            below = openness(child, recorded)
            return below | dict.fromkeys(names, _of(generator, below))
        case Window(child, _, functions):
            below, types = openness(child, recorded), kinds(child, recorded)
            return below | {f.name: _measure(f.expr, below, types, recorded) for f in functions}
        case _:
            inner = children(plan)
            if not inner:
                return dict.fromkeys(output(plan), Open.NOTHING)
            return openness(inner[0], recorded)


def _of(expr: Expr, below: Mapping[str, Open]) -> Open:
    """Return what is open about an expression because of what it reads."""
    read = (below.get(c.name, Open.NOTHING) for c in expr.find_all(exp.Column))
    return max(read, default=Open.NOTHING)


def _key(expr: Expr, below: Mapping[str, Open], types: Kinds, recorded: Recorded) -> Open:
    # GROUP BY turns -0.0 into 0.0 and sorts maps: that is the same for every order.
    if kind_of(expr, types, recorded).holds("collated"):
        return Open.SPELLING
    return _of(expr, below)


def _measure(call: Expr, below: Mapping[str, Open], types: Kinds, recorded: Recorded) -> Open:
    if isinstance(call, exp.Count):
        return Open.NOTHING
    kind = kind_of(call, types, recorded)
    if kind.holds("collated"):
        return Open.SPELLING
    return _of(call, below) if kind.plain else max(Open.SIGN, _of(call, below))


def openness_of_text(parsed: exp.Query, columns: Mapping[str, str]) -> dict[str, Open]:
    """Return what may be open about the columns of a query that has no plan."""
    merging = (exp.Group, exp.Distinct, exp.AggFunc, exp.Window, exp.SetOperation)
    if parsed.find(*merging) is None:
        return dict.fromkeys(columns, Open.NOTHING)
    return {
        name: Open.SPELLING if read_type(kind).holds("collated") else Open.SIGN
        for name, kind in columns.items()
    }


__all__ = ["Open", "openness", "openness_of_text"]
