"""A subquery in an expression -> a join with the rows around it, and a column that stands for it.

EXISTS and IN become semi-joins; where their truth value itself is needed, the rows are split by it.
A scalar subquery becomes a left join with a grouped subplan: one row for each combination of the
values it takes from outside. `linked` conditions tie a row inside to the row outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    Named,
    column,
    columns_of,
    conjunction,
    same,
    substitute,
)
from hybridview.algebra.plan import (
    Aggregate,
    Distinct,
    Join,
    Outer,
    Plan,
    Project,
    Semi,
    Union,
    output,
)
from hybridview.sql.aggregates import is_aggregate, over_no_rows
from hybridview.sql.dependent import or_nothing
from hybridview.sql.functions import TOO_MANY
from hybridview.sql.scope import NoRule, Output


@dataclass(frozen=True, slots=True)
class Inner:
    """A subquery's rows, what it selects of them, and what ties them to the row outside."""

    plan: Plan
    items: tuple[Expr, ...]
    linked: tuple[Expr, ...] = ()
    aggregated: bool = False
    """Whether its items are aggregates over all its rows: then it has one row, always."""
    columns: tuple[Output, ...] = ()
    """What its items are called."""
    one_to_one: bool = True
    """Whether a value outside is equal to one value inside at most: both have one type."""

    def outside(self) -> tuple[str, ...]:
        """Return the columns it takes from outside."""
        own = set(output(self.plan))
        read = (c for e in (*self.linked, *self.items) for c in columns_of(e))
        return tuple(dict.fromkeys(c for c in read if c not in own))


Fresh = Callable[[str], str]
"""Makes a plan column's name that nobody has."""


def is_subquery(node: Expr) -> bool:
    """Say whether a node is a subquery together with what asks for it."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    # exists(xs, x -> x > 1) asks for an element of an array.
    if isinstance(node, exp.Exists):
        return isinstance(node.this, exp.Query)
    return isinstance(node, exp.Subquery)


def inside(node: Expr) -> Expr:
    """Return the query in a subquery."""
    found: Expr = node.args["query"] if isinstance(node, exp.In) else node.this
    while isinstance(found, exp.Subquery) and not found.args.get("with_"):
        found = found.this
    return found


def membership(inner: Inner, sought: Expr) -> Expr:
    """Return `sought = item`; for a row of values all of them must be equal."""
    values = sought.expressions if isinstance(sought, exp.Tuple) else [sought]
    if len(values) != len(inner.items):
        raise NoRule("IN with a different number of columns", sought)
    pairs = zip(values, inner.items, strict=True)
    equal = [exp.EQ(this=_closed(v), expression=_closed(i)) for v, i in pairs]
    found = conjunction(tuple(equal))
    assert found is not None
    return found


def keep(plan: Plan, inner: Inner, sought: Expr | None, negated: bool) -> Plan:
    """Return the rows of `plan` for which [NOT] EXISTS or [NOT] IN is true.

    x NOT IN R is true if `x = r` is false for every r: an unknown comparison spoils it.
    """
    if sought is None:
        return Semi(plan, inner.plan, conjunction(inner.linked), negated)
    equal = membership(inner, sought)
    if negated:
        equal = exp.Coalesce(this=exp.Paren(this=equal), expressions=[exp.true()])
    return Semi(plan, inner.plan, conjunction((*inner.linked, equal)), negated)


def marked(plan: Plan, inner: Inner, sought: Expr | None, name: str, negated: bool) -> Plan:
    """Return the rows of `plan` with the truth value of EXISTS or IN in column `name`.

    As a value, Spark's IN is never unknown: it is true if there is an equal row, else false. Under
    a NOT it is false only if NOT IN is true, that is if every comparison is false.
    """
    condition = conjunction(inner.linked)
    if sought is not None:
        equal = membership(inner, sought)
        if negated:
            equal = exp.Coalesce(this=exp.Paren(this=equal), expressions=[exp.true()])
        condition = conjunction((*inner.linked, equal))
    true = Semi(plan, inner.plan, condition)
    false = Semi(plan, inner.plan, condition, anti=True)
    return _union(plan, name, ((true, exp.true()), (false, exp.false())))


def beside(plan: Plan, inner: Inner, names: tuple[str, ...], keeps: bool, fresh: Fresh) -> Plan:
    """Return the rows of `plan`, each beside the rows a LATERAL subquery has for it.

    One that aggregates has one row for each, as a scalar subquery has one value. With `keeps` a row
    without any is kept; NULLs are then what its items are, so they are columns.
    """
    if inner.aggregated:
        for name, item in zip(names, inner.items, strict=True):
            plan = with_value(plan, replace(inner, items=(item,)), name, fresh)
        return plan
    condition = conjunction(inner.linked)
    joined = (
        Outer(plan, inner.plan, condition, keeps_left=True, keeps_right=False)
        if keeps
        else Join(plan, inner.plan, condition)
    )
    items = tuple(Named(n, item) for n, item in zip(names, inner.items, strict=True))
    return Project(joined, (*(Named(n, column(n)) for n in output(plan)), *items))


def _union(plan: Plan, name: str, arms: tuple[tuple[Plan, Expr], ...]) -> Plan:
    own = tuple(Named(n, column(n)) for n in output(plan))
    parts = tuple(Project(rows, (*own, Named(name, value))) for rows, value in arms)
    return Union(parts, (*output(plan), name))


def with_value(plan: Plan, inner: Inner, name: str, fresh: Fresh) -> Plan:
    """Return the rows of `plan` with a scalar subquery's value in column `name`."""
    if len(inner.items) != 1:
        raise NoRule("scalar subquery of several columns")
    value = inner.items[0]
    if not inner.aggregated:
        # The one row's value, and an error if there are more.
        value = exp.If(
            this=exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)),
            true=exp.func("raise_error", exp.Literal.string(TOO_MANY)),
            false=exp.Max(this=value.copy()),
        )
    links = _equalities(inner)
    if links is None:
        return _by_domain(plan, inner, value, name, fresh)
    keys = tuple(Named(fresh("key"), side) for side, _, _ in links)
    grouped = _grouped(inner.plan, keys, value, fresh)
    if not keys:
        # Exactly one row; or none where the user's own query has none to give.
        own = tuple(Named(n, column(n)) for n in output(plan))
        rows = Project(grouped.rows, (Named(name, grouped.value),))
        return Project(Join(plan, rows, None), (*own, Named(name, column(name))))
    matches = [
        kind(this=_closed(outer), expression=column(key.name))
        for key, (_, outer, kind) in zip(keys, links, strict=True)
    ]
    on = conjunction(tuple(matches))
    return _attached(plan, grouped, on, name, inner.aggregated, fresh)


def _by_domain(plan: Plan, inner: Inner, value: Expr, name: str, fresh: Fresh) -> Plan:
    """Evaluate a subquery once for every different combination of the values it reads outside."""
    outside = inner.outside()
    if set(outside) - set(output(plan)):
        raise NoRule("subquery correlated over two levels")
    names = {n: fresh("outer") for n in outside}
    domain = Distinct(Project(plan, tuple(Named(names[n], column(n)) for n in outside)))
    meaning = {n: column(names[n]) for n in outside}
    linked = tuple(substitute(c, meaning) for c in inner.linked)
    rows = Join(domain, inner.plan, conjunction(linked))
    keys = tuple(Named(fresh("key"), column(names[n])) for n in outside)
    grouped = _grouped(rows, keys, substitute(value, meaning), fresh)
    matches = [same(column(n), column(k.name)) for n, k in zip(outside, keys, strict=True)]
    on = conjunction(tuple(matches))
    return _attached(plan, grouped, on, name, inner.aggregated, fresh)


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Rows grouped by keys, and a value over their aggregates."""

    rows: Aggregate
    value: Expr


def _grouped(rows: Plan, keys: tuple[Named, ...], value: Expr, fresh: Fresh) -> _Grouped:
    """Part a value into the aggregates it is made of and what is made of them."""
    calls: list[Named] = []

    def replace(node: Expr) -> Expr:
        if not is_aggregate(node):
            return node
        known = next((c for c in calls if c.expr == node), None)
        if known is None:
            known = Named(fresh("value"), node.copy())
            calls.append(known)
        return column(known.name)

    over = value.copy().transform(replace)
    free = set(columns_of(over)) - {c.name for c in calls} - {k.name for k in keys}
    if free:
        raise NoRule("expression over a column that is not grouped")
    return _Grouped(Aggregate(rows, keys, tuple(calls)), over)


def _attached(
    plan: Plan, grouped: _Grouped, on: Expr | None, name: str, aggregated: bool, fresh: Fresh
) -> Plan:
    """Join a grouped subplan; for rows that it has nothing for, aggregates are over no rows.

    The value is made of them above the join, so that it has the type it always has: NULL / 3 is a
    double, sum(x) / 3 need not be one.
    """
    own = tuple(Named(n, column(n)) for n in output(plan))
    keys = tuple(Named(k.name, column(k.name)) for k in grouped.rows.keys)
    if not aggregated:
        inside = Project(grouped.rows, (*keys, Named(name, grouped.value)))
        joined = Outer(plan, inside, on, keeps_left=True, keeps_right=False)
        return Project(joined, (*own, Named(name, column(name))))
    mark, calls = fresh("found"), grouped.rows.measures
    shown = tuple(Named(c.name, column(c.name)) for c in calls)
    groups = Project(grouped.rows, (*keys, *shown, Named(mark, exp.true())))
    joined = Outer(plan, groups, on, keeps_left=True, keeps_right=False)
    value = substitute(grouped.value, {c.name: or_nothing(c, mark) for c in calls})
    return Project(joined, (*own, Named(name, value)))


def over_nothing(value: Expr) -> Expr:
    """Return the value of an expression over aggregates of no rows."""

    def replace(node: Expr) -> Expr:
        return over_no_rows(node) if is_aggregate(node) else node

    return value.copy().transform(replace)


def _equalities(inner: Inner) -> tuple[tuple[Expr, Expr, type[Expr]], ...] | None:
    """Return (inside, outside, = or <=>) of every link if all are equalities; else None."""
    own = set(output(inner.plan))
    # The number 1 is equal to the texts '1' and '01': two groups would be one outside.
    if not inner.one_to_one or any(set(columns_of(item)) - own for item in inner.items):
        return None
    found: list[tuple[Expr, Expr, type[Expr]]] = []
    for link in inner.linked:
        bare = link.unnest() if isinstance(link, exp.Paren) else link
        if not isinstance(bare, exp.EQ | exp.NullSafeEQ):
            return None
        sides = (bare.left, bare.right)
        reads = [set(columns_of(side)) for side in sides]
        if reads[0] and reads[0] <= own and not reads[1] & own:
            found.append((*sides, type(bare)))
        elif reads[1] and reads[1] <= own and not reads[0] & own:
            found.append((sides[1], sides[0], type(bare)))
        else:
            return None
    return tuple(found)


def _closed(expr: Expr) -> Expr:
    inner = expr.copy()
    return (
        inner if isinstance(inner, exp.Column | exp.Literal | exp.Paren) else exp.Paren(this=inner)
    )
