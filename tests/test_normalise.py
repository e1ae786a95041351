"""Each pass of `normalise`: the plan before, the plan after."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sqlglot import exp, parse_one

from hybridview.algebra.expressions import Named, column, conjuncts, substitute
from hybridview.algebra.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Outer,
    Plan,
    PlanError,
    Project,
    Scan,
    Semi,
    Union,
    Window,
    output,
)
from hybridview.compiler.normalise import (
    factor_alternatives,
    group_distinct,
    lift_projects,
    lift_totals,
    normalise,
    prune,
    push_filters,
    turn_outer_joins,
)
from hybridview.compiler.render import render, text
from hybridview.schema import Column, TableSchema
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import rename, resolve

R = Scan("r", "r", ("k", "a"))
S = Scan("s", "s", ("k", "b"))
SCHEMAS = {
    name: TableSchema(name, tuple(Column(c, "int") for c in columns))
    for name, columns in {"r": ("k", "a"), "s": ("k", "b")}.items()
}


INTEGERS = {"r": {"k": "int", "a": "int"}, "s": {"k": "int", "b": "int"}}


def sql(text: str) -> exp.Expression:
    """Read an expression over plan columns: `r.k` in backticks is the column r.k."""
    return parse_one(text, dialect="spark")


def named(**columns: str) -> tuple[Named, ...]:
    return tuple(Named(name, sql(text)) for name, text in columns.items())


# group_distinct


def test_distinct_is_a_group_without_measures() -> None:
    keys = (Named("r.k", column("r.k")), Named("r.a", column("r.a")))
    assert group_distinct(Distinct(R)) == Aggregate(R, keys, ())


def test_other_plans_stay() -> None:
    for rewrite in (turn_outer_joins, group_distinct, lift_projects, push_filters):
        assert rewrite(R) is R


# turn_outer_joins

ON = "`r.k` = `s.k`"
NO_R = (Named("r.k", exp.Null()), Named("r.a", exp.Null()))
ALL_R = (Named("r.k", column("r.k")), Named("r.a", column("r.a")))
ALL_S = (Named("s.k", column("s.k")), Named("s.b", column("s.b")))


def test_all_outer_joins_become_left_ones() -> None:
    left = Outer(R, S, sql(ON), True, False)
    assert turn_outer_joins(left) is left
    right = Outer(R, S, sql(ON), False, True)
    turned = Outer(S, R, sql(ON), True, False)
    assert turn_outer_joins(right) == Project(turned, (*ALL_R, *ALL_S))
    alone = Project(Semi(S, R, sql(ON), anti=True), (*NO_R, *ALL_S))
    full = Outer(R, S, sql(ON), True, True)
    assert turn_outer_joins(full) == Union((left, alone), ("r.k", "r.a", "s.k", "s.b"))


def test_nulls_beside_rows_without_a_partner_have_types_where_these_are_known() -> None:
    full = Outer(R, S, sql(ON), True, True)
    types = {"r": {"k": "decimal(10,2)", "a": "array<int>"}}
    turned = turn_outer_joins(full, types)
    assert isinstance(turned, Union) and isinstance(turned.inputs[1], Project)
    shown = [c.expr.sql(dialect="spark") for c in turned.inputs[1].columns[:2]]
    assert shown == ["CAST(NULL AS DECIMAL(10, 2))", "NULL"]


# factor_alternatives


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "(`r.k` = `s.k` AND `r.a` = 1) OR (`r.k` = `s.k` AND `r.a` = 2)",
            "`r.k` = `s.k` AND (`r.a` = 1 OR `r.a` = 2)",
        ),
        ("`r.k` = `s.k` OR (`r.k` = `s.k` AND `r.a` = 2)", "`r.k` = `s.k`"),
        ("`r.a` = 1 OR `r.a` = 2", "`r.a` = 1 OR `r.a` = 2"),
    ],
)
def test_what_all_alternatives_demand_is_taken_out(before: str, after: str) -> None:
    factored = factor_alternatives(Join(R, S, sql(before)))
    assert isinstance(factored, Join) and factored.condition is not None
    plain = [re.sub(r"[()]", "", c.sql(dialect="spark")) for c in conjuncts(factored.condition)]
    assert plain == [re.sub(r"[()]", "", c.sql(dialect="spark")) for c in conjuncts(sql(after))]


# lift_totals

TOTAL = Aggregate(Scan("s", "t", ("b",)), (), (Named("m", exp.Max(this=column("t.b"))),))


def test_a_total_is_joined_last() -> None:
    early = Join(R, TOTAL, sql("`r.a` > m"))
    semi = Semi(early, S, sql(ON))
    shown = (*ALL_R, Named("m", column("m")))
    late = Join(Semi(R, S, sql(ON)), TOTAL, sql("`r.a` > m"))
    assert lift_totals(semi) == Project(late, shown)
    reads_it = Semi(early, S, sql("`s.k` = m"))
    assert lift_totals(reads_it) is reads_it
    twice = Join(early, replace(TOTAL, measures=(Named("n", exp.Max(this=column("t.b"))),)), None)
    assert lift_totals(twice) is twice


# lift_projects


def test_a_filter_goes_below_the_columns_it_reads() -> None:
    inner = Project(R, named(n="`r.k` + 1"))
    assert lift_projects(Filter(inner, sql("n > 2"))) == Project(
        Filter(R, sql("(`r.k` + 1) > 2")), inner.columns
    )


def test_neighbouring_projects_become_one() -> None:
    inner = Project(R, named(n="`r.k` + 1", a="`r.a`"))
    assert lift_projects(Project(inner, named(m="n * 2"))) == Project(R, named(m="(`r.k` + 1) * 2"))


@pytest.mark.parametrize(
    ("inner", "outer", "merged"),
    [
        ("`r.k` > 1 OR `r.a` > 1", "NOT n", "NOT (`r.k` > 1 OR `r.a` > 1)"),
        ("`r.k` > 1 OR `r.a` > 1", "n AND `n`", None),
        ("`r.k` > 1 AND `r.a` > 1", "n = TRUE", "(`r.k` > 1 AND `r.a` > 1) = TRUE"),
        ("`r.k` - 1", "2 - n", "2 - (`r.k` - 1)"),
        ("-`r.k`", "-n", "-(-`r.k`)"),
        ("`r.k` IS NULL", "n IS NULL", "(`r.k` IS NULL) IS NULL"),
        ("`r.k` BETWEEN 1 AND 2", "n = TRUE", "(`r.k` BETWEEN 1 AND 2) = TRUE"),
        ("`r.k` IN (1, 2)", "NOT n", "NOT (`r.k` IN (1, 2))"),
        ("`r.k` RLIKE 'x'", "n = TRUE", "(`r.k` RLIKE 'x') = TRUE"),
        ("CASE WHEN `r.k` > 1 THEN 1 END", "n + 1", "CASE WHEN `r.k` > 1 THEN 1 END + 1"),
        ("abs(`r.k`)", "n + 1", "ABS(`r.k`) + 1"),
    ],
)
def test_a_merged_expression_keeps_its_meaning_as_text(
    inner: str, outer: str, merged: str | None
) -> None:
    """What the tree says must survive being written down and read again."""
    tree = substitute(sql(outer), {"n": sql(inner)})
    written = tree.sql(dialect="spark")
    assert sql(written) == tree
    if merged is not None:
        assert written == merged


# push_filters


def test_conditions_stand_at_the_side_that_has_their_columns() -> None:
    condition = sql("`r.a` > 1 AND `s.b` < 2 AND `r.k` = `s.k`")
    assert push_filters(Filter(Join(R, S, None), condition)) == Join(
        Filter(R, sql("`r.a` > 1")), Filter(S, sql("`s.b` < 2")), sql("`r.k` = `s.k`")
    )


def test_conditions_of_the_join_stay() -> None:
    join = Join(R, S, sql("`r.k` = `s.k`"))
    assert push_filters(Filter(join, sql("`r.a` <> `s.b`"))) == Join(
        R, S, sql("`r.k` = `s.k` AND `r.a` <> `s.b`")
    )


def test_a_condition_without_columns_stays_at_the_join() -> None:
    assert push_filters(Filter(Join(R, S, None), sql("1 = 0"))) == Join(R, S, sql("1 = 0"))


def test_a_condition_over_a_semi_join_stands_below_it() -> None:
    semi = Semi(R, S, sql("`r.k` = `s.k`"))
    assert push_filters(Filter(semi, sql("`r.a` > 1"))) == Semi(
        Filter(R, sql("`r.a` > 1")), S, sql("`r.k` = `s.k`")
    )


def test_only_conditions_on_the_left_go_below_a_left_join() -> None:
    join = Outer(R, S, sql(ON), True, False)
    condition = sql("`r.a` > 1 AND `s.b` IS NULL")
    assert push_filters(Filter(join, condition)) == Filter(
        Outer(Filter(R, sql("`r.a` > 1")), S, sql(ON), True, False), sql("`s.b` IS NULL")
    )


def test_a_condition_over_a_union_stands_in_its_arms() -> None:
    union = Union((R, S), ("k", "n"))
    assert push_filters(Filter(union, sql("n > 1")), INTEGERS) == Union(
        (Filter(R, sql("`r.a` > 1")), Filter(S, sql("`s.b` > 1"))), ("k", "n")
    )


@pytest.mark.parametrize("kind", ["bigint", "decimal", ""])
def test_a_condition_that_arms_might_read_otherwise_stays_above_the_union(kind: str) -> None:
    """Of two conditions, the one over a column that has one type in all arms goes below."""
    union = Union((R, S), ("k", "n"))
    types = {"r": INTEGERS["r"], "s": {"k": "int", "b": kind}}
    both = Filter(union, sql("string(n) = '1' AND k > 2"))
    arms = (Filter(R, sql("`r.k` > 2")), Filter(S, sql("`s.k` > 2")))
    pushed = push_filters(both, types)
    assert pushed == Filter(Union(arms, ("k", "n")), sql("string(n) = '1'"))
    assert push_filters(pushed, types) is pushed
    nulls = Union((R, Project(S, named(x="`s.k`", y="NULL"))), ("k", "n"))
    alone = Filter(nulls, sql("n > 1"))
    assert push_filters(alone, INTEGERS) is alone


def test_a_disjunction_is_one_condition() -> None:
    condition = sql("(`r.a` > 1 OR `s.b` < 2) AND `r.a` > 0")
    assert [c.sql() for c in conjuncts(condition)] == [
        "(`r.a` > 1 OR `s.b` < 2)".replace("`", '"'),
        '"r.a" > 0',
    ]
    pushed = push_filters(Filter(Join(R, S, None), condition))
    assert pushed == Join(Filter(R, sql("`r.a` > 0")), S, sql("(`r.a` > 1 OR `s.b` < 2)"))


def test_no_condition_goes_below_an_aggregate() -> None:
    group = Aggregate(R, named(k="`r.k`"), (Named("n", sql("count(*)")),))
    plan = Filter(group, sql("n > 1"))
    assert push_filters(plan) is plan


# prune


def test_a_scan_reads_only_what_is_used() -> None:
    assert prune(Project(R, named(n="`r.a` + 1")), ("n",)) == Project(
        Scan("r", "r", ("a",)), named(n="`r.a` + 1")
    )


def test_a_scan_keeps_one_column_for_its_rows() -> None:
    assert prune(R, ()) == Scan("r", "r", ("k",))


def test_unused_columns_go_from_all_arms_of_a_union() -> None:
    arms = (Project(R, named(p="`r.k`", q="`r.a`")), Project(S, named(u="`s.k`", w="`s.b`")))
    assert prune(Union(arms, ("p", "q")), ("q",)) == Union(
        (
            Project(Scan("r", "r", ("a",)), named(q="`r.a`")),
            Project(Scan("s", "s", ("b",)), named(w="`s.b`")),
        ),
        ("q",),
    )


def test_keys_of_a_group_stay_although_nobody_reads_them() -> None:
    """Without a key there would be fewer groups, hence fewer rows."""
    measures = (Named("n", sql("count(*)")), Named("m", sql("max(`r.a`)")))
    group = Aggregate(R, named(k="`r.k`"), measures)
    pruned = prune(group, ("n",))
    assert pruned == Aggregate(Scan("r", "r", ("k",)), named(k="`r.k`"), measures[:1])


def test_a_join_keeps_the_columns_of_its_condition() -> None:
    join = Join(R, S, sql("`r.k` = `s.k`"))
    assert prune(join, ("r.a",)) == Join(R, Scan("s", "s", ("k",)), sql("`r.k` = `s.k`"))


def test_a_filter_keeps_the_columns_it_reads() -> None:
    assert prune(Filter(R, sql("`r.a` > 1")), ("r.k",)) == Filter(R, sql("`r.a` > 1"))


def test_only_logical_plans_are_pruned() -> None:
    with pytest.raises(PlanError, match="cannot prune Distinct"):
        prune(Distinct(R), output(R))


# normalise: from a query's text to the shape the rules expect


def plan_of(query: str, *names: str) -> Plan:
    parsed = parse_query(parse_definition(query))
    return normalise(rename(resolve(parsed, SCHEMAS), names))


@pytest.mark.parametrize(
    ("query", "normal"),
    [
        (
            "SELECT q.a FROM (SELECT k, a FROM r WHERE a > 0) AS q WHERE q.k = 1",
            "SELECT `r`.`a` AS `x` FROM `r@new` AS `r` WHERE `r`.`a` > 0 AND `r`.`k` = 1",
        ),
        (
            "SELECT r.a FROM r, s WHERE r.k = s.k AND s.b > 1",
            "SELECT `r`.`a` AS `x` FROM `r@new` AS `r` JOIN `s@new` AS `s` "
            "ON `s`.`b` > 1 AND `r`.`k` = `s`.`k`",
        ),
        (
            "SELECT DISTINCT a FROM r",
            "SELECT q1.`a` AS `x` FROM (SELECT `r`.`a` AS `a` FROM `r@new` AS `r` "
            "GROUP BY 1) AS q1",
        ),
        (
            "SELECT n FROM (SELECT k, count(*) AS n, max(a) AS m FROM r GROUP BY k) AS q "
            "WHERE n > 1",
            "SELECT q1.`COUNT(*)` AS `x` FROM (SELECT `r`.`k` AS `r.k`, COUNT(*) AS `COUNT(*)` "
            "FROM `r@new` AS `r` GROUP BY 1) AS q1 WHERE q1.`COUNT(*)` > 1",
        ),
        (
            "SELECT k FROM (SELECT k, a FROM r UNION ALL SELECT k, b FROM s) AS u",
            "SELECT q1.`k` AS `x` FROM (SELECT `r`.`k` AS `k` FROM `r@new` AS `r` UNION ALL "
            "SELECT `s`.`k` AS `k` FROM `s@new` AS `s`) AS q1",
        ),
    ],
)
def test_normal_form_as_sql(query: str, normal: str) -> None:
    assert text(render(plan_of(query, "x")), pretty=False) == normal


def test_normalising_twice_changes_nothing() -> None:
    query = (
        "SELECT DISTINCT q.n, s.b FROM "
        "(SELECT k, count(*) AS n FROM r WHERE a > 0 GROUP BY k) AS q JOIN s ON q.k = s.k "
        "WHERE s.b > 1 AND q.n > 1"
    )
    once = plan_of(query, "n", "b")
    assert normalise(once) == once


def test_a_semi_join_reads_what_its_condition_reads() -> None:
    plan = prune(Semi(R, S, sql("`r.k` = `s.k`")), ("r.a",))
    assert plan == Semi(R, Scan("s", "s", ("k",)), sql("`r.k` = `s.k`"))


def test_a_window_nobody_reads_is_not_computed() -> None:
    call = sql("rank() OVER (PARTITION BY `r.k` ORDER BY `r.a`)")
    window = Window(R, (column("r.k"),), (Named("n", call),))
    assert prune(window, ("r.k",)) == Scan("r", "r", ("k",))
    assert prune(window, ("n",)) == window
