"""A view's plan -> how its query could be written so that it is cheaper to maintain."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.algebra.plan import Aggregate, Filter, Plan, Project, Scan, Top, Window
from hybridview.algebra.walk import walk
from hybridview.compiler import exact
from hybridview.compiler.layout import shape
from hybridview.compiler.measures import Types, argument_of, decompose
from hybridview.compiler.pieces import Part


def advice(plan: Plan, types: Types, parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Return sentences, each with a change to the query and what it would save."""
    return tuple(
        dict.fromkeys(
            (
                *_floats(plan, types),
                *_groups(plan, types),
                *_copies(plan, parts),
            )
        )
    )


def _floats(plan: Plan, types: Types) -> Iterator[str]:
    """Floating point sums cannot be taken back; decimal ones can."""
    for node in walk(plan):
        for measure in node.measures if isinstance(node, Aggregate) else ():
            argument = argument_of(measure.expr)
            if argument is None or not isinstance(measure.expr, exp.Sum | exp.Avg):
                continue
            if exact.is_float(types.get(argument.sql(dialect="spark"), "")):
                sql = _shown(argument)
                call = measure.expr.key
                yield (
                    f"{call}(CAST({sql} AS DECIMAL(18,6))) could be added up; a floating point "
                    "sum is computed anew for every group that loses a row"
                )


def _groups(plan: Plan, types: Types) -> Iterator[str]:
    """Groups that are re-evaluated although their sums could be added up."""
    top = shape(plan)
    if top.aggregate is None or not top.aggregate.keys:
        return
    calls = [m.expr for m in top.aggregate.measures]
    if top.having is not None and all(decompose(call, types) is not None for call in calls):
        yield (
            "without HAVING the groups could be added up; put the condition into the WHERE of a "
            "view over this one"
        )
    for call in calls:
        if isinstance(call, exp.Count) and isinstance(call.this, exp.Distinct):
            listed = ", ".join(_shown(e) for e in call.this.expressions)
            keys = ", ".join(k.name for k in top.aggregate.keys)
            yield (
                f"count(*) by {keys} over a view of SELECT DISTINCT {keys}, {listed} could be "
                "added up; count(DISTINCT) looks at all rows of a touched group"
            )


def _copies(plan: Plan, parts: tuple[Part, ...]) -> Iterator[str]:
    """Parts that are copies of a table's rows."""
    for part in parts:
        below = part.plan
        while isinstance(below, Filter | Project):
            below = below.input
        if not isinstance(below, Scan):
            continue
        why = next((_operator(n) for n in walk(plan) if isinstance(n, Top | Window)), "")
        if why:
            yield (
                f"{part.name} is a copy of rows of {below.table}, for the {why}: a WHERE that "
                "leaves fewer of them makes it smaller"
            )


def _operator(node: Top | Window) -> str:
    return "LIMIT" if isinstance(node, Top) else "window without PARTITION BY"


def _shown(expr: Expr) -> str:
    return expr.sql(dialect="spark").replace("`", "")
