"""Which functions a delta rule may carry, and which make a query's answer depend on the moment.

A delta rule moves expressions around, so it must know that each call is a plain function of one
row. Unknown calls are not refused: the view is then refreshed by snapshot, and says so.
"""

from __future__ import annotations

from functools import cache

import sqlglot
from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.sql.aggregates import belongs_to_aggregate, is_aggregate

SCALAR_SAMPLES = """
abs(a); ceil(a); floor(a); round(a, 2); bround(a, 2); sign(a); sqrt(a); exp(a); ln(a); log2(a);
pow(a, 2); mod(a, 2); pmod(a, 2); greatest(a, b); least(a, b); negative(a); positive(a); upper(s);
lower(s); trim(s); ltrim(s); rtrim(s); length(s); substring(s, 1, 2); left(s, 2); right(s, 2);
concat(s, s); concat_ws('-', s, s); replace(s, 'x', 'y'); lpad(s, 3, 'x'); rpad(s, 3, 'x');
reverse(s); initcap(s); instr(s, 'x'); repeat(s, 2); translate(s, 'x', 'y'); startswith(s, 'x');
endswith(s, 'x'); contains(s, 'x'); regexp_replace(s, 'x', 'y'); regexp_extract(s, 'x', 0);
md5(s); sha2(s, 256); ascii(s); s rlike 'x'; coalesce(a, b); nullif(a, b); ifnull(a, b);
nvl(a, b); nvl2(a, b, c); if(a > 0, b, c); isnull(a); isnotnull(a); year(d); month(d); day(d);
dayofweek(d); dayofyear(d); weekofyear(d); quarter(d); hour(t); minute(t); second(t);
date_trunc('MONTH', d); trunc(d, 'MM'); date_add(d, 3); date_sub(d, 3); datediff(d, d);
add_months(d, 1); last_day(d); to_date(s); date_format(d, 'yyyy'); make_date(a, b, c);
extract(YEAR FROM d); cast(a AS STRING); try_cast(s AS INT); a LIKE 'x';
case when a > 0 then b else c end; a IN (1, 2); sin(a); cos(a); tan(a); radians(a); degrees(a);
struct(a, b); named_struct('x', a); array(a, b); sort_array(a); array_join(a, '-')
"""
"""Calls whose kind is known to be scalar, written with the columns a b c (numbers), s, d and t."""

NON_DETERMINISTIC = {
    "rand": "the value is drawn anew on every refresh",
    "randn": "the value is drawn anew on every refresh",
    "random": "the value is drawn anew on every refresh",
    "randstr": "the value is drawn anew on every refresh",
    "uniform": "the value is drawn anew on every refresh",
    "shuffle": "the order is drawn anew on every refresh",
    "uuid": "the value is drawn anew on every refresh",
    "monotonically_increasing_id": "the value depends on how Spark splits the data",
    "spark_partition_id": "the value depends on how Spark splits the data",
    "input_file_name": "the value depends on the files of a table, not on its rows",
    "input_file_block_start": "the value depends on the files of a table, not on its rows",
    "input_file_block_length": "the value depends on the files of a table, not on its rows",
    "current_date": "the value changes although no table does",
    "curdate": "the value changes although no table does",
    "current_timestamp": "the value changes although no table does",
    "current_time": "the value changes although no table does",
    "localtimestamp": "the value changes although no table does",
    "now": "the value changes although no table does",
    "current_user": "the value depends on who refreshes",
    "session_user": "the value depends on who refreshes",
    "user": "the value depends on who refreshes",
    "current_database": "the value depends on who refreshes",
    "current_schema": "the value depends on who refreshes",
    "current_catalog": "the value depends on who refreshes",
    "current_timezone": "the value depends on who refreshes",
    "approx_count_distinct": "the estimate depends on how Spark splits the data",
    "approx_percentile": "the estimate depends on how Spark splits the data",
    "percentile_approx": "the estimate depends on how Spark splits the data",
    "approx_top_k": "the estimate depends on how Spark splits the data",
}
"""Function name -> why a stored view may not use it."""

CLOCKS = frozenset(
    {"current_date", "curdate", "current_timestamp", "current_time", "localtimestamp", "now"}
)

BARE_WORDS = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "current_user"}
)
"""Non-deterministic functions that SQL allows without parentheses."""

_PLAIN: tuple[type[Expr], ...] = (
    exp.Binary,
    exp.Unary,
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.DataType,
    exp.DataTypeParam,
    exp.Cast,
    exp.Between,
    exp.In,
    exp.Tuple,
    exp.Interval,
    exp.Var,
    exp.If,
    exp.Distinct,
    exp.Star,
)


@cache
def _scalar_kinds() -> tuple[frozenset[type], frozenset[str]]:
    """Return the node types and the plain names of all sampled scalar calls."""
    kinds: set[type] = set()
    names: set[str] = set()
    for sample in SCALAR_SAMPLES.split(";"):
        node = sqlglot.parse_one(sample.strip(), dialect="spark")
        for part in node.walk():
            if isinstance(part, exp.Anonymous):
                names.add(part.name.lower())
            elif isinstance(part, exp.Func):
                kinds.add(type(part))
    return frozenset(kinds), frozenset(names)


RANKINGS: tuple[type[Expr], ...] = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
"""Window functions that give rows with equal sort keys equal values."""


NUMBERINGS: tuple[type[Expr], ...] = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile)
"""Window functions that look at the places of rows, whatever the frame is."""

VALUES: tuple[type[Expr], ...] = (exp.FirstValue, exp.First, exp.LastValue, exp.Last, exp.NthValue)
"""Window functions that take the value of one row of the frame."""


def leaves_ties_open(window: exp.Window) -> bool:
    """Say whether rows with equal sort keys may get different values, in an order Spark chooses."""
    call = window.this
    if isinstance(call, RANKINGS):
        return False
    if not is_aggregate(call) or isinstance(call.this, exp.Distinct):
        return True
    return _frame(window) not in ("range", "all")


def can_close_ties(window: exp.Window) -> bool:
    """Say whether more sort keys make a window's answer one of those it may have anyway.

    Not where the frame goes up to the last row with equal keys: fewer rows would be equal then.
    """
    known = {"this", "partition_by", "order", "spec", "over"}
    if any(value and name not in known for name, value in window.args.items()):
        return False
    call = window.this
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    if isinstance(call, NUMBERINGS):
        return True
    frame = _frame(window)
    if isinstance(call, exp.FirstValue | exp.First):
        spec = window.args.get("spec")
        return spec is None or frame in ("rows", "all") or spec.args.get("start") == "UNBOUNDED"
    if isinstance(call, VALUES) or is_aggregate(call):
        return frame in ("rows", "all")
    return False


def _frame(window: exp.Window) -> str:
    """Return the kind of a window's frame: rows, range, or all rows of the partition."""
    spec = window.args.get("spec")
    if spec is None:
        return "range" if window.args.get("order") else "all"
    if (spec.args.get("start"), spec.args.get("end")) == ("UNBOUNDED", "UNBOUNDED"):
        return "all"
    return (spec.args.get("kind") or "").lower()


_WINDOW: tuple[type[Expr], ...] = (
    exp.Order,
    exp.Ordered,
    exp.WindowSpec,
    exp.IgnoreNulls,
    exp.RespectNulls,
    *RANKINGS,
    *NUMBERINGS,
    *VALUES,
)


def unknown_part(expr: Expr) -> Expr | None:
    """Return the first part of an expression that no delta rule can carry, or None."""
    kinds, names = _scalar_kinds()
    for node in expr.walk():
        if is_aggregate(node) or belongs_to_aggregate(node):
            continue
        ranking = isinstance(node, _WINDOW) and node.find_ancestor(exp.Window)
        if isinstance(node, exp.AggFunc) and not ranking:
            return node  # before all else: corr(x, y) is an operator to sqlglot
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return node  # all columns, but of the user's sources, not of a plan
        if ranking or isinstance(node, _PLAIN):
            continue
        if isinstance(node, exp.Window) and (not leaves_ties_open(node) or can_close_ties(node)):
            continue
        if isinstance(node, exp.Anonymous) and node.name.lower() in names:
            continue
        if type(node) in kinds:
            continue
        return node
    return None


def describe_part(node: Expr) -> str:
    """Name an operator for a user: `window function`, `subquery`, `explode(...)`."""
    if isinstance(node, exp.Window):
        return "window function"
    if isinstance(node, exp.Subquery | exp.Select | exp.Exists | exp.Query):
        return "subquery"
    if isinstance(node, exp.Lambda):
        return "lambda"
    if isinstance(node, exp.Filter):
        return "FILTER clause"
    if isinstance(node, exp.Anonymous):
        return f"function {node.name.lower()}"
    if isinstance(node, exp.AggFunc):
        # sqlglot's own name may be another dialect's.
        return f"function {node.sql(dialect='spark').partition('(')[0].lower()}"
    if isinstance(node, exp.Func):
        return f"function {node.sql_name().lower()}"
    return f"{type(node).__name__.lower()} expression"
