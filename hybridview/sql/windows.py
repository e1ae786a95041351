"""Window functions in a SELECT list -> Window operators below it, one for each way to part rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, columns_of, substitute
from hybridview.algebra.plan import Aggregate, Filter, Plan, Window, output
from hybridview.sql.aggregates import arguments_of
from hybridview.sql.frames import name_of
from hybridview.sql.items import Item, aggregate_calls, label
from hybridview.sql.scope import NoRule
from hybridview.sql.ties import check_ties


def windows(
    plan: Plan, items: list[Item], qualify: Expr | None, spelled: Mapping[str, str]
) -> tuple[Plan, list[Item]]:
    """Compute window functions, one operator for each way to part the rows; then QUALIFY.

    `spelled` gives the plan's columns in the author's words.
    """
    exprs = [*(item.expr for item in items), *([qualify] if qualify is not None else [])]
    found: dict[tuple[Expr, ...], list[Named]] = {}
    taken = {name.lower() for name in output(plan)}
    calls: list[Named] = []
    for expr in exprs:
        for window in expr.find_all(exp.Window):
            if any(window == named.expr for named in calls):
                continue
            if isinstance(window.this, exp.Column):
                name = window.this.name
                raise NoRule(f"window function over the aggregate {name}", window)
            check_ties(window, exprs, spelled)
            calls.append(Named(label(window, taken), window.copy()))
            found.setdefault(tuple(window.args.get("partition_by") or ()), []).append(calls[-1])
    for partition, functions in found.items():
        plan = Window(plan, partition, tuple(functions))

    def called(node: Expr) -> Expr:
        named = next((c for c in calls if c.expr == node), None)
        return column(named.name) if named is not None else node

    def computed(expr: Expr) -> Expr:
        return expr.copy().transform(called)

    if qualify is not None:
        plan = Filter(plan, computed(qualify))
    return plan, [replace(i, expr=computed(i.expr)) for i in items]


def spelled_groups(aggregate: Aggregate, columns: Mapping[str, str]) -> dict[str, str]:
    """Return keys and measures in the author's words, as far as their columns have any."""
    found: dict[str, str] = {}
    for named in (*aggregate.keys, *aggregate.measures):
        read = columns_of(named.expr)
        if set(read) <= set(columns):
            words: dict[str, Expr] = {n: exp.maybe_parse(columns[n], dialect="spark") for n in read}
            found[named.name] = substitute(named.expr, words).sql(dialect="spark")
    return found


def refuse_windows_of_keys(exprs: list[Expr]) -> None:
    """Stop at sum(key) OVER: Spark takes the key of the rows there, not the one of the groups."""
    for window in (found for expr in exprs for found in expr.find_all(exp.Window)):
        for argument in arguments_of(window.this):
            inner = {id(c) for call in aggregate_calls(argument) for c in call.walk()}
            if any(id(c) not in inner for c in argument.find_all(exp.Column)):
                name = name_of(window.this)
                raise NoRule(f"window function {name} of a key of GROUPING SETS", window)
