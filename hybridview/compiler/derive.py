"""Plan + batch -> the plan of its change; and the plan of its state before the change."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from hybridview.algebra.expressions import Named, column
from hybridview.algebra.plan import (
    KEPT,
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
from hybridview.compiler.links import NO_CUTS, Cuts, cut, meets_nothing
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


Memo = dict[tuple[str, int, Cuts], Plan]
"""What was derived of a part, by its identity: a part that several others read is derived once."""


def derive(plan: Plan, batch: Batch, memo: Memo | None = None, cuts: Cuts = NO_CUTS) -> Plan:
    """Return the signed change of `plan` that `batch` causes.

    What reads no changed table has no change; so constant rows, which read none, never have one.
    Of the changes of some scans only a part is used, or none: what is above joins the others to
    nothing.
    """
    if not touched(plan, batch) or cuts.leave_nothing(plan, batch.changed):
        return Empty(output(plan))
    memo = {} if memo is None else memo
    key = ("change", id(plan), cuts)
    if key not in memo:
        memo[key] = _derive(plan, batch, memo, cuts)
    return memo[key]


def _derive(plan: Plan, batch: Batch, memo: Memo, cuts: Cuts) -> Plan:
    match plan:
        case Scan(_, alias):
            return cut(scan(plan, batch), cuts.of(alias))
        case Filter(child):
            return filter(plan, derive(child, batch, memo, cuts))
        case Project(child):
            return project(plan, derive(child, batch, memo, cuts))
        case Join():
            return _derive_join(plan, batch, memo, cuts)
        case Union(inputs):
            return union(plan, tuple(derive(child, batch, memo) for child in inputs))
        case Aggregate(child):
            return aggregate(plan, derive(child, batch, memo), before(child, batch, memo))
        case Semi() | Outer():
            return _derive_by_row(plan, batch, memo, cuts)
        case Window(child):
            return window(plan, derive(child, batch, memo), before(child, batch, memo))
        case Repeat(child):
            return repeat(plan, derive(child, batch, memo, cuts))
        case Flatten(child):
            return flatten(plan, derive(child, batch, memo, cuts))
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


def _derive_join(plan: Join, batch: Batch, memo: Memo, cuts: Cuts) -> Plan:
    """Return the change of a join, one side read old: the one by which more is known to be empty.

    Declared keys say so of new rows of one side and old rows of the other. Read new, the other
    side may have rows that came together with them.
    """
    left, right = plan.left, plan.right
    alone_right = meets_nothing(plan.condition, left, right, batch.signed_links, cuts)
    alone_left = meets_nothing(plan.condition, right, left, batch.signed_links, cuts)
    if alone_left and not alone_right:
        turned = _change_of_join(Join(right, left, plan.condition), alone_left, batch, memo, cuts)
        return turned if isinstance(turned, Empty) else in_order(turned, output(plan))
    return _change_of_join(plan, alone_right, batch, memo, cuts)


def _change_of_join(
    plan: Join, alone: frozenset[tuple[str, str]], batch: Batch, memo: Memo, cuts: Cuts
) -> Plan:
    """Return the change of a join whose left side is read old.

    R.fk -> S.key, and dS = arrived + moved - gone, by keys that are new, stay, and are gone:

      R_old * arrived = 0                nothing that was there refers to what came
      R_old * gone = -dR * gone          nothing that is there refers to what went: all that did
                                         is in dR, with its sign

    so   d(R * S) = dR * S_new + R_old * moved + dR * gone.
    """
    left, right = plan.left, plan.right
    held = derive(left, batch, memo, cuts)
    below = cuts.also(alone)
    met = derive(right, batch, memo, below)
    change = join(plan, held, met, before(left, batch, memo))
    terms = [] if isinstance(change, Empty) else [change]
    for alias, part in sorted(alone):
        if part != KEPT or isinstance(held, Empty):
            continue
        gone = derive(right, batch, memo, below.only_gone(right, alias))
        if not isinstance(gone, Empty):
            terms.append(Join(held, gone, plan.condition))
    if not terms:
        return Empty(output(plan))
    return terms[0] if len(terms) == 1 else Union(tuple(terms), output(plan))


def _derive_by_row(plan: Semi | Outer, batch: Batch, memo: Memo, cuts: Cuts) -> Plan:
    """Return the change of a join that gives rows for each row of its left side by itself.

    If all that came on the left are rows that declared keys say have no partner among the old rows
    of the right side, they are judged by those, so by none; the rows of the right side that came
    or went are then joined with the new left side.
    """
    left, right = plan.left, plan.right
    old_left, judged_by = before(left, batch, memo), right
    alone = meets_nothing(plan.condition, left, right, batch.growing_links)
    new_left = meets_nothing(plan.condition, right, left, batch.growing_links)
    if new_left and isinstance(derive(left, batch, memo, cuts.also(new_left)), Empty):
        # What came on both sides may be partners: then nothing of the right side is left out.
        old_left, judged_by, alone = left, Filter(right, exp.false()), frozenset()
    changes = derive(left, batch, memo, cuts), derive(right, batch, memo, cuts.also(alone))
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
    key = ("before", id(plan), NO_CUTS)
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
