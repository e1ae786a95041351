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
from hybridview.sql.frames import belongs_to_window, has_rule, name_of

TOO_MANY = "hybridview: a scalar subquery returned more than one row"
"""The error that a query for one value ends with where it finds several."""

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
case when a > 0 then b else c end; a IN (1, 2); sin(a); cos(a); tan(a); radians(a); degrees(a)
"""
"""Calls whose kind is known to be scalar, written with the columns a b c (numbers), s, d and t."""

TYPED_SAMPLES = """
split(s, 'x'); split(s, 'x', 2); split_part(s, 'x', 1); substring_index(s, 'x', 1);
locate('x', s, 2); position('x' IN s); char_length(s); octet_length(s); bit_length(s);
overlay(s PLACING 'z' FROM 2 FOR 1); soundex(s); levenshtein(s, 'x'); format_number(i, 2);
format_string('%s', s); printf('%s', s); hex(i); hex(s); unhex(hex(s)); base64(encode(s, 'UTF-8'));
unbase64(base64(encode(s, 'UTF-8'))); decode(encode(s, 'UTF-8'), 'UTF-8'); decode(i, 1, 'x', 'y');
btrim(s); btrim(s, 'x'); elt(1, s, 'y'); find_in_set('x', s); chr(i); space(2); url_encode(s);
luhn_check(s); mask(s); try_to_number(s, '999'); regexp_count(s, 'x'); regexp_instr(s, 'x');
regexp_extract_all(s, 'x', 0); regexp_substr(s, 'x'); s ILIKE 'X'; s LIKE '!%x' ESCAPE '!';
log(2, i); log1p(i); expm1(-i); cbrt(i); factorial(i); sinh(1 / i); cosh(1 / i); tanh(i);
asin(1 / i); acos(1 / i); atan(i); atan2(i, j); asinh(i); acosh(i); atanh(0.5 / i); cot(i); sec(i);
csc(i); hypot(i, j); rint(i); pi(); e(); i & j; i | j; i ^ j; ~i; i << 1; i >> 1; shiftleft(i, 1);
shiftright(i, 1); shiftrightunsigned(i, 1); bit_count(i); getbit(i, 0); bin(i); conv(s, 10, 16);
width_bucket(i, 0, 10, 5); try_add(i, j); try_subtract(i, j); try_multiply(i, j); try_divide(i, j);
try_mod(i, j); i div j; nanvl(i, j); isnan(i); equal_null(i, j); zeroifnull(i); nullifzero(i);
date_part('YEAR', d); datepart('WEEK', d); weekday(d); dayofmonth(d); months_between(t, d);
next_day(d, 'MON'); dayname(d); monthname(d); d + INTERVAL '1' MONTH; t - INTERVAL 90 MINUTES;
t + INTERVAL '1 02:03:04' DAY TO SECOND; timestampadd(MONTH, i % 9, t); timestampdiff(HOUR, d, t);
date_from_unix_date(i); unix_timestamp(t); to_unix_timestamp(t); unix_seconds(t); unix_millis(t);
unix_micros(t); from_unixtime(i); from_unixtime(i, 'yyyy-MM-dd'); timestamp_seconds(i);
timestamp_millis(i); timestamp_micros(i); make_timestamp(2024, 2, 29, 23, 59, i % 60);
to_timestamp(date_format(t, 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM-dd HH:mm:ss'); try_to_timestamp(s);
unix_timestamp(date_format(t, 'yyyy-MM-dd'), 'yyyy-MM-dd');
convert_timezone('UTC', 'Europe/Berlin', t); array(i, j); map('k', i, 'l', j); struct(i, s);
named_struct('x', i, 'y', s); cardinality(xs); cardinality(m); element_at(array(i, j), 1);
element_at(m, 'k'); try_element_at(xs, 1); get(xs, 0); m['k']; p.x; array_contains(xs, 2);
array_join(ws, ','); array_join(ws, ',', '?'); array_distinct(xs); array_union(xs, array(i));
array_intersect(xs, array(i)); array_except(xs, array(i)); arrays_overlap(xs, array(i));
sort_array(xs); sort_array(xs, false); array_sort(xs); slice(xs, 1, 1); flatten(array(xs, xs));
array_max(xs); array_min(xs); array_position(xs, 2); array_remove(xs, 2); array_repeat(s, 2);
array_append(xs, i); array_prepend(xs, i); array_insert(xs, 1, i); array_compact(xs);
sequence(1, 3); map_keys(m); map_values(m); map_entries(m);
map_from_arrays(ws, ws); map_from_entries(array(struct('k', i))); map_contains_key(m, 'k');
map_concat(m, map('z', i)); str_to_map(s, ',', ':'); transform(xs, x -> x + i);
transform(xs, (x, n) -> x + n); filter(xs, x -> x > 1); exists(xs, x -> x > 1);
forall(xs, x -> x > 1); aggregate(xs, 0, (total, x) -> total + x, total -> 2 * total);
zip_with(xs, xs, (x, y) -> x + y); transform_keys(m, (k, v) -> upper(k));
transform_values(m, (k, v) -> v + 1); map_filter(m, (k, v) -> v > 1); to_json(struct(i, s));
from_json('{"x":1}', 'x INT'); json_array_length(s); d - INTERVAL 1 YEAR 6 MONTHS;
t - INTERVAL 1 DAY 2 HOURS; t + -INTERVAL '1' DAY '2' HOUR '3' MINUTE; date_format(t, 'y');
to_date(date_format(t, 'yyyy-MM-dd'), 'yyyy-MM-dd'); date_format(d, "'Year' yyyy");
to_date(date_format(d, 'd/M/y'), 'd/M/y'); i | (j << 1); hash(i, s); xxhash64(i, s); crc32(s);
sha1(s)
"""
"""More of them, whose arguments have one type: i and j are INT, s a string, d a date, t a
timestamp, xs and ws arrays of INT and of strings, m a MAP<STRING, INT>, p a STRUCT<x: INT>."""

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
    exp.IntervalSpan,
    exp.Bracket,
    exp.Lambda,
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
    for sample in f"{SCALAR_SAMPLES};{TYPED_SAMPLES}".split(";"):
        node = sqlglot.parse_one(sample.strip(), dialect="spark")
        for part in node.walk():
            if isinstance(part, exp.Anonymous):
                names.add(part.name.lower())
            elif isinstance(part, exp.Func):
                kinds.add(type(part))
    return frozenset(kinds), frozenset(names)


def _means_something_else(node: Expr) -> bool:
    """Say whether a part is written by sqlglot in another way than its author did, or is a list.

    log10(x) is not log(10, x) in its last digits. 'it''s' has a quote in it for Spark, and none for
    sqlglot. A * in a call stands for columns, but of which relation changes with the plan. A field
    without a name comes from a name that is computed. A dot before a call names its schema. Shifts
    bind closer than other operators on bits.
    """
    match node:
        case exp.BitwiseLeftShift() | exp.BitwiseRightShift():
            # For Spark, 1 | 2 << 3 is 1 | (2 << 3); sqlglot reads from left to right, and makes a
            # call of it. And so with || after a shift.
            return isinstance(node.this, exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor)
        case exp.DPipe():
            return isinstance(node.this, exp.BitwiseLeftShift | exp.BitwiseRightShift)
        case exp.Log():
            return isinstance(node.this, exp.Literal) and node.this.name == "10"
        case exp.Concat():
            return not node.args.get("safe")
        case exp.Star():
            return not isinstance(node.parent, exp.Count)
        case exp.Dot():
            return not isinstance(node.expression, exp.Identifier)
        case exp.Struct():
            fields = (f.this.name for f in node.expressions if isinstance(f, exp.PropertyEQ))
            return len([name for name in fields if name]) != len(node.expressions)
    return False


def unknown_part(expr: Expr) -> Expr | None:
    """Return the first part of an expression that no delta rule can carry, or None."""
    kinds, names = _scalar_kinds()
    for node in expr.walk():
        if _means_something_else(node):
            return node
        if is_aggregate(node) or belongs_to_aggregate(node):
            continue
        ranking = belongs_to_window(node)
        if isinstance(node, exp.AggFunc) and not ranking:
            return node  # before all else: corr(x, y) is an operator to sqlglot
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return node  # all columns, but of the user's sources, not of a plan
        if ranking or isinstance(node, _PLAIN):
            continue
        if isinstance(node, exp.Window) and has_rule(node):
            continue
        if isinstance(node, exp.Anonymous) and (node.name.lower() in names or _is_alarm(node)):
            continue
        if type(node) in kinds:
            continue
        return node
    return None


def _is_alarm(call: exp.Anonymous) -> bool:
    """Say whether a call is our own error for too many rows: the text of a part may have it."""
    texts = [argument.name for argument in call.expressions]
    return call.name.lower() == "raise_error" and texts == [TOO_MANY]


def describe_part(node: Expr) -> str:
    """Name an operator for a user: `window function ntile`, `subquery`, `function explode`."""
    if isinstance(node, exp.Window):
        return f"window function {name_of(node.this)}"
    if isinstance(node, exp.Subquery | exp.Select | exp.Exists | exp.Query):
        return "subquery"
    if isinstance(node, exp.Lambda):
        return "lambda"
    if isinstance(node, exp.Filter):
        return f"FILTER clause of {name_of(node.this)}"
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        return f"function {name_of(node)}"
    if isinstance(node, exp.Func):
        return f"function {name_of(node)}"
    return f"{type(node).__name__.lower()} expression"
