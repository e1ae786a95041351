"""GROUPING SETS, ROLLUP and CUBE -> each row once for every set, grouped by the set's keys.

Spark does the same: it repeats the rows, NULL in place of the keys that a set leaves out, and
numbers the sets, so that a NULL that was there is told from one that was put there. Hence, as in
Spark and unlike in the standard, no rows give no groups, not even for the empty set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, qualified
from hybridview.algebra.plan import Plan, Project, Union, output
from hybridview.schema import HIDDEN
from hybridview.sql.scope import PLAN, NoRule

KEY = f"{HIDDEN}set_key_"
SET = "grouping set"
ASKED = f"{HIDDEN}grouping_"
NUMBER = "CAST(grouping_id() AS INT)"
"""A set's number inside the user's SELECT; without arguments, because Spark would compare them."""
MOST_SETS = 64
MOST_KEYS = 30
"""So that a set's number, a bit for each key, is an INT."""


@dataclass(frozen=True, slots=True)
class Sets:
    """The keys of all sets, in the order Spark numbers them, and which of them each set has."""

    keys: tuple[Expr, ...]
    written: tuple[Expr, ...]
    """The keys as the user wrote them."""
    sets: tuple[frozenset[int], ...]
    numbered: bool
    """Whether the order of the keys is certain."""

    def number(self, kept: frozenset[int]) -> int:
        """Return a set's number: a bit for each key that it leaves out, the first key's highest."""
        last = len(self.keys) - 1
        return sum(1 << (last - i) for i in range(len(self.keys)) if i not in kept)


def has_sets(group: exp.Group) -> bool:
    """Say whether GROUP BY has several sets of keys, in any spelling."""
    named = any(group.args.get(kind) for kind in ("rollup", "cube", "grouping_sets", "totals"))
    return named or any(
        isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets) for e in group.expressions
    )


def sets_of(group: exp.Group, resolved: Callable[[Expr], Expr]) -> Sets:
    """Return the sets of a GROUP BY; `resolved` gives a key's plan expression."""
    listed, given = _written(group)
    keys: list[Expr] = []
    written: list[Expr] = []

    def place(node: Expr) -> int:
        expr = resolved(node).unnest()
        if isinstance(expr, exp.Tuple | exp.Literal):
            raise NoRule("GROUPING SETS over a row or a constant", node)
        if expr not in keys:
            keys.append(expr)
            written.append(node)
        return keys.index(expr)

    sets = [frozenset(place(node) for node in one) for one in listed]
    order = [place(node) for node in given]
    _refuse_many(len(sets), group)
    if len(keys) > MOST_KEYS:
        raise NoRule(f"GROUPING SETS of more than {MOST_KEYS} keys", group)
    if len(set(sets)) < len(sets):
        raise NoRule("GROUPING SETS with a set that occurs twice", group)
    if sets == [frozenset()]:
        # A total over no rows is a row in some releases of Spark and none in others.
        raise NoRule("GROUPING SETS with the empty set alone", group)
    _refuse_twins(keys, group)
    return Sets(tuple(keys), tuple(written), tuple(sets), order == sorted(order))


def _written(group: exp.Group) -> tuple[list[list[Expr]], list[Expr]]:
    """Return the sets as written; and the keys in front of GROUPING SETS without a comma."""
    plain = [[node] for node in group.expressions]
    kinds = ("rollup", "cube", "grouping_sets", "totals")
    behind: dict[str, list[Expr]] = {k: group.args[k] for k in kinds if group.args.get(k)}
    if not behind:
        parts = [_sets(node, group) for node in group.expressions]
        _refuse_many(prod(len(part) for part in parts), group)
        return [[key for one in chosen for key in one] for chosen in product(*parts)], []
    (kind, clauses), *others = behind.items()
    mixed = any(isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets) for (e,) in plain)
    if others or mixed or kind == "totals" or len(clauses) > 1:
        raise NoRule("GROUPING SETS in several clauses", group)
    if kind == "grouping_sets":
        return _sets(clauses[0], group), list(group.expressions)
    if clauses[0].expressions:
        raise NoRule("GROUPING SETS in several clauses", group)
    if kind == "rollup":
        return _prefixes(plain), []
    _refuse_many(2 ** len(plain), group)
    return _subsets(plain), []


def _refuse_many(count: int, group: exp.Group) -> None:
    """Stop before too many sets are written out."""
    if count > MOST_SETS:
        raise NoRule(f"more than {MOST_SETS} GROUPING SETS", group)


def _sets(node: Expr, group: exp.Group) -> list[list[Expr]]:
    """Return the sets that one element of GROUP BY stands for."""
    if isinstance(node, exp.Rollup):
        return _prefixes([_set(e) for e in node.expressions])
    if isinstance(node, exp.Cube):
        _refuse_many(2 ** len(node.expressions), group)
        return _subsets([_set(e) for e in node.expressions])
    if isinstance(node, exp.GroupingSets):
        analytics = (exp.Rollup, exp.Cube, exp.GroupingSets)
        found: list[list[Expr]] = []
        for element in node.expressions:
            found += _sets(element, group) if isinstance(element, analytics) else [_set(element)]
        return found
    return [[node]]


def _set(node: Expr) -> list[Expr]:
    """Return the keys of one set: `(a, b)`, `(a)`, `a` or `()`."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this if isinstance(node, exp.Paren) else node]


def _prefixes(parts: list[list[Expr]]) -> list[list[Expr]]:
    return [[key for part in parts[:n] for key in part] for n in range(len(parts), -1, -1)]


def _subsets(parts: list[list[Expr]]) -> list[list[Expr]]:
    if not parts:
        return [[]]
    rest = _subsets(parts[1:])
    return [*([*parts[0], *one] for one in rest), *rest]


def _refuse_twins(keys: list[Expr], group: exp.Group) -> None:
    """Stop at keys that Spark may take for one, such as a + b and b + a."""
    seen = [_ingredients(key) for key in keys]
    if any(one in seen[:i] for i, one in enumerate(seen)):
        raise NoRule("GROUPING SETS over expressions that may be the same", group)


def _ingredients(expr: Expr) -> list[str]:
    """Return what an expression is made of, whatever its order and its comparison signs are."""
    operators = (exp.Predicate, exp.Not, exp.Paren, exp.Connector)
    leaves = (exp.Column, exp.Literal, exp.DataType, exp.Var)
    found: list[str] = []
    for node in expr.walk(prune=lambda n: isinstance(n, leaves)):
        if isinstance(node, leaves):
            found.append(node.sql(dialect="spark").lower())
        elif not isinstance(node, operators):
            found.append(type(node).__name__)
    return sorted(found)


def repeated(plan: Plan, found: Sets) -> tuple[Plan, tuple[Expr, ...]]:
    """Return the rows once for every set, and the columns to group them by, the number last.

    The plan's own columns stay as they are: an aggregate of a key is over all its values. A key
    that a set leaves out is CASE WHEN FALSE THEN key END, which is a NULL of the key's type.
    """
    own = tuple(Named(name, column(name)) for name in output(plan))
    arms: list[Plan] = []
    for kept in found.sets:
        keys = tuple(
            Named(f"{KEY}{i}", key if i in kept else _absent(key))
            for i, key in enumerate(found.keys)
        )
        number = Named(SET, exp.Literal.number(found.number(kept)))
        arms.append(Project(plan, (*own, *keys, number)))
    rows = Union(tuple(arms), output(arms[0]))
    return rows, (*(column(f"{KEY}{i}") for i in range(len(found.keys))), column(SET))


def _absent(key: Expr) -> Expr:
    return exp.Case(ifs=[exp.If(this=exp.false(), true=key.copy())])


def without_grouping_calls(node: exp.Select) -> tuple[exp.Select, list[Expr]]:
    """Return a SELECT with plan columns in place of grouping() and grouping_id(), and those."""
    bare = node.copy()
    asked: list[Expr] = []
    clauses = (bare.args.get("having"), bare.args.get("qualify"))
    for part in [*bare.expressions, *(clause for clause in clauses if clause)]:
        for call in list(part.find_all(exp.Grouping, exp.GroupingId)):
            # In parentheses: without an alias the column's name is Spark's own choice.
            call.replace(exp.Paren(this=qualified(f"{ASKED}{len(asked)}", PLAN)))
            asked.append(call)
    return bare, asked


def answer(call: Expr, found: Sets, resolved: Callable[[Expr], Expr]) -> Expr:
    """Return the value of grouping() or grouping_id() over the number of a group's set."""
    wanted = [resolved(argument).unnest() for argument in call.expressions]
    if isinstance(call, exp.GroupingId):
        if not found.numbered or (wanted and wanted != list(found.keys)):
            raise NoRule("grouping_id of keys in another order", call)
        return exp.cast(column(SET), "bigint")
    if len(wanted) != 1 or wanted[0] not in found.keys:
        raise NoRule("grouping of what is no key", call)
    place = found.keys.index(wanted[0])
    without = [exp.Literal.number(found.number(s)) for s in found.sets if place not in s]
    if not without:
        return exp.cast(exp.Literal.number(0), "tinyint")
    left_out = exp.If(this=exp.In(this=column(SET), expressions=without), true=_digit(1))
    return exp.cast(exp.Case(ifs=[left_out], default=_digit(0)), "tinyint")


def _digit(value: int) -> Expr:
    return exp.Literal.number(value)
