"""Plan -> SQL text as a sqlglot tree: one SELECT wherever operators can share one.

Tables appear under symbolic names: `orders@new` is the table at the pinned version,
`orders@changes` its change with a weight column. The engine puts real relations in their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    column,
    conjuncts,
    qualified,
    same,
    substitute,
)
from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Distinct,
    Domain,
    Empty,
    Expand,
    Filter,
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
    Union,
    Window,
    output,
    signed,
)
from hybridview.algebra.sharing import parts, share, used_often
from hybridview.compiler.identity import Type, any_of, equal, identity
from hybridview.compiler.kinds import Kinds, Recorded, kind_of, kinds
from hybridview.schema import WEIGHT

COPY = "__hv_copy"


@dataclass(frozen=True, slots=True)
class _Open:
    """A SELECT still under construction: `sources` are inner-joined, `conditions` all hold."""

    columns: dict[str, Expr]
    sources: tuple[Expr, ...]
    conditions: tuple[Expr, ...] = ()
    weight: Expr | None = None


def render(plan: Plan, recorded: Recorded | None = None, top: Kinds | None = None) -> exp.Query:
    """Return the query that computes `plan`; a signed plan has a last column `__hv_weight`.

    `recorded` holds the types to tell rows apart by (all columns are plain if None), `top` those of
    the plan's own columns, where more is known of them.
    """
    plan = share(plan)
    aliases = {node.alias.lower() for node in parts(plan) if isinstance(node, Scan | Changes)}
    known = {id(plan): top} if top is not None else {}
    return _Renderer(aliases, recorded, known, used_often(plan)).whole(plan)


class _Renderer:
    """Carries the aliases of the user, which subqueries must not take, and what types are known."""

    def __init__(
        self,
        taken: set[str],
        recorded: Recorded | None,
        known: dict[int, Kinds],
        often: frozenset[int],
    ) -> None:
        self.taken = taken
        self.recorded = recorded
        self.known = known
        self.often = often
        self.common: dict[int, tuple[str, exp.Query]] = {}
        """The parts that several others read, each under a name, in the order they are needed."""
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
            case _:
                return self._close(self._open(plan), plan)

    def _close(self, opened: _Open, plan: Plan) -> exp.Select:
        """Finish a SELECT with the plan's columns, and the weight if the plan is signed."""
        chosen = [_named(opened.columns[name], name) for name in output(plan)]
        if signed(plan):
            assert opened.weight is not None
            chosen.append(_named(opened.weight, WEIGHT))
        return _assemble(exp.select(*chosen), opened)

    def _open(self, plan: Plan) -> _Open:
        if id(plan) not in self.often:
            return self._opened(plan)
        if id(plan) not in self.common:
            query = self._close(self._opened(plan), plan)
            self.common[id(plan)] = (self._alias("common"), query)
        name, _ = self.common[id(plan)]
        alias = self._alias()
        source = exp.alias_(exp.to_table(name), alias, table=True)
        weight = exp.column(exp.to_identifier(WEIGHT), alias) if signed(plan) else None
        columns = {n: exp.column(exp.to_identifier(n, quoted=True), alias) for n in output(plan)}
        return _Open(dict(columns), (source,), (), weight)

    def _opened(self, plan: Plan) -> _Open:
        match plan:
            case Scan(table, alias, columns):
                return _from_table(f"{table}@new", alias, columns)
            case Changes(table, alias, columns):
                found = _from_table(f"{table}@changes", alias, columns)
                return replace(found, weight=qualified(WEIGHT, alias))
            case Reference(name, names):
                alias = self._alias()
                source = exp.alias_(_table(name), alias, quoted=True, table=True)
                return _Open({n: qualified(n, alias) for n in names}, (source,))
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
            case Restrict():
                return self._restrict(plan)
            case Negate(child):
                inner = self._open(child)
                weight = exp.Neg(this=inner.weight.copy()) if inner.weight else _number(-1)
                return replace(inner, weight=weight)
            case Empty(names):
                nothing = exp.select(*(_named(exp.Null(), n) for n in names)).where("1 = 0")
                return self._subquery(nothing, names, weighted=False)
            case (
                Union()
                | Aggregate()
                | Distinct()
                | Consolidate()
                | Expand()
                | Domain()
                | Partial()
                | Window()
            ):
                return self._subquery(self.query(plan), output(plan), weighted=signed(plan))
            case Outer():
                raise PlanError("an outer join is split before it is rendered")
            case _:
                assert_never(plan)

    def _subquery(self, query: exp.Query, names: tuple[str, ...], weighted: bool) -> _Open:
        alias = self._alias()
        source = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        weight = exp.column(exp.to_identifier(WEIGHT), alias) if weighted else None
        columns = {n: exp.column(exp.to_identifier(n, quoted=True), alias) for n in names}
        return _Open(dict(columns), (source,), (), weight)

    def _join(self, plan: Join) -> _Open:
        left, right = self._open(plan.left), self._open(plan.right)
        columns = {**left.columns, **right.columns}
        condition: tuple[Expr, ...] = ()
        if plan.condition is not None:
            condition = tuple(substitute(c, columns) for c in conjuncts(plan.condition))
        return _Open(
            columns,
            left.sources + right.sources,
            left.conditions + right.conditions + condition,
            _product(left.weight, right.weight),
        )

    def _semi(self, plan: Semi) -> _Open:
        left, right = self._open(plan.left), self._open(plan.right)
        if {s.alias_or_name for s in left.sources} & {s.alias_or_name for s in right.sources}:
            # Inside EXISTS the nearer of two equal names would win.
            right = self._subquery(self._close(right, plan.right), output(plan.right), False)
        columns = {**left.columns, **right.columns}
        condition: tuple[Expr, ...] = ()
        if plan.condition is not None:
            condition = tuple(substitute(c, columns) for c in conjuncts(plan.condition))
        inner = _assemble(exp.select("1"), right)
        if condition:
            inner = inner.where(*condition, copy=False)
        exists: Expr = exp.Exists(this=inner)
        if plan.anti:
            exists = exp.Not(this=exists)
        return replace(left, conditions=(*left.conditions, exists))

    def _window(self, plan: Window) -> exp.Select:
        inner = self._open(plan.input)
        chosen = [_named(inner.columns[n], n) for n in output(plan.input)]
        chosen += [_named(substitute(f.expr, inner.columns), f.name) for f in plan.functions]
        return _assemble(exp.select(*chosen), inner)

    def _repeat(self, plan: Repeat) -> exp.Select:
        below = self._open(plan.input)
        closed = self._close(below, plan.input)
        inner = self._subquery(closed, output(plan), weighted=signed(plan))
        times = substitute(plan.times, inner.columns)
        copies = exp.Explode(this=exp.GenerateSeries(start=_number(1), end=times, step=None))
        chosen = [_named(inner.columns[n], n) for n in output(plan)]
        if inner.weight is not None:
            chosen.append(_named(inner.weight, WEIGHT))
        query = _assemble(exp.select(*chosen, _named(copies, COPY)), inner)
        return query.where(exp.GT(this=times.copy(), expression=_number(0)))

    def _restrict(self, plan: Restrict) -> _Open:
        inner, domain = self._open(plan.input), self._open(plan.domain)
        types = self._kinds(plan.input)
        matches: list[Expr] = []
        for key, name in zip(plan.keys, output(plan.domain), strict=True):
            kind = kind_of(key, types, self.recorded) if self.recorded is not None else None
            matches.append(_equal(substitute(key, inner.columns), domain.columns[name], kind))
        # The domain has each key once, so joining it duplicates no row. It goes first: it is small.
        return replace(
            inner,
            sources=domain.sources + inner.sources,
            conditions=(*inner.conditions, *matches),
        )

    def _aggregate(self, plan: Aggregate) -> exp.Select:
        inner = self._open(plan.input)
        keys = [substitute(k.expr, inner.columns) for k in plan.keys]
        chosen = [_named(e, k.name) for e, k in zip(keys, plan.keys, strict=True)]
        chosen += [_named(substitute(m.expr, inner.columns), m.name) for m in plan.measures]
        query = _assemble(exp.select(*chosen), inner)
        return _grouped(query, keys) if keys else query

    def _partial(self, plan: Partial) -> exp.Select:
        inner = self._open(plan.input)
        columns = {**inner.columns, WEIGHT: inner.weight or _number(1)}
        keys = [substitute(k.expr, inner.columns) for k in plan.keys]
        chosen = [_named(e, k.name) for e, k in zip(keys, plan.keys, strict=True)]
        chosen += [_named(substitute(p.expr, columns), p.name) for p in plan.partials]
        query = _assemble(exp.select(*chosen), inner)
        return _grouped(query, keys) if keys else query

    def _domain(self, plan: Domain) -> exp.Select:
        inner = self._open(plan.input)
        keys = [substitute(k.expr, inner.columns) for k in plan.keys]
        chosen = [_named(e, k.name) for e, k in zip(keys, plan.keys, strict=True)]
        query = _assemble(exp.select(*chosen), inner)
        # Spark takes maps as keys of GROUP BY, but not in SELECT DISTINCT.
        if all(kind.comparable for kind in self._kinds(plan).values()):
            return query.distinct()
        return _grouped(query, keys)

    def _consolidate(self, plan: Consolidate) -> exp.Select:
        inner = self._open(plan.input)
        types = self._kinds(plan)
        chosen: list[Expr] = []
        keys: list[Expr] = []
        for place, name in enumerate(output(plan), start=1):
            column, kind = inner.columns[name], types.get(name)
            if kind is None or kind.plain:
                chosen.append(_named(column, name))
                keys.append(exp.Literal.number(place))
                continue
            sql = _atom(column).sql(dialect="spark")
            chosen.append(_named(_parsed(any_of(sql, kind)), name))
            keys += [_parsed(key) for key in identity(sql, kind)]
        total = exp.cast(exp.Sum(this=(inner.weight or _number(1)).copy()), "bigint")
        query = _assemble(exp.select(*chosen, _named(total, WEIGHT)), inner)
        query = query.group_by(*keys, copy=False)
        return query.having(exp.NEQ(this=total.copy(), expression=_number(0)))

    def _expand(self, plan: Expand) -> exp.Select:
        inner = self._subquery(self.query(plan.input), output(plan), weighted=True)
        assert inner.weight is not None
        copies = exp.Explode(
            this=exp.GenerateSeries(start=_number(1), end=inner.weight.copy(), step=None)
        )
        chosen = [_named(inner.columns[n], n) for n in output(plan)]
        query = _assemble(exp.select(*chosen, _named(copies, COPY)), inner)
        return query.where(exp.GT(this=inner.weight.copy(), expression=_number(0)))

    def _union(self, plan: Union) -> exp.Query:
        arms: list[exp.Query] = []
        weighted = signed(plan)
        for child in plan.inputs:
            opened = self._open(child)
            chosen = [
                _named(opened.columns[inner], name)
                for inner, name in zip(output(child), plan.names, strict=True)
            ]
            if weighted:
                chosen.append(_named(opened.weight or _number(1), WEIGHT))
            arms.append(_assemble(exp.select(*chosen), opened))
        query = arms[0]
        for arm in arms[1:]:
            query = exp.union(query, arm, distinct=False, copy=False)
        return query


def _from_table(symbol: str, alias: str, columns: tuple[str, ...]) -> _Open:
    source = exp.alias_(_table(symbol), alias, quoted=True, table=True)
    return _Open({f"{alias}.{c}": qualified(c, alias) for c in columns}, (source,))


def _table(symbol: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(symbol, quoted=True))


def _named(expr: Expr, name: str) -> Expr:
    return exp.alias_(expr.copy(), name, quoted=True)


def _number(value: int) -> Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def _product(left: Expr | None, right: Expr | None) -> Expr | None:
    if left is None or right is None:
        return left or right
    return exp.Mul(this=_atom(left), expression=_atom(right))


def _atom(expr: Expr) -> Expr:
    return expr.copy() if isinstance(expr, exp.Column) else exp.Paren(this=expr.copy())


def _parsed(sql: str) -> Expr:
    return exp.maybe_parse(sql, dialect="spark")


def _equal(left: Expr, right: Expr, kind: Type | None) -> Expr:
    """Return a condition that holds for values GROUP BY takes for one."""
    if kind is None or kind.comparable:
        return same(left, right)
    old, new = (_atom(side).sql(dialect="spark") for side in (left, right))
    return _parsed(equal(old, new, kind))


def _grouped(query: exp.Select, keys: list[Expr]) -> exp.Select:
    return query.group_by(*(exp.Literal.number(i + 1) for i in range(len(keys))), copy=False)


def _assemble(query: exp.Select, opened: _Open) -> exp.Select:
    """Add FROM, JOIN ... ON and WHERE; each condition stands where its last source appears."""
    aliases = [source.alias_or_name for source in opened.sources]
    placed: list[list[Expr]] = [[] for _ in aliases]
    for condition in opened.conditions:
        if condition.find(exp.Exists):
            placed[0].append(condition)  # Spark takes subqueries in WHERE, not in every ON
            continue
        used = {c.table for c in condition.find_all(exp.Column)}
        last = max((i for i, alias in enumerate(aliases) if alias in used), default=0)
        placed[last].append(condition)
    query = query.from_(opened.sources[0], copy=False)
    for source, conditions in zip(opened.sources[1:], placed[1:], strict=True):
        if conditions:
            query = query.join(source, on=exp.and_(*conditions, copy=False), copy=False)
        else:
            query = query.join(source, join_type="cross", copy=False)
    if placed[0]:
        query = query.where(*placed[0], copy=False)
    return query


def text(query: Expr, pretty: bool = True) -> str:
    """Return a query as Spark SQL."""
    return query.sql(dialect="spark", pretty=pretty)


__all__ = ["column", "render", "text"]
