"""A query + names of columns -> whether it only carries their values from its sources to its rows.

Spark compares a CHAR(5) column as if what it is compared with were CHAR(5) too: it is padded with
blanks. That hangs on the column, not on its values, so values that went through a change compare
differently. Where they are never compared, they are strings like others.

By names alone: a column that has another name in an inner query is followed; where a name does not
tell which column is meant, the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

_CARRIES = (exp.Alias, exp.Paren, exp.Group, exp.Order, exp.Ordered, exp.Count, exp.Distinct)
"""What a value goes through unchanged, and uncompared but with values of the same column."""
_UNNAMED = (exp.SetOperation, exp.Pivot, exp.Lateral, exp.Values)
"""Columns go through these by their place."""


def only_carries(query: exp.Expr, columns: Iterable[str]) -> bool:
    """Say whether a query neither compares nor computes with columns of these names."""
    names = {name.lower() for name in columns}
    if query.find(*_UNNAMED) or any(a.columns for a in query.find_all(exp.TableAlias)):
        return False
    for join in query.find_all(exp.Join):
        using = {identifier.name.lower() for identifier in join.args.get("using") or ()}
        if using & names or str(join.args.get("method") or "").upper() == "NATURAL":
            return False
    while more := _aliases(query, names) - names:
        names |= more
    return all(
        _is_carried(column) for column in query.find_all(exp.Column) if _is_named(column, names)
    )


def _is_named(column: exp.Column, names: set[str]) -> bool:
    """Say whether a column may be one of these, or a field inside it: `s.a` may be either."""
    return any(part.name.lower() in names for part in column.parts)


def _aliases(query: exp.Expr, names: set[str]) -> set[str]:
    """Return the names that columns of some names are given in select lists."""
    return {
        alias.alias.lower()
        for alias in query.find_all(exp.Alias)
        if any(_is_named(column, names) for column in alias.find_all(exp.Column))
    }


def _is_carried(column: exp.Column) -> bool:
    node = column.parent
    while isinstance(node, _CARRIES):
        node = node.parent
    return isinstance(node, exp.Select) and _is_read_as_rows(node)


def _is_read_as_rows(select: exp.Select) -> bool:
    """Say whether a SELECT is the query, or a table to one; not a value that others look at."""
    parent = select.parent
    if isinstance(parent, exp.Subquery):
        return isinstance(parent.parent, exp.From | exp.Join)
    return parent is None or isinstance(parent, exp.CTE)
