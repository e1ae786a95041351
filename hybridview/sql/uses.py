"""A query + the columns of its sources -> which of them it uses.

By words alone, without resolving anything: a column counts as used if its name occurs anywhere in
the text. So the answer may name too many columns, never too few, for any SELECT that parses.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from hybridview.schema import Column
from hybridview.sql.parse import DIALECT

Sources = Mapping[str, tuple[Column, ...]]


def used_columns(text: str, query: exp.Expr, sources: Sources) -> dict[str, tuple[Column, ...]]:
    """Return the columns of each source that a query may use, in their order."""
    if _takes_all(query):
        return dict(sources)
    words = {token.text.lower() for token in Dialect.get_or_raise(DIALECT).tokenize(text)}
    return {
        source: tuple(c for c in columns if c.name.lower() in words)
        for source, columns in sources.items()
    }


def _is_asked(star: exp.Expr) -> bool:
    """Say whether a * stands in EXISTS (SELECT * ...): no column matters there."""
    select = star.parent
    return (
        isinstance(select, exp.Select)
        and isinstance(select.parent, exp.Exists)
        and not select.args.get("distinct")
    )


def _takes_all(query: exp.Expr) -> bool:
    """Say whether columns are used without being named: by *, NATURAL JOIN, PIVOT or t(a, b)."""
    if not isinstance(query, exp.Query):
        return True
    stars = query.find_all(exp.Star)
    if any(not isinstance(star.parent, exp.Count) and not _is_asked(star) for star in stars):
        return True
    joins = query.find_all(exp.Join)
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in joins):
        return True
    if any(alias.columns for alias in query.find_all(exp.TableAlias)):
        return True
    return query.find(exp.Pivot) is not None
