"""Parsed query + schemas -> logical plan; or NoRule, naming the operator without a delta rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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
    Distinct,
    Filter,
    Join,
    Outer,
    Plan,
    Project,
    Scan,
    Semi,
    Union,
    output,
)
from hybridview.schema import TableSchema
from hybridview.sql.block import Block, Spelling, is_grouped, select_list
from hybridview.sql.functions import describe_part, is_aggregate, unknown_part
from hybridview.sql.scope import PLAN, NoRule, Output, Scope, Source, Unresolved
from hybridview.sql.subquery import Inner, inside, is_subquery, keep, marked, with_value

Schemas = Mapping[str, TableSchema]
Ctes = Mapping[str, "_Cte"]


class UnknownTable(Exception):
    """A table that neither the store nor the query's own WITH knows."""

    def __init__(self, name: str, node: exp.Table) -> None:
        super().__init__(name)
        self.name = name
        self.node = node


@dataclass(frozen=True, slots=True)
class Relation:
    """A plan and the names its columns have for the query around it."""

    plan: Plan
    columns: tuple[Output, ...]
    spelling: Spelling | None = None
    """The user's own words for keys and arguments, if the relation is one plain SELECT."""


@dataclass(frozen=True, slots=True)
class _Cte:
    query: exp.Query
    names: tuple[str, ...]
    ctes: Ctes


def resolve(query: exp.Query, schemas: Schemas) -> Relation:
    """Return the plan of a query; raises NoRule, UnknownTable or Unresolved."""
    return _Resolver(schemas).query(query, {})


def sources(query: exp.Query) -> tuple[exp.Table, ...]:
    """Return the tables a query reads from outside, CTE names left out."""
    found: list[exp.Table] = []
    _collect_sources(query, frozenset(), found)
    return tuple(found)


def _collect_sources(node: Expr, ctes: frozenset[str], found: list[exp.Table]) -> None:
    with_ = node.args.get("with_") if isinstance(node, exp.Query) else None
    if with_ is not None:
        for cte in with_.expressions:
            # A recursive CTE may name itself; the others see only those before them.
            inner = ctes | {cte.alias.lower()} if with_.args.get("recursive") else ctes
            _collect_sources(cte.this, inner, found)
            ctes = ctes | {cte.alias.lower()}
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        plain = not node.args.get("db")
        if not (plain and node.name.lower() in ctes):
            found.append(node)
    for child in node.iter_expressions():
        if child is not with_:
            _collect_sources(child, ctes, found)


class _Resolver:
    """Carries the schemas and the aliases already taken; every alias in a plan is unique."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = {name.lower(): schema for name, schema in schemas.items()}
        self.aliases: set[str] = set()

    def query(self, node: Expr, ctes: Ctes) -> Relation:
        if isinstance(node, exp.Subquery):
            self._refuse(node, {"this", "alias", "with_"})
            inner = self.query(node.this, self._ctes(node, ctes))
            return Relation(inner.plan, inner.columns)
        if isinstance(node, exp.Union) and not isinstance(node, exp.Except | exp.Intersect):
            return self._union(node, self._ctes(node, ctes))
        if isinstance(node, exp.Select):
            return self._select(node, self._ctes(node, ctes))
        raise NoRule(type(node).__name__.upper(), node)

    def _ctes(self, node: Expr, ctes: Ctes) -> Ctes:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise NoRule("recursive CTE", with_)
        known = dict(ctes)
        for cte in with_.expressions:
            names = tuple(c.name for c in cte.args["alias"].columns)
            known[cte.alias.lower()] = _Cte(cte.this, names, dict(known))
        return known

    def _union(self, node: exp.Union, ctes: Ctes) -> Relation:
        self._refuse(node, {"this", "expression", "distinct", "with_", "order"})
        left, right = self.query(node.left, ctes), self.query(node.right, ctes)
        if len(left.columns) != len(right.columns):
            raise NoRule("UNION of different widths", node)
        names = tuple(c.plan_name for c in left.columns)
        arms = tuple(
            Project(r.plan, tuple(Named(c.plan_name, column(c.plan_name)) for c in r.columns))
            for r in (left, right)
        )
        plan: Plan = Union(arms, names)
        if node.args.get("distinct", True):
            plan = Distinct(plan)
        return Relation(plan, left.columns)

    def _select(self, node: exp.Select, ctes: Ctes) -> Relation:
        self._refuse(node, _CLAUSES)
        if isinstance(node.args.get("distinct"), exp.Distinct) and node.args["distinct"].args.get(
            "on"
        ):
            raise NoRule("DISTINCT ON", node)
        plan, scope = self._from(node, ctes)
        where = node.args.get("where")
        for condition in conjuncts(where.this) if where is not None else ():
            plan = self._where(plan, condition, scope, ctes)
        plan, names, spelling = self._list(node, plan, scope, ctes)
        if node.args.get("distinct"):
            plan = Distinct(plan)
        return Relation(plan, names, spelling)

    def _list(
        self, node: exp.Select, plan: Plan, scope: Scope, ctes: Ctes
    ) -> tuple[Plan, tuple[Output, ...], Spelling | None]:
        """Resolve the select list and what belongs to it; subqueries in it are joined first.

        In a SELECT that groups, a subquery stands beside the groups, unless it is aggregated.
        """
        bare = node.copy()
        grouped = is_grouped(bare)
        later: list[tuple[str, Expr]] = []
        parts = [*bare.expressions, *([bare.args["having"]] if bare.args.get("having") else [])]
        for part in parts:
            for found in _topmost_subqueries(part):
                name = self._unique("subquery")
                stand_in = exp.Column(
                    this=exp.to_identifier(name, quoted=True),
                    table=exp.to_identifier(PLAN, quoted=True),
                )
                if grouped and not _in_aggregate(found, part):
                    later.append((name, found.copy()))
                else:
                    plan = self._attach(plan, found, name, scope, ctes)
                found.replace(stand_in)

        def join_later(groups: Plan, over: Callable[[Expr], Expr]) -> Plan:
            for name, found in later:
                groups = self._attach(groups, found, name, scope, ctes, over)
            return groups

        block = Block(bare, scope, lambda expr: self._expression(expr, scope), join_later)
        return select_list(block, plan)

    # Subqueries in expressions

    def _where(self, plan: Plan, condition: Expr, scope: Scope, ctes: Ctes) -> Plan:
        """Keep the rows for which one condition of WHERE holds."""
        bare = condition.unnest()
        negated = isinstance(bare, exp.Not)
        asked = bare.this.unnest() if negated else bare
        if isinstance(asked, exp.Exists | exp.In) and is_subquery(asked):
            inner = self._inner(asked, scope, ctes, plan)
            sought = self._sought(asked, scope) if isinstance(asked, exp.In) else None
            return keep(plan, inner, sought, negated)
        rewritten = condition.copy()
        for found in _topmost_subqueries(rewritten):
            name = self._unique("subquery")
            plan = self._attach(plan, found, name, scope, ctes)
            stand_in = column(name)
            stand_in.set("table", exp.to_identifier(PLAN, quoted=True))
            if found is rewritten:
                rewritten = stand_in
            else:
                found.replace(stand_in)
        return Filter(plan, self._expression(rewritten, scope))

    def _sought(self, node: exp.In, scope: Scope) -> Expr:
        return self._expression(node.this, scope)

    def _attach(
        self,
        plan: Plan,
        node: Expr,
        name: str,
        scope: Scope,
        ctes: Ctes,
        over: Callable[[Expr], Expr] = lambda expr: expr,
    ) -> Plan:
        """Add a column with a subquery's value; `over` turns expressions into the plan's own."""
        inner = self._inner(node, scope, ctes, plan, over)
        if isinstance(node, exp.Subquery):
            return with_value(plan, inner, name, lambda label: f"{self._unique(label)}.{name}")
        sought = over(self._sought(node, scope)) if isinstance(node, exp.In) else None
        return marked(plan, inner, sought, name)

    def _inner(
        self,
        node: Expr,
        scope: Scope,
        ctes: Ctes,
        plan: Plan,
        over: Callable[[Expr], Expr] = lambda expr: expr,
    ) -> Inner:
        """Resolve a subquery; names it does not know are taken from around it."""
        if isinstance(node, exp.Subquery):
            self._refuse(node, {"this", "with_"})
            ctes = self._ctes(node, ctes)
        query = inside(node)
        inner = self._rows(query, ctes, scope, isinstance(node, exp.Exists))
        if inner is None:
            return self._whole(query, ctes, scope)
        own = set(output(inner.plan))

        def outside(expr: Expr) -> Expr:
            names = [n for n in columns_of(expr) if n not in own]
            return substitute(expr, {n: over(column(n)) for n in names})

        linked = tuple(outside(c) for c in inner.linked)
        inner = replace(inner, linked=linked, items=tuple(outside(i) for i in inner.items))
        if set(inner.outside()) - set(output(plan)):
            raise NoRule("subquery correlated over two levels", node)
        return inner

    def _whole(self, query: Expr, ctes: Ctes, scope: Scope) -> Inner:
        """Resolve a subquery that takes nothing from outside."""
        try:
            found = self.query(query, ctes)
        except Unresolved as miss:
            scope.find(miss.node)  # raises anew if nobody knows the name
            raise NoRule("correlated subquery", query) from None
        taken = tuple(
            Named(f"{self._unique('in')}.{c.name}", column(c.plan_name)) for c in found.columns
        )
        return Inner(Project(found.plan, taken), tuple(column(n.name) for n in taken))

    def _rows(self, node: Expr, ctes: Ctes, outer: Scope, only_rows: bool) -> Inner | None:
        """Return the rows of a plain SELECT before its list; None if it is resolved as a whole."""
        if not isinstance(node, exp.Select):
            return None
        grouped = is_grouped(node)
        whole = any(node.args.get(part) for part in ("group", "having", "limit", "offset"))
        if whole or (node.args.get("distinct") and grouped) or node.args.get("qualify"):
            return None
        self._refuse(node, _CLAUSES)
        ctes = self._ctes(node, ctes)
        plan, scope = self._from(node, ctes)
        scope = replace(scope, outer=outer)
        linked: list[Expr] = []
        where = node.args.get("where")
        for condition in conjuncts(where.this) if where is not None else ():
            if not any(is_subquery(part) for part in condition.walk()):
                found = self._expression(condition, scope)
                if set(columns_of(found)) - set(output(plan)):
                    linked.append(found)
                    continue
            plan = self._where(plan, condition, scope, ctes)
        if only_rows and not grouped:
            return Inner(plan, (), tuple(linked))
        items: list[Expr] = []
        for listed in node.expressions:
            bare = listed.this if isinstance(listed, exp.Alias) else listed
            if _is_star(bare) or any(is_subquery(part) for part in bare.walk()):
                return self._refuse_link(linked, node)
            items.append(self._expression(bare, scope))
        return Inner(plan, tuple(items), tuple(linked), grouped)

    @staticmethod
    def _refuse_link(linked: list[Expr], node: Expr) -> None:
        """Leave a subquery to be resolved as a whole, if nothing ties it to the outside."""
        if linked:
            raise NoRule("correlated subquery", node)

    def _from(self, node: exp.Select, ctes: Ctes) -> tuple[Plan, Scope]:
        from_ = node.args.get("from_")
        if from_ is None:
            raise NoRule("SELECT without FROM", node)
        plan, scope = self._source(from_.this, ctes)
        for join in node.args.get("joins") or ():
            plan, scope = self._join(join, plan, scope, ctes)
        return plan, scope

    def _join(self, join: exp.Join, plan: Plan, scope: Scope, ctes: Ctes) -> tuple[Plan, Scope]:
        kind = (join.args.get("kind") or "").upper()
        side = (join.args.get("side") or "").upper()
        method = (join.args.get("method") or "").upper()
        if kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or method not in _METHODS:
            raise NoRule(" ".join(w for w in (method, side, kind, "JOIN") if w), join)
        self._refuse(join, {"this", "kind", "side", "method", "on", "using"})
        right, right_scope = self._source(join.this, ctes)
        using = [name.name for name in join.args.get("using") or ()]
        if method == "NATURAL":
            using = _common_names(scope, right_scope)
        if using:
            return self._join_using(using, side, kind, (plan, scope), (right, right_scope))
        both = scope.plus(right_scope)
        on = join.args.get("on")
        condition = self._expression(on, both) if on is not None else None
        return _joined(plan, right, condition, side, kind), scope if _is_semi(kind) else both

    def _join_using(
        self,
        using: list[str],
        side: str,
        kind: str,
        left: tuple[Plan, Scope],
        right: tuple[Plan, Scope],
    ) -> tuple[Plan, Scope]:
        """Join on equal names; unqualified, such a name means the side that is never NULL."""
        equal: list[Expr] = []
        shared: list[Named] = []
        for name in using:
            ref = exp.Column(this=exp.to_identifier(name))
            sides = (column(left[1].find(ref)), column(right[1].find(ref)))
            equal.append(exp.EQ(this=sides[0], expression=sides[1]))
            either = exp.Coalesce(this=sides[0].copy(), expressions=[sides[1].copy()])
            shared.append(Named(f"{self._unique('using')}.{name}", either))
        plan = _joined(left[0], right[0], conjunction(tuple(equal)), side, kind)
        first = tuple(name.lower() for name in using)
        rest = tuple(name for name in left[1].using if name not in first)
        if _is_semi(kind):
            return plan, left[1]
        sources = [left[1].sources, right[1].sources]
        if side != "RIGHT":
            sources[1] = _merged(sources[1], first)
        if side in ("RIGHT", "FULL"):
            sources[0] = _merged(sources[0], first)
        if side == "FULL":
            own = tuple(Named(name, column(name)) for name in output(plan))
            plan = Project(plan, (*own, *shared))
            pairs = zip(using, shared, strict=True)
            sources.append((Source("", tuple(Output(n, s.name) for n, s in pairs)),))
        return plan, Scope(tuple(s for part in sources for s in part), first + rest)

    def _source(self, node: Expr, ctes: Ctes) -> tuple[Plan, Scope]:
        if isinstance(node, exp.Subquery):
            return self._derived(node.this, self._ctes(node, ctes), node)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise NoRule(describe_part(node.this if isinstance(node, exp.Table) else node), node)
        plain = not node.args.get("db")
        if plain and node.name.lower() in ctes:
            cte = ctes[node.name.lower()]
            return self._derived(cte.query, cte.ctes, node, cte.names)
        self._refuse(node, {"this", "alias", "db", "catalog", "joins"})
        if node.args.get("joins"):
            raise NoRule("nested join", node)
        return self._table(node)

    def _derived(
        self, query: Expr, ctes: Ctes, node: Expr, cte_names: tuple[str, ...] = ()
    ) -> tuple[Plan, Scope]:
        self._refuse(node, {"this", "alias", "with_"})
        inner = self.query(query, ctes)
        label = node.alias_or_name or "derived"
        names = tuple(c.name for c in node.args["alias"].columns) if node.args.get("alias") else ()
        names = names or cte_names
        alias = self._unique(label)
        taken: set[str] = set()
        outputs: list[Output] = []
        for index, c in enumerate(inner.columns):
            name = names[index] if index < len(names) else c.name
            plan_name = _fresh(f"{alias}.{name}", taken)
            outputs.append(Output(name, plan_name, c.certain or index < len(names)))
        plan = Project(
            inner.plan,
            tuple(
                Named(o.plan_name, column(c.plan_name))
                for o, c in zip(outputs, inner.columns, strict=True)
            ),
        )
        return plan, Scope((Source(label, tuple(outputs)),))

    def _table(self, node: exp.Table) -> tuple[Plan, Scope]:
        name = ".".join(part.name for part in node.parts)
        schema = self.schemas.get(name.lower())
        if schema is None:
            raise UnknownTable(name, node)
        if node.args.get("alias") and node.args["alias"].columns:
            raise NoRule("column aliases of a table", node)
        alias = self._unique(node.alias_or_name)
        plan = Scan(schema.name, alias, schema.names)
        columns = tuple(Output(n, f"{alias}.{n}") for n in schema.names)
        return plan, Scope((Source(node.alias_or_name, columns),))

    def _expression(self, expr: Expr, scope: Scope) -> Expr:
        """Return a copy of `expr` whose columns are plan columns."""
        unknown = unknown_part(expr)
        if unknown is not None:
            raise NoRule(describe_part(unknown), unknown)

        def resolved(node: Expr) -> Expr:
            if isinstance(node, exp.Column):
                return column(scope.find(node))
            return node

        return expr.copy().transform(resolved)

    def _unique(self, label: str) -> str:
        # Plan columns are called alias.column: a dot in the alias could make two of them alike.
        return _fresh(label.replace(".", "_"), self.aliases)

    @staticmethod
    def _refuse(node: Expr, known: set[str]) -> None:
        """Stop at clauses that nobody handles: LIMIT, QUALIFY, LATERAL VIEW, TABLESAMPLE, ..."""
        for name, value in node.args.items():
            if value and name not in known:
                part = value[0] if isinstance(value, list) else value
                label = name.rstrip("_").upper()
                raise NoRule(label, part if isinstance(part, exp.Expr) else node)


_METHODS = ("", "NATURAL")

_CLAUSES = {
    *("from_", "joins", "where", "group", "having", "distinct", "order", "with_"),
    *("expressions", "kind", "hint", "operation_modifiers"),
}
"""The clauses of a SELECT that are handled."""


def _topmost_subqueries(part: Expr) -> list[Expr]:
    """Return the subqueries in an expression, without those inside another one."""
    if is_subquery(part):
        return [part]
    return [found for child in part.iter_expressions() for found in _topmost_subqueries(child)]


def _is_star(node: Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _in_aggregate(node: Expr, part: Expr) -> bool:
    """Say whether a node is inside an aggregate call of the expression around it."""
    above = node.parent
    while above is not None and above is not part:
        if is_aggregate(above):
            return True
        above = above.parent
    return above is not None and is_aggregate(above)


def _is_semi(kind: str) -> bool:
    return kind in ("SEMI", "ANTI")


def _joined(left: Plan, right: Plan, condition: Expr | None, side: str, kind: str) -> Plan:
    """Return the join of a kind; FULL and OUTER are words of their own to the parser."""
    if _is_semi(kind):
        return Semi(left, right, condition, anti=kind == "ANTI")
    if side:
        return Outer(left, right, condition, side in ("LEFT", "FULL"), side in ("RIGHT", "FULL"))
    return Join(left, right, condition)


def _merged(sources: tuple[Source, ...], names: tuple[str, ...]) -> tuple[Source, ...]:
    """Return sources whose columns of these names must be qualified to be meant."""
    return tuple(Source(s.alias, s.columns, s.merged | frozenset(names)) for s in sources)


def _common_names(left: Scope, right: Scope) -> list[str]:
    """Return the names that a NATURAL join joins by, in the order of the left side."""
    others = {c.name.lower() for c in right.star(None)}
    return [c.name for c in left.star(None) if c.name.lower() in others]


def _fresh(label: str, taken: set[str]) -> str:
    """Return `label`, or `label2`, `label3`, ... if it is taken; then it is."""
    name, number = label, 1
    while name.lower() in taken:
        number += 1
        name = f"{label}{number}"
    taken.add(name.lower())
    return name


def rename(relation: Relation, names: tuple[str, ...]) -> Plan:
    """Give a plan's columns the names that Spark's analysis found, by position."""
    return Project(
        relation.plan,
        tuple(
            Named(name, column(c.plan_name))
            for name, c in zip(names, relation.columns, strict=True)
        ),
    )


Locate = Callable[[Expr | None], str]

__all__ = ["NoRule", "Relation", "UnknownTable", "Unresolved", "output", "rename", "resolve"]
