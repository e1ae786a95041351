"""Plan -> text: one operator per line, inputs indented."""

from __future__ import annotations

from typing import assert_never

from hybridview.algebra.expressions import Expr, Named
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
    Project,
    Reference,
    Repeat,
    Restrict,
    Scan,
    Semi,
    Top,
    Union,
    Window,
    children,
)


def show(plan: Plan) -> str:
    """Return a plan as an indented tree."""
    return "\n".join(_lines(plan, 0))


def _lines(plan: Plan, depth: int) -> list[str]:
    lines = ["  " * depth + _label(plan)]
    for child in children(plan):
        lines += _lines(child, depth + 1)
    return lines


def _label(plan: Plan) -> str:
    match plan:
        case Scan(table, alias, columns):
            return f"Scan {_aliased(table, alias)} ({', '.join(columns)})"
        case Changes(table, alias, columns, part):
            which = f" with keys {part}" if part else ""
            return f"Changes of {_aliased(table, alias)}{which} ({', '.join(columns)})"
        case Constant(names, rows):
            return f"Constant rows: {len(rows)} of ({', '.join(names)})"
        case Filter(_, condition):
            return f"Filter {_sql(condition)}"
        case Project(_, columns):
            return f"Project {_named(columns)}"
        case Join(_, _, condition):
            return f"Join on {_sql(condition)}" if condition is not None else "Cross join"
        case Outer(_, _, condition, keeps_left, keeps_right):
            side = "Full" if keeps_left and keeps_right else "Left" if keeps_left else "Right"
            return f"{side} outer join on {_sql(condition) if condition is not None else 'true'}"
        case Semi(_, _, condition, anti):
            what = "Without" if anti else "With"
            on = f" for which {_sql(condition)}" if condition is not None else ""
            return f"{what} a partner{on}"
        case Repeat(_, times):
            return f"Repeat {_sql(times)} times"
        case Flatten(_, generator, names, outer):
            kept = ", rows that make none kept" if outer else ""
            return f"Flatten {_sql(generator)} as {', '.join(names)}{kept}"
        case Window(_, _, functions):
            return f"Window {_named(functions)}"
        case Top(_, order, limit, offset):
            first = "All" if limit is None else f"First {limit}"
            after = f" after {offset}" if offset else ""
            return f"{first}{after} by {', '.join(_sql(key) for key in order)}"
        case Union():
            return "Union all"
        case Aggregate(_, keys, measures) if not measures:
            return f"Distinct {_named(keys)}"
        case Aggregate(_, keys, measures):
            by = f" by {_named(keys)}" if keys else ""
            return f"Aggregate {_named(measures)}{by}"
        case Empty() | Distinct() | Negate() | Consolidate() | Expand():
            return type(plan).__name__
        case Domain(_, keys):
            return f"Touched keys {_named(keys)}"
        case Restrict(_, _, keys):
            return f"Restrict to touched ({', '.join(_sql(k) for k in keys)})"
        case Partial(_, keys, partials):
            return f"Partial {_named(partials)} by {_named(keys)}"
        case Reference(name, _):
            return f"Reference {name}"
        case _:
            assert_never(plan)


def _aliased(table: str, alias: str) -> str:
    return table if table == alias else f"{table} as {alias}"


def _sql(expr: Expr) -> str:
    return expr.sql(dialect="spark").replace("`", "")


def _named(columns: tuple[Named, ...]) -> str:
    shown = []
    for named in columns:
        sql = _sql(named.expr)
        shown.append(sql if sql == named.name else f"{sql} as {named.name}")
    return ", ".join(shown)
