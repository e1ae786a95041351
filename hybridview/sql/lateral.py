"""LATERAL VIEW, and LATERAL before a call in FROM -> Flatten over what stands before it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.algebra.plan import Flatten, Plan
from hybridview.sql.generators import column_names, generator
from hybridview.sql.relation import Unique, refuse
from hybridview.sql.scope import NoRule, Output, Scope, Source, Unresolved


def lateral(
    node: exp.Lateral,
    plan: Plan,
    scope: Scope,
    expression: Callable[[Expr, Scope], Expr],
    unique: Unique,
    keeps: bool = False,
) -> tuple[Plan, Scope]:
    """Add the columns of LATERAL VIEW, or of LATERAL in FROM, to those before them."""
    refuse(node, {"this", "view", "outer", "alias"})
    try:
        found = generator(node.this, lambda expr: expression(expr, scope), scope)
    except Unresolved as miss:
        # Inside a subquery it may be a column from outside.
        raise NoRule("generator over a column that is not in its FROM", miss.node) from None
    alias = node.args.get("alias")
    names = column_names(found, tuple(c.name for c in alias.columns) if alias else (), node)
    label = unique(node.alias or "lateral")
    outputs = tuple(
        Output(name, f"{label}.{name}", bool(alias), found.type_of(i))
        for i, name in enumerate(names)
    )
    if len({o.plan_name.lower() for o in outputs}) != len(outputs):
        raise NoRule("columns of a generator with equal names", node)
    outer = keeps or found.outer or bool(node.args.get("outer"))
    plan = Flatten(plan, found.call, tuple(o.plan_name for o in outputs), outer)
    return plan, scope.plus(Scope((Source(node.alias, outputs),)))
