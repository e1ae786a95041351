"""Aggregate calls that are never added up: what is exact, what is open, how large, over nothing."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from hybridview.compiler.batch import Batch
from hybridview.compiler.kinds import FLOAT, NUMBER, Recorded, kind_of
from hybridview.compiler.magnitude import magnitudes
from hybridview.compiler.measures import decompose, is_inexact
from hybridview.compiler.openness import Open, openness
from hybridview.compiler.program import Method, NotIncremental, compile_program
from hybridview.compiler.view import CompiledView, arguments, compile_view, plan_view
from hybridview.schema import Column, TableSchema
from hybridview.sql.aggregates import arguments_of, is_aggregate, over_no_rows, with_plain_calls
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import Relation, resolve

COLUMNS = {
    "k": "int",
    "a": "int",
    "b": "bigint",
    "x": "double",
    "d": "decimal(10,2)",
    "c": "string collate UNICODE_CI",
}
SCHEMAS = {"r": TableSchema("r", tuple(Column(n, t) for n, t in COLUMNS.items()))}
ALL = Batch(frozenset({"r"}))


def resolved(query: str) -> tuple[exp.Query, Relation]:
    parsed = parse_query(parse_definition(query))
    return parsed, resolve(parsed, SCHEMAS)


def compiled(query: str) -> CompiledView:
    """Compile a view whose aggregate arguments are plain columns."""
    parsed, relation = resolved(query)
    plan = plan_view(relation, tuple(c.name for c in relation.columns))
    types = {key: COLUMNS.get(key.strip("`").split(".")[-1], "") for key in arguments(plan)}
    recorded = Recorded({"r": COLUMNS}, {}, types)
    return compile_view("v", query, parsed, relation, plan, types, recorded=recorded)


def call(sql: str) -> exp.Expr:
    return with_plain_calls(parse_one(sql, dialect="spark"))


@pytest.mark.parametrize(
    "sql",
    [
        "stddev(a)",
        "corr(a, x)",
        "regr_slope(a, x)",
        "percentile(a, 0.5)",
        "median(a)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)",
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY a DESC)",
        "count(DISTINCT a, k)",
        "count(a, k)",
        "bit_and(a)",
        "mode(a, true)",
        "max_by(a, struct(k, a))",
        "sort_array(collect_set(a))",
        "try_sum(a)",
        "try_avg(a)",
    ],
)
def test_touched_groups_are_evaluated_anew(sql: str) -> None:
    assert is_aggregate(call(sql))
    assert decompose(call(sql), {"a": "int", "k": "int"}) is None
    view = compiled(f"SELECT k, {sql} AS v FROM r GROUP BY k")
    assert compile_program(view.compilable, ALL).method is Method.REPLACE
    assert view.load == f"SELECT k, {sql} AS v FROM r GROUP BY k"
    with pytest.raises(NotIncremental, match="no key to restrict by"):
        compile_program(compiled(f"SELECT {sql} AS v FROM r").compilable, ALL)


@pytest.mark.parametrize(
    ("sql", "inexact"),
    [
        ("stddev(a)", True),
        ("var_pop(a)", True),
        ("corr(a, d)", True),
        ("regr_avgx(a, d)", True),
        ("regr_count(a, x)", False),
        ("median(a)", False),
        ("median(d)", False),
        ("median(x)", True),
        ("percentile(a, 0.5)", False),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", True),
        ("try_sum(a)", False),
        ("try_sum(x)", True),
        ("try_avg(d)", False),
        ("avg(a)", False),
        ("avg(b)", True),
        ("try_avg(b)", True),
        ("median(b)", False),
        ("bit_xor(a)", False),
        ("mode(x, true)", False),
        ("sort_array(collect_list(x))", False),
    ],
)
def test_floating_point_results_stay_at_the_top(sql: str, inexact: bool) -> None:
    """Below another operator their last digits would make rows come and go."""
    assert is_inexact(call(sql), COLUMNS) is inexact
    query = f"SELECT q.v, r.a FROM r JOIN (SELECT k, {sql} AS v FROM r GROUP BY k) q ON r.k = q.k"
    view = compiled(query).compilable
    if inexact:
        with pytest.raises(NotIncremental, match="last digits depend on the order"):
            compile_program(view, ALL)
    else:
        assert compile_program(view, ALL).method is Method.PATCH


def test_a_percentile_with_frequencies_is_not_believed() -> None:
    view = compiled("SELECT k, percentile(a, 0.5, a) AS v FROM r GROUP BY k").compilable
    with pytest.raises(NotIncremental, match="percentile with more than 2 arguments"):
        compile_program(view, ALL)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("count(DISTINCT a, k)", "a, k"),
        ("count(*)", ""),
        ("corr(a, x)", "a, x"),
        ("max_by(a, struct(k, a))", "a, STRUCT(k AS k, a AS a)"),
        ("sort_array(collect_list(DISTINCT a))", "a"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY a)", "a"),
        ("try_sum(DISTINCT a)", "a"),
    ],
)
def test_arguments(sql: str, expected: str) -> None:
    assert ", ".join(a.sql(dialect="spark") for a in arguments_of(call(sql))) == expected


def test_over_no_rows() -> None:
    values = [over_no_rows(call(s)).sql(dialect="spark") for s in ("count(a)", "regr_count(a, k)")]
    assert values == ["0", "0"]
    assert over_no_rows(call("sort_array(collect_list(a))")).sql(dialect="spark") == "ARRAY()"
    assert over_no_rows(call("stddev(a)")) == exp.Null()


@pytest.mark.parametrize(
    ("sql", "kind"),
    [("stddev(a)", FLOAT), ("corr(a, x)", FLOAT), ("regr_count(a, x)", NUMBER)],
)
def test_kinds(sql: str, kind: object) -> None:
    assert kind_of(call(sql), {}, Recorded()) == kind


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("max_by(a, struct(k, a))", Open.NOTHING),
        ("max_by(c, struct(k, c))", Open.SPELLING),
        ("mode(c, true)", Open.SPELLING),
        ("mode(x, true)", Open.SIGN),
        ("sort_array(collect_set(c))", Open.SPELLING),
        ("regr_count(a, x)", Open.NOTHING),
    ],
)
def test_openness(sql: str, expected: Open) -> None:
    view = compiled(f"SELECT k, {sql} AS v FROM r GROUP BY k").compilable
    assert view.recorded is not None
    assert openness(view.plan, view.recorded)["v"] is expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("sum(x)", "coalesce(sum(abs(CAST(x AS DOUBLE))), 0)"),
        ("try_avg(x)", "coalesce(sum(abs(CAST(x AS DOUBLE))), 0)"),
        ("corr(a, x)", "coalesce(1, 0)"),
        (
            "covar_pop(a, x)",
            "coalesce(stddev_pop(CAST(a AS DOUBLE)) * stddev_pop(CAST(x AS DOUBLE)), 0)",
        ),
        ("regr_avgx(a, x)", "coalesce(sum(abs(CAST(x AS DOUBLE))), 0)"),
        ("stddev(x)", None),
        ("median(x)", None),
    ],
)
def test_differences_are_measured_by_what_was_added_up(sql: str, expected: str | None) -> None:
    """A deviation is computed without cancellation, so its own size is the measure."""
    _, relation = resolved(f"SELECT k, {sql} AS v FROM r GROUP BY k")
    plan = plan_view(relation, ("k", "v"))
    assert magnitudes(plan, relation.spelling).get("v") == expected
