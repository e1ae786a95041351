"""Aggregate calls: which have a delta rule, what they are over, and how they are written plainly.

An aggregate has a rule if its value depends on the rows of its group alone, not on their order. A
list that was collected, or joined to a text, has one once it is sorted; the value beside a maximum,
once ties are broken by that value itself.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hybridview.algebra.expressions import Expr

AGGREGATES: tuple[type[Expr], ...] = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
"""The aggregate functions that can be added up, some of them only while rows come."""

STATISTICS: tuple[type[Expr], ...] = (
    *(exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp),
    *(exp.Skewness, exp.Kurtosis),
)
"""Floating point statistics of one argument; rows with NULL do not count."""

PAIRS: tuple[type[Expr], ...] = (
    *(exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2),
    *(exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSxy, exp.RegrSyy, exp.RegrCount),
)
"""Statistics of two arguments; rows in which either is NULL do not count."""

PERCENTILES: tuple[type[Expr], ...] = (exp.Quantile, exp.Median, exp.WithinGroup)
"""Values at a place in the sorted list of all values; NULLs have no place."""

EXTREMES: tuple[type[Expr], ...] = (exp.ArgMax, exp.ArgMin)
"""The value beside the largest or smallest other one; rows where that is NULL do not count."""

BITS: tuple[type[Expr], ...] = (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
LISTS: tuple[type[Expr], ...] = (exp.ArrayAgg, exp.ArrayUniqueAgg)
TRYING = frozenset({"try_sum", "try_avg"})
"""Sums and averages that are NULL where others overflow."""

_ORDERED = frozenset({"percentile_cont", "percentile_disc"})
"""Functions of WITHIN GROUP, as they stand once `with_plain_calls` has been here."""

_SHORT: dict[str, type[Expr]] = {
    "mean": exp.Avg,
    "std": exp.Stddev,
    "some": exp.Max,
    "every": exp.Min,
}
"""Other names of aggregates; the largest truth value is true if some is."""


def is_aggregate(node: Expr) -> bool:
    """Say whether a node is an aggregate call with a delta rule."""
    kind = type(node)
    if kind in AGGREGATES:
        # Of several values sqlglot writes greatest() and least(), which are no aggregates.
        return not (kind in (exp.Min, exp.Max) and node.expressions)
    if kind in STATISTICS or kind in BITS or kind is exp.Median:
        return True
    if kind in PAIRS or kind is exp.Quantile:
        return not isinstance(node.this, exp.Distinct)
    if kind is exp.WithinGroup:
        return _name(node.this) in _ORDERED and len(node.expression.expressions) == 1
    if kind in EXTREMES:
        return not node.args.get("count") and _ties_broken(node)
    if kind is exp.Mode:
        chosen = node.args.get("deterministic")
        return isinstance(chosen, exp.Boolean) and bool(chosen.this)
    if kind is exp.ArraySort:
        return type(node.this) in LISTS and not node.args.get("expression")
    if kind is exp.GroupConcat:
        return _is_ordered(node)
    return _name(node) in TRYING and len(node.expressions) == 1


def belongs_to_aggregate(node: Expr) -> bool:
    """Say whether a node is a part of an aggregate call that means nothing by itself."""
    above = node.parent
    if isinstance(node, exp.Ordered):
        above = above.parent if above is not None else None
    if above is None or not is_aggregate(above):
        return False
    if isinstance(above, exp.ArraySort):
        return type(node) in LISTS
    if isinstance(above, exp.GroupConcat):
        return isinstance(node, exp.Order | exp.Ordered)
    inside = isinstance(node, exp.Order | exp.Ordered) or _name(node) in _ORDERED
    return isinstance(above, exp.WithinGroup) and inside


def _name(node: object) -> str:
    """Return the name of a function that sqlglot has no type for."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _ties_broken(call: Expr) -> bool:
    """Say whether max_by(x, y) has one answer: y is x, or ends with it.

    CASE WHEN p THEN struct(y, x) END is such a y: of all rows with the largest y it takes the one
    with the largest x.
    """
    value, by = call.this.unnest(), call.expression.unnest()
    while isinstance(by, exp.Case):
        branches = by.args["ifs"]
        if by.this is not None or by.args.get("default") is not None or len(branches) > 1:
            return False
        by = branches[0].args["true"].unnest()
    fields = [by]
    if isinstance(by, exp.Struct):
        fields = [f.expression if isinstance(f, exp.PropertyEQ) else f for f in by.expressions]
    return any(field.unnest() == value for field in fields)


def _is_ordered(call: Expr) -> bool:
    """Say whether listagg has one answer: its values are sorted, at last by themselves."""
    order = call.this
    if not isinstance(order, exp.Order) or call.args.get("separator") is None:
        return False
    value = order.this.expressions[0] if isinstance(order.this, exp.Distinct) else order.this
    return any(key.this.unnest() == value.unnest() for key in order.expressions)


def arguments_of(call: Expr) -> tuple[Expr, ...]:
    """Return what an aggregate call is over: `x` in sum(DISTINCT x), `x` and `y` in corr(x, y)."""
    if isinstance(call, exp.Anonymous):
        parts = call.expressions[:1]
    elif isinstance(call, exp.WithinGroup):
        parts = [ordered.this for ordered in call.expression.expressions]
    elif isinstance(call, exp.ArraySort) and type(call.this) in LISTS:
        return arguments_of(call.this)
    elif isinstance(call, exp.GroupConcat) and isinstance(call.this, exp.Order):
        parts = [call.this.this, *(key.this for key in call.this.expressions)]
    else:
        parts = [call.this]
        if isinstance(call, exp.Count):
            parts += call.expressions
        if isinstance(call, (*PAIRS, *EXTREMES)):
            parts.append(call.expression)
    found: list[Expr] = []
    for part in parts:
        found += part.expressions if isinstance(part, exp.Distinct) else [part]
    return tuple(p for p in found if isinstance(p, exp.Expr) and not isinstance(p, exp.Star))


def over_no_rows(call: Expr) -> Expr:
    """Return the value of an aggregate call over no rows: counts are 0, lists are empty."""
    if isinstance(call, exp.Count | exp.RegrCount):
        return exp.Literal.number(0)
    return exp.Array(expressions=[]) if isinstance(call, exp.ArraySort) else exp.Null()


def with_plain_calls(expr: Expr) -> Expr:
    """Return a copy with calls that are short for others written out: they have the same value.

    sum(x) FILTER (WHERE p) = sum(CASE WHEN p THEN x END), because aggregates leave NULLs out;
    count_if(p) counts the rows with p; the smallest truth value is true if all are.
    """

    def rewrite(node: Expr) -> Expr:
        if not isinstance(node, exp.Filter):
            return _plain(node)
        call = _plain(node.this)
        if is_aggregate(call) or type(call) in LISTS:
            return _when(call, node.expression.this)
        return node

    return expr.copy().transform(rewrite)


def _plain(node: Expr) -> Expr:
    if isinstance(node, exp.CountIf) and not isinstance(node.this, exp.Distinct):
        return _when(exp.Count(this=exp.Star()), node.this)
    if isinstance(node, exp.LogicalAnd):
        return exp.Min(this=node.this)
    if isinstance(node, exp.LogicalOr):
        return exp.Max(this=node.this)
    if _name(node) in _SHORT and len(node.expressions) == 1:
        return _SHORT[_name(node)](this=node.expressions[0])
    if isinstance(node, exp.GroupConcat) and node.args.get("separator") is None:
        # For Spark nothing stands between the values then; sqlglot would write a comma.
        found = node.copy()
        found.set("separator", exp.Null())
        return found
    if isinstance(node, exp.WithinGroup) and isinstance(
        node.this, exp.PercentileCont | exp.PercentileDisc
    ):
        # By its name: sqlglot would write an estimate, PERCENTILE_APPROX, in its place.
        name = "percentile_cont" if isinstance(node.this, exp.PercentileCont) else "percentile_disc"
        call = exp.Anonymous(this=name, expressions=[node.this.this.copy()])
        return exp.WithinGroup(this=call, expression=node.expression.copy())
    return node


def _when(call: Expr, condition: Expr) -> Expr:
    """Return an aggregate call over the rows for which a condition holds."""

    def case(value: Expr) -> Expr:
        return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])

    found = call.copy()
    if isinstance(found, exp.WithinGroup):
        ordered = found.expression.expressions[0]
        ordered.set("this", case(ordered.this))
    elif isinstance(found, exp.GroupConcat):
        order = found.this
        for key in order.expressions:
            key.set("this", case(key.this))
        order.set("this", _each(order.this, case))
    elif isinstance(found, EXTREMES):
        # A NULL beside the largest value is an answer too; a row without that value is none.
        found.set("expression", case(found.expression))
    elif isinstance(found, exp.Anonymous):
        found.set("expressions", [_each(found.expressions[0], case)])
    elif isinstance(found.this, exp.Star):
        found.set("this", case(exp.Literal.number(1)))
    else:
        found.set("this", _each(found.this, case))
    return found


def _each(argument: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Change an argument; of DISTINCT a, b each of them."""
    if not isinstance(argument, exp.Distinct):
        return change(argument)
    found = argument.copy()
    found.set("expressions", [change(value) for value in argument.expressions])
    return found
