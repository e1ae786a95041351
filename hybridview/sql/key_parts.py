"""GROUP BY of a SELECT -> the parts of the SELECT that its groups are made by."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.sql.items import aggregate_calls
from hybridview.sql.scope import NoRule, Scope, Unresolved


def key_parts(node: exp.Select, scope: Scope) -> list[Expr]:
    """Return GROUP BY itself, and the columns of the list that it names by place, alias or ALL."""
    group = node.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [e for e in node.expressions if next(aggregate_calls(e), None) is None]
    found: list[Expr] = [group]
    for key in _elements(group):
        if isinstance(key, exp.Literal) and key.is_int and int(key.name):
            found += node.expressions[int(key.name) - 1 : int(key.name)]
        if isinstance(key, exp.Column) and not key.table and not _has(scope, key):
            named = [e for e in node.expressions if isinstance(e, exp.Alias)]
            found += [e for e in named if e.alias.lower() == key.name.lower()]
    return found


def _elements(node: Expr) -> Iterator[Expr]:
    """Yield the keys of GROUP BY, those of its sets too."""
    listing = (exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple, exp.Paren)
    for child in node.iter_expressions():
        if isinstance(child, listing):
            yield from _elements(child)
        else:
            yield child


def _has(scope: Scope, key: exp.Column) -> bool:
    try:
        scope.find(key)
    except Unresolved:
        return False
    except NoRule:
        return True
    return True
