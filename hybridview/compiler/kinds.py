"""A plan + recorded types -> the type of each of its columns, as far as it matters for identity.

Only Spark knows the type of every expression. Here columns of tables, casts and aggregates are
followed up; whatever else could be a floating point number or a collated string is *unknown*, and
gets the form of identity that is right for all types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

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
    output,
)
from hybridview.compiler import exact
from hybridview.compiler.identity import UNKNOWN, Type, collated, read_type
from hybridview.sql.aggregates import PAIRS, STATISTICS

Kinds = Mapping[str, Type]
"""The type of each column of a plan."""

OPAQUE = Type("opaque")
"""The type of an expression over maps or variants: no form of identity is known to fit it."""

PERHAPS_COLLATED = Type("unknown", (Type("collated"),))
"""The type of an expression over collated strings: it may be a string under their collation."""

FLOAT = Type("float")
NUMBER = Type("plain", name="decimal")
TEXT = Type("plain", name="string")
TRUTH = Type("plain", name="boolean")
NULL = Type("plain", name="void")

_EXACT = frozenset({"decimal", *exact.INTEGERS})

_TEXT: tuple[type[Expr], ...] = (
    exp.Upper,
    exp.Lower,
    exp.Concat,
    exp.Substring,
    exp.Trim,
)
"""Functions of strings that give strings."""

_MAPS: tuple[type[Expr], ...] = (exp.VarMap, exp.Map, exp.MapFromEntries, exp.StrToMap)
"""Functions that make maps of other values."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What Spark's analysis said when the view was made."""

    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Types of the columns of each source, by their names in lower case."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Types of the view's own columns."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Types of aggregate arguments, by their SQL text."""


def kinds(plan: Plan, recorded: Recorded) -> dict[str, Type]:
    """Return the type of every column of a plan."""
    match plan:
        case Scan(table, alias, columns) | Changes(table, alias, columns):
            known = recorded.sources.get(table.lower(), {})
            return {
                f"{alias}.{c}": read_type(known[c.lower()]) if c.lower() in known else UNKNOWN
                for c in columns
            }
        case Empty(names) | Reference(_, names):
            return dict.fromkeys(names, UNKNOWN)
        case Constant(names, rows):
            lists = [[kind_of(value, {}, recorded) for value in row] for row in rows]
            return {n: _common(tuple(r[i] for r in lists)) for i, n in enumerate(names)}
        case (
            Filter(child, _)
            | Distinct(child)
            | Negate(child)
            | Restrict(child, _, _)
            | Consolidate(child)
            | Expand(child)
            | Repeat(child, _)
            | Semi(child)
            | Top(child)
        ):
            return kinds(child, recorded)
        case Flatten(child, generator, names):
            below = kinds(child, recorded)
            return {**below, **_generated(generator, names, below, recorded)}
        case Window(child, _, functions):
            below = kinds(child, recorded)
            return {**below, **_named(functions, below, recorded)}
        case Project(child, columns):
            return _named(columns, kinds(child, recorded), recorded)
        case Join(left, right, _) | Outer(left, right, _):
            return {**kinds(left, recorded), **kinds(right, recorded)}
        case Union(inputs, names):
            arms = [_in_order(arm, recorded) for arm in inputs]
            return {n: _common(tuple(a[i] for a in arms)) for i, n in enumerate(names)}
        case Aggregate(child, keys, measures) | Partial(child, keys, measures):
            return _named((*keys, *measures), kinds(child, recorded), recorded)
        case Domain(child, keys):
            return _named(keys, kinds(child, recorded), recorded)
        case _:
            assert_never(plan)


def _in_order(plan: Plan, recorded: Recorded) -> list[Type]:
    found = kinds(plan, recorded)
    return [found[name] for name in output(plan)]


def _named(columns: tuple[Named, ...], below: Kinds, recorded: Recorded) -> dict[str, Type]:
    return {c.name: kind_of(c.expr, below, recorded) for c in columns}


def kind_of(expr: Expr, below: Kinds, recorded: Recorded) -> Type:
    """Return the type of an expression over columns of known types."""
    found = _kind_of(expr, below, recorded)
    if found is not UNKNOWN:
        return found
    read = [below.get(c.name, UNKNOWN) for c in expr.find_all(exp.Column)]
    if any(k is OPAQUE or k.holds("map") or k.holds("variant") for k in read):
        return OPAQUE
    if _makes_maps(expr):
        return OPAQUE
    if any(k.holds("collated") for k in read) or expr.find(exp.Collate) is not None:
        return PERHAPS_COLLATED
    return UNKNOWN


def _makes_maps(expr: Expr) -> bool:
    """Say whether an expression makes a map or a variant of values that are none."""
    if expr.find(*_MAPS) is not None:
        return True
    odd = (exp.DType.MAP, exp.DType.VARIANT)
    if any(kind.this in odd for kind in expr.find_all(exp.DataType)):
        return True
    read = [call.sql(dialect="spark").lower() for call in expr.find_all(exp.FromJson)]
    return any("map" in text or "variant" in text for text in read)


def _kind_of(expr: Expr, below: Kinds, recorded: Recorded) -> Type:
    match expr:
        case exp.Column():
            return below.get(expr.name, UNKNOWN)
        case exp.Paren():
            return kind_of(expr.this, below, recorded)
        case exp.Dot():
            return _part(kind_of(expr.this, below, recorded), expr.expression.name)
        case exp.Bracket():
            whole = kind_of(expr.this, below, recorded)
            return whole.parts[-1] if whole.kind in ("array", "map") else UNKNOWN
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            sides = tuple(kind_of(e, below, recorded) for e in (expr.left, expr.right))
            return NUMBER if all(s.name in _EXACT for s in sides) else UNKNOWN
        case exp.Collate():
            return collated(expr.expression.name)
        case exp.Neg():
            return kind_of(expr.this, below, recorded)
        case exp.Cast():
            return read_type(expr.to.sql(dialect="spark"))
        case exp.Literal():
            # 1e3 is a DOUBLE; 1.5 is a DECIMAL.
            if expr.is_string:
                return TEXT
            return FLOAT if "e" in expr.name.lower() else NUMBER
        case exp.Null():
            return NULL
        case exp.Window():
            return kind_of(expr.this, below, recorded)
        case exp.RowNumber() | exp.Rank() | exp.DenseRank() | exp.Ntile():
            return NUMBER
        case exp.Count() | exp.Length() | exp.Year() | exp.Month() | exp.Day():
            return NUMBER
        case exp.Min() | exp.Max() | exp.Sum() | exp.Avg() | exp.ArgMax() | exp.ArgMin():
            return _measure(expr, below, recorded)
        case exp.Mode():
            return _measure(expr, below, recorded)
        case exp.RegrCount() | exp.BitwiseAndAgg() | exp.BitwiseOrAgg() | exp.BitwiseXorAgg():
            return NUMBER
        case exp.Coalesce():
            parts = (expr.this, *expr.expressions)
            return _common(tuple(kind_of(p, below, recorded) for p in parts))
        case exp.Case():
            results = [branch.args["true"] for branch in expr.args["ifs"]]
            if expr.args.get("default") is not None:
                results.append(expr.args["default"])
            return _common(tuple(kind_of(r, below, recorded) for r in results))
        case exp.Predicate() | exp.And() | exp.Or() | exp.Not() | exp.Boolean():
            return TRUTH
    if isinstance(expr, (*STATISTICS, *PAIRS)):
        return FLOAT
    if isinstance(expr, _TEXT) and expr.find(exp.Collate) is None:
        read = [below.get(c.name, UNKNOWN) for c in expr.find_all(exp.Column)]
        return TEXT if all(k.kind == "plain" for k in read) else UNKNOWN
    return UNKNOWN


def _generated(
    call: Expr, names: tuple[str, ...], below: Kinds, recorded: Recorded
) -> dict[str, Type]:
    """Return the types of the columns that a call makes rows of."""
    if isinstance(call, exp.Stack):
        found = [kind_of(value, below, recorded) for value in call.expressions]
        # NULLs fill the last row, where values are missing.
        columns = [(*found[i :: len(names)], NULL) for i in range(len(names))]
        return {n: _common(c) for n, c in zip(names, columns, strict=True)}
    whole = kind_of(call.this, below, recorded)
    parts = whole.parts if whole.kind in ("array", "map") else ()
    if isinstance(call, exp.Posexplode):
        parts = (NUMBER, *parts) if parts else ()
    if isinstance(call, exp.Inline):
        parts = parts[0].parts if parts else ()
    if len(parts) != len(names):
        return dict.fromkeys(names, whole if whole in (OPAQUE, PERHAPS_COLLATED) else UNKNOWN)
    return dict(zip(names, parts, strict=True))


def _part(whole: Type, name: str) -> Type:
    """Return the type of a struct's field."""
    names = [field.lower() for field in whole.fields]
    return whole.parts[names.index(name.lower())] if name.lower() in names else UNKNOWN


def _measure(call: Expr, below: Kinds, recorded: Recorded) -> Type:
    argument = call.this.expressions[0] if isinstance(call.this, exp.Distinct) else call.this
    name = recorded.arguments.get(argument.sql(dialect="spark"))
    if not isinstance(call, exp.Sum | exp.Avg):
        return read_type(name) if name else kind_of(argument, below, recorded)
    if not name:
        return UNKNOWN
    if exact.decimal(name) is not None:
        return NUMBER
    return NUMBER if exact.is_integer(name) and isinstance(call, exp.Sum) else FLOAT


def _common(found: tuple[Type, ...]) -> Type:
    """Return the type of a column that may come from several places."""
    different = list(dict.fromkeys(kind for kind in found if kind != NULL)) or [NULL]
    if len(different) == 1:
        return different[0]
    # A string and a number have a DOUBLE in common.
    return NUMBER if all(kind.name in _EXACT for kind in different) else UNKNOWN


__all__ = ["OPAQUE", "Kinds", "Recorded", "kind_of", "kinds"]
