"""Plan -> SQL text as a sqlglot tree: one SELECT wherever operators can share one.

Tables appear under symbolic names: `orders@new` is the table at the pinned version,
`orders@changes` its change with a weight column. The engine puts real relations in their place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from hybridview.algebra.bounded import Bounds
from hybridview.algebra.expressions import (
    Expr,
    column,
    conjuncts,
    qualified,
    substitute,
)
from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Constant,
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
    PlanError,
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
    signed,
)
from hybridview.algebra.sharing import parts, share, used_often
from hybridview.compiler.identity import any_of, identity
from hybridview.compiler.kinds import Kinds, Recorded, kind_of, kinds
from hybridview.compiler.select import (
    Open,
    assemble,
    atom,
    from_table,
    from_values,
    grouped,
    named,
    number,
    parsed,
    product,
    repeated,
    same_group,
    table_named,
    with_lateral_view,
)
from hybridview.schema import WEIGHT

MADE = "__hv_made_"
FEW = "few_"
"""How the names of parts begin whose rows are bounded by changes."""


def render(
    plan: Plan,
    recorded: Recorded | None = None,
    top: Kinds | None = None,
    label: str = "common",
) -> exp.Query:
    """Return the query that computes `plan`; a signed plan has a last column `__hv_weight`.

    `recorded` holds the types to tell rows apart by (all columns are plain if None), `top` those of
    the plan's own columns, where more is known of them. Parts that are read several times stand in
    front of the query, each under `label` and a number, after `FEW` if changes bound their rows.
    """
    plan = share(plan)
    aliases = {node.alias.lower() for node in parts(plan) if isinstance(node, Scan | Changes)}
    known = {id(plan): top} if top is not None else {}
    return _Renderer(aliases, recorded, known, used_often(plan), label).whole(plan)


class _Renderer:
    """Carries the aliases of the user, which subqueries must not take, and what types are known."""

    def __init__(
        self,
        taken: set[str],
        recorded: Recorded | None,
        known: dict[int, Kinds],
        often: frozenset[int],
        label: str,
    ) -> None:
        self.taken = taken
        self.recorded = recorded
        self.known = known
        self.often = often
        self.label = label
        self.common: dict[int, tuple[str, exp.Query]] = {}
        """The parts that several others read, each under a name, in the order they are needed."""
        self.bounds = Bounds()
        self.count = 0

    def whole(self, plan: Plan) -> exp.Query:
        """Return the query with the parts it reads several times in front of it."""
        query = self.query(plan)
        for name, part in self.common.values():
            query = query.with_(exp.to_identifier(name), as_=part, copy=False)
        return query

    def _kinds(self, plan: Plan) -> Kinds:
        if self.recorded is None:
            return {}
        return self.known.get(id(plan)) or kinds(plan, self.recorded)

    def _alias(self, label: str = "q") -> str:
        self.count += 1
        while f"{label}{self.count}" in self.taken:
            self.count += 1
        return f"{label}{self.count}"

    def query(self, plan: Plan) -> exp.Query:
        match plan:
            case Aggregate():
                return self._aggregate(plan)
            case Partial():
                return self._partial(plan)
            case Consolidate():
                return self._consolidate(plan)
            case Expand():
                return self._expand(plan)
            case Domain():
                return self._domain(plan)
            case Distinct(child):
                return self._close(self._open(child), child).distinct()
            case Union():
                return self._union(plan)
            case Window():
                return self._window(plan)
            case Top():
                return self._top(plan)
            case _:
                return self._close(self._open(plan), plan)

    def _close(self, opened: Open, plan: Plan) -> exp.Select:
        """Finish a SELECT with the plan's columns, and the weight if the plan is signed."""
        chosen = [named(opened.columns[name], name) for name in output(plan)]
        if signed(plan):
            assert opened.weight is not None
            chosen.append(named(opened.weight, WEIGHT))
        return assemble(exp.select(*chosen), opened)

    def _open(self, plan: Plan) -> Open:
        if id(plan) not in self.often:
            return self._opened(plan)
        if id(plan) not in self.common:
            query = self._close(self._opened(plan), plan)
            label = f"{FEW if self.bounds.holds(plan) else ''}{self.label}"
            self.common[id(plan)] = (self._alias(label), query)
        name, _ = self.common[id(plan)]
        alias = self._alias()
        source = exp.alias_(exp.to_table(name), alias, table=True)
        weight = exp.column(exp.to_identifier(WEIGHT), alias) if signed(plan) else None
        columns = {n: exp.column(exp.to_identifier(n, quoted=True), alias) for n in output(plan)}
        return Open(dict(columns), (source,), (), weight)

    def _opened(self, plan: Plan) -> Open:
        match plan:
            case Scan(_, alias, columns):
                return from_table(plan.symbol, alias, columns)
            case Changes(_, alias, columns):
                found = from_table(plan.symbol, alias, columns)
                return replace(found, weight=qualified(WEIGHT, alias))
            case Reference(name, names):
                alias = self._alias()
                source = exp.alias_(table_named(name), alias, quoted=True, table=True)
                return Open({n: qualified(n, alias) for n in names}, (source,))
            case Filter(child, condition):
                inner = self._open(child)
                new = tuple(substitute(c, inner.columns) for c in conjuncts(condition))
                return replace(inner, conditions=inner.conditions + new)
            case Project(child, columns):
                inner = self._open(child)
                return replace(
                    inner, columns={c.name: substitute(c.expr, inner.columns) for c in columns}
                )
            case Join():
                return self._join(plan)
            case Semi():
                return self._semi(plan)
            case Repeat():
                return self._subquery(self._repeat(plan), output(plan), weighted=signed(plan))
            case Flatten():
                return self._subquery(self._flatten(plan), output(plan), weighted=signed(plan))
            case Restrict():
                return self._restrict(plan)
            case Negate(child):
                inner = self._open(child)
                weight = exp.Neg(this=inner.weight.copy()) if inner.weight else number(-1)
                return replace(inner, weight=weight)
            case Empty(names):
                nothing = exp.select(*(named(exp.Null(), n) for n in names)).where("1 = 0")
                return self._subquery(nothing, names, weighted=False)
            case Constant():
                return from_values(plan.names, plan.rows, self._alias())
            case Union() | Aggregate() | Distinct() | Consolidate() | Expand():
                return self._subquery(self.query(plan), output(plan), weighted=signed(plan))
            case Domain() | Partial() | Window() | Top():
                return self._subquery(self.query(plan), output(plan), weighted=signed(plan))
            case Outer():
                return self._outer(plan)
            case _:
                assert_never(plan)

    def _subquery(self, query: exp.Query, names: tuple[str, ...], weighted: bool) -> Open:
        alias = self._alias()
        source = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        weight = exp.column(exp.to_identifier(WEIGHT), alias) if weighted else None
        columns = {n: exp.column(exp.to_identifier(n, quoted=True), alias) for n in names}
        return Open(dict(columns), (source,), (), weight)

    def _join(self, plan: Join) -> Open:
        left, right = self._open(plan.left), self._open(plan.right)
        columns = {**left.columns, **right.columns}
        condition: tuple[Expr, ...] = ()
        if plan.condition is not None:
            condition = tuple(substitute(c, columns) for c in conjuncts(plan.condition))
        return Open(
            columns,
            left.sources + right.sources,
            left.conditions + right.conditions + condition,
            product(left.weight, right.weight),
        )

    def _semi(self, plan: Semi) -> Open:
        left, right = self._open(plan.left), self._open(plan.right)
        if {s.alias_or_name for s in left.sources} & {s.alias_or_name for s in right.sources}:
            # Inside EXISTS the nearer of two equal names would win.
            right = self._subquery(self._close(right, plan.right), output(plan.right), False)
        columns = {**left.columns, **right.columns}
        condition: tuple[Expr, ...] = ()
        if plan.condition is not None:
            condition = tuple(substitute(c, columns) for c in conjuncts(plan.condition))
        inner = assemble(exp.select("1"), right)
        if condition:
            inner = inner.where(*condition, copy=False)
        exists: Expr = exp.Exists(this=inner)
        if plan.anti:
            exists = exp.Not(this=exists)
        return replace(left, conditions=(*left.conditions, exists))

    def _outer(self, plan: Outer) -> Open:
        if not plan.keeps_left or plan.keeps_right:
            raise PlanError("only left joins are rendered: turn the others first")
        # Conditions below it must not meet those above it: each stays in a SELECT of its own.
        left = self._whole_part(plan.left)
        right = self._whole_part(plan.right)
        columns = {**left.columns, **right.columns}
        on = substitute(plan.condition, columns) if plan.condition is not None else exp.true()
        chosen = [named(columns[n], n) for n in output(plan)]
        if left.weight is not None:
            chosen.append(named(left.weight, WEIGHT))
        query = exp.select(*chosen).from_(left.sources[0], copy=False)
        query = query.join(right.sources[0], on=on, join_type="left", copy=False)
        return self._subquery(query, output(plan), weighted=signed(plan))

    def _whole_part(self, plan: Plan) -> Open:
        """Open a part that is one source without conditions."""
        opened = self._open(plan)
        simple = len(opened.sources) == 1 and not opened.conditions
        if simple and isinstance(plan, Scan | Changes):
            return opened
        return self._subquery(self._close(opened, plan), output(plan), weighted=signed(plan))

    def _window(self, plan: Window) -> exp.Select:
        inner = self._open(plan.input)
        chosen = [named(inner.columns[n], n) for n in output(plan.input)]
        chosen += [named(substitute(f.expr, inner.columns), f.name) for f in plan.functions]
        return assemble(exp.select(*chosen), inner)

    def _top(self, plan: Top) -> exp.Select:
        inner = self._open(plan.input)
        query = self._close(inner, plan.input)
        order = [substitute(key, inner.columns) for key in plan.order]
        query = query.order_by(*order, copy=False) if order else query
        if plan.limit is not None:
            query = query.limit(plan.limit, copy=False)
        return query.offset(plan.offset, copy=False) if plan.offset else query

    def _repeat(self, plan: Repeat) -> exp.Select:
        closed = self._close(self._open(plan.input), plan.input)
        inner = self._subquery(closed, output(plan), weighted=signed(plan))
        times = exp.cast(substitute(plan.times, inner.columns), "bigint")
        return repeated(self._close(inner, plan), times)

    def _flatten(self, plan: Flatten) -> exp.Select:
        # A row is made several before anything above sees it, so it has a SELECT of its own.
        inner = self._whole_part(plan.input)
        made = {n: exp.to_identifier(f"{MADE}{i}") for i, n in enumerate(plan.names)}
        columns = {n: exp.Column(this=name.copy()) for n, name in made.items()}
        query = self._close(replace(inner, columns={**inner.columns, **columns}), plan)
        call = substitute(plan.generator, inner.columns)
        return with_lateral_view(query, call, self._alias(), made.values(), plan.outer)

    def _restrict(self, plan: Restrict) -> Open:
        inner, domain = self._open(plan.input), self._open(plan.domain)
        types = self._kinds(plan.input)
        matches: list[Expr] = []
        for key, name in zip(plan.keys, output(plan.domain), strict=True):
            kind = kind_of(key, types, self.recorded) if self.recorded is not None else None
            matches.append(same_group(substitute(key, inner.columns), domain.columns[name], kind))
        # The domain has each key once, so joining it duplicates no row. It goes first: it is small.
        return replace(
            inner,
            sources=domain.sources + inner.sources,
            conditions=(*inner.conditions, *matches),
        )

    def _aggregate(self, plan: Aggregate) -> exp.Select:
        inner = self._open(plan.input)
        keys = [substitute(k.expr, inner.columns) for k in plan.keys]
        chosen = [named(e, k.name) for e, k in zip(keys, plan.keys, strict=True)]
        chosen += [named(substitute(m.expr, inner.columns), m.name) for m in plan.measures]
        query = assemble(exp.select(*chosen), inner)
        return grouped(query, keys) if keys else query

    def _partial(self, plan: Partial) -> exp.Select:
        inner = self._open(plan.input)
        columns = {**inner.columns, WEIGHT: inner.weight or number(1)}
        keys = [substitute(k.expr, inner.columns) for k in plan.keys]
        chosen = [named(e, k.name) for e, k in zip(keys, plan.keys, strict=True)]
        chosen += [named(substitute(p.expr, columns), p.name) for p in plan.partials]
        query = assemble(exp.select(*chosen), inner)
        return grouped(query, keys) if keys else query

    def _domain(self, plan: Domain) -> exp.Select:
        inner = self._open(plan.input)
        keys = [substitute(k.expr, inner.columns) for k in plan.keys]
        chosen = [named(e, k.name) for e, k in zip(keys, plan.keys, strict=True)]
        query = assemble(exp.select(*chosen), inner)
        # Spark takes maps as keys of GROUP BY, but not in SELECT DISTINCT.
        if all(kind.comparable for kind in self._kinds(plan).values()):
            return query.distinct()
        return grouped(query, keys)

    def _consolidate(self, plan: Consolidate) -> exp.Select:
        inner = self._open(plan.input)
        types = self._kinds(plan)
        chosen: list[Expr] = []
        keys: list[Expr] = []
        for place, name in enumerate(output(plan), start=1):
            column, kind = inner.columns[name], types.get(name)
            if kind is None or kind.plain:
                chosen.append(named(column, name))
                keys.append(exp.Literal.number(place))
                continue
            sql = atom(column).sql(dialect="spark")
            chosen.append(named(parsed(any_of(sql, kind)), name))
            keys += [parsed(key) for key in identity(sql, kind)]
        total = exp.cast(exp.Sum(this=(inner.weight or number(1)).copy()), "bigint")
        query = assemble(exp.select(*chosen, named(total, WEIGHT)), inner)
        query = query.group_by(*keys, copy=False)
        return query.having(exp.NEQ(this=total.copy(), expression=number(0)))

    def _expand(self, plan: Expand) -> exp.Select:
        inner = self._subquery(self.query(plan.input), output(plan), weighted=True)
        assert inner.weight is not None
        return repeated(self._close(inner, plan), inner.weight)

    def _union(self, plan: Union) -> exp.Query:
        arms: list[exp.Query] = []
        weighted = signed(plan)
        for child in plan.inputs:
            opened = self._open(child)
            chosen = [
                named(opened.columns[inner], name)
                for inner, name in zip(output(child), plan.names, strict=True)
            ]
            if weighted:
                chosen.append(named(opened.weight or number(1), WEIGHT))
            arms.append(assemble(exp.select(*chosen), opened))
        query = arms[0]
        for arm in arms[1:]:
            query = exp.union(query, arm, distinct=False, copy=False)
        return query


def text(query: Expr, pretty: bool = True) -> str:
    """Return a query as Spark SQL."""
    return query.sql(dialect="spark", pretty=pretty)


__all__ = ["column", "render", "text"]
