"""Plan + batch -> the plan of its change; and the plan of its state before the change."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from hybridview.algebra.expressions import Named, column
from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Constant,
    Distinct,
    Domain,
    Empty,
    Expand,
    Filter,
    Flatten,
    Join,
    Negate,
    Outer,
    Partial,
    Plan,
    PlanError,
    Project,
    Reference,
    Repeat,
    Restrict,
    Scan,
    Semi,
    Top,
    Union,
    Window,
    output,
)
from hybridview.compiler import rules
from hybridview.compiler.batch import Batch, touched
from hybridview.compiler.links import meets_nothing
from hybridview.compiler.rules.aggregate import aggregate, plain
from hybridview.compiler.rules.filter import filter
from hybridview.compiler.rules.flatten import flatten
from hybridview.compiler.rules.join import join
from hybridview.compiler.rules.outer import outer
from hybridview.compiler.rules.project import project
from hybridview.compiler.rules.repeat import repeat
from hybridview.compiler.rules.scan import scan
from hybridview.compiler.rules.semi import semi
from hybridview.compiler.rules.union import union
from hybridview.compiler.rules.window import window

__all__ = ["before", "derive", "rules"]


Aliases = frozenset[str]
Memo = dict[tuple[str, int, Aliases], Plan]
"""What was derived of a part, by its identity: a part that several others read is derived once."""

ALL: Aliases = frozenset()


def derive(plan: Plan, batch: Batch, memo: Memo | None = None, without: Aliases = ALL) -> Plan:
    """Return the signed change of `plan` that `batch` causes.

    What reads no changed table has no change; so constant rows, which read none, never have one.
    The changes of the scans `without` are left out: what is above joins them to nothing.
    """
    if not touched(plan, batch):
        return Empty(output(plan))
    memo = {} if memo is None else memo
    key = ("change", id(plan), without)
    if key not in memo:
        memo[key] = _derive(plan, batch, memo, without)
    return memo[key]


def _derive(plan: Plan, batch: Batch, memo: Memo, without: Aliases) -> Plan:
    match plan:
        case Scan(_, alias):
            return Empty(output(plan)) if alias in without else scan(plan, batch)
        case Filter(child):
            return filter(plan, derive(child, batch, memo, without))
        case Project(child):
            return project(plan, derive(child, batch, memo, without))
        case Join():
            return _derive_join(plan, batch, memo, without)
        case Union(inputs):
            return union(plan, tuple(derive(child, batch, memo) for child in inputs))
        case Aggregate(child):
            return aggregate(plan, derive(child, batch, memo), before(child, batch, memo))
        case Semi() | Outer():
            return _derive_by_row(plan, batch, memo, without)
        case Window(child):
            return window(plan, derive(child, batch, memo), before(child, batch, memo))
        case Repeat(child):
            return repeat(plan, derive(child, batch, memo, without))
        case Flatten(child):
            return flatten(plan, derive(child, batch, memo, without))
        case (
            Distinct()
            | Top()
            | Changes()
            | Negate()
            | Consolidate()
            | Expand()
            | Domain()
            | Restrict()
            | Partial()
            | Reference()
            | Empty()
            | Constant()
        ):
            raise PlanError(f"{type(plan).__name__} has no change: normalise the plan first")
        case _:
            assert_never(plan)


def _derive_join(plan: Join, batch: Batch, memo: Memo, without: Aliases) -> Plan:
    """Return the change of a join, one side read old: the one by which more is known to be empty.

    Declared keys say so of new rows of one side and old rows of the other. Read new, the other
    side may have rows that came together with them.
    """
    left, right = plan.left, plan.right
    alone_right = meets_nothing(plan.condition, left, right, batch.growing_links)
    alone_left = meets_nothing(plan.condition, right, left, batch.growing_links)
    if alone_left and not alone_right:
        turned = Join(right, left, plan.condition)
        left_change = derive(left, batch, memo, without | alone_left)
        right_change = derive(right, batch, memo, without)
        change = join(turned, right_change, left_change, before(right, batch, memo))
        return change if isinstance(change, Empty) else in_order(change, output(plan))
    changes = derive(left, batch, memo, without), derive(right, batch, memo, without | alone_right)
    return join(plan, *changes, before(left, batch, memo))


def _derive_by_row(plan: Semi | Outer, batch: Batch, memo: Memo, without: Aliases) -> Plan:
    """Return the change of a join that gives rows for each row of its left side by itself.

    If all that came on the left are rows that declared keys say have no partner among the old rows
    of the right side, they are judged by those, so by none; the rows of the right side that came
    or went are then joined with the new left side.
    """
    left, right = plan.left, plan.right
    old_left, judged_by = before(left, batch, memo), right
    alone = meets_nothing(plan.condition, left, right, batch.growing_links)
    new_left = meets_nothing(plan.condition, right, left, batch.growing_links)
    if new_left and isinstance(derive(left, batch, memo, without | new_left), Empty):
        # What came on both sides may be partners: then nothing of the right side is left out.
        old_left, judged_by, alone = left, Filter(right, exp.false()), ALL
    changes = derive(left, batch, memo, without), derive(right, batch, memo, alone)
    old_right = before(right, batch, memo)
    if isinstance(plan, Semi):
        return semi(plan, *changes, old_left, old_right, judged_by)
    return outer(plan, *changes, old_left, old_right, judged_by)


def in_order(plan: Plan, names: tuple[str, ...]) -> Plan:
    """Return a plan with its columns in another order."""
    return Project(plan, tuple(Named(name, column(name)) for name in names))


def before(plan: Plan, batch: Batch, memo: Memo | None = None) -> Plan:
    """Return `plan` as it was before `batch`.

    T_old = T_new - dT, row by row with signs: no file of the old version is read, so cleaning up
    old files (VACUUM) cannot break it. Above the tables each operator is rebuilt over its old
    inputs; one that is not linear gets them as a plain bag.
    """
    if not touched(plan, batch):
        return plan
    memo = {} if memo is None else memo
    key = ("before", id(plan), ALL)
    if key not in memo:
        memo[key] = _before(plan, batch, memo)
    return memo[key]


def _before(plan: Plan, batch: Batch, memo: Memo) -> Plan:
    match plan:
        case Scan(table, alias, columns):
            return Union((plan, Negate(Changes(table, alias, columns))), output(plan))
        case Filter(child, condition):
            return Filter(before(child, batch, memo), condition)
        case Project(child, columns):
            return Project(before(child, batch, memo), columns)
        case Join(left, right, condition):
            return Join(before(left, batch, memo), before(right, batch, memo), condition)
        case Union(inputs, names):
            return Union(tuple(before(child, batch, memo) for child in inputs), names)
        case Aggregate(child, keys, measures):
            return Aggregate(plain(before(child, batch, memo)), keys, measures)
        case Semi(left, right, condition, anti):
            looked_at = plain(before(right, batch, memo))
            return Semi(before(left, batch, memo), looked_at, condition, anti)
        case Outer(left, right, condition, keeps_left, keeps_right):
            joined = plain(before(right, batch, memo))
            return Outer(before(left, batch, memo), joined, condition, keeps_left, keeps_right)
        case Window(child, partition, functions):
            return Window(plain(before(child, batch, memo)), partition, functions)
        case Repeat(child, times):
            return Repeat(before(child, batch, memo), times)
        case Flatten(child, generator, names, outer_too):
            return Flatten(before(child, batch, memo), generator, names, outer_too)
        case (
            Distinct()
            | Top()
            | Changes()
            | Negate()
            | Consolidate()
            | Expand()
            | Domain()
            | Restrict()
            | Partial()
            | Reference()
            | Empty()
            | Constant()
        ):
            raise PlanError(f"{type(plan).__name__} has no past: normalise the plan first")
        case _:
            assert_never(plan)
