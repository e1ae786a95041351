"""A subquery -> its rows, and what ties them to the row outside.

Most are tied by conditions of their WHERE: these are left for the join with the rows outside. All
others, with groups or a LIMIT of their own say, are resolved for all values they take from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    Named,
    column,
    columns_of,
    conjuncts,
    same,
    substitute,
)
from hybridview.algebra.plan import Distinct, Plan, Project, output
from hybridview.sql.aggregates import with_plain_calls
from hybridview.sql.block import is_grouped
from hybridview.sql.dependent import Dependent
from hybridview.sql.generators import is_generator
from hybridview.sql.outside import taken, taken_by
from hybridview.sql.relation import Ctes, Relation, refuse
from hybridview.sql.scope import (
    NoRule,
    OpenLimit,
    OpenTies,
    Output,
    Scope,
    TiedBeside,
    Unresolved,
)
from hybridview.sql.subquery import Inner, inside, is_subquery

CLAUSES = {
    *("from_", "joins", "laterals", "where", "group", "having", "distinct", "order", "with_"),
    *("expressions", "kind", "hint", "operation_modifiers", "qualify"),
    *("sort", "distribute", "cluster"),
}
"""The clauses of a SELECT that are handled; where its rows lie, and in which order, is nothing."""


class Around(Protocol):
    """What resolves the parts of a query that are no subqueries."""

    def query(self, node: Expr, ctes: Ctes) -> Relation: ...

    def ctes_of(self, node: Expr, ctes: Ctes) -> Ctes: ...

    def from_clause(self, node: exp.Select, ctes: Ctes) -> tuple[Plan, Scope]: ...

    def expression(self, expr: Expr, scope: Scope) -> Expr: ...

    def unique(self, label: str) -> str: ...

    def inside(self, scope: Scope | None) -> AbstractContextManager[None]: ...


Where = Callable[[Plan, Expr, Scope, Ctes], Plan]
"""Keeps the rows for which a condition holds, subqueries in it included."""


@dataclass(frozen=True, slots=True)
class Subqueries:
    """Resolves subqueries; `where` resolves the conditions in them."""

    around: Around
    where: Where

    def column(self, label: str) -> str:
        """Return a name for a plan column that no table's column can have."""
        return f"{self.around.unique('subquery')}.{label}"

    def rows(
        self,
        node: Expr,
        scope: Scope,
        ctes: Ctes,
        plan: Plan,
        over: Callable[[Expr], Expr] = lambda expr: expr,
    ) -> Inner:
        """Resolve a subquery; names it does not know are taken from around it.

        `over` turns expressions over the rows outside into those of `plan`.
        """
        if isinstance(node, exp.Subquery):
            refuse(node, {"this", "with_"})
            ctes = self.around.ctes_of(node, ctes)
        try:
            inner = self._tied(node, scope, ctes, plan, over)
        except (OpenTies, OpenLimit, TiedBeside):
            raise
        except NoRule:
            return self.for_all_values(node, scope, ctes, plan, over)
        takes = set(taken_by(inner.plan)) | {n for i in inner.items for n in taken(i)}
        if takes & names_of(scope):
            return self.for_all_values(node, scope, ctes, plan, over)
        return inner

    def _tied(
        self, node: Expr, scope: Scope, ctes: Ctes, plan: Plan, over: Callable[[Expr], Expr]
    ) -> Inner:
        """Resolve a subquery that its own conditions tie to the row outside, or nothing at all."""
        inner = self._rows(node, ctes, scope)
        if inner is None:
            return self._whole(inside(node), ctes, scope)
        own = set(output(inner.plan))

        def outside(expr: Expr) -> Expr:
            names = [n for n in columns_of(expr) if n not in own]
            return substitute(expr, {n: over(column(n)) for n in names})

        linked = tuple(outside(c) for c in inner.linked)
        inner = replace(inner, linked=linked, items=tuple(outside(i) for i in inner.items))
        if set(inner.outside()) - set(output(plan)):
            raise NoRule("subquery correlated over two levels", node)
        return inner

    def for_all_values(
        self,
        node: Expr,
        scope: Scope,
        ctes: Ctes,
        plan: Plan,
        over: Callable[[Expr], Expr] = lambda expr: expr,
    ) -> Inner:
        """Resolve any subquery, for all values that it takes from the rows of `plan`."""
        with self.around.inside(scope.from_inside()):
            found = self.around.query(inside(node), ctes)
        mine = tuple(n for n in taken_by(found.plan) if n in names_of(scope))
        shown = tuple(Named(self.column(c.name), column(c.plan_name)) for c in found.columns)
        items = tuple(column(n.name) for n in shown)
        if not mine:
            return Inner(Project(found.plan, shown), items, columns=found.columns)
        values = {n: self.column("value") for n in mine}
        listed = tuple(Named(values[n], over(column(n))) for n in mine)
        domain = Distinct(Project(plan, listed))
        rows, columns = Dependent(domain, values, self.column).rows(Project(found.plan, shown))
        linked = tuple(same(over(column(n)), column(columns[n])) for n in mine)
        return Inner(rows, items, linked, columns=found.columns)

    def _whole(self, query: Expr, ctes: Ctes, scope: Scope) -> Inner:
        """Resolve a subquery that takes nothing from outside."""
        try:
            with self.around.inside(None):
                found = self.around.query(query, ctes)
        except Unresolved as miss:
            scope.find(miss.node)  # raises anew if nobody knows the name
            raise NoRule("correlated subquery", query) from None
        taken = tuple(Named(self.column(c.name), column(c.plan_name)) for c in found.columns)
        items = tuple(column(n.name) for n in taken)
        return Inner(Project(found.plan, taken), items, columns=found.columns)

    def _rows(self, asked: Expr, ctes: Ctes, outer: Scope) -> Inner | None:
        """Return the rows of a plain SELECT before its list; None if it is resolved as a whole."""
        node = inside(asked)
        if not isinstance(node, exp.Select):
            return None
        if node.args.get("distinct") and isinstance(asked, exp.Subquery):
            return None  # for IN and EXISTS equal rows are as good as one
        parts = (part for listed in node.expressions for part in listed.walk())
        if any(is_generator(part) or isinstance(part, exp.Window) for part in parts):
            return None
        grouped = is_grouped(node)
        whole = any(node.args.get(part) for part in ("group", "having", "limit", "offset"))
        if whole or (node.args.get("distinct") and grouped) or node.args.get("qualify"):
            return None
        refuse(node, CLAUSES)
        ctes = self.around.ctes_of(node, ctes)
        try:
            with self.around.inside(None):
                plan, scope = self.around.from_clause(node, ctes)
        except Unresolved as miss:
            outer.find(miss.node)  # raises anew if nobody knows the name
            raise NoRule("correlated subquery", node) from None
        scope = replace(scope, outer=outer)
        linked: list[Expr] = []
        where = node.args.get("where")
        for condition in conjuncts(where.this) if where is not None else ():
            if not any(is_subquery(part) for part in condition.walk()):
                found = self.around.expression(condition, scope)
                if set(columns_of(found)) - set(output(plan)):
                    linked.append(found)
                    continue
            plan = self.where(plan, condition, scope, ctes)
        if isinstance(asked, exp.Exists) and not grouped:
            return Inner(plan, (), tuple(linked))
        items: list[Expr] = []
        names: list[Output] = []
        for listed in node.expressions:
            bare = listed.this if isinstance(listed, exp.Alias) else listed
            if isinstance(bare, exp.Star) and not any(bare.args.values()):
                names += scope.star(None)
                items += [column(c.plan_name) for c in scope.star(None)]
                continue
            if _is_star(bare) or any(is_subquery(part) for part in bare.walk()):
                return self._refuse_link(linked, node)
            if self._names_an_alias(bare, scope, node):
                raise NoRule("alias used in the same SELECT", bare)
            items.append(self.around.expression(with_plain_calls(bare), scope))
            certain = isinstance(listed, exp.Alias) or isinstance(bare, exp.Column)
            names.append(Output(listed.alias_or_name or bare.sql(), "", certain))
        alike = all(_alike(link, scope) for link in linked)
        return Inner(plan, tuple(items), tuple(linked), grouped, tuple(names), alike)

    @staticmethod
    def _names_an_alias(expr: Expr, scope: Scope, node: exp.Select) -> bool:
        """Say whether a name that the subquery's sources lack is one of its own aliases."""
        aliases = {e.alias.lower() for e in node.expressions if isinstance(e, exp.Alias)}
        own = {c.name.lower() for s in scope.sources for c in s.columns}
        names = {c.name.lower() for c in expr.find_all(exp.Column) if not c.table}
        return bool(names & aliases - own)

    @staticmethod
    def _refuse_link(linked: list[Expr], node: Expr) -> None:
        """Leave a subquery to be resolved as a whole, if nothing ties it to the outside."""
        if linked:
            raise NoRule("correlated subquery", node)


def names_of(scope: Scope) -> set[str]:
    """Return the plan columns of a query's own sources."""
    return {c.plan_name for source in scope.sources for c in source.columns}


def _alike(link: Expr, scope: Scope) -> bool:
    """Say whether both sides of an equality are known to have one type, or to be integers."""
    bare = link.unnest() if isinstance(link, exp.Paren) else link
    if not isinstance(bare, exp.EQ):
        return False
    left, right = (scope.type_of(side).lower() for side in (bare.left, bare.right))
    integers = {"tinyint", "smallint", "int", "bigint"}
    return bool(left) and (left == right or {left, right} <= integers)


def _is_star(node: Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )
