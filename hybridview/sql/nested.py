"""The subqueries in the expressions of one SELECT -> joins, before the expressions are resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    Named,
    column,
    columns_of,
    conjuncts,
    qualified,
    substitute,
)
from hybridview.algebra.plan import Filter, Plan, Project, output
from hybridview.sql.aggregates import is_aggregate, with_plain_calls
from hybridview.sql.block import Block, Spelling, is_grouped, select_list
from hybridview.sql.generators import is_generator
from hybridview.sql.relation import Ctes, Relation, refuse
from hybridview.sql.scope import PLAN, NoRule, Output, Scope, Source, Unresolved
from hybridview.sql.subquery import (
    Inner,
    beside,
    inside,
    is_subquery,
    keep,
    marked,
    over_nothing,
    with_value,
)
from hybridview.sql.ties import mark_places

CLAUSES = {
    *("from_", "joins", "laterals", "where", "group", "having", "distinct", "order", "with_"),
    *("expressions", "kind", "hint", "operation_modifiers", "qualify"),
}
"""The clauses of a SELECT that are handled."""


class Around(Protocol):
    """What resolves the parts of a query that are no subqueries."""

    def query(self, node: Expr, ctes: Ctes) -> Relation: ...

    def ctes_of(self, node: Expr, ctes: Ctes) -> Ctes: ...

    def from_clause(self, node: exp.Select, ctes: Ctes) -> tuple[Plan, Scope]: ...

    def expression(self, expr: Expr, scope: Scope) -> Expr: ...

    def unique(self, label: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Nested:
    """Resolves the conditions and the list of a SELECT, subqueries in them included."""

    around: Around

    def select_list(
        self, node: exp.Select, plan: Plan, scope: Scope, ctes: Ctes
    ) -> tuple[Plan, tuple[Output, ...], Spelling | None]:
        """Resolve the select list and what belongs to it; subqueries in it are joined first.

        In a SELECT that groups, a subquery stands beside the groups, unless it is aggregated.
        """
        bare = node.copy()
        mark_places(bare)
        bare.set("expressions", [with_plain_calls(e) for e in bare.expressions])
        for clause in ("having", "qualify"):
            if bare.args.get(clause):
                bare.set(clause, with_plain_calls(bare.args[clause]))
        grouped = is_grouped(bare)
        later: list[tuple[str, Expr, bool]] = []
        clauses = (bare.args.get("having"), bare.args.get("qualify"))
        parts = [*bare.expressions, *(clause for clause in clauses if clause)]
        for part in parts:
            for found in _topmost_subqueries(part):
                name = self.around.unique("subquery")
                negated = _is_negated(found, part)
                if grouped and not _in_aggregate(found, part):
                    later.append((name, found.copy(), negated))
                else:
                    plan = self._attach(plan, found, name, scope, ctes, negated)
                found.replace(_stand_in(name))

        def join_later(groups: Plan, over: Callable[[Expr], Expr]) -> Plan:
            for name, found, negated in later:
                groups = self._attach(groups, found, name, scope, ctes, negated, over)
            return groups

        block = Block(bare, scope, lambda expr: self.around.expression(expr, scope), join_later)
        return select_list(block, plan)

    def where(self, plan: Plan, condition: Expr, scope: Scope, ctes: Ctes) -> Plan:
        """Keep the rows for which one condition of WHERE holds."""
        bare = condition.unnest()
        negated = isinstance(bare, exp.Not)
        asked = bare.this.unnest() if negated else bare
        if isinstance(asked, exp.Exists | exp.In) and is_subquery(asked):
            inner = self._inner(asked, scope, ctes, plan)
            sought = self._sought(asked, scope) if isinstance(asked, exp.In) else None
            if inner.aggregated:
                return self._equal(plan, inner, None if negated else sought, asked)
            return keep(plan, inner, sought, negated)
        rewritten = condition.copy()
        for found in _topmost_subqueries(rewritten):
            name = self.around.unique("subquery")
            plan = self._attach(plan, found, name, scope, ctes, _is_negated(found, rewritten))
            if found is rewritten:
                rewritten = _stand_in(name)
            else:
                found.replace(_stand_in(name))
        return Filter(plan, self.around.expression(rewritten, scope))

    def _equal(self, plan: Plan, inner: Inner, sought: Expr | None, node: Expr) -> Plan:
        """Keep the rows whose value is that of an aggregate: IN, of one row always.

        Only one that is NULL over nothing: for Spark a count of nothing was no row for long.
        """
        item = inner.items[0]
        if sought is None or len(inner.items) > 1 or over_nothing(item) != exp.Null():
            raise NoRule("aggregate in EXISTS, NOT IN or IN", node)
        name = self.around.unique("subquery")
        plan = with_value(plan, inner, name, self._column)
        return Filter(plan, exp.EQ(this=exp.Paren(this=sought), expression=column(name)))

    def lateral(
        self, node: exp.Lateral, plan: Plan, scope: Scope, ctes: Ctes, keeps: bool
    ) -> tuple[Plan, Scope]:
        """Join the rows of a LATERAL subquery, which may name columns of those before it."""
        refuse(node, {"this", "alias"})
        inner = self._inner(node.this, scope, ctes, plan)
        alias = node.args.get("alias")
        given = [c.name for c in alias.columns] if alias else []
        if not inner.columns or len(given) not in (0, len(inner.columns)):
            raise NoRule("names of a LATERAL subquery", node)
        label = self.around.unique(node.alias or "lateral")
        outputs = tuple(
            Output(name, f"{label}.{i}.{name}", c.certain or bool(given), c.type)
            for i, (name, c) in enumerate(
                zip(given or [c.name for c in inner.columns], inner.columns, strict=True)
            )
        )
        names = tuple(o.plan_name for o in outputs)
        plan = beside(plan, inner, names, keeps, self._column)
        return plan, scope.plus(Scope((Source(node.alias, outputs),)))

    def _column(self, label: str) -> str:
        """Return a name for a plan column that no table's column can have."""
        return f"{self.around.unique('subquery')}.{label}"

    def _sought(self, node: exp.In, scope: Scope) -> Expr:
        return self.around.expression(node.this, scope)

    def _attach(
        self,
        plan: Plan,
        node: Expr,
        name: str,
        scope: Scope,
        ctes: Ctes,
        negated: bool,
        over: Callable[[Expr], Expr] = lambda expr: expr,
    ) -> Plan:
        """Add a column with a subquery's value; `over` turns expressions into the plan's own."""
        inner = self._inner(node, scope, ctes, plan, over)
        if isinstance(node, exp.Subquery):
            return with_value(plan, inner, name, self._column)
        if inner.aggregated:
            raise NoRule("aggregate in EXISTS, NOT IN or IN", node)
        sought = over(self._sought(node, scope)) if isinstance(node, exp.In) else None
        return marked(plan, inner, sought, name, negated)

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
            refuse(node, {"this", "with_"})
            ctes = self.around.ctes_of(node, ctes)
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

    def _whole(self, query: Expr, ctes: Ctes, scope: Scope) -> Inner:
        """Resolve a subquery that takes nothing from outside."""
        try:
            found = self.around.query(query, ctes)
        except Unresolved as miss:
            scope.find(miss.node)  # raises anew if nobody knows the name
            raise NoRule("correlated subquery", query) from None
        taken = tuple(Named(self._column(c.name), column(c.plan_name)) for c in found.columns)
        items = tuple(column(n.name) for n in taken)
        return Inner(Project(found.plan, taken), items, columns=found.columns)

    def _rows(self, asked: Expr, ctes: Ctes, outer: Scope) -> Inner | None:
        """Return the rows of a plain SELECT before its list; None if it is resolved as a whole."""
        node = inside(asked)
        if not isinstance(node, exp.Select):
            return None
        if node.args.get("distinct") and isinstance(asked, exp.Subquery):
            return None  # for IN and EXISTS equal rows are as good as one
        if any(is_generator(part) for listed in node.expressions for part in listed.walk()):
            return None
        grouped = is_grouped(node)
        whole = any(node.args.get(part) for part in ("group", "having", "limit", "offset"))
        if whole or (node.args.get("distinct") and grouped) or node.args.get("qualify"):
            return None
        refuse(node, CLAUSES)
        ctes = self.around.ctes_of(node, ctes)
        try:
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


def _alike(link: Expr, scope: Scope) -> bool:
    """Say whether both sides of an equality are known to have one type, or to be integers."""
    bare = link.unnest() if isinstance(link, exp.Paren) else link
    if not isinstance(bare, exp.EQ):
        return False
    left, right = (scope.type_of(side).lower() for side in (bare.left, bare.right))
    integers = {"tinyint", "smallint", "int", "bigint"}
    return bool(left) and (left == right or {left, right} <= integers)


def _stand_in(name: str) -> exp.Column:
    """Return a reference to a plan column, for the place where its subquery stood."""
    return qualified(name, PLAN)


def _topmost_subqueries(part: Expr) -> list[Expr]:
    """Return the subqueries in an expression, without those inside another one."""
    if isinstance(part, exp.Any | exp.All):
        raise NoRule(f"comparison with {type(part).__name__.upper()}", part)
    if is_subquery(part):
        return [part]
    return [found for child in part.iter_expressions() for found in _topmost_subqueries(child)]


def _is_negated(node: Expr, part: Expr) -> bool:
    """Say whether an IN stands under a NOT; Spark's answer depends on it, NULLs being in play.

    Only where it is a truth value by itself: what Spark makes of one inside another expression,
    such as a comparison or a CASE, depends on how it simplifies that.
    """
    if not isinstance(node, exp.In):
        return False
    negated = False
    below: Expr = node
    while below is not part and isinstance(below.parent, exp.And | exp.Or | exp.Not | exp.Paren):
        below = below.parent
        negated ^= isinstance(below, exp.Not)
    whole = (exp.Alias, exp.Where, exp.Having, exp.Qualify)
    if below is not part and not isinstance(below.parent, whole):
        raise NoRule("IN with a subquery inside an expression", node)
    return negated


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
