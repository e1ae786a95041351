"""A view's plan -> the parts of it that are kept as tables of their own, and the plan over them.

A LIMIT, a window over all rows, an aggregate without GROUP BY: a change of their input has no key
that says which rows of the base tables to look at again. So what they are computed from is stored
and maintained like a view of its own, a *part*, and they are computed from that: no base table is
read beyond its change.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.expressions import Named, column
from hybridview.algebra.fingerprint import Fingerprint, fingerprint
from hybridview.algebra.plan import (
    Aggregate,
    Filter,
    Flatten,
    Join,
    Plan,
    Project,
    Repeat,
    Scan,
    Top,
    Window,
    children,
    output,
)
from hybridview.algebra.rebuild import over
from hybridview.algebra.walk import walk
from hybridview.compiler.margin import Margin, first_rows, margin_of
from hybridview.compiler.measures import Types
from hybridview.compiler.program import inexact
from hybridview.compiler.render import render, text

SUFFIX = "@part"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a view's plan that is kept as a table: its name, its rows, its columns."""

    name: str
    plan: Plan
    columns: tuple[str, ...]
    margin: Margin | None = None
    """Which of its first rows are kept; None for all rows."""

    @property
    def needed(self) -> int:
        """How many of its first rows its view needs; 0 if all."""
        return self.margin.needed if self.margin is not None else 0

    def query(self) -> str:
        """Return the SQL text that computes it, over the tables by their own names."""
        plan = _named(self.plan, self.columns)
        query = render(first_rows(plan, self.margin) if self.margin is not None else plan)
        for table in query.find_all(exp.Table):
            table.this.set("this", table.name.removesuffix("@new"))
        return text(query)


def _named(plan: Plan, names: tuple[str, ...]) -> Plan:
    """Give a plan's columns other names; those of an aggregate at its top in its own SELECT."""
    if isinstance(plan, Aggregate):
        count = len(plan.keys)
        keys = tuple(Named(n, k.expr) for n, k in zip(names[:count], plan.keys, strict=True))
        calls = zip(names[count:], plan.measures, strict=True)
        return Aggregate(plan.input, keys, tuple(Named(n, m.expr) for n, m in calls))
    pairs = zip(names, output(plan), strict=True)
    return Project(plan, tuple(Named(c, column(n)) for c, n in pairs))


@dataclass(frozen=True, slots=True)
class Pieces:
    """A plan over parts; `whole` if it is computed from them as a whole after every change."""

    plan: Plan
    parts: tuple[Part, ...]
    whole: bool


def pieces(view: str, plan: Plan, stored: frozenset[str], types: Types, keyed: bool) -> Pieces:
    """Cut a normalised plan; without parts if every operator has a key to restrict by.

    `stored` are the tables that are views themselves, in lower case: these may be read as a whole.
    `keyed` says whether the aggregate at the top is maintained group by group.
    """
    cutter = _Cutter(view, stored, types)
    region = _recomputed(plan, types, keyed)
    if region:
        below = children(region[-1])[0]
        rebuilt: Plan = cutter.kept(cutter.cut(below), region[-1])
        for node in reversed(region):
            rebuilt = _over(node, rebuilt)
        return Pieces(rebuilt, tuple(cutter.parts), True)
    top = _top_aggregate(plan) if keyed else None
    return Pieces(cutter.cut(plan, top), tuple(cutter.parts), False)


def _over(node: Plan, below: Plan) -> Plan:
    return over(node, lambda _: below)


def _recomputed(plan: Plan, types: Types, keyed: bool) -> list[Plan]:
    """Return the operators at the top of a plan that no key restricts, and those above them."""
    chain: list[Plan] = []
    node, depth = plan, 0
    linear = (Project, Filter, Repeat, Flatten)
    while isinstance(node, (*linear, Window, Top)) or _is_total(node):
        if isinstance(node, Aggregate) and keyed:
            break
        chain.append(node)
        if needs_part(node, types):
            depth = len(chain)
        node = children(node)[0]
    return chain[:depth]


def _is_total(node: Plan) -> bool:
    return isinstance(node, Aggregate) and not node.keys


def _top_aggregate(plan: Plan) -> Plan | None:
    node = plan
    while isinstance(node, Project | Filter):
        node = node.input
    return node if isinstance(node, Aggregate) else None


def needs_part(node: Plan, types: Types) -> bool:
    """Say whether an operator has no key to restrict by, or values that are not repeatable."""
    match node:
        case Top():
            return True
        case Aggregate(_, keys, measures):
            calls = [(m.name, m.expr) for m in measures]
            return not keys or inexact(calls, types) is not None
        case Window(_, partition, functions):
            calls = [(f.name, f.expr.this) for f in functions]
            return not partition or inexact(calls, types) is not None
        case _:
            return False


class _Cutter:
    """Cuts a plan bottom up, and collects the parts; parts of the same rows are kept once."""

    def __init__(self, view: str, stored: frozenset[str], types: Types) -> None:
        self.view, self.stored, self.types = view, stored, types
        self.parts: list[Part] = []
        self.known: dict[tuple[Fingerprint, Margin | None], Part] = {}
        self.one_row: set[str] = set()
        """Parts that have one row."""
        self.readers = 0

    def cut(self, plan: Plan, top: Plan | None = None) -> Plan:
        """Return a plan in which all that needs a part reads one; `top` needs none."""
        needed = any(n is not top and needs_part(n, self.types) for n in walk(plan))
        return self._visit(plan, top, _read_twice(plan) if needed else frozenset())

    def _visit(self, node: Plan, top: Plan | None, twice: frozenset[Fingerprint]) -> Plan:
        rebuilt = over(node, lambda child: self._visit(child, top, twice))
        needed = node is not top and needs_part(node, self.types)
        if needed or (twice and isinstance(node, Aggregate) and fingerprint(node) in twice):
            return self._part(rebuilt, one_row=_is_total(node))
        if isinstance(rebuilt, Join):
            # The one row may change the answer for any row of the other side.
            if self._has_one_row(rebuilt.right):
                return replace(rebuilt, left=self.kept(rebuilt.left))
            if self._has_one_row(rebuilt.left):
                return replace(rebuilt, right=self.kept(rebuilt.right))
        return rebuilt

    def kept(self, plan: Plan, reader: Plan | None = None) -> Plan:
        """Return a plan that reads stored tables alone, and computes little.

        A LIMIT that is its `reader` needs some of its rows only. Groups are kept all the same:
        their sums can be added to, and there are fewer of them than rows.
        """
        simple = plan
        while isinstance(simple, Filter | Project):
            simple = simple.input
        if isinstance(simple, Scan) and self._is_stored(simple.table):
            return plan
        if self._has_one_row(plan):
            return plan
        if isinstance(plan, Project) and isinstance(plan.input, Aggregate) and plan.input.keys:
            # The groups themselves can be added up; what is computed from them is cheap.
            return _over(plan, self._part(plan.input))
        first = reader if isinstance(reader, Top) and not isinstance(simple, Aggregate) else None
        return self._part(plan, first=first)

    def _is_stored(self, table: str) -> bool:
        return table.lower() in self.stored or any(p.name == table for p in self.parts)

    def _has_one_row(self, plan: Plan) -> bool:
        while isinstance(plan, Filter | Project):
            plan = plan.input
        if isinstance(plan, Join):
            return self._has_one_row(plan.left) and self._has_one_row(plan.right)
        return isinstance(plan, Scan) and plan.table in self.one_row

    def _part(self, plan: Plan, one_row: bool = False, first: Top | None = None) -> Plan:
        """Return a reader of a part; its columns keep the names they have in the plan."""
        columns = column_names(output(plan))
        own_names = dict(zip(output(plan), columns, strict=True))
        margin = margin_of(first, own_names) if first is not None else None
        same_rows = (fingerprint(plan), margin)
        part = self.known.get(same_rows)
        if part is None:
            name = f"{self.view}{SUFFIX}{len(self.parts) + 1}"
            part = Part(name, plan, columns, margin)
            self.known[same_rows] = part
            self.parts.append(part)
            if one_row:
                self.one_row.add(name)
        self.readers += 1
        alias = f"part@{self.readers}"
        scan = Scan(part.name, alias, part.columns)
        pairs = zip(output(plan), part.columns, strict=True)
        return Project(scan, tuple(Named(n, column(f"{alias}.{c}")) for n, c in pairs))


def _read_twice(plan: Plan) -> frozenset[Fingerprint]:
    """Return the aggregates that a plan computes several times: they are kept, and read."""
    found = Counter(fingerprint(n) for n in walk(plan) if isinstance(n, Aggregate) and n.keys)
    return frozenset(value for value, times in found.items() if times > 1)


def column_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a table's column names for plan columns: short, plain, all different."""
    found: list[str] = []
    for name in names:
        # `orders.o_total` is a column of a table; anything else is named by its first word.
        dotted = re.fullmatch(r"[^.()]+\.(\w+)", name)
        word = dotted[1] if dotted else next(iter(re.findall(r"[A-Za-z]\w*", name)), "value")
        stem = word.lower().removeprefix("__hv_").strip("_") or "value"
        number, unique = 1, stem
        while unique in found:
            number += 1
            unique = f"{stem}_{number}"
        found.append(unique)
    return tuple(found)


__all__ = ["SUFFIX", "Part", "Pieces", "needs_part", "pieces"]
