"""The subqueries in the expressions of one SELECT -> joins, before the expressions are resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    column,
    columns_of,
    qualified,
    substitute,
)
from hybridview.algebra.plan import Filter, Plan, output
from hybridview.sql.aggregates import is_aggregate, with_plain_calls
from hybridview.sql.block import Block, Spelling, is_grouped, select_list
from hybridview.sql.grouping import has_sets
from hybridview.sql.inner import Around, Subqueries
from hybridview.sql.key_parts import key_parts
from hybridview.sql.relation import Ctes, refuse
from hybridview.sql.scope import PLAN, NoRule, Output, Scope, Source, TiedBeside, Unresolved
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


@dataclass(frozen=True, slots=True)
class Nested:
    """Resolves the conditions and the list of a SELECT, subqueries in them included."""

    around: Around

    @property
    def subqueries(self) -> Subqueries:
        return Subqueries(self.around, self.where)

    def select_list(
        self, node: exp.Select, plan: Plan, scope: Scope, ctes: Ctes
    ) -> tuple[Plan, tuple[Output, ...], Spelling | None]:
        """Resolve the select list and what belongs to it; subqueries in it are joined first.

        In a SELECT that groups, a subquery stands beside the groups, unless it is aggregated or
        the groups are made by it.
        """
        bare = node.copy()
        mark_places(bare)
        bare.set("expressions", [with_plain_calls(e) for e in bare.expressions])
        for clause in ("having", "qualify"):
            if bare.args.get(clause):
                bare.set(clause, with_plain_calls(bare.args[clause]))
        grouped = is_grouped(bare)
        later: list[tuple[str, Expr, bool]] = []
        known: list[tuple[Expr, bool, str]] = []
        clauses = (bare.args.get("having"), bare.args.get("qualify"))
        keys = key_parts(bare, scope) if grouped else []
        parts = [*keys, *bare.expressions, *(clause for clause in clauses if clause)]
        for part in parts:
            early = not grouped or any(part is key for key in keys)
            for found in subqueries_in(part):
                negated = _is_negated(found, part)
                name = next((n for f, no, n in known if (f, no) == (found, negated)), "")
                if early and grouped and has_sets(bare.args["group"]):
                    raise NoRule("subquery as a key of GROUPING SETS", found)
                if not name:
                    name = self.around.unique("subquery")
                    if early or _in_aggregate(found, part):
                        plan = self._attach(plan, found, name, scope, ctes, negated)
                    else:
                        later.append((name, found.copy(), negated))
                    if early and grouped:
                        known.append((found.copy(), negated, name))
                found.replace(_stand_in(name))

        def join_later(groups: Plan, over: Callable[[Expr], Expr], tied: bool) -> Plan:
            for name, found, negated in later:
                if not tied:
                    self._refuse_tied(found, ctes)
                groups = self._attach(groups, found, name, scope, ctes, negated, over)
            return groups

        block = Block(bare, scope, lambda expr: self.around.expression(expr, scope), join_later)
        return select_list(block, plan)

    def _refuse_tied(self, node: Expr, ctes: Ctes) -> None:
        """Stop at a subquery that takes columns from outside, where these may be left out."""
        try:
            with self.around.inside(None):
                self.around.query(inside(node), ctes)
        except Unresolved:
            raise NoRule("correlated subquery beside GROUPING SETS", node) from None

    def where(self, plan: Plan, condition: Expr, scope: Scope, ctes: Ctes) -> Plan:
        """Keep the rows for which one condition of WHERE holds."""
        bare = condition.unnest()
        negated = isinstance(bare, exp.Not)
        asked = bare.this.unnest() if negated else bare
        if isinstance(asked, exp.Exists | exp.In) and is_subquery(asked):
            inner = self.subqueries.rows(asked, scope, ctes, plan)
            sought = self._sought(asked, scope) if isinstance(asked, exp.In) else None
            if inner.aggregated:
                if sought is not None and not negated and _null_over_nothing(inner):
                    return self._equal(plan, inner, sought)
                inner = self.subqueries.for_all_values(asked, scope, ctes, plan)
            return keep(plan, inner, sought, negated)
        rewritten = condition.copy()
        for found in subqueries_in(rewritten):
            name = self.around.unique("subquery")
            plan = self._attach(plan, found, name, scope, ctes, _is_negated(found, rewritten))
            if found is rewritten:
                rewritten = _stand_in(name)
            else:
                found.replace(_stand_in(name))
        kept = self.around.expression(rewritten, scope)
        if set(columns_of(kept)) - set(output(plan)):
            raise TiedBeside("correlated condition with a subquery", condition)
        return Filter(plan, kept)

    def _equal(self, plan: Plan, inner: Inner, sought: Expr) -> Plan:
        """Keep the rows whose value is that of an aggregate: IN, of one row always.

        Only of one that is NULL over nothing, as it is where the join finds no group.
        """
        name = self.around.unique("subquery")
        plan = with_value(plan, inner, name, self.subqueries.column)
        return Filter(plan, exp.EQ(this=exp.Paren(this=sought), expression=column(name)))

    def fits(self, node: Expr, scope: Scope, plan: Plan, ctes: Ctes) -> bool:
        """Say whether a subquery, and what is sought in it, takes columns of this scope alone."""
        try:
            self._attach(plan, node, self.around.unique("subquery"), scope, ctes, False)
        except Unresolved:
            return False
        return True

    def valued(
        self, node: Expr, part: Expr, scope: Scope, plan: Plan, ctes: Ctes
    ) -> tuple[Plan, Expr]:
        """Return rows with the value of a subquery in `part`, and what stands for it there."""
        name = self.around.unique("subquery")
        negated = _is_negated(node, part)
        return self._attach(plan, node, name, scope, ctes, negated), _stand_in(name)

    def lateral(
        self,
        node: exp.Lateral,
        plan: Plan,
        scope: Scope,
        ctes: Ctes,
        keeps: bool,
        on: Expr | None = None,
    ) -> tuple[Plan, Scope]:
        """Join the rows of a LATERAL subquery, which may name columns of those before it.

        With `keeps` a row stays that has none, or none for which `on` is true.
        """
        refuse(node, {"this", "alias"})
        inner = self.subqueries.rows(node.this, scope, ctes, plan)
        joined = not inner.aggregated or on is not None
        if keeps and joined and (inner.aggregated or not _selects_columns(inner)):
            inner = self.subqueries.for_all_values(node.this, scope, ctes, plan)
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
        both = scope.plus(Scope((Source(node.alias, outputs),)))
        if on is not None:
            meaning = dict(zip(names, inner.items, strict=True))
            condition = substitute(self.around.expression(on, both), meaning)
            if keeps:
                inner = replace(inner, linked=(*inner.linked, condition))
        plan = beside(plan, inner, names, keeps, self.subqueries.column)
        if on is not None and not keeps:
            plan = Filter(plan, self.around.expression(on, both))
        return plan, both

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
        inner = self.subqueries.rows(node, scope, ctes, plan, over)
        if isinstance(node, exp.Subquery):
            return with_value(plan, inner, name, self.subqueries.column)
        if inner.aggregated:
            inner = self.subqueries.for_all_values(node, scope, ctes, plan, over)
        sought = over(self._sought(node, scope)) if isinstance(node, exp.In) else None
        return marked(plan, inner, sought, name, negated)


def _null_over_nothing(inner: Inner) -> bool:
    """Say whether a subquery selects one aggregate, and that is NULL over no rows."""
    return len(inner.items) == 1 and over_nothing(inner.items[0]) == exp.Null()


def _selects_columns(inner: Inner) -> bool:
    """Say whether all that a subquery selects are columns of its own rows."""
    own = set(output(inner.plan))
    return all(isinstance(i, exp.Column) and i.name in own for i in inner.items)


def _stand_in(name: str) -> exp.Column:
    """Return a reference to a plan column, for the place where its subquery stood."""
    return qualified(name, PLAN)


def subqueries_in(part: Expr) -> list[Expr]:
    """Return the subqueries in an expression, without those inside another one."""
    if isinstance(part, exp.Any | exp.All):
        raise NoRule(f"comparison with {type(part).__name__.upper()}", part)
    if is_subquery(part):
        return [part]
    return [found for child in part.iter_expressions() for found in subqueries_in(child)]


def _is_negated(node: Expr, part: Expr) -> bool:
    """Say whether an IN stands under a NOT; Spark's answer depends on it, NULLs being in play.

    Only where it is a truth value by itself, or decides a CASE: there unknown is as good as false,
    so what Spark takes for the value of IN makes no difference. What it makes of one inside another
    expression, such as a comparison, depends on how it simplifies that.
    """
    if not isinstance(node, exp.In):
        return False
    negated = False
    below: Expr = node
    while below is not part and isinstance(below.parent, exp.And | exp.Or | exp.Not | exp.Paren):
        below = below.parent
        negated ^= isinstance(below, exp.Not)
    whole = (exp.Alias, exp.Where, exp.Having, exp.Qualify)
    if below is not part and not isinstance(below.parent, whole) and not _decides(below):
        around = type(below.parent).__name__.lower()
        raise NoRule(f"IN with a subquery inside an expression ({around})", node)
    return negated


def _decides(node: Expr) -> bool:
    """Say whether a node is the condition of CASE WHEN ... or of if(...)."""
    branch = node.parent
    if not isinstance(branch, exp.If) or branch.this is not node:
        return False
    return not isinstance(branch.parent, exp.Case) or branch.parent.this is None


def _in_aggregate(node: Expr, part: Expr) -> bool:
    """Say whether a node is inside an aggregate call of the expression around it."""
    above = node.parent
    while above is not None and above is not part:
        if is_aggregate(above):
            return True
        above = above.parent
    return above is not None and is_aggregate(above)
