"""What a name means at one place of a query: sources in FROM, their columns, their plan columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, column
from hybridview.sql.fields import elements, field
from hybridview.sql.frames import name_of
from hybridview.sql.outside import outside

PLAN = "\0"
"""The qualifier of a reference that is a plan column already."""


class NoRule(Exception):
    """A part of a query that no delta rule covers; the view is refreshed by snapshot."""

    def __init__(self, operator: str, node: Expr | None = None) -> None:
        super().__init__(operator)
        self.operator = operator
        self.node = node


class TiedBeside(NoRule):
    """A condition that has a subquery, and ties the one it stands in to the rows outside.

    It could be told for all values of the rows outside at once, but Spark 4.2 cannot plan such a
    change: an attribute is not found (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND).
    """


class OpenTies(NoRule):
    """A window whose rows may tie; sorted also by `by`, in the author's words, they do not.

    `at` is the place of some name inside its OVER clause, or -1 if there is none.
    """

    def __init__(self, node: Expr, at: int, by: tuple[str, ...]) -> None:
        name = name_of(node.this)
        super().__init__(f"window function {name} in an order that leaves ties open", node)
        self.at = at
        self.by = by


class OpenLimit(NoRule):
    """A LIMIT whose rows may tie; sorted also by all its `width` columns they do not.

    `at` is the place of some name inside its query.
    """

    def __init__(self, node: Expr, width: int) -> None:
        limit = node.args.get("limit") or node.args.get("offset")
        super().__init__("LIMIT in an order that leaves ties open", limit)
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        self.at = min(starts, default=0)
        self.width = width


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
    type: str = ""
    """Its type in Spark's spelling, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM: its alias and its columns.

    Some of them it was joined by, by USING; those of them that are `merged` must be qualified.
    """

    alias: str
    columns: tuple[Output, ...]
    merged: frozenset[str] = frozenset()
    joined_by: tuple[tuple[str, ...], ...] = ()
    """The columns of each USING it was joined by, in lower case."""

    def is_key(self, name: str) -> bool:
        return any(name in names for names in self.joined_by)


@dataclass(frozen=True, slots=True)
class Scope:
    """The sources a SELECT can name columns of; `using` are the columns `*` shows first."""

    sources: tuple[Source, ...]
    using: tuple[str, ...] = ()
    scattered: bool = False
    """Whether some columns of USING stand first among those of the right side of a join only."""
    outer: Scope | None = None
    """What names mean around a subquery, where it does not know them itself."""
    beyond: bool = False
    """Whether its columns are not those of the plan that is made, but of one around it."""

    def plus(self, other: Scope) -> Scope:
        return Scope(
            self.sources + other.sources,
            self.using + other.using,
            self.scattered or other.scattered or bool(other.using),
            self.outer,
            self.beyond,
        )

    def from_inside(self) -> Scope:
        """Return the same names for a subquery: all their columns are from outside."""
        outer = self.outer.from_inside() if self.outer is not None else None
        return replace(self, outer=outer, beyond=True)

    def meaning(self, node: exp.Column) -> Expr:
        """Return what a reference means: a plan column, or a field of one."""
        if node.table == PLAN:
            return column(node.name)
        found, names, beyond = self._find(node)
        kind = found.type
        value: Expr = outside(found.plan_name, kind) if beyond else column(found.plan_name)
        for name in names:
            inner = field(kind, name)
            if inner is None:
                # A map's key, or the fields of an array's elements, are written like that too.
                raise NoRule(f"reference {node.sql(dialect='spark')} to a field", node)
            # In parentheses a plan column's name stays whole, wherever its text is read again.
            base = value if isinstance(value, exp.Dot) else exp.Paren(this=value)
            value = exp.Dot(this=base, expression=exp.to_identifier(inner[0], quoted=True))
            kind = inner[1]
        return value

    def find(self, node: exp.Column) -> str:
        """Return the plan column a reference means; ambiguity has no rule, Spark decides it."""
        if node.table == PLAN:
            return node.name
        found, names, _ = self._find(node)
        if names:
            raise NoRule(f"reference {node.sql(dialect='spark')} to a field", node)
        return found.plan_name

    def _find(self, node: exp.Column) -> tuple[Output, tuple[str, ...], bool]:
        """Return the column a reference starts with, the names of fields, and if it is beyond.

        As in Spark `a.b` is column b of source a, if there is one; else field b of column a.
        """
        words = tuple(part.name for part in node.parts)
        aliases = {source.alias.lower() for source in self.sources}
        if len(words) > 2 and words[1].lower() in aliases:
            raise NoRule(f"reference {node.sql(dialect='spark')} to a field", node)
        for qualified in (True, False) if len(words) > 1 else (False,):
            found = self._named(words, qualified)
            if len(found) > 1:
                raise NoRule(f"ambiguous column {node.name}", node)
            if found:
                return found[0], words[2:] if qualified else words[1:], self.beyond
        if self.outer is not None:
            return self.outer._find(node)
        if len(words) > 2:
            raise NoRule(f"reference {node.sql(dialect='spark')} to a field", node)
        table = words[0].lower() if len(words) > 1 else ""
        raise Unresolved(node, self.candidates(table), self.certain())

    def _named(self, words: tuple[str, ...], qualified: bool) -> list[Output]:
        """Return the columns that the first two words, or the first alone, can mean."""
        table, name = (words[0].lower() if qualified else ""), words[int(qualified)].lower()
        return [
            column
            for source in self.sources
            if not table or source.alias.lower() == table
            for column in source.columns
            if column.name.lower() == name and (table or name not in source.merged)
        ]

    def type_of(self, expr: Expr) -> str:
        """Return the type of a plan column, a field or an element of one; "" if it is not known."""
        if isinstance(expr, exp.Paren):
            return self.type_of(expr.this)
        if isinstance(expr, exp.Dot):
            found = field(self.type_of(expr.this), expr.expression.name)
            return found[1] if found else ""
        if isinstance(expr, exp.Bracket):
            return (elements(self.type_of(expr.this)) or ("",))[-1]
        if isinstance(expr, exp.Placeholder):
            return str(expr.args.get("kind") or "")
        if not isinstance(expr, exp.Column):
            return ""
        every = (c for source in self.sources for c in source.columns)
        own = next((c.type for c in every if c.plan_name == expr.name), "")
        return own or (self.outer.type_of(expr) if self.outer is not None else "")

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
        if self.scattered or (wanted is not None and any(len(set(s.joined_by)) > 1 for s in found)):
            raise NoRule("* over sources joined by USING several times")
        shown = [
            (s, c)
            for s in found
            for c in s.columns
            if wanted is not None or c.name.lower() not in s.merged
        ]
        # sorted() keeps the order of equal keys: joined columns first, then as they stand.
        return tuple(c for _, c in sorted(shown, key=lambda pair: self._place(*pair)))

    def _place(self, source: Source, shown: Output) -> int:
        name = shown.name.lower()
        first = source.is_key(name) and name in self.using
        return self.using.index(name) if first else len(self.using)
