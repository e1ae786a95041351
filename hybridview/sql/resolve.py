"""Parsed query + schemas -> logical plan; or NoRule, naming the operator without a delta rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, conjunction
from hybridview.algebra.plan import Distinct, Filter, Join, Plan, Project, Scan, Union, output
from hybridview.schema import TableSchema
from hybridview.sql.block import Block, Spelling, select_list
from hybridview.sql.functions import describe_part, unknown_part
from hybridview.sql.scope import NoRule, Output, Scope, Source, Unresolved

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
        known = {
            *("from_", "joins", "where", "group", "having", "distinct", "order", "with_"),
            *("expressions", "kind", "hint", "operation_modifiers"),
        }
        self._refuse(node, known)
        if isinstance(node.args.get("distinct"), exp.Distinct) and node.args["distinct"].args.get(
            "on"
        ):
            raise NoRule("DISTINCT ON", node)
        plan, scope = self._from(node, ctes)
        where = node.args.get("where")
        if where is not None:
            plan = Filter(plan, self._expression(where.this, scope))
        block = Block(node, scope, lambda expr: self._expression(expr, scope))
        plan, names, spelling = select_list(block, plan)
        if node.args.get("distinct"):
            plan = Distinct(plan)
        return Relation(plan, names, spelling)

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
        if side or kind not in ("", "INNER", "CROSS"):
            raise NoRule(" ".join(w for w in (side, kind, "JOIN") if w), join)
        if join.args.get("method"):
            raise NoRule(f"{join.args['method']} JOIN".upper(), join)
        self._refuse(join, {"this", "kind", "side", "method", "on", "using"})
        right, right_scope = self._source(join.this, ctes)
        using = [name.name for name in join.args.get("using") or ()]
        if using:
            return self._join_using(using, (plan, scope), (right, right_scope))
        both = scope.plus(right_scope)
        on = join.args.get("on")
        condition = self._expression(on, both) if on is not None else None
        return Join(plan, right, condition), both

    def _join_using(
        self, using: list[str], left: tuple[Plan, Scope], right: tuple[Plan, Scope]
    ) -> tuple[Plan, Scope]:
        """Join on equal names; unqualified, such a name means the left column."""
        equal: list[Expr] = []
        for name in using:
            ref = exp.Column(this=exp.to_identifier(name))
            sides = (column(left[1].find(ref)), column(right[1].find(ref)))
            equal.append(exp.EQ(this=sides[0], expression=sides[1]))
        merged = frozenset(name.lower() for name in using)
        hidden = tuple(Source(s.alias, s.columns, s.merged | merged) for s in right[1].sources)
        first = tuple(name.lower() for name in using)
        rest = tuple(name for name in left[1].using if name not in first)
        scope = Scope(left[1].sources + hidden, first + rest)
        return Join(left[0], right[0], conjunction(tuple(equal))), scope

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

        def replace(node: Expr) -> Expr:
            if isinstance(node, exp.Column):
                return column(scope.find(node))
            return node

        return expr.copy().transform(replace)

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
