"""A subquery's plan that takes columns from outside -> its rows for all their values at once.

    D * Q = the rows of Q(d) beside d, for every d in D

D, the *domain*, are the different combinations of values that the rows outside have. It is joined
as far down as possible; above, every operator treats the rows of each d by themselves: groups and
windows get the columns of D as keys, a LIMIT becomes a window. The row outside is then joined by
those columns, NULL with NULL. Rows for combinations that D does not have do no harm, so where the
subquery demands `e = d` the values of e can stand for D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    Named,
    column,
    columns_of,
    conjunction,
    conjuncts,
    same,
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
    Project,
    Repeat,
    Scan,
    Semi,
    Top,
    Union,
    Window,
    output,
)
from hybridview.sql.aggregates import over_no_rows
from hybridview.sql.outside import SAME_VALUES, bound, taken, taken_by
from hybridview.sql.scope import NoRule

Fresh = Callable[[str], str]
"""Makes a plan column's name that nobody has."""

Columns = Mapping[str, str]
"""Column from outside -> the column that has its values."""


@dataclass(frozen=True, slots=True)
class Dependent:
    """Joins a domain with subplans; `values` are the domain's columns, by those outside."""

    domain: Plan
    values: Columns
    fresh: Fresh

    def rows(self, plan: Plan) -> tuple[Plan, Columns]:
        """Return the rows of a plan for all values, and where these are."""
        if not self._takes(plan):
            copy, columns = self._copy()
            return Join(copy, plan, None), columns
        match plan:
            case Filter():
                return self._filter(plan)
            case Project(child, listed):
                below, columns = self.rows(child)
                shown = tuple(Named(n.name, bound(n.expr, columns)) for n in listed)
                return Project(below, (*_own(columns), *shown)), columns
            case Join():
                return self._inner_join(plan)
            case Outer():
                return self._outer(plan)
            case Semi(left, right, condition, anti):
                return self._join(left, right, condition, partial(Semi, anti=anti))
            case Aggregate():
                return self._aggregate(plan)
            case Distinct(child):
                below, columns = self.rows(child)
                return Distinct(_listed(below, (*columns.values(), *output(child)))), columns
            case Union(inputs, names):
                return self._union(inputs, names)
            case Window():
                return self._window(plan)
            case Top():
                return self._top(plan)
            case Repeat(child, times):
                below, columns = self.rows(child)
                return Repeat(below, bound(times, columns)), columns
            case Flatten(child, generator, names, outer):
                below, columns = self.rows(child)
                return Flatten(below, bound(generator, columns), names, outer), columns
            case Constant() | Scan():
                raise NoRule("VALUES of columns from outside a subquery")
            case _:
                raise NoRule(f"{type(plan).__name__} in a correlated subquery")

    def _takes(self, plan: Plan) -> bool:
        return any(name in self.values for name in taken_by(plan))

    def _copy(self) -> tuple[Plan, Columns]:
        """Return the domain under names of their own: it may be joined in several places."""
        columns = {name: self.fresh("outer") for name in self.values}
        listed = tuple(Named(columns[n], column(v)) for n, v in self.values.items())
        return Project(self.domain, listed), columns

    def _filter(self, plan: Plan) -> tuple[Plan, Columns]:
        child, conditions = plan, list[Expr]()
        while isinstance(child, Filter):
            conditions = [*conjuncts(child.condition), *conditions]
            child = child.input
        links = None if self._takes(child) else self._links(child, conditions)
        if links is None:
            below, columns = self.rows(child)
            return _filtered(below, [bound(c, columns) for c in conditions]), columns
        # The values inside stand for the domain.
        columns = {name: self.fresh("outer") for name in self.values}
        own = tuple(Named(n, column(n)) for n in output(child))
        made = tuple(Named(columns[n], links[n]) for n in self.values)
        present: list[Expr] = [
            exp.Not(this=exp.Is(this=column(columns[n]), expression=exp.Null()))
            for n in self.values
        ]
        rest = [bound(c, columns) for c in conditions if self._link(c, child) is None]
        return _filtered(Project(child, (*made, *own)), [*present, *rest]), columns

    def _links(self, child: Plan, conditions: list[Expr]) -> dict[str, Expr] | None:
        """Return an expression that is equal to each of the values; None if some has none.

        A value that is demanded twice is compared with both: then the domain is needed.
        """
        found = [link for c in conditions if (link := self._link(c, child)) is not None]
        links = dict(found)
        return links if len(found) == len(links) == len(self.values) else None

    def _link(self, condition: Expr, child: Plan) -> tuple[str, Expr] | None:
        """Recognise `expression over the child = column from outside`, of one exact type."""
        bare = condition.unnest()
        if not isinstance(bare, exp.EQ) or not bare.meta.get(SAME_VALUES):
            return None
        for side, other in ((bare.left, bare.right), (bare.right, bare.left)):
            if isinstance(side, exp.Placeholder) and side.this in self.values:
                reads = columns_of(other)
                if reads and set(reads) <= set(output(child)) and not any(taken(other)):
                    return side.this, other
        return None

    def _join(
        self,
        left: Plan,
        right: Plan,
        condition: Expr | None,
        make: Callable[[Plan, Plan, Expr | None], Plan],
    ) -> tuple[Plan, Columns]:
        """Join sides; if both depend on the values, only rows of equal ones."""
        rows, columns = self.rows(left)
        parts = [] if condition is None else [bound(condition, columns)]
        if not self._takes(right):
            return make(rows, right, conjunction(tuple(parts))), columns
        others, theirs = self.rows(right)
        parts = [same(column(columns[n]), column(theirs[n])) for n in columns] + parts
        return make(rows, others, conjunction(tuple(parts))), columns

    def _inner_join(self, plan: Join) -> tuple[Plan, Columns]:
        """Join sides; what the condition takes from outside is asked above."""
        parts = conjuncts(plan.condition) if plan.condition is not None else ()
        linked = [c for c in parts if any(n in self.values for n in taken(c))]
        if linked:
            closed = conjunction(tuple(c for c in parts if c not in linked))
            return self._filter(_filtered(replace(plan, condition=closed), linked))
        if self._takes(plan.left):
            return self._join(plan.left, plan.right, plan.condition, Join)
        others, columns = self.rows(plan.right)
        return Join(plan.left, others, plan.condition), columns

    def _outer(self, plan: Outer) -> tuple[Plan, Columns]:
        left, right = plan.left, plan.right
        if plan.keeps_left and plan.keeps_right:
            # The left join, and the rows of the right side without a partner.
            alone = Semi(right, left, plan.condition, anti=True)
            nulls = tuple(Named(n, exp.Null()) for n in output(left))
            arms = (replace(plan, keeps_right=False), Project(alone, (*nulls, *_own_of(right))))
            return self._union(arms, output(plan))
        if plan.keeps_right:
            left, right = right, left

        def make(one: Plan, other: Plan, condition: Expr | None) -> Plan:
            return Outer(one, other, condition, keeps_left=True, keeps_right=False)

        return self._join(left, right, plan.condition, make)

    def _aggregate(self, plan: Aggregate) -> tuple[Plan, Columns]:
        below, columns = self.rows(plan.input)
        keys = tuple(Named(k.name, bound(k.expr, columns)) for k in plan.keys)
        measures = tuple(Named(m.name, bound(m.expr, columns)) for m in plan.measures)
        groups = Aggregate(below, (*_own(columns), *keys), measures)
        if plan.keys:
            return groups, columns
        # Over no rows an aggregate without GROUP BY has one row all the same.
        every, values = self._copy()
        mark = self.fresh("found")
        found = Project(groups, (*_own_of(groups), Named(mark, exp.true())))
        on = conjunction(tuple(same(column(values[n]), column(columns[n])) for n in values))
        joined = Outer(every, found, on, keeps_left=True, keeps_right=False)
        shown = tuple(Named(m.name, or_nothing(m, mark)) for m in measures)
        return Project(joined, (*_own(values), *shown)), values

    def _union(self, inputs: tuple[Plan, ...], names: tuple[str, ...]) -> tuple[Plan, Columns]:
        columns = {name: self.fresh("outer") for name in self.values}
        arms: list[Plan] = []
        for arm in inputs:
            rows, own = self.rows(arm)
            arms.append(_listed(rows, (*(own[n] for n in columns), *output(arm))))
        return Union(tuple(arms), (*columns.values(), *names)), columns

    def _window(self, plan: Window) -> tuple[Plan, Columns]:
        below, columns = self.rows(plan.input)
        values = tuple(column(c) for c in columns.values())
        partition = (*values, *(bound(e, columns) for e in plan.partition))
        calls: list[Named] = []
        for named in plan.functions:
            call = bound(named.expr, columns)
            call.set("partition_by", [e.copy() for e in partition])
            calls.append(Named(named.name, call))
        return Window(below, partition, tuple(calls)), columns

    def _top(self, plan: Top) -> tuple[Plan, Columns]:
        """Keep the first rows for each of the values, by their number."""
        below, columns = self.rows(plan.input)
        partition = tuple(column(c) for c in columns.values())
        number = self.fresh("number")
        call = exp.Window(
            this=exp.RowNumber(),
            partition_by=[e.copy() for e in partition],
            order=exp.Order(expressions=[bound(key, columns) for key in plan.order]),
            over="OVER",
        )
        numbered = Window(below, partition, (Named(number, call),))
        kept: list[Expr] = []
        if plan.offset:
            kept.append(exp.GT(this=column(number), expression=_number(plan.offset)))
        if plan.limit is not None:
            last = _number(plan.offset + plan.limit)
            kept.append(exp.LTE(this=column(number), expression=last))
        return _listed(_filtered(numbered, kept), output(below)), columns


def _number(value: int) -> Expr:
    return exp.Literal.number(value)


def or_nothing(measure: Named, mark: str) -> Expr:
    """Return a measure, or what it is over no rows where no group was found."""
    nothing = over_no_rows(measure.expr)
    if isinstance(nothing, exp.Null):
        return column(measure.name)
    absent = exp.Is(this=column(mark), expression=exp.Null())
    return exp.If(this=absent, true=nothing, false=column(measure.name))


def _own(columns: Columns) -> tuple[Named, ...]:
    return tuple(Named(c, column(c)) for c in columns.values())


def _own_of(plan: Plan) -> tuple[Named, ...]:
    return tuple(Named(n, column(n)) for n in output(plan))


def _listed(plan: Plan, names: tuple[str, ...]) -> Project:
    return Project(plan, tuple(Named(n, column(n)) for n in names))


def _filtered(plan: Plan, conditions: list[Expr]) -> Plan:
    condition = conjunction(tuple(conditions))
    return plan if condition is None else Filter(plan, condition)
