"""An operator + other inputs -> the same operator over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hybridview.algebra.plan import (
    Aggregate,
    Distinct,
    Filter,
    Flatten,
    Join,
    Outer,
    Plan,
    Project,
    Repeat,
    Semi,
    Top,
    Union,
    Window,
)


def over(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """Return an operator of a query over its inputs changed; a table as it is."""
    match plan:
        case Filter() | Project() | Aggregate() | Distinct():
            return replace(plan, input=change(plan.input))
        case Repeat() | Flatten() | Window() | Top():
            return replace(plan, input=change(plan.input))
        case Join() | Outer() | Semi():
            return replace(plan, left=change(plan.left), right=change(plan.right))
        case Union():
            return replace(plan, inputs=tuple(change(child) for child in plan.inputs))
        case _:
            return plan
