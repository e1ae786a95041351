"""What resolving a part of a query gives: a plan, and what its columns are called outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column
from hybridview.algebra.plan import Plan, Project
from hybridview.sql.block import Spelling
from hybridview.sql.scope import NoRule, Output

Unique = Callable[[str], str]
"""Makes a label that no other part of the query has."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A plan and the names its columns have for the query around it."""

    plan: Plan
    columns: tuple[Output, ...]
    spelling: Spelling | None = None
    """The user's own words for keys and arguments, if the relation is one plain SELECT."""


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression, and those it may read."""

    query: exp.Query
    names: tuple[str, ...]
    ctes: Ctes


Ctes = Mapping[str, Cte]


def listed(relation: Relation) -> Project:
    """Return a relation's columns in their order, and no others."""
    own = tuple(Named(c.plan_name, column(c.plan_name)) for c in relation.columns)
    return Project(relation.plan, own)


def refuse(node: Expr, known: set[str]) -> None:
    """Stop at clauses that nobody handles: LIMIT, QUALIFY, LATERAL VIEW, TABLESAMPLE, ..."""
    for name, value in node.args.items():
        if value and name not in known:
            part = value[0] if isinstance(value, list) else value
            label = name.rstrip("_").upper()
            raise NoRule(label, part if isinstance(part, exp.Expr) else node)
