"""Plan + batch -> the plan of its change; and the plan of its state before the change."""

from __future__ import annotations

from typing import assert_never

from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Distinct,
    Domain,
    Empty,
    Expand,
    Filter,
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
    Union,
    Window,
    output,
)
from hybridview.compiler import rules
from hybridview.compiler.batch import Batch, touched
from hybridview.compiler.rules.aggregate import aggregate, plain
from hybridview.compiler.rules.filter import filter
from hybridview.compiler.rules.join import join
from hybridview.compiler.rules.project import project
from hybridview.compiler.rules.repeat import repeat
from hybridview.compiler.rules.scan import scan
from hybridview.compiler.rules.semi import semi
from hybridview.compiler.rules.union import union
from hybridview.compiler.rules.window import window

__all__ = ["before", "derive", "rules"]


def derive(plan: Plan, batch: Batch) -> Plan:
    """Return the signed change of `plan` that `batch` causes."""
    if not touched(plan, batch):
        return Empty(output(plan))
    match plan:
        case Scan():
            return scan(plan, batch)
        case Filter(child):
            return filter(plan, derive(child, batch))
        case Project(child):
            return project(plan, derive(child, batch))
        case Join(left, right):
            return join(plan, derive(left, batch), derive(right, batch), before(left, batch))
        case Union(inputs):
            return union(plan, tuple(derive(child, batch) for child in inputs))
        case Aggregate(child):
            return aggregate(plan, derive(child, batch), before(child, batch))
        case Semi(left, right):
            changes = derive(left, batch), derive(right, batch)
            return semi(plan, *changes, before(left, batch), before(right, batch))
        case Window(child):
            return window(plan, derive(child, batch), before(child, batch))
        case Repeat(child):
            return repeat(plan, derive(child, batch))
        case (
            Distinct()
            | Outer()
            | Changes()
            | Negate()
            | Consolidate()
            | Expand()
            | Domain()
            | Restrict()
            | Partial()
            | Reference()
            | Empty()
        ):
            raise PlanError(f"{type(plan).__name__} has no change: normalise the plan first")
        case _:
            assert_never(plan)


def before(plan: Plan, batch: Batch) -> Plan:
    """Return `plan` as it was before `batch`.

    T_old = T_new - dT, row by row with signs: no file of the old version is read, so cleaning up
    old files (VACUUM) cannot break it. Above the tables each operator is rebuilt over its old
    inputs; one that is not linear gets them as a plain bag.
    """
    if not touched(plan, batch):
        return plan
    match plan:
        case Scan(table, alias, columns):
            return Union((plan, Negate(Changes(table, alias, columns))), output(plan))
        case Filter(child, condition):
            return Filter(before(child, batch), condition)
        case Project(child, columns):
            return Project(before(child, batch), columns)
        case Join(left, right, condition):
            return Join(before(left, batch), before(right, batch), condition)
        case Union(inputs, names):
            return Union(tuple(before(child, batch) for child in inputs), names)
        case Aggregate(child, keys, measures):
            return Aggregate(plain(before(child, batch)), keys, measures)
        case Semi(left, right, condition, anti):
            return Semi(before(left, batch), plain(before(right, batch)), condition, anti)
        case Window(child, partition, functions):
            return Window(plain(before(child, batch)), partition, functions)
        case Repeat(child, times):
            return Repeat(before(child, batch), times)
        case (
            Distinct()
            | Outer()
            | Changes()
            | Negate()
            | Consolidate()
            | Expand()
            | Domain()
            | Restrict()
            | Partial()
            | Reference()
            | Empty()
        ):
            raise PlanError(f"{type(plan).__name__} has no past: normalise the plan first")
        case _:
            assert_never(plan)
