"""UNION, INTERSECT and EXCEPT of two resolved queries -> one relation."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from hybridview.algebra.expressions import Named, column
from hybridview.algebra.plan import Aggregate, Distinct, Filter, Plan, Project, Repeat, Union
from hybridview.sql.relation import Relation, Unique, listed
from hybridview.sql.scope import Output


def union(node: exp.Union, left: Relation, right: Relation) -> Relation:
    """Return the rows of both sides; each different one once, unless it is UNION ALL."""
    names = tuple(c.plan_name for c in left.columns)
    plan: Plan = Union((listed(left), listed(right)), names)
    if node.args.get("distinct", True):
        plan = Distinct(plan)
    return Relation(plan, _columns(left, right))


def _columns(left: Relation, right: Relation) -> tuple[Output, ...]:
    """Return the left side's columns; their types where both sides have the same ones."""
    return tuple(
        replace(ours, type=ours.type if ours.type == theirs.type else "")
        for ours, theirs in zip(left.columns, right.columns, strict=True)
    )


def set_operation(
    node: exp.SetOperation, left: Relation, right: Relation, unique: Unique
) -> Relation:
    """Count the copies of each row on both sides, in groups of equal rows.

    INTERSECT ALL keeps as many copies as the side with fewer has, EXCEPT ALL as many as the
    left side has more; without ALL a row that is kept at all is kept once.
    """
    names = tuple(c.plan_name for c in left.columns)
    counts = (unique("left_copies"), unique("right_copies"))
    arms = []
    for side, own in ((left, counts[0]), (right, counts[1])):
        marks = tuple(Named(n, exp.Literal.number(int(n == own))) for n in counts)
        plain = listed(side)
        arms.append(Project(plain.input, (*plain.columns, *marks)))
    keys = tuple(Named(n, column(n)) for n in names)
    sums = tuple(Named(f"sum_{n}", exp.Sum(this=column(n))) for n in counts)
    plan: Plan = Aggregate(Union(tuple(arms), (*names, *counts)), keys, sums)
    ours, theirs = (column(s.name) for s in sums)
    zero = exp.Literal.number(0)
    only_left = isinstance(node, exp.Except)
    if node.args.get("distinct", True):
        other = exp.EQ if only_left else exp.GT
        has_ours = exp.GT(this=ours, expression=zero)
        plan = Filter(plan, exp.and_(has_ours, other(this=theirs, expression=zero.copy())))
    else:
        more = exp.Sub(this=ours, expression=theirs)
        fewer = exp.Least(this=ours.copy(), expressions=[theirs.copy()])
        plan = Repeat(plan, more if only_left else fewer)
    return Relation(Project(plan, keys), _columns(left, right))
