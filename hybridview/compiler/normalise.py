"""A resolved plan -> the shape the rules expect: few Projects, no Distinct, only used columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    Named,
    column,
    columns_of,
    conjunction,
    conjuncts,
    substitute,
)
from hybridview.algebra.plan import (
    Aggregate,
    Constant,
    Distinct,
    Filter,
    Flatten,
    Join,
    Outer,
    Plan,
    PlanError,
    Project,
    Repeat,
    Scan,
    Semi,
    Top,
    Union,
    Window,
    output,
)
from hybridview.algebra.rebuild import over
from hybridview.compiler.column_types import (
    NOTHING,
    ColumnTypes,
    Sources,
    same_in_all_arms,
    typed_null,
)

Rewrite = Callable[[Plan, Sources], Plan]


def normalise(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """Apply all passes, bottom up, then drop the columns nobody reads.

    `sources` are the types of the tables' columns, as far as they are known.
    """
    for rewrite in PASSES:
        plan = _bottom_up(plan, rewrite, sources)
    return prune(plan, output(plan))


def group_distinct(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """DISTINCT(R) = R grouped by all its columns, without measures."""
    if isinstance(plan, Distinct):
        return Aggregate(plan.input, tuple(Named(n, column(n)) for n in output(plan)), ())
    return plan


def turn_outer_joins(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """Make all outer joins left ones.

    A right join = a left join of the sides exchanged. A full join = a left join + the rows of the
    right side without a partner, NULLs beside them.
    """
    if not isinstance(plan, Outer) or not plan.keeps_right:
        return plan
    if not plan.keeps_left:
        turned = Outer(plan.right, plan.left, plan.condition, True, False)
        return Project(turned, (*_own(plan.left), *_own(plan.right)))
    left = Outer(plan.left, plan.right, plan.condition, True, False)
    alone = Semi(plan.right, plan.left, plan.condition, anti=True)
    nulls = _nulls(plan.left, sources)
    return Union((left, Project(alone, (*nulls, *_own(plan.right)))), output(plan))


def _own(plan: Plan) -> tuple[Named, ...]:
    return tuple(Named(name, column(name)) for name in output(plan))


def _nulls(plan: Plan, sources: Sources) -> tuple[Named, ...]:
    """Return NULLs of the types that a plan's columns have: coalesce(x, 1) may be 1.0."""
    types = ColumnTypes(sources).of(plan)
    return tuple(Named(name, typed_null(types.get(name))) for name in output(plan))


def lift_projects(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """Move Project above Filter and merge neighbours, so that a view's shape shows at its top."""
    if isinstance(plan, Filter) and isinstance(plan.input, Project):
        inner = plan.input
        meaning = {named.name: named.expr for named in inner.columns}
        return Project(Filter(inner.input, substitute(plan.condition, meaning)), inner.columns)
    if isinstance(plan, Project) and isinstance(plan.input, Project):
        meaning = {named.name: named.expr for named in plan.input.columns}
        merged = tuple(Named(n.name, substitute(n.expr, meaning)) for n in plan.columns)
        return Project(plan.input.input, merged)
    return plan


def factor_alternatives(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """Take out of an OR what all its alternatives demand: (a AND b) OR (a AND c) = a AND (b OR c).

    So an equality that every alternative repeats becomes a condition to join by.
    """
    if not isinstance(plan, Filter | Join | Semi | Outer) or plan.condition is None:
        return plan
    old = conjuncts(plan.condition)
    parts = tuple(part for c in old for part in _factored(c))
    if parts == old:
        return plan
    condition = conjunction(parts)
    assert condition is not None
    return replace(plan, condition=condition)


def _factored(condition: Expr) -> tuple[Expr, ...]:
    alternatives = [conjuncts(a) for a in _alternatives(condition)]
    common = [c for c in alternatives[0] if all(c in other for other in alternatives[1:])]
    if len(alternatives) == 1 or not common:
        return (condition,)
    rest = [conjunction(tuple(c for c in a if c not in common)) for a in alternatives]
    left = [exp.Paren(this=r) for r in rest if r is not None]
    # An alternative that demands nothing more makes the others needless.
    return (*common, exp.Paren(this=exp.or_(*left))) if len(left) == len(rest) else tuple(common)


def _alternatives(condition: Expr) -> tuple[Expr, ...]:
    inner = condition.unnest() if isinstance(condition, exp.Paren) else condition
    if isinstance(inner, exp.Or):
        return (*_alternatives(inner.left), *_alternatives(inner.right))
    return (condition,)


def push_filters(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """Let each condition stand at the lowest join that has its columns, or below it.

    A change is then filtered before it is joined, and a comma join becomes a join with a condition.
    """
    if not isinstance(plan, Filter):
        return plan
    if isinstance(plan.input, Semi):
        return replace(plan.input, left=Filter(plan.input.left, plan.condition))
    if isinstance(plan.input, Union):
        return _push_into_arms(plan, plan.input, sources)
    if isinstance(plan.input, Outer):
        return _push_left(plan, plan.input)
    if isinstance(plan.input, Flatten):
        return _push_below(plan, plan.input)
    if isinstance(plan.input, Filter) and isinstance(plan.input.input, Flatten):
        both = conjunction((plan.input.condition, plan.condition))
        assert both is not None
        return Filter(plan.input.input, both)
    if not isinstance(plan.input, Join):
        return plan
    join = plan.input
    parts: dict[str, list[Expr]] = {"left": [], "right": [], "both": []}
    for condition in conjuncts(plan.condition):
        used = set(columns_of(condition))
        if used and used <= set(output(join.left)):
            parts["left"].append(condition)
        elif used and used <= set(output(join.right)):
            parts["right"].append(condition)
        else:
            parts["both"].append(condition)
    old = conjuncts(join.condition) if join.condition is not None else ()
    return Join(
        _filtered(join.left, parts["left"]),
        _filtered(join.right, parts["right"]),
        conjunction((*old, *parts["both"])),
    )


def _push_left(plan: Filter, join: Outer) -> Plan:
    """Move the conditions on the left side of a left join below it; the others stay above."""
    own = set(output(join.left))
    parts = conjuncts(plan.condition)
    below = [c for c in parts if columns_of(c) and set(columns_of(c)) <= own]
    if join.keeps_right or not below:
        return plan
    above = [c for c in parts if c not in below]
    return _filtered(replace(join, left=_filtered(join.left, below)), above)


def lift_totals(plan: Plan, sources: Sources = NOTHING) -> Plan:
    """Join an aggregate over all rows last: above semi-joins and joins that do not read it.

    Its one row may change the answer for any row of the other side. The more is done before, the
    less is looked at again.
    """
    if not isinstance(plan, Semi | Join):
        return plan
    below, shown = _join_with_total(plan.left)
    # Two of them stay in their order.
    if below is None or (isinstance(plan, Join) and _is_total(plan.right)):
        return plan
    meaning = {c.name: c.expr for c in shown}
    condition = None if plan.condition is None else substitute(plan.condition, meaning)
    if condition is not None and set(columns_of(condition)) & set(output(below.right)):
        return plan
    early = replace(plan, left=below.left, condition=condition)
    late = Join(early, below.right, below.condition)
    return Project(late, shown if isinstance(plan, Semi) else (*shown, *_own(plan.right)))


def _join_with_total(plan: Plan) -> tuple[Join | None, tuple[Named, ...]]:
    """Recognise a join with one row, and the columns shown of it."""
    shown = _own(plan)
    if isinstance(plan, Project):
        shown, plan = plan.columns, plan.input
    if not isinstance(plan, Join):
        return None, ()
    return (plan, shown) if _is_total(plan.right) else (None, ())


def _is_total(plan: Plan) -> bool:
    """Say whether a plan is an aggregate over all rows."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return isinstance(plan, Aggregate) and not plan.keys


def _push_below(plan: Filter, flat: Flatten) -> Plan:
    """Move the conditions on a row below what makes several of it; the others stay above."""
    own = set(output(flat.input))
    parts = conjuncts(plan.condition)
    below = [c for c in parts if columns_of(c) and set(columns_of(c)) <= own]
    if not below:
        return plan
    above = [c for c in parts if c not in below]
    return _filtered(replace(flat, input=_filtered(flat.input, below)), above)


def _push_into_arms(plan: Filter, union: Union, sources: Sources) -> Plan:
    """Move conditions into the arms of a union, if they mean the same there.

    An arm's own column may have another type than the union's: 1 is 1.0 beside doubles.
    """
    alike = same_in_all_arms(union, ColumnTypes(sources))
    parts = conjuncts(plan.condition)
    below = [c for c in parts if columns_of(c) and alike.issuperset(columns_of(c))]
    if not below:
        return plan
    arms = []
    for arm in union.inputs:
        meaning = {n: column(m) for n, m in zip(union.names, output(arm), strict=True)}
        arms.append(_filtered(arm, [substitute(c, meaning) for c in below]))
    return _filtered(Union(tuple(arms), union.names), [c for c in parts if c not in below])


def _filtered(plan: Plan, conditions: list[Expr]) -> Plan:
    condition = conjunction(tuple(conditions))
    return plan if condition is None else Filter(plan, condition)


PASSES: tuple[Rewrite, ...] = (
    turn_outer_joins,
    group_distinct,  # first: the lifted Projects may sit on the aggregate it makes
    lift_projects,
    factor_alternatives,  # before push: what is taken out may be pushed
    push_filters,
    lift_projects,  # again: a filter may have been pushed onto a Project
    lift_totals,
    lift_projects,  # again: over what was lifted
)


def _bottom_up(plan: Plan, rewrite: Rewrite, sources: Sources) -> Plan:
    rebuilt = over(plan, lambda child: _bottom_up(child, rewrite, sources))
    rewritten = rewrite(rebuilt, sources)
    return rewritten if rewritten == rebuilt else _bottom_up(rewritten, rewrite, sources)


def prune(plan: Plan, needed: tuple[str, ...]) -> Plan:
    """Return a plan with the columns `needed`, at least, that reads no column in vain."""
    wanted = set(needed)
    match plan:
        case Scan(table, alias, columns):
            kept = tuple(c for c in columns if f"{alias}.{c}" in wanted)
            # A scan needs some column to have rows; the first is as good as any.
            return Scan(table, alias, kept or columns[:1])
        case Constant():
            return _narrow_rows(plan, wanted)
        case Filter(child, condition):
            return Filter(prune(child, (*needed, *columns_of(condition))), condition)
        case Project(child, columns):
            kept_columns = tuple(c for c in columns if c.name in wanted) or columns[:1]
            return Project(prune(child, _reads(kept_columns)), kept_columns)
        case Join(left, right, condition):
            reads = (*needed, *(columns_of(condition) if condition is not None else ()))
            sides = [tuple(n for n in reads if n in set(output(s))) for s in (left, right)]
            return Join(prune(left, sides[0]), prune(right, sides[1]), condition)
        case Outer(left, right, condition):
            reads = (*needed, *(columns_of(condition) if condition is not None else ()))
            sides = [tuple(n for n in reads if n in set(output(s))) for s in (left, right)]
            return replace(plan, left=prune(left, sides[0]), right=prune(right, sides[1]))
        case Semi(left, right, condition):
            reads = columns_of(condition) if condition is not None else ()
            own = tuple(n for n in (*needed, *reads) if n in set(output(left)))
            other = tuple(n for n in reads if n in set(output(right)))
            return replace(plan, left=prune(left, own), right=prune(right, other))
        case Repeat(child, times):
            return Repeat(prune(child, (*needed, *columns_of(times))), times)
        case Top(child, order):
            reads = tuple(name for key in order for name in columns_of(key))
            return replace(plan, input=prune(child, (*needed, *reads)))
        case Flatten(child, generator):
            reads = (*needed, *columns_of(generator))
            return replace(plan, input=prune(child, tuple(n for n in reads if n in output(child))))
        case Window(child, partition, functions):
            called = tuple(f for f in functions if f.name in wanted)
            if not called:
                return prune(child, needed)
            reads = _reads(called) + tuple(n for e in partition for n in columns_of(e))
            own = tuple(n for n in needed if n in set(output(child)))
            return Window(prune(child, (*own, *reads)), partition, called)
        case Union(inputs, names):
            places = [i for i, name in enumerate(names) if name in wanted] or [0]
            arms = tuple(_narrow(arm, places) for arm in inputs)
            return Union(arms, tuple(names[i] for i in places))
        case Aggregate(child, keys, measures):
            kept_measures = tuple(m for m in measures if m.name in wanted)
            reads = _reads((*keys, *kept_measures))
            return Aggregate(prune(child, reads), keys, kept_measures)
        case _:
            raise PlanError(f"cannot prune {type(plan).__name__}")


def _narrow_rows(plan: Constant, wanted: set[str]) -> Constant:
    """Keep some columns of constant rows, at least one."""
    places = [i for i, name in enumerate(plan.names) if name in wanted] or [0]
    rows = tuple(tuple(row[i] for i in places) for row in plan.rows)
    return Constant(tuple(plan.names[i] for i in places), rows)


def _narrow(arm: Plan, places: list[int]) -> Plan:
    """Keep some columns of a union's arm, by position."""
    names = output(arm)
    kept = tuple(names[i] for i in places)
    pruned = prune(arm, kept)
    if output(pruned) == kept:
        return pruned
    return Project(pruned, tuple(Named(n, column(n)) for n in kept))


def _reads(columns: tuple[Named, ...]) -> tuple[str, ...]:
    return tuple(name for named in columns for name in columns_of(named.expr))
