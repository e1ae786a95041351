"""ORDER BY ... LIMIT ... OFFSET of a resolved query -> the rows it keeps.

Where the order leaves ties open, SQL does not say which rows are kept. Such a query has no plan:
`canonical` adds the columns that close them to its text first.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column
from hybridview.algebra.plan import Plan, Project, Top
from hybridview.sql.relation import Relation
from hybridview.sql.scope import NoRule, OpenLimit, Output

ORDER = "__hv_order_"

Listed = Callable[[exp.Select], Relation]
"""Resolves a SELECT without its LIMIT."""


def has_limit(node: Expr) -> bool:
    """Say whether a query keeps some of its rows only."""
    return bool(node.args.get("limit") and not _is_all(node)) or bool(node.args.get("offset"))


def _is_all(node: Expr) -> bool:
    """Say whether it is LIMIT ALL, which keeps every row."""
    limit = node.args.get("limit")
    return limit is not None and limit.expression == exp.Var(this="ALL")


def without_limit(node: Expr) -> Expr:
    """Return a copy of a query without ORDER BY, LIMIT and OFFSET."""
    bare = node.copy()
    for part in ("order", "limit", "offset"):
        bare.set(part, None)
    return bare


def first_of_select(node: exp.Select, listed: Listed) -> Relation:
    """Return the first rows of a SELECT; keys that are no output columns are computed with it."""
    bare = without_limit(node)
    assert isinstance(bare, exp.Select)
    aliases = {e.alias.lower(): e.this for e in node.expressions if isinstance(e, exp.Alias)}
    known = {_shown(e).lower() for e in node.expressions} - {""}
    extra: list[Expr] = []
    for key in _keys(node):
        if not _is_output(key.this, known):
            if node.args.get("distinct"):
                raise NoRule("ORDER BY of what a SELECT DISTINCT does not show", key)
            extra.append(exp.alias_(_over_source(key.this, aliases), f"{ORDER}{len(extra)}"))
    bare.set("expressions", [*bare.expressions, *extra])
    found = listed(bare)
    own = found.columns[: len(found.columns) - len(extra)]
    added = iter(found.columns[len(own) :])
    order: list[Expr] = []
    for key in _keys(node):
        if _is_output(key.this, known):
            order.append(_ordered(key, _output(key.this, own)))
        else:
            order.append(_ordered(key, next(added)))
    return _top(node, found.plan, tuple(order), own, bool(extra))


def first_of(node: Expr, found: Relation) -> Relation:
    """Return the first rows of a set operation, ordered by its columns."""
    known = {c.name.lower() for c in found.columns}
    order: list[Expr] = []
    for key in _keys(node):
        if not _is_output(key.this, known):
            raise NoRule("ORDER BY of an expression over a set operation", key)
        order.append(_ordered(key, _output(key.this, found.columns)))
    return _top(node, found.plan, tuple(order), found.columns, False)


def _top(
    node: Expr, plan: Plan, order: tuple[Expr, ...], own: tuple[Output, ...], narrow: bool
) -> Relation:
    sorted_by = {key.this.name for key in order if isinstance(key.this, exp.Column)}
    if any(c.plan_name not in sorted_by for c in own):
        raise OpenLimit(node, len(own))
    # A key that stands there already decides nothing any more.
    first = {key.this.name: key for key in reversed(order)}
    order = tuple(key for key in order if first[key.this.name] is key)
    top: Plan = Top(plan, order, _number(node, "limit"), _number(node, "offset") or 0)
    if narrow:
        top = Project(top, tuple(Named(c.plan_name, column(c.plan_name)) for c in own))
    return Relation(top, own)


def _keys(node: Expr) -> list[exp.Ordered]:
    order = node.args.get("order")
    if order is None:
        return []
    if order.args.get("siblings") or any(not isinstance(k, exp.Ordered) for k in order.expressions):
        raise NoRule("ORDER BY", order)
    return list(order.expressions)


def _number(node: Expr, clause: str) -> int | None:
    """Return the number of a LIMIT or OFFSET; only literals have a plan."""
    found = node.args.get(clause)
    if found is None or (clause == "limit" and _is_all(node)):
        return None
    value = found.expression
    if not isinstance(value, exp.Literal) or not value.is_int:
        raise NoRule(f"{clause.upper()} of an expression", found)
    return int(value.name)


def _is_output(key: Expr, known: set[str]) -> bool:
    """Say whether a sort key is a position, or the name of an output column."""
    if isinstance(key, exp.Literal) and key.is_int:
        return True
    return isinstance(key, exp.Column) and not key.table and key.name.lower() in known


def _output(key: Expr, own: tuple[Output, ...]) -> Output:
    if isinstance(key, exp.Literal):
        position = int(key.name)
        if not 1 <= position <= len(own):
            raise NoRule("ORDER BY position", key)
        return own[position - 1]
    found = [c for c in own if c.name.lower() == key.name.lower()]
    if len(found) != 1:
        raise NoRule(f"ambiguous column {key.name}", key)
    return found[0]


def _shown(node: Expr) -> str:
    """Return the name a column of the select list has for sure; empty if Spark makes one up."""
    if isinstance(node, exp.Alias):
        return node.alias
    return node.name if isinstance(node, exp.Column) and node.name != "*" else ""


def _over_source(key: Expr, aliases: dict[str, Expr]) -> Expr:
    """Return a sort key with names of the select list written out; they win over the sources'."""

    def meant(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            return exp.Paren(this=aliases[node.name.lower()].copy())
        return node

    return key.copy().transform(meant)


def _ordered(key: exp.Ordered, by: Output) -> exp.Ordered:
    return exp.Ordered(
        this=column(by.plan_name),
        desc=key.args.get("desc"),
        nulls_first=key.args.get("nulls_first"),
    )


__all__ = ["first_of", "first_of_select", "has_limit", "without_limit"]
