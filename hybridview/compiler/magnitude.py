"""A grouped view's columns -> how large the numbers are that were added up for each.

Floating point sums depend on the order of their rows. How far two right answers may lie apart is a
share of sum(|x|), not of sum(x): where large numbers cancel, the sum itself is no measure. So it is
with statistics that may be near zero: a covariance is measured by the deviations it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.algebra.plan import Plan
from hybridview.compiler.layout import shape
from hybridview.sql.aggregates import arguments_of

_SUM = "sum(abs({0}))"
_SPREAD = "stddev_pop({0}) * stddev_pop({1})"
_SLOPE = "stddev_pop({0}) / nullif(stddev_pop({1}), 0)"

SIZES: Mapping[type[Expr], str] = {
    exp.Sum: _SUM,
    exp.Avg: _SUM,
    exp.RegrAvgx: "sum(abs({1}))",
    exp.RegrAvgy: _SUM,
    exp.CovarPop: _SPREAD,
    exp.CovarSamp: _SPREAD,
    exp.RegrSxy: f"count(*) * {_SPREAD}",
    exp.RegrSlope: _SLOPE,
    exp.RegrIntercept: f"avg(abs({{0}})) + avg(abs({{1}})) * {_SLOPE}",
    # These are shares, whatever the size of the numbers.
    exp.Corr: "1",
    exp.RegrR2: "1",
    exp.Skewness: "1",
    exp.Kurtosis: "1",
}
"""SQL of how large what was added up is, over the arguments of a call."""

_TRYING = {"try_sum": _SUM, "try_avg": _SUM}


def magnitudes(plan: Plan, spelling: Mapping[str, str] | None) -> dict[str, str]:
    """Return how large what was added up is, in the user's words, by the column's name.

    `spelling` gives the user's own words for aggregate arguments; None if nothing can be added to
    the user's SELECT.
    """
    top = shape(plan)
    if top.aggregate is None or spelling is None:
        return {}
    sizes: dict[str, str] = {}
    for measure in top.aggregate.measures:
        size = _size(measure.expr, spelling)
        if size is not None:
            sizes[measure.name] = size
    found: dict[str, str] = {}
    for column in top.project.columns:
        used = [sizes[c.name] for c in column.expr.find_all(exp.Column) if c.name in sizes]
        if used:
            found[column.name] = " + ".join(f"coalesce({sql}, 0)" for sql in used)
    return found


def _size(call: Expr, spelling: Mapping[str, str]) -> str | None:
    named = _TRYING.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None
    form = named or SIZES.get(type(call))
    if form is None:
        return None
    words = [spelling.get(argument.sql(dialect="spark")) for argument in arguments_of(call)]
    if not words or None in words:
        return None
    return form.format(*(f"CAST({word} AS DOUBLE)" for word in words))
