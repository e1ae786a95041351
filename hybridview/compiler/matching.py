"""A view's layout + recorded types -> how its stored rows are found again, or why they cannot be.

A row of a bag is found by the identity of its values, a row of a keyed view by what GROUP BY takes
for one key.
"""

from __future__ import annotations

from dataclasses import replace

from hybridview.algebra.plan import Aggregate, Constant, Flatten, Plan, Project, Scan
from hybridview.algebra.walk import walk
from hybridview.compiler.identity import UNKNOWN, Type, read_type
from hybridview.compiler.kinds import OPAQUE, Recorded, kind_of, kinds
from hybridview.compiler.layout import Hidden, Layout, LayoutKind, Shape, shape
from hybridview.compiler.measures import Kind, Part
from hybridview.compiler.openness import Open, openness


def with_types(layout: Layout, plan: Plan, recorded: Recorded) -> Layout:
    """Return a layout that knows which of its columns need more than Spark's equality."""
    top = shape(plan)
    found: dict[str, Type] = {}
    for name in layout.visible:
        found[name] = read_type(recorded.columns[name]) if name in recorded.columns else UNKNOWN
    if layout.kind is LayoutKind.BAG:
        left_open = openness(plan, recorded)
        for name, kind in found.items():
            # The stored zero may have the other sign than the one this change takes away.
            if left_open[name] is Open.SIGN and kind.kind in ("float", "unknown"):
                found[name] = replace(kind, kind="plain")
        return replace(layout, odd=_odd(found))
    found |= _key_types(layout, top, recorded)
    for stored in layout.parts:
        found.setdefault(stored.column, _part_type(stored.part, recorded))
    # Delta Lake does not store collated strings.
    hidden = tuple(
        Hidden(h.name, f"CAST({h.sql} AS STRING)") if found[h.name].kind == "collated" else h
        for h in layout.hidden
    )
    return replace(layout, hidden=hidden, odd=_odd(found))


def _odd(found: dict[str, Type]) -> tuple[tuple[str, Type], ...]:
    return tuple((name, kind) for name, kind in found.items() if not kind.plain)


def _key_types(layout: Layout, top: Shape, recorded: Recorded) -> dict[str, Type]:
    if top.aggregate is None:
        return {}
    below = kinds(top.aggregate.input, recorded)
    keys = zip(layout.keys, top.aggregate.keys, strict=True)
    found = {name: kind_of(key.expr, below, recorded) for name, key in keys}
    # A key that is shown has a type by Spark's analysis; that is better than ours.
    return {n: k for n, k in found.items() if n not in recorded.columns}


def _part_type(part: Part, recorded: Recorded) -> Type:
    if part.kind in (Kind.MIN, Kind.MAX):
        assert part.argument is not None
        name = part.argument_type or recorded.arguments.get(part.argument.sql(dialect="spark"), "")
        return read_type(name) if name else UNKNOWN
    return read_type(part.type)


def cannot_match(plan: Plan, layout: Layout, recorded: Recorded) -> str | None:
    """Return why rows of a view, or of what it is computed from, could not be found again."""
    top = shape(plan)
    for node in walk(plan):
        if isinstance(node, Scan):
            for name, kind in kinds(node, recorded).items():
                if kind.kind == "unknown" and (kind.holds("map") or kind.holds("variant")):
                    column = name.removeprefix(f"{node.alias}.")
                    written = recorded.sources[node.table.lower()][column.lower()]
                    return f"rows with {node.table}.{column} of type {written} cannot be compared"
        if (
            isinstance(node, Project | Flatten | Constant)
            and node is not plan
            and OPAQUE in kinds(node, recorded).values()
        ):
            return "rows of a subquery that computes a MAP or VARIANT cannot be compared"
        if isinstance(node, Aggregate):
            keyed = node is top.aggregate and layout.kind is LayoutKind.KEYED
            reason = _cannot_group(node, keyed, recorded)
            if reason:
                return reason
    return None


def _cannot_group(node: Aggregate, keyed: bool, recorded: Recorded) -> str | None:
    below = kinds(node.input, recorded)
    for key in node.keys:
        kind = kind_of(key.expr, below, recorded)
        if not kind.groupable or kind is OPAQUE:
            return f"groups of {key.name}, which holds a MAP or VARIANT, cannot be found again"
        if kind.kind != "collated" and kind.holds("collated"):
            return f"groups of {key.name}, which holds collated strings, cannot be found again"
    if keyed:
        return None
    for name, what in openness(node, recorded).items():
        if what is Open.SPELLING:
            return (
                f"{name} below another operator is compared under a collation, "
                "and which spelling stands for the others is left open"
            )
    return None


__all__ = ["cannot_match", "with_types"]
