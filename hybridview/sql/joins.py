"""Two resolved sides of a join -> its plan, and what names mean above it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, conjunction
from hybridview.algebra.plan import Join, Outer, Plan, Project, Semi, output
from hybridview.sql.relation import Unique
from hybridview.sql.scope import Output, Scope, Source

KINDS = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})
METHODS = frozenset({"", "NATURAL"})


def is_semi(kind: str) -> bool:
    return kind in ("SEMI", "ANTI")


def joined(left: Plan, right: Plan, condition: Expr | None, side: str, kind: str) -> Plan:
    """Return the join of a kind; FULL and OUTER are words of their own to the parser."""
    if is_semi(kind):
        return Semi(left, right, condition, anti=kind == "ANTI")
    if side:
        return Outer(left, right, condition, side in ("LEFT", "FULL"), side in ("RIGHT", "FULL"))
    return Join(left, right, condition)


def _merged(sources: tuple[Source, ...], names: tuple[str, ...]) -> tuple[Source, ...]:
    """Return sources whose columns of these names must be qualified to be meant."""
    return tuple(replace(s, merged=s.merged | frozenset(names)) for s in sources)


def _keyed(scope: Scope, plan_names: list[str], names: tuple[str, ...]) -> tuple[Source, ...]:
    """Return sources that know by which of their columns they were joined."""
    return tuple(
        replace(s, joined_by=(*s.joined_by, names))
        if any(c.plan_name in plan_names for c in s.columns)
        else s
        for s in scope.sources
    )


def common_names(left: Scope, right: Scope) -> list[str]:
    """Return the names that a NATURAL join joins by, in the order of the left side."""
    others = {c.name.lower() for c in right.star(None)}
    return [c.name for c in left.star(None) if c.name.lower() in others]


def join_using(
    using: list[str],
    side: str,
    kind: str,
    left: tuple[Plan, Scope],
    right: tuple[Plan, Scope],
    unique: Unique,
) -> tuple[Plan, Scope]:
    """Join on equal names; unqualified, such a name means the side that is never NULL."""
    equal: list[Expr] = []
    shared: list[Named] = []
    keys: tuple[list[str], list[str]] = ([], [])
    for name in using:
        ref = exp.Column(this=exp.to_identifier(name))
        found = (left[1].find(ref), right[1].find(ref))
        for own, plan_name in zip(keys, found, strict=True):
            own.append(plan_name)
        sides = (column(found[0]), column(found[1]))
        equal.append(exp.EQ(this=sides[0], expression=sides[1]))
        either = exp.Coalesce(this=sides[0].copy(), expressions=[sides[1].copy()])
        shared.append(Named(f"{unique('using')}.{name}", either))
    plan = joined(left[0], right[0], conjunction(tuple(equal)), side, kind)
    first = tuple(name.lower() for name in using)
    rest = tuple(name for name in left[1].using if name not in first)
    sources = [_keyed(left[1], keys[0], first), _keyed(right[1], keys[1], first)]
    if is_semi(kind):
        return plan, replace(left[1], sources=sources[0], using=first + rest)
    if side != "RIGHT":
        sources[1] = _merged(sources[1], first)
    if side in ("RIGHT", "FULL"):
        sources[0] = _merged(sources[0], first)
    if side == "FULL":
        every = tuple(Named(name, column(name)) for name in output(plan))
        plan = Project(plan, (*every, *shared))
        pairs = zip(using, shared, strict=True)
        either_side = tuple(Output(n, s.name) for n, s in pairs)
        sources.append((Source("", either_side, joined_by=(first,)),))
    scattered = left[1].scattered or right[1].scattered or bool(right[1].using)
    return plan, Scope(tuple(s for part in sources for s in part), first + rest, scattered)
