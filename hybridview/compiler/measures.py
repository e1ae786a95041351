"""Aggregate calls -> partial aggregates that can be added up, and the call's value over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from hybridview.algebra.expressions import Expr, column, wrapped
from hybridview.compiler import exact
from hybridview.schema import WEIGHT
from hybridview.sql.aggregates import AGGREGATES, PAIRS, PERCENTILES, STATISTICS, arguments_of

Types = Mapping[str, str]
"""Spark's type of each aggregate argument, by the argument's SQL text."""


def argument_of(call: Expr) -> Expr | None:
    """Return the value an aggregate call is over: `x` in sum(DISTINCT x) and in max_by(x, y)."""
    return next(iter(arguments_of(call)), None)


def is_inexact(call: Expr, types: Types) -> bool:
    """Say whether the last digits of a call's value depend on the order of its rows."""
    if isinstance(call, exp.RegrCount):
        return False
    if isinstance(call, (*STATISTICS, *PAIRS)):
        return True
    argument = argument_of(call)
    kind = types.get(argument.sql(dialect="spark"), "") if argument is not None else ""
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if isinstance(call, (exp.Avg, *PERCENTILES)) or name == "try_avg":
        # The average of integers adds up doubles: those of a BIGINT soon pass 2^53.
        widest = kind.lower() in ("bigint", "long") and not isinstance(call, PERCENTILES)
        return exact.decimal(kind) is None and (widest or not exact.is_integer(kind))
    if isinstance(call, exp.Sum) or name == "try_sum":
        return not kind or exact.is_float(kind) or kind.lower() == "string"
    return False


class Kind(StrEnum):
    """What a partial adds up."""

    ROWS = "rows"
    NONNULL = "nonnull"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Part:
    """One additive piece of an aggregate; `argument_type` is Spark's type of the argument."""

    kind: Kind
    argument: Expr | None = None
    argument_type: str = ""
    widened: bool = False
    """Integers summed as decimals, because avg() of integers never overflows but sum() may."""

    @property
    def type(self) -> str:
        """The type Spark gives the full aggregate, hence the stored column."""
        if self.kind in (Kind.ROWS, Kind.NONNULL):
            return "bigint"
        if self.kind in (Kind.MIN, Kind.MAX):
            return self.argument_type
        return exact.sum_type(self.summed_type) or self.argument_type

    @property
    def summed_type(self) -> str:
        return "decimal(20,0)" if self.widened else self.argument_type

    @property
    def needs_growth(self) -> bool:
        """Whether it can be added up only while no row goes away."""
        return self.kind in (Kind.MIN, Kind.MAX) or (
            self.kind is Kind.SUM and exact.is_float(self.argument_type)
        )

    def call(self, argument: str) -> str:
        """Return the aggregate as SQL over `argument`, as it stands in the user's query."""
        match self.kind:
            case Kind.ROWS:
                return "count(*)"
            case Kind.NONNULL:
                return f"count({argument})"
            case Kind.SUM:
                return f"sum({self._cast(argument)})"
            case Kind.MIN | Kind.MAX:
                return f"{self.kind.value}({argument})"

    def change(self) -> Expr:
        """Return the partial of a change: rows that go count the other way.

        A weight never multiplies a decimal, which would cost digits; its sign picks x or -x.
        The rows of a change weigh +1 or -1 here, because nothing netted them yet.
        """
        weight = column(WEIGHT)
        if self.kind is Kind.ROWS:
            return exp.Sum(this=weight)
        assert self.argument is not None
        text = self.argument.sql(dialect="spark")
        w = f"`{WEIGHT}`"
        match self.kind:
            case Kind.NONNULL:
                present = f"{wrapped(self.argument).sql(dialect='spark')} IS NOT NULL"
                sql = f"sum(CASE WHEN {present} THEN {w} ELSE 0 END)"
            case Kind.SUM:
                value = self._cast(text, negatable=True)
                minus = exact.negate(value, self.argument_type)
                sql = f"sum(CASE WHEN {w} > 0 THEN {value} ELSE {minus} END)"
            case _:
                sql = f"{self.kind.value}(CASE WHEN {w} > 0 THEN {text} END)"
        return exp.maybe_parse(sql, dialect="spark")

    def _cast(self, argument: str, negatable: bool = False) -> str:
        if self.widened:
            return f"CAST({argument} AS DECIMAL(20,0))"
        if negatable and exact.is_integer(self.argument_type):
            # -x of the smallest BIGINT is no BIGINT, and parts of a change may not fit one.
            return f"CAST({argument} AS DECIMAL(20,0))"
        return f"({argument})"


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate call, its parts, and its value as SQL over the parts' stored columns."""

    call: Expr
    parts: tuple[Part, ...]

    def value(self, columns: Mapping[Part, str]) -> str:
        """Return the call's value; `columns` says where each part's value is to be had."""
        match self.call:
            case exp.Count():
                return columns[self.parts[0]]
            case exp.Min() | exp.Max():
                return columns[self.parts[0]]
            case exp.Sum():
                total, count = (columns[p] for p in self.parts)
                return f"CASE WHEN {count} > 0 THEN {total} END"
            case _:
                total, count = (columns[p] for p in self.parts)
                quotient = exact.average(total, f"nullif({count}, 0)", self.parts[0].argument_type)
                return f"CASE WHEN {count} > 0 THEN {quotient} END"


def decompose(call: Expr, types: Types) -> Measure | None:
    """Split an aggregate call into parts; None if it cannot be added up exactly."""
    argument = call.this
    if type(call) not in AGGREGATES or isinstance(argument, exp.Distinct) or call.expressions:
        return None
    if isinstance(call, exp.Count):
        if isinstance(argument, exp.Star | exp.Literal | exp.Boolean):
            return Measure(call, (Part(Kind.ROWS),))
        return Measure(call, (Part(Kind.NONNULL, argument),))
    kind = types.get(argument.sql(dialect="spark"), "").lower()
    if isinstance(call, exp.Min | exp.Max):
        if kind.startswith("struct"):
            return None  # the fields' names would have to agree with the stored ones
        which = Kind.MIN if isinstance(call, exp.Min) else Kind.MAX
        return Measure(call, (Part(which, argument, kind),))
    if isinstance(call, exp.Sum) and exact.sum_type(kind) is not None:
        return Measure(call, (Part(Kind.SUM, argument, kind), Part(Kind.NONNULL, argument)))
    if isinstance(call, exp.Avg) and exact.averageable(kind):
        total = Part(Kind.SUM, argument, kind, widened=exact.is_integer(kind))
        return Measure(call, (total, Part(Kind.NONNULL, argument)))
    return None
