"""Plan -> its parts, and the tables it reads."""

from __future__ import annotations

from collections.abc import Iterator

from hybridview.algebra.plan import Changes, Plan, Scan, children


def walk(plan: Plan) -> Iterator[Plan]:
    """Yield a plan and everything below it, parents first."""
    yield plan
    for child in children(plan):
        yield from walk(child)


def tables(plan: Plan) -> tuple[str, ...]:
    """Return the tables a plan reads, each once, in order of appearance."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # a part may be read by several others
            continue
        seen.add(id(node))
        if isinstance(node, Scan | Changes):
            found[node.table] = None
        waiting += reversed(children(node))
    return tuple(found)
