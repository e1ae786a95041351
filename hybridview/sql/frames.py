"""Window functions: which have a delta rule, and which depend on how Spark orders rows that tie."""

from __future__ import annotations

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.sql.aggregates import is_aggregate

RANKINGS: tuple[type[Expr], ...] = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
"""Window functions that give rows with equal sort keys equal values."""

NUMBERINGS: tuple[type[Expr], ...] = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile)
"""Window functions that look at the places of rows, whatever the frame is."""

VALUES: tuple[type[Expr], ...] = (exp.FirstValue, exp.First, exp.LastValue, exp.Last, exp.NthValue)
"""Window functions that take the value of one row of the frame."""

LISTS: tuple[type[Expr], ...] = (exp.ArrayAgg,)
"""Window functions that take the values of all rows of the frame, in their order."""


def belongs_to_window(node: Expr) -> bool:
    """Say whether a node is a part of a window that means nothing by itself, or its function."""
    if isinstance(node, exp.Order | exp.Ordered | exp.WindowSpec):
        return node.find_ancestor(exp.Window) is not None
    above = node.parent
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return isinstance(above, exp.Window) and above.this is node
    if isinstance(above, exp.IgnoreNulls | exp.RespectNulls):
        node, above = above, above.parent
    known = isinstance(_bare(node), (*RANKINGS, *NUMBERINGS, *VALUES, *LISTS))
    return known and isinstance(above, exp.Window) and above.this is node


def has_rule(window: exp.Window) -> bool:
    """Say whether a window function is known; its rows must not tie, if that makes a difference."""
    known = {"this", "partition_by", "order", "spec", "over"}
    if any(value and name not in known for name, value in window.args.items()):
        return False
    call = _call(window)
    if isinstance(call, exp.NthValue) and call.args.get("from_first"):
        return False
    return isinstance(call, (*RANKINGS, *NUMBERINGS, *VALUES, *LISTS)) or is_aggregate(call)


def leaves_ties_open(window: exp.Window) -> bool:
    """Say whether rows with equal sort keys may get different values, in an order Spark chooses."""
    call = window.this
    if isinstance(call, RANKINGS):
        return False
    if isinstance(call, LISTS) and isinstance(window.parent, exp.ArraySort):
        # Sorted afterwards, a list is that of the frame's rows in any order.
        return bool(window.parent.args.get("expression")) or _frame(window) == "rows"
    if not is_aggregate(call) or isinstance(call.this, exp.Distinct):
        return True
    return _frame(window) not in ("range", "all")


def can_close_ties(window: exp.Window) -> bool:
    """Say whether more sort keys make a window's answer one of those it may have anyway.

    Not where the frame goes up to the last row with equal keys: fewer rows would be equal then, and
    a value that is looked for up to there, such as the first that is not NULL, would be missed.
    """
    call = _call(window)
    if isinstance(call, NUMBERINGS):
        return True
    frame = _frame(window)
    skips = isinstance(window.this, exp.IgnoreNulls)
    if isinstance(call, exp.FirstValue | exp.First) and not skips:
        spec = window.args.get("spec")
        if spec is None or frame in ("rows", "all"):
            return True
        bounds = (spec.args.get("start"), spec.args.get("end") or "CURRENT ROW")
        return bounds == ("UNBOUNDED", "CURRENT ROW")
    if isinstance(call, (*VALUES, *LISTS)) or is_aggregate(call):
        return frame in ("rows", "all")
    return False


def needs_frame(window: exp.Window) -> bool:
    """Say whether a window without an order has to be told its frame once it gets one.

    It is the whole partition; with an order it would end with the current row.
    """
    whole = not window.args.get("order") and not window.args.get("spec")
    return whole and isinstance(_call(window), (*VALUES, *LISTS))


def name_of(call: Expr) -> str:
    """Return the name of a function in Spark's words, such as last_value."""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        return name_of(call.this)
    if isinstance(call, exp.WithinGroup):
        return name_of(call.this)
    if isinstance(call, exp.Anonymous):
        return call.name.lower()
    # sqlglot's own name may be another dialect's.
    written = call.sql(dialect="spark").partition("(")
    if written[1]:
        return written[0].lower()
    return call.sql_name().lower() if isinstance(call, exp.Func) else type(call).__name__.lower()


def _call(window: exp.Window) -> Expr:
    return _bare(window.this)


def _bare(call: Expr) -> Expr:
    """Return what is called, without its treatment of NULLs."""
    return call.this if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) else call


def _frame(window: exp.Window) -> str:
    """Return the kind of a window's frame: rows, range, or all rows of the partition."""
    spec = window.args.get("spec")
    if spec is None:
        return "range" if window.args.get("order") else "all"
    if (spec.args.get("start"), spec.args.get("end")) == ("UNBOUNDED", "UNBOUNDED"):
        return "all"
    return (spec.args.get("kind") or "").lower()
