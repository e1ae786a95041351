"""What a name means at one place of a query: sources in FROM, their columns, their plan columns."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr

PLAN = "\0"
"""The qualifier of a reference that is a plan column already."""


class NoRule(Exception):
    """A part of a query that no delta rule covers; the view is refreshed by snapshot."""

    def __init__(self, operator: str, node: Expr | None = None) -> None:
        super().__init__(operator)
        self.operator = operator
        self.node = node


class OpenTies(NoRule):
    """A window whose rows may tie; sorted also by `by`, in the author's words, they do not.

    `at` is the place of some name inside its OVER clause, or -1 if there is none.
    """

    def __init__(self, node: Expr, at: int, by: tuple[str, ...]) -> None:
        super().__init__("window function in an order that leaves ties open", node)
        self.at = at
        self.by = by


class Unresolved(Exception):
    """A column that no source has."""

    def __init__(self, node: exp.Column, candidates: tuple[str, ...], certain: bool) -> None:
        super().__init__(node.sql())
        self.node = node
        self.candidates = candidates
        self.certain = certain


@dataclass(frozen=True, slots=True)
class Output:
    """A column as the query calls it, and as the plan calls it; `certain` if it was named."""

    name: str
    plan_name: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM: its alias and its columns; `merged` ones were joined by USING."""

    alias: str
    columns: tuple[Output, ...]
    merged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """The sources a SELECT can name columns of; `using` are the columns `*` shows first."""

    sources: tuple[Source, ...]
    using: tuple[str, ...] = ()
    outer: Scope | None = None
    """What names mean around a subquery, where it does not know them itself."""

    def plus(self, other: Scope) -> Scope:
        return Scope(self.sources + other.sources, self.using + other.using, self.outer)

    def find(self, node: exp.Column) -> str:
        """Return the plan column a reference means; ambiguity has no rule, Spark decides it."""
        if node.table == PLAN:
            return node.name
        if node.args.get("db") or node.args.get("catalog"):
            raise NoRule("nested column reference", node)
        table, name = node.table.lower(), node.name.lower()
        found = [
            column.plan_name
            for source in self.sources
            if not table or source.alias.lower() == table
            for column in source.columns
            if column.name.lower() == name and (table or name not in source.merged)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise NoRule(f"ambiguous column {node.name}", node)
        names = {c.name.lower() for s in self.sources for c in s.columns}
        if table in names - {s.alias.lower() for s in self.sources}:
            # `a.b` may be field b of a struct column a.
            raise NoRule("struct field reference", node)
        if self.outer is not None:
            return self.outer.find(node)
        raise Unresolved(node, self.candidates(table), self.certain())

    def spelled(self) -> dict[str, str]:
        """Return how a query writes the columns it can name, by their plan columns."""
        found: dict[str, str] = {}
        for source in self.sources:
            for c in source.columns:
                if c.certain and "`" not in c.name + source.alias:
                    found[c.plan_name] = f"`{source.alias}`.`{c.name}`" if source.alias else c.name
        return found

    def candidates(self, table: str) -> tuple[str, ...]:
        sources = [s for s in self.sources if not table or s.alias.lower() == table]
        return tuple(c.name for s in sources or self.sources for c in s.columns)

    def certain(self) -> bool:
        """Say whether every column has a name its author gave, so that a miss is a mistake."""
        return all(c.certain for s in self.sources for c in s.columns)

    def star(self, alias: str | None) -> tuple[Output, ...]:
        """Return the columns `*` or `alias.*` stands for."""
        wanted = alias.lower() if alias else None
        found = [s for s in self.sources if wanted is None or s.alias.lower() == wanted]
        if not found:
            raise NoRule(f"star over {alias}")
        if wanted is not None:
            return tuple(c for s in found for c in s.columns)
        shown = [c for s in found for c in s.columns if c.name.lower() not in s.merged]
        # sorted() keeps the order of equal keys: joined columns first, then as they stand.
        return tuple(sorted(shown, key=lambda c: self._place(c.name.lower())))

    def _place(self, name: str) -> int:
        return self.using.index(name) if name in self.using else len(self.using)
