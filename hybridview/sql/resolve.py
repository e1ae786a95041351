"""Parsed query + schemas -> logical plan; or NoRule, naming the operator without a delta rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    Named,
    column,
    conjuncts,
)
from hybridview.algebra.plan import Distinct, Filter, Join, Plan, Project, Scan, output
from hybridview.algebra.walk import tables
from hybridview.schema import TableSchema
from hybridview.sql.block import is_grouped
from hybridview.sql.first import first_of, first_of_select, has_limit
from hybridview.sql.functions import (
    describe_part,
    unknown_part,
)
from hybridview.sql.inner import CLAUSES
from hybridview.sql.joins import KINDS, METHODS, common_names, is_semi, join_using, joined
from hybridview.sql.lambdas import with_own_variables
from hybridview.sql.lateral import lateral
from hybridview.sql.nested import Nested, subqueries_in
from hybridview.sql.outside import mark_same_values
from hybridview.sql.pivot import pivoted
from hybridview.sql.relation import Cte, Ctes, Relation, refuse
from hybridview.sql.scope import NoRule, Output, Scope, Source, Unresolved
from hybridview.sql.sets import set_operation, union
from hybridview.sql.subquery import is_subquery
from hybridview.sql.time_windows import with_time_window
from hybridview.sql.values import is_range, numbers, one_row, values

Schemas = Mapping[str, TableSchema]


class UnknownTable(Exception):
    """A table that neither the store nor the query's own WITH knows."""

    def __init__(self, name: str, node: exp.Table) -> None:
        super().__init__(name)
        self.name = name
        self.node = node


def resolve(query: exp.Query, schemas: Schemas) -> Relation:
    """Return the plan of a query; raises NoRule, UnknownTable or Unresolved."""
    found = _Resolver(schemas).query(query, {})
    if not tables(found.plan):
        raise NoRule("a query that reads no table", query)
    return found


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
        self.outer: Scope | None = None
        """What names mean around the subquery that is resolved for all values outside."""

    @contextmanager
    def inside(self, scope: Scope | None) -> Iterator[None]:
        """Resolve what follows as a part of a subquery; `scope` are the names around it."""
        before, self.outer = self.outer, scope
        try:
            yield
        finally:
            self.outer = before

    def query(self, node: Expr, ctes: Ctes) -> Relation:
        if isinstance(node, exp.Subquery):
            refuse(node, {"this", "alias", "with_"})
            inner = self.query(node.this, self.ctes_of(node, ctes))
            return Relation(inner.plan, inner.columns)
        if isinstance(node, exp.SetOperation):
            found = self._set_operation(node, self.ctes_of(node, ctes))
            return first_of(node, found) if has_limit(node) else found
        if isinstance(node, exp.Values):
            return values(node, self.expression)
        if isinstance(node, exp.Select):
            known = self.ctes_of(node, ctes)
            if node.args.get("limit") and not has_limit(node):
                node = node.copy()
                node.set("limit", None)  # LIMIT ALL
            if has_limit(node):
                if node.args.get("sort") or node.args.get("cluster"):
                    raise NoRule("LIMIT of rows that are sorted part by part", node)
                return first_of_select(node, lambda bare: self._select(bare, known))
            return self._select(node, known)
        raise NoRule(type(node).__name__.upper(), node)

    def ctes_of(self, node: Expr, ctes: Ctes) -> Ctes:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        known = dict(ctes)
        for cte in with_.expressions:
            if with_.args.get("recursive") and _reads(cte, cte.alias):
                # A change would have to be followed through every step.
                raise NoRule(f"recursive CTE {cte.alias}", cte)
            names = tuple(c.name for c in cte.args["alias"].columns)
            known[cte.alias.lower()] = Cte(cte.this, names, dict(known))
        return known

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes) -> Relation:
        sides = self._sides(node, ctes)
        if isinstance(node, exp.Union):
            return union(node, *sides)
        return set_operation(node, *sides, self.unique)

    def _sides(self, node: exp.SetOperation, ctes: Ctes) -> tuple[Relation, Relation]:
        refuse(node, {"this", "expression", "distinct", "with_", "order", "limit", "offset"})
        left, right = self.query(node.left, ctes), self.query(node.right, ctes)
        if len(left.columns) != len(right.columns):
            raise NoRule(f"{type(node).__name__.upper()} of different widths", node)
        return left, right

    def _select(self, node: exp.Select, ctes: Ctes) -> Relation:
        refuse(node, CLAUSES)
        if isinstance(node.args.get("distinct"), exp.Distinct) and node.args["distinct"].args.get(
            "on"
        ):
            raise NoRule("DISTINCT ON", node)
        plan, scope = self.from_clause(node, ctes)
        scope = replace(scope, outer=self.outer)
        nested = Nested(self)
        where = node.args.get("where")
        for condition in conjuncts(where.this) if where is not None else ():
            plan = nested.where(plan, condition, scope, ctes)
        node, plan = with_time_window(node, plan, scope, self.expression, self.unique)
        plan, names, spelling = nested.select_list(node, plan, scope, ctes)
        if node.args.get("distinct"):
            plan = Distinct(plan)
        return Relation(plan, names, spelling)

    def from_clause(self, node: exp.Select, ctes: Ctes) -> tuple[Plan, Scope]:
        from_ = node.args.get("from_")
        if from_ is None:
            if node.is_star or is_grouped(node):
                # Hidden columns are added to a grouped SELECT in front of its FROM.
                raise NoRule("SELECT without FROM", node)
            return one_row(self.unique), Scope(())
        plan, scope = self._source(from_.this, ctes)
        for join in node.args.get("joins") or ():
            plan, scope = self._join(join, plan, scope, ctes)
        for view in node.args.get("laterals") or ():
            plan, scope = lateral(view, plan, scope, self.expression, self.unique)
        return plan, scope

    def _join(self, join: exp.Join, plan: Plan, scope: Scope, ctes: Ctes) -> tuple[Plan, Scope]:
        kind = (join.args.get("kind") or "").upper()
        side = (join.args.get("side") or "").upper()
        method = (join.args.get("method") or "").upper()
        if kind not in KINDS or method not in METHODS:
            raise NoRule(" ".join(w for w in (method, side, kind, "JOIN") if w), join)
        refuse(join, {"this", "kind", "side", "method", "on", "using"})
        if join.this.args.get("pivots"):
            # It would turn all that stands before it, joins included.
            raise NoRule("PIVOT after a join", join)
        if isinstance(join.this, exp.Lateral):
            return self._lateral(join, join.this, plan, scope, ctes)
        right, right_scope = self._source(join.this, ctes)
        using = [name.name for name in join.args.get("using") or ()]
        if method == "NATURAL":
            using = common_names(scope, right_scope)
        if using:
            return join_using(using, side, kind, (plan, scope), (right, right_scope), self.unique)
        both = scope.plus(right_scope)
        on = join.args.get("on")
        if on is not None and any(is_subquery(part) for part in on.walk()):
            sides = ((plan, scope), (right, right_scope))
            return self._asked(on, side, kind, *sides, ctes)
        condition = self.expression(on, both) if on is not None else None
        return joined(plan, right, condition, side, kind), scope if is_semi(kind) else both

    def _asked(
        self,
        on: Expr,
        side: str,
        kind: str,
        left: tuple[Plan, Scope],
        right: tuple[Plan, Scope],
        ctes: Ctes,
    ) -> tuple[Plan, Scope]:
        """Join by a condition with subqueries.

        Of an inner join it may be asked afterwards. Else each subquery's value is a column of the
        side it takes its columns from; if it takes none, of the right side.
        """
        both, nested = left[1].plus(right[1]), Nested(self)
        if not side and not is_semi(kind):
            plan: Plan = Join(left[0], right[0], None)
            for part in conjuncts(on):
                plan = nested.where(plan, part, replace(both, outer=self.outer), ctes)
            return plan, both
        if self.outer is not None:
            # A name of one side could be taken for one from outside.
            raise NoRule("subquery in the condition of a join in a correlated subquery", on)
        plans, condition = [left[0], right[0]], on.copy()
        for found in subqueries_in(condition):
            place = 1 if nested.fits(found, right[1], plans[1], ctes) else 0
            scope = (left[1], right[1])[place]
            plans[place], mark = nested.valued(found, condition, scope, plans[place], ctes)
            condition = mark if found is condition else condition
            if found.parent is not None:
                found.replace(mark)
        shown = left[1] if is_semi(kind) else both
        return joined(plans[0], plans[1], self.expression(condition, both), side, kind), shown

    def _lateral(
        self, join: exp.Join, node: exp.Lateral, plan: Plan, scope: Scope, ctes: Ctes
    ) -> tuple[Plan, Scope]:
        """Join rows that a call or a subquery makes of each row before it."""
        side, on = join.args.get("side") or "", join.args.get("on")
        always = on is None or on == exp.true()
        if join.args.get("using") or join.args.get("method") or side not in ("", "LEFT"):
            raise NoRule("this join with LATERAL", join)
        if is_semi((join.args.get("kind") or "").upper()):
            raise NoRule("this join with LATERAL", join)
        if isinstance(node.this, exp.Subquery):
            keeps = side == "LEFT"
            return Nested(self).lateral(node, plan, scope, ctes, keeps, None if always else on)
        if not always and side == "LEFT":
            raise NoRule("this join with LATERAL", join)
        plan, scope = lateral(node, plan, scope, self.expression, self.unique, side == "LEFT")
        if on is None or always:
            return plan, scope
        return Filter(plan, self.expression(on, scope)), scope

    def _source(self, node: Expr, ctes: Ctes) -> tuple[Plan, Scope]:
        pivots = node.args.get("pivots")
        if pivots and not node.args.get("joins"):
            alone = node.copy()
            alone.set("pivots", None)
            plan, scope = self._source(alone, ctes)
            for pivot in pivots:
                plan, scope = pivoted(pivot, plan, scope, self.expression, self.unique)
            return plan, scope
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            refuse(node, {"this"})
            return self._source(node.this, ctes)
        if isinstance(node, exp.Subquery):
            return self._derived(node.this, self.ctes_of(node, ctes), node)
        if isinstance(node, exp.Values):
            return self._derived(node, ctes, node)
        listed = is_range(node)
        if not isinstance(node, exp.Table) or not (listed or isinstance(node.this, exp.Identifier)):
            raise NoRule(describe_part(node.this if isinstance(node, exp.Table) else node), node)
        joins = node.args.get("joins") or ()
        if joins:
            alone = node.copy()
            alone.set("joins", None)
            plan, scope = self._source(alone, ctes)
            for join in joins:
                plan, scope = self._join(join, plan, scope, ctes)
            return plan, scope
        if listed:
            return self._derived(numbers(node), ctes, node, ("id",))
        plain = not node.args.get("db")
        if plain and node.name.lower() in ctes:
            cte = ctes[node.name.lower()]
            return self._derived(cte.query, cte.ctes, node, cte.names)
        refuse(node, {"this", "alias", "db", "catalog"})
        return self._table(node)

    def _derived(
        self, query: Expr, ctes: Ctes, node: Expr, cte_names: tuple[str, ...] = ()
    ) -> tuple[Plan, Scope]:
        refuse(node, {"this", "alias", "with_", *(("expressions",) if node is query else ())})
        inner = self.query(query, ctes)
        label = node.alias_or_name or "derived"
        names = tuple(c.name for c in node.args["alias"].columns) if node.args.get("alias") else ()
        names = names or cte_names
        alias = self.unique(label)
        taken: set[str] = set()
        outputs: list[Output] = []
        for index, c in enumerate(inner.columns):
            name = names[index] if index < len(names) else c.name
            plan_name = _fresh(f"{alias}.{name}", taken)
            outputs.append(Output(name, plan_name, c.certain or index < len(names), c.type))
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
        renamed = [c.name for c in node.args["alias"].columns] if node.args.get("alias") else []
        names = schema.names if not renamed else tuple(renamed)
        if len(names) != len(schema.names):
            raise NoRule("aliases of some columns of a table", node)
        alias = self.unique(node.alias_or_name)
        plan = Scan(schema.name, alias, schema.names)
        pairs = zip(names, schema.columns, strict=True)
        columns = tuple(Output(n, f"{alias}.{own.name}", type=own.type) for n, own in pairs)
        return plan, Scope((Source(node.alias_or_name, columns),))

    def expression(self, expr: Expr, scope: Scope) -> Expr:
        """Return a copy of `expr` whose columns are plan columns."""
        unknown = unknown_part(expr)
        if unknown is not None:
            raise NoRule(describe_part(unknown), unknown)

        known = replace(scope, outer=self.outer) if scope.outer is None else scope

        def resolved(node: Expr) -> Expr:
            if isinstance(node, exp.Column):
                return known.meaning(node)
            return node

        found = with_own_variables(expr).transform(resolved)
        for equal in found.find_all(exp.EQ) if self.outer is not None else ():
            mark_same_values(equal, known.type_of(equal.left), known.type_of(equal.right))
        return found

    def unique(self, label: str) -> str:
        # Plan columns are called alias.column: a dot in the alias could make two of them alike.
        return _fresh(label.replace(".", "_"), self.aliases)


def _reads(node: Expr, name: str) -> bool:
    """Say whether a part of a query may read a table of some name."""
    found = (t for t in node.find_all(exp.Table) if not t.args.get("db"))
    return any(table.name.lower() == name.lower() for table in found)


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
