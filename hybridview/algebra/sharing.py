"""A plan as a tree -> the same plan as a graph, in which equal parts are one object."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

from hybridview.algebra.plan import (
    Changes,
    Constant,
    Empty,
    Filter,
    Plan,
    Project,
    Reference,
    Scan,
    children,
)


def share(plan: Plan) -> Plan:
    """Return an equal plan whose equal parts are one object each."""
    return _Interner().intern(plan)


class _Interner:
    """Remembers parts by identity, so that a part used often is looked at once; then by value."""

    def __init__(self) -> None:
        self.done: dict[int, tuple[Plan, Plan]] = {}
        self.parts: dict[Any, Plan] = {}

    def intern(self, plan: Plan) -> Plan:
        if id(plan) in self.done:
            return self.done[id(plan)][1]
        inputs: dict[str, Any] = {}
        for field in fields(plan):
            value = getattr(plan, field.name)
            if isinstance(value, Plan):
                inputs[field.name] = self.intern(value)
            elif field.name == "inputs":
                inputs[field.name] = tuple(self.intern(child) for child in value)
        rebuilt = replace(plan, **inputs) if inputs else plan
        # The inputs are one object for each value, so their identity says whether they are equal.
        key: list[Any] = [type(plan), *(id(child) for child in children(rebuilt))]
        key += [getattr(plan, f.name) for f in fields(plan) if f.name not in inputs]
        found = self.parts.setdefault(tuple(key), rebuilt)
        # Keeps the plan alive: an id may be used again once its object is gone.
        self.done[id(plan)] = (plan, found)
        return found


def parts(plan: Plan) -> tuple[Plan, ...]:
    """Return the parts of a shared plan, each once."""
    found: dict[int, Plan] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += children(node)
    return tuple(found.values())


def used_often(plan: Plan) -> frozenset[int]:
    """Return the ids of the parts of a shared plan that several others read, and that cost work."""
    uses = Counter(id(child) for node in parts(plan) for child in children(node))
    return frozenset(id(n) for n in parts(plan) if uses[id(n)] > 1 and not _is_simple(n))


def _is_simple(plan: Plan) -> bool:
    """Say whether a part is a table, or a table filtered and projected: as short as its name."""
    while isinstance(plan, Filter | Project):
        plan = plan.input
    return isinstance(plan, Scan | Changes | Empty | Reference | Constant)
