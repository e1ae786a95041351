"""Calls that make several rows of one, such as explode -> over plan columns, with names.

Where Spark would choose a column's name, or how many columns there are, from the type of an
argument that is not known here, there is no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.sql.aggregates import is_aggregate
from hybridview.sql.fields import elements, fields
from hybridview.sql.functions import describe_part
from hybridview.sql.scope import NoRule, Scope

GENERATORS: tuple[type[Expr], ...] = (exp.Explode, exp.Inline, exp.Stack)
"""EXPLODE and POSEXPLODE, with and without _OUTER, are one class and its descendants."""

Expression = Callable[[Expr], Expr]
"""Turns an expression of the query into one over plan columns."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A resolved call; `names` are those Spark gives its columns, () if they are not known."""

    call: Expr
    names: tuple[str, ...]
    outer: bool
    types: tuple[str, ...] = ()
    """The types of its columns, where those of its argument are known."""

    def type_of(self, place: int) -> str:
        return self.types[place] if self.types else ""


def is_generator(node: Expr) -> bool:
    return isinstance(node, GENERATORS)


def generator(node: Expr, expression: Expression, scope: Scope) -> Generator:
    """Resolve a call that makes rows."""
    if not is_generator(node) or any(is_aggregate(part) for part in node.walk()):
        raise NoRule(describe_part(node), node)
    outer = isinstance(node, exp.ExplodeOuter)
    if isinstance(node, exp.Stack):
        return _stack(node, expression)
    if node.expressions:
        raise NoRule(describe_part(node), node)
    argument = expression(node.this)
    parts = elements(scope.type_of(argument))
    if isinstance(argument, exp.Array | exp.RegexpSplit | exp.GenerateSeries):
        parts = ("",)
    if isinstance(node, exp.Inline):
        inner = fields(parts[0]) if len(parts) == 1 else ()
        names, types = tuple(n for n, _ in inner), tuple(t for _, t in inner)
        return Generator(exp.Inline(this=argument), names, outer, types)
    names = {0: (), 1: ("col",), 2: ("key", "value")}[len(parts)]
    if isinstance(node, exp.Posexplode):
        names, parts = (("pos", *names), ("int", *parts)) if parts else ((), ())
        return Generator(exp.Posexplode(this=argument), names, outer, parts)
    return Generator(exp.Explode(this=argument), names, outer, parts)


def _stack(node: exp.Stack, expression: Expression) -> Generator:
    """Resolve stack(n, values): n rows, of as many columns as the values need."""
    count = int(node.this.name) if isinstance(node.this, exp.Literal) and node.this.is_int else 0
    if count < 1 or not node.expressions:
        raise NoRule("stack of a computed number of rows", node)
    width = -(-len(node.expressions) // count)
    values = [expression(value) for value in node.expressions]
    call = exp.Stack(this=node.this.copy(), expressions=values)
    return Generator(call, tuple(f"col{i}" for i in range(width)), False)


def column_names(found: Generator, given: tuple[str, ...], node: Expr) -> tuple[str, ...]:
    """Return the names of the columns that a call makes: those given, or Spark's own."""
    names = given or found.names
    # Two columns are a map's key and value; POSEXPLODE counts in front.
    fewest = 1 + isinstance(found.call, exp.Posexplode)
    exploded = isinstance(found.call, exp.Explode)
    if not names or (exploded and len(names) not in (fewest, fewest + 1)):
        raise NoRule("columns of a generator that have no names", node)
    if found.names and len(names) != len(found.names):
        raise NoRule("columns of a generator that do not fit their names", node)
    return names
