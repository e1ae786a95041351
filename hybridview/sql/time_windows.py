"""window(time, duration) in a SELECT -> a column with the start of the window a row belongs to.

A window's start is a function of the row's time t, both in microseconds:

    start = t - pmod(t - offset, slide)        end = start + duration

and the end is one of the start, so rows are grouped by the start alone. Where windows overlap, a
row belongs to several: it is flattened to one row for each of start, start - slide, ... that ends
after t. As in Spark, rows without a time belong to no window and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, qualified
from hybridview.algebra.plan import Filter, Flatten, Plan, Project, output
from hybridview.sql.grouping import has_sets
from hybridview.sql.relation import Unique
from hybridview.sql.scope import PLAN, NoRule, Scope, Unresolved

NAME = "window"
FIELDS = ("start", "end")
SESSIONS = ("session_window", "window_time")
MOST_WINDOWS = 100
"""How many windows a row may belong to."""

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}

Expression = Callable[[Expr, Scope], Expr]


def with_time_window(
    node: exp.Select, plan: Plan, scope: Scope, expression: Expression, unique: Unique
) -> tuple[exp.Select, Plan]:
    """Return a SELECT without calls of window(), and its rows with what they stand for."""
    parts = [*node.expressions, *(node.args.get(c) for c in ("group", "having", "qualify"))]
    calls: list[Expr] = []
    for found in (n for part in parts if part is not None for n in _outside_subqueries(part)):
        if isinstance(found, exp.Anonymous) and found.name.lower() in SESSIONS:
            # A session goes on while rows follow each other: one row may join two of them.
            raise NoRule(f"{found.name.lower()}, which depends on other rows,", found)
        if _is_window(found) and found not in calls:
            calls.append(found)
    if not calls:
        return node, plan
    if len(calls) > 1:
        raise NoRule("several different calls of window", calls[1])
    if any(listed.is_star for listed in node.expressions):
        raise NoRule("* beside window", calls[0])
    window = _read(calls[0], expression, scope)
    start = f"{unique(NAME)}.start"
    bare = _without_calls(node, start, window, scope)
    return bare, _with_start(plan, window, start, unique)


@dataclass(frozen=True, slots=True)
class _TimeWindow:
    """A resolved call: the time of a row, and three lengths in microseconds."""

    time: Expr
    duration: int
    slide: int
    offset: int

    @property
    def count(self) -> int:
        """How many windows a row belongs to, at most."""
        return -(-self.duration // self.slide)

    def start(self, number: int) -> Expr:
        """Return the start of one of a row's windows, the last one first."""
        micros = exp.UnixMicros(this=self.time.copy())
        from_offset: Expr = micros.copy()
        if self.offset:
            from_offset = exp.Sub(this=from_offset, expression=_number(self.offset))
        within = exp.Anonymous(this="pmod", expressions=[from_offset, _number(self.slide)])
        found = exp.Sub(this=micros, expression=within)
        if number:
            found = exp.Sub(this=found, expression=_number(number * self.slide))
        return _time(found)

    def end(self, start: Expr) -> Expr:
        micros = exp.UnixMicros(this=start.copy())
        return _time(exp.Add(this=micros, expression=_number(self.duration)))


def _number(value: int) -> Expr:
    return exp.Literal.number(value)


def _time(micros: Expr) -> Expr:
    return exp.Anonymous(this="timestamp_micros", expressions=[micros])


def _outside_subqueries(node: Expr) -> Iterator[Expr]:
    yield node
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query | exp.Subquery):
            yield from _outside_subqueries(child)


def _is_window(node: Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == NAME


def _read(call: Expr, expression: Expression, scope: Scope) -> _TimeWindow:
    """Resolve a call whose lengths are texts such as '10 minutes'."""
    time, *lengths = call.expressions
    if not 1 <= len(lengths) <= 3:
        raise NoRule("window without a duration", call)
    duration, *others = (_microseconds(length) for length in lengths)
    slide, offset = [*others, *(duration, 0)[len(others) :]]
    resolved = expression(time, scope)
    if scope.type_of(resolved).lower() != "timestamp":
        # Of other types Spark makes a time by casting.
        raise NoRule("window over what is no column of type TIMESTAMP", call)
    if not 0 < slide <= duration or offset >= slide:
        raise NoRule("window with lengths that do not fit each other", call)
    found = _TimeWindow(resolved, duration, slide, offset)
    if found.count > MOST_WINDOWS:
        raise NoRule(f"window that overlaps more than {MOST_WINDOWS} others", call)
    return found


def _microseconds(node: Expr) -> int:
    """Read a length of time; days have 24 hours here."""
    text = node.name.lower().strip() if isinstance(node, exp.Literal) and node.is_string else ""
    words = text.removeprefix("interval ").split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    known = all(re.fullmatch(r"\d{1,9}", n) and u.rstrip("s") in MICROSECONDS for n, u in pairs)
    if not pairs or len(words) % 2 or not known:
        raise NoRule("window with a duration that is no text such as '10 minutes'", node)
    return sum(int(n) * MICROSECONDS[u.rstrip("s")] for n, u in pairs)


def _with_start(plan: Plan, window: _TimeWindow, start: str, unique: Unique) -> Plan:
    """Return the rows that have a time, each with the start of its window, or of each of them."""
    null = exp.Is(this=window.time.copy(), expression=exp.Null())
    timed = Filter(plan, exp.Not(this=null))
    own = tuple(Named(name, column(name)) for name in output(plan))
    if window.count == 1:
        return Project(timed, (*own, Named(start, window.start(0))))
    starts = exp.Array(expressions=[window.start(i) for i in range(window.count)])
    flat: Plan = Flatten(timed, exp.Explode(this=starts), (start,))
    if window.duration % window.slide:
        flat = Filter(flat, exp.LT(this=window.time.copy(), expression=window.end(column(start))))
    return flat


def _without_calls(node: exp.Select, start: str, window: _TimeWindow, scope: Scope) -> exp.Select:
    """Return a SELECT in which expressions over the start stand for window() and its fields.

    Above GROUP BY window(...) the name `window` means it too, unless a source has that name.
    """
    bare = node.copy()
    grouped = bare.args.get("group")
    named = grouped is not None and not _is_known(scope)
    first = qualified(start, PLAN)
    values: dict[str, Expr] = {"start": first, "end": window.end(first)}
    fields = zip(FIELDS, values.values(), strict=True)
    values[NAME] = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(n), expression=value.copy())
            for n, value in fields
        ]
    )

    def meaning(part: Expr) -> str:
        """Return which of the values a part is; empty for others."""
        if isinstance(part, exp.Dot) and _is_window(part.this):
            return str(part.expression.name).lower()
        if _is_window(part):
            return NAME
        words = [p.name.lower() for p in part.parts] if isinstance(part, exp.Column) else []
        return words[-1] if named and words[:1] == [NAME] and len(words) < 3 else ""

    def replaced(part: Expr) -> Expr:
        if isinstance(part, exp.Query | exp.Subquery):
            return part
        found = meaning(part)
        if found:
            if found not in values:
                raise NoRule(f"field {found} of window", part)
            return values[found].copy()
        for key, value in list(part.args.items()):
            if isinstance(value, exp.Expr):
                part.set(key, replaced(value))
            elif isinstance(value, list):
                part.set(key, [replaced(v) if isinstance(v, exp.Expr) else v for v in value])
        return part

    def listed(part: Expr) -> Expr:
        """Keep the name that Spark gives a column, where it is certain."""
        found = "" if isinstance(part, exp.Dot) else meaning(part)
        return exp.alias_(replaced(part), found) if found else replaced(part)

    bare.set("expressions", [listed(part) for part in bare.expressions])
    for clause in ("having", "qualify"):
        if bare.args.get(clause):
            bare.set(clause, replaced(bare.args[clause]))
    if grouped is not None:
        if has_sets(grouped):
            raise NoRule("window in GROUPING SETS", grouped)
        keys = grouped.expressions
        # Grouped by the start, windows are told apart by it.
        keys = [first.copy() if meaning(k.unnest()) == NAME else replaced(k) for k in keys]
        grouped.set("expressions", keys)
    return bare


def _is_known(scope: Scope) -> bool:
    """Say whether `window` means a column or a source of the query itself."""
    if any(source.alias.lower() == NAME for source in scope.sources):
        return True
    try:
        scope.find(exp.column(NAME))
    except Unresolved:
        return False
    except NoRule:
        return True
    return True
