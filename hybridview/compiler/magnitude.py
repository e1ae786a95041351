"""A grouped view's columns -> how large the numbers are that were added up for each.

Floating point sums depend on the order of their rows. How far two right answers may lie apart is a
share of sum(|x|), not of sum(x): where large numbers cancel, the sum itself is no measure.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from hybridview.algebra.plan import Plan
from hybridview.compiler.layout import shape
from hybridview.compiler.measures import argument_of


def magnitudes(plan: Plan, spelling: Mapping[str, str] | None) -> dict[str, str]:
    """Return sum(|x|) of every column over SUM or AVG, in the user's words, by the column's name.

    `spelling` gives the user's own words for aggregate arguments; None if nothing can be added to
    the user's SELECT.
    """
    top = shape(plan)
    if top.aggregate is None or spelling is None:
        return {}
    sums: dict[str, str] = {}
    for measure in top.aggregate.measures:
        argument = argument_of(measure.expr)
        if argument is None or not isinstance(measure.expr, exp.Sum | exp.Avg):
            continue
        own = spelling.get(argument.sql(dialect="spark"))
        if own is not None:
            sums[measure.name] = f"sum(abs(CAST({own} AS DOUBLE)))"
    found: dict[str, str] = {}
    for column in top.project.columns:
        used = [sums[c.name] for c in column.expr.find_all(exp.Column) if c.name in sums]
        if used:
            found[column.name] = " + ".join(f"coalesce({sql}, 0)" for sql in used)
    return found
