"""Declared foreign keys + a join -> the terms of its change that are known to be empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, conjuncts
from hybridview.algebra.plan import (
    GONE,
    KEPT,
    Aggregate,
    Changes,
    Empty,
    Filter,
    Flatten,
    Join,
    Negate,
    Outer,
    Plan,
    Project,
    Repeat,
    Scan,
    Semi,
    Window,
    output,
)
from hybridview.algebra.walk import walk
from hybridview.compiler.statements import quote
from hybridview.schema import HIDDEN, WEIGHT


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key: `columns` of a row of `table` hold a NULL, or the `key` of a row of `target`.

    The key is unique in `target`. Both are declared, and hold in every state that is refreshed to.
    """

    table: str
    columns: tuple[str, ...]
    target: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table} ({', '.join(self.columns)}) -> {self.target}"


@dataclass(frozen=True, slots=True)
class Cuts:
    """Scans, by alias, of whose changes only a part is used by what is above.

    None of it (""), that of kept keys, or that of gone keys: the latter with a plus, as the rows
    they were. What is above counts on how a change is put together of those of the scans; so a
    scan that is cut for its own sake is `closed`: no link to it is used below.
    """

    parts: frozenset[tuple[str, str]] = frozenset()
    closed: frozenset[str] = frozenset()

    def of(self, alias: str) -> str | None:
        """Return the part of a scan's change that is used; None for all of it."""
        return dict(self.parts).get(alias)

    def also(self, parts: frozenset[tuple[str, str]]) -> Cuts:
        """Return these cuts and those of other scans; what is left out stays left out."""
        more = {alias: "" if self.of(alias) == "" else part for alias, part in parts}
        both = frozenset({**dict(self.parts), **more}.items())
        return Cuts(both, self.closed.union(more))

    def only_gone(self, plan: Plan, alias: str) -> Cuts:
        """Return the cuts that leave nothing of a plan's change but what went from one scan."""
        others = {node.alias for node in walk(plan) if isinstance(node, Scan)} - {alias}
        return Cuts(frozenset({(alias, GONE), *((other, "") for other in others)}), self.closed)

    def leave_nothing(self, plan: Plan, changed: frozenset[str]) -> bool:
        """Say whether all changes that a plan reads are left out."""
        scans = [n.alias for n in walk(plan) if isinstance(n, Scan) and n.table in changed]
        return bool(self.parts) and all(self.of(alias) == "" for alias in scans)


NO_CUTS = Cuts()


def meets_nothing(
    condition: Expr | None,
    held: Plan,
    changed: Plan,
    links: frozenset[tuple[Link, str]],
    cuts: Cuts = NO_CUTS,
) -> frozenset[tuple[str, str]]:
    """Return the scans of `changed` whose new rows have no partner in the old `held`.

    R.fk -> S.key, and rows of S came:   R_old * dS = 0   where the condition says R.fk = S.key

    What R_old refers to was in S_old; keys are unique, so no new row of S has such a key. A NULL
    equals nothing. Each scan, by alias, comes with the part of its change that may have partners,
    as `links` give it.
    """
    if not links or condition is None:
        return frozenset()
    # A subquery tied to rows outside reads these once more, under the same alias: what is cut by
    # its alias must be one scan.
    both = (*walk(held), *walk(changed))
    scans = Counter(node.alias for node in both if isinstance(node, Scan))
    pairs: dict[tuple[Scan, Scan], set[tuple[str, str]]] = {}
    for part in conjuncts(condition):
        if not (isinstance(part, exp.EQ) and _is_column(part.this) and _is_column(part.expression)):
            continue
        for here, there in ((part.this, part.expression), (part.expression, part.this)):
            refers, key = _origin(held, here.name, _KEEPS_VALUES), _origin(changed, there.name)
            if refers is not None and key is not None:
                pairs.setdefault((refers[0], key[0]), set()).add((refers[1], key[1]))
    return frozenset(
        (target.alias, part)
        for (table, target), equal in pairs.items()
        for link, part in links
        if (link.table, link.target) == (table.table, target.table)
        and set(zip(link.columns, link.key, strict=True)) <= equal
        and target.alias not in cuts.closed
        and scans[target.alias] == 1
    )


def cut(change: Plan, part: str | None) -> Plan:
    """Return a part of a table's change; all of it if `part` is None."""
    if part is None or not isinstance(change, Changes):
        return change
    if not part:
        return Empty(output(change))
    found = replace(change, part=part)
    return Negate(found) if part == GONE else found


def part_of(relation: str, columns: Sequence[str], key: Sequence[str], part: str) -> str:
    """Return the SQL of the part of a change, a relation with weights, that has such keys."""
    names = ", ".join(quote(name) for name in columns)
    keys = ", ".join(quote(name) for name in key)
    weight, low, high = quote(WEIGHT), quote(f"{HIDDEN}low"), quote(f"{HIDDEN}high")
    wanted = f"{low} < 0 AND {high} > 0" if part == KEPT else f"{high} < 0"
    return (
        f"SELECT {names}, {weight} FROM (SELECT {names}, {weight}, "
        f"min({weight}) OVER (PARTITION BY {keys}) AS {low}, "
        f"max({weight}) OVER (PARTITION BY {keys}) AS {high} FROM {relation}) AS c WHERE {wanted}"
    )


def _is_column(expr: Expr) -> bool:
    return isinstance(expr, exp.Column) and not expr.table


_LINEAR = (Filter, Project, Join, Repeat, Flatten, Semi)
"""A row of their input's change has its own rows in their change, independent of other rows."""

_KEEPS_VALUES = (*_LINEAR, Outer, Aggregate, Window)
"""A column that they pass on holds values of their input, or NULL."""


def _origin(plan: Plan, name: str, through: tuple[type, ...] = _LINEAR) -> tuple[Scan, str] | None:
    """Return the scan whose column shows as `name`, if only some operators are in between."""
    if isinstance(plan, Scan):
        prefix = f"{plan.alias}."
        column = name.removeprefix(prefix)
        return (plan, column) if name.startswith(prefix) and column in plan.columns else None
    if isinstance(plan, Outer) and Outer not in through:
        # Its change is linear in its left side.
        return _origin(plan.left, name, through) if name in output(plan.left) else None
    if not isinstance(plan, through):
        return None
    match plan:
        case Project(child, shown) | Aggregate(child, shown):
            inner = next((c.expr for c in shown if c.name == name and _is_column(c.expr)), None)
            return None if inner is None else _origin(child, inner.name, through)
        case Join(left, right) | Outer(left, right):
            return _origin(left if name in output(left) else right, name, through)
        case Filter(child) | Repeat(child) | Flatten(child) | Semi(child) | Window(child):
            return _origin(child, name, through) if name in output(child) else None
        case _:
            return None


__all__ = ["NO_CUTS", "Cuts", "Link", "cut", "meets_nothing", "part_of"]
