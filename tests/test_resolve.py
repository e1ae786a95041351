"""Names in a query -> plan columns; and what has no delta rule, named and placed."""

from __future__ import annotations

import pytest
from sqlglot import exp

from hybridview.algebra.plan import Aggregate, Filter, Plan, Project, Scan, Union
from hybridview.algebra.walk import tables, walk
from hybridview.schema import Column, TableSchema
from hybridview.sql.functions import _scalar_kinds
from hybridview.sql.load import counting_copies, with_columns, with_row_ids
from hybridview.sql.lost import lost_argument
from hybridview.sql.parse import Definition, parse_definition, parse_query
from hybridview.sql.resolve import Relation, UnknownTable, resolve, sources
from hybridview.sql.scope import NoRule, Unresolved

COLUMNS = {
    "r": ("k", "a", "x"),
    "s": ("b", "k"),
    "u": ("k", "j", "c"),
    "Odd Table": ("a b", "größe", "a + 1"),
    "db.t": ("k",),
}
SCHEMAS = {
    name: TableSchema(name, tuple(Column(c, "int") for c in columns))
    for name, columns in COLUMNS.items()
}


def relation(query: str) -> Relation:
    return resolve(parse_query(parse_definition(query)), SCHEMAS)


def outputs(query: str) -> list[str]:
    """Return a query's columns as it names them."""
    return [column.name for column in relation(query).columns]


def meanings(query: str) -> list[str]:
    """Return what each column of a query's outermost SELECT stands for."""
    plan = relation(query).plan
    assert isinstance(plan, Project)
    return [named.expr.sql(dialect="spark").replace("`", "") for named in plan.columns]


def aggregate_of(query: str) -> Aggregate:
    return next(node for node in walk(relation(query).plan) if isinstance(node, Aggregate))


def keys(query: str) -> list[str]:
    found = aggregate_of(query).keys
    return [key.expr.sql(dialect="spark").replace("`", "") for key in found]


# Names


def test_names_compare_without_case() -> None:
    assert meanings("SELECT K, r.A FROM R") == ["R.k", "R.a"]
    assert tables(relation("SELECT K FROM R").plan) == ("r",)
    assert meanings("SELECT Q.K FROM r AS q") == ["q.k"]


def test_an_alias_hides_the_table_name() -> None:
    with pytest.raises(Unresolved):
        relation("SELECT r.k FROM r AS q")


def test_qualified_tables() -> None:
    assert meanings("SELECT t.k FROM db.t") == ["t.k"]
    assert tables(relation("SELECT k FROM db.t").plan) == ("db.t",)


def test_odd_names() -> None:
    assert meanings("SELECT `a b`, `größe` FROM `odd table`") == [
        "odd table.a b",
        "odd table.größe",
    ]


def test_the_same_table_twice_has_two_aliases() -> None:
    assert meanings("SELECT p.k, q.k FROM r p JOIN r q ON p.k = q.k") == ["p.k", "q.k"]
    plan = relation("SELECT r.k FROM r JOIN (SELECT k FROM r) AS d ON r.k = d.k").plan
    aliases = [node.alias for node in walk(plan) if isinstance(node, Scan)]
    assert len(set(aliases)) == 2


def test_a_dot_in_a_name_is_not_a_qualifier() -> None:
    query = (
        "SELECT 1 AS one FROM r AS `a.b` JOIN (SELECT k AS `b.k` FROM s) AS a ON `a.b`.k = a.`b.k`"
    )
    assert outputs(query) == ["one"]


def test_equal_labels_stay_apart() -> None:
    """Names compare without case, and an expression may be written like a column's name."""
    group = aggregate_of(
        "SELECT `a b` + 1 AS p, count(*) AS n FROM `odd table` GROUP BY 1, `a + 1`"
    )
    assert len({named.name.lower() for named in (*group.keys, *group.measures)}) == 3
    group = aggregate_of(
        "SELECT count(CASE WHEN a = 'X' THEN 1 END) AS p, count(CASE WHEN a = 'x' THEN 1 END) AS q "
        "FROM r"
    )
    assert len({named.name.lower() for named in group.measures}) == 2


def test_columns_nobody_has() -> None:
    with pytest.raises(Unresolved) as caught:
        relation("SELECT r.b FROM r JOIN s ON r.k = s.k")
    assert caught.value.candidates == ("k", "a", "x")
    assert caught.value.certain
    with pytest.raises(Unresolved):
        relation("SELECT k FROM r WHERE missing > 1")


def test_a_miss_is_not_certain_beside_automatic_names() -> None:
    with pytest.raises(Unresolved) as caught:
        relation("SELECT `count(1)` FROM (SELECT count(*) FROM r) AS q")
    assert not caught.value.certain


def test_tables_nobody_has() -> None:
    with pytest.raises(UnknownTable) as caught:
        relation("SELECT k FROM r JOIN nowhere.n ON true")
    assert caught.value.name == "nowhere.n"


# Stars


def test_stars() -> None:
    assert outputs("SELECT * FROM r JOIN s ON r.k = s.k") == ["k", "a", "x", "b", "k"]
    assert meanings("SELECT s.*, r.a FROM r JOIN s ON r.k = s.k") == ["s.b", "s.k", "r.a"]
    assert outputs("SELECT *, k AS again FROM (SELECT k FROM r) AS q") == ["k", "again"]


def test_repeated_names_get_plan_names_of_their_own() -> None:
    found = relation("SELECT * FROM r JOIN s ON r.k = s.k").columns
    assert len({column.plan_name for column in found}) == 5


# VALUES


def test_constant_rows() -> None:
    query = "SELECT * FROM r JOIN VALUES (1, 'a'), (2, NULL) AS v(x, y) ON r.k = v.x"
    assert outputs(query) == ["k", "a", "x", "x", "y"]
    assert outputs("SELECT r.k, col2 FROM r, VALUES (1, 'a')") == ["k", "col2"]
    assert outputs("SELECT a FROM r UNION ALL SELECT 1") == ["a"]
    assert outputs("SELECT a, k FROM r UNION ALL VALUES (1, 2)") == ["a", "k"]
    with pytest.raises(Unresolved):
        relation("SELECT k FROM r UNION ALL SELECT missing")


# USING


def test_using_means_the_left_column() -> None:
    assert meanings("SELECT k, s.k, b FROM r JOIN s USING (k)") == ["r.k", "s.k", "s.b"]
    assert meanings("SELECT k FROM r JOIN s USING (k) JOIN u USING (k)") == ["r.k"]


def test_a_star_shows_the_columns_of_using_first() -> None:
    """As Spark does, wherever they stand in their tables."""
    assert meanings("SELECT * FROM s JOIN r USING (k)") == ["s.k", "s.b", "r.a", "r.x"]
    assert outputs("SELECT * FROM r JOIN s USING (k)") == ["k", "a", "x", "b"]
    assert outputs("SELECT s.* FROM r JOIN s USING (k)") == ["k", "b"]
    assert meanings("SELECT s.* FROM r FULL JOIN s USING (k)") == ["s.k", "s.b"]
    assert outputs("SELECT * FROM s LEFT SEMI JOIN r USING (k)") == ["k", "b"]
    assert outputs("SELECT * FROM s LEFT ANTI JOIN r USING (k)") == ["k", "b"]


def test_a_column_that_only_has_the_name_of_one_of_using_stays_where_it_is() -> None:
    query = "SELECT * FROM s JOIN r USING (k) JOIN s AS o ON o.b = r.a"
    assert meanings(query) == ["s.k", "s.b", "r.a", "r.x", "o.b", "o.k"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT r.* FROM r JOIN s USING (k) JOIN r AS o USING (a)",
        "SELECT * FROM u CROSS JOIN (s JOIN r USING (k))",
    ],
)
def test_a_star_whose_order_is_not_known_has_no_rule(query: str) -> None:
    with pytest.raises(NoRule, match="USING several times"):
        relation(query)


def test_using_needs_the_column_on_both_sides() -> None:
    with pytest.raises(Unresolved):
        relation("SELECT 1 AS one FROM r JOIN s USING (a)")


# CTEs


def test_a_cte_hides_a_table() -> None:
    query = "WITH s AS (SELECT k AS only_here FROM r) SELECT only_here FROM s"
    assert tables(relation(query).plan) == ("r",)


def test_inside_a_cte_its_own_name_is_the_table() -> None:
    query = "WITH r AS (SELECT k FROM r WHERE a > 0) SELECT k FROM r"
    assert tables(relation(query).plan) == ("r",)
    assert any(isinstance(node, Filter) for node in walk(relation(query).plan))


def test_a_cte_sees_those_before_it_only() -> None:
    with pytest.raises(UnknownTable):
        relation("WITH a AS (SELECT k FROM b), b AS (SELECT k FROM r) SELECT k FROM a")


def test_an_inner_cte_hides_an_outer_one() -> None:
    query = (
        "WITH c AS (SELECT k FROM r) SELECT k FROM "
        "(WITH c AS (SELECT k FROM s) SELECT k FROM c) AS q"
    )
    assert tables(relation(query).plan) == ("s",)


def test_a_qualified_name_is_never_a_cte() -> None:
    with pytest.raises(UnknownTable):
        relation("WITH t AS (SELECT k FROM r) SELECT k FROM main.t")


def test_names_given_to_columns() -> None:
    assert outputs("WITH c(p, q) AS (SELECT k, a FROM r) SELECT * FROM c") == ["p", "q"]
    assert outputs("SELECT * FROM (SELECT k, a FROM r) AS d(p, q)") == ["p", "q"]


def test_sources_leave_out_ctes() -> None:
    query = parse_query(
        parse_definition("WITH c AS (SELECT k FROM r) SELECT c.k FROM c JOIN s ON c.k = s.k")
    )
    assert [table.name for table in sources(query)] == ["r", "s"]


# GROUP BY


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, count(*) AS n FROM r GROUP BY k", ["r.k"]),
        ("SELECT count(*) AS n, a + 1 AS p, k FROM r GROUP BY 2, 3", ["r.a + 1", "r.k"]),
        ("SELECT a + 1 AS p, count(*) AS n FROM r GROUP BY p", ["r.a + 1"]),
        ("SELECT a + 1 AS p, k, count(*) AS n FROM r GROUP BY ALL", ["r.a + 1", "r.k"]),
        ("SELECT count(*) AS n FROM r GROUP BY ALL", []),
        ("SELECT count(*) AS n FROM r", []),
        # A column of the table comes before an alias of the list.
        ("SELECT x AS a, count(*) AS n FROM r GROUP BY a, x", ["r.a", "r.x"]),
        ("SELECT k, k AS again FROM r GROUP BY k, r.k", ["r.k"]),
    ],
)
def test_group_by(query: str, expected: list[str]) -> None:
    assert keys(query) == expected


def test_having_may_name_an_alias() -> None:
    plan = relation("SELECT k, count(*) AS n FROM r GROUP BY k HAVING n > 1 AND max(a) > 2").plan
    assert isinstance(plan, Project)
    assert isinstance(plan.input, Filter)
    assert plan.input.condition.sql() == '("COUNT(*)") > 1 AND "MAX(r.a)" > 2'


def test_equal_aggregates_are_computed_once() -> None:
    group = aggregate_of("SELECT sum(a), SUM(r.a) + 1 AS p, count(*) AS n FROM r")
    assert [m.name for m in group.measures] == ["SUM(r.a)", "COUNT(*)"]


# Aggregates


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("stddev(a)", "STDDEV(r.a)"),
        ("std(a)", "STDDEV(r.a)"),
        ("mean(a)", "AVG(r.a)"),
        ("every(a > 1)", "MIN(r.a > 1)"),
        ("corr(a, x)", "CORR(r.a, r.x)"),
        ("corr(a, x) FILTER (WHERE k > 1)", "CORR(CASE WHEN r.k > 1 THEN r.a END, r.x)"),
        ("count(DISTINCT a, x)", "COUNT(DISTINCT r.a, r.x)"),
        ("percentile(a, 0.5)", "PERCENTILE(r.a, 0.5)"),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY a DESC)",
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY r.a DESC)",
        ),
        (
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY a) FILTER (WHERE x > 1)",
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY CASE WHEN r.x > 1 THEN r.a END)",
        ),
        ("mode(a, true)", "MODE(r.a, TRUE)"),
        ("sort_array(collect_list(a))", "SORT_ARRAY(COLLECT_LIST(r.a))"),
        (
            "sort_array(array_agg(a) FILTER (WHERE x > 1), false)",
            "SORT_ARRAY(COLLECT_LIST(CASE WHEN r.x > 1 THEN r.a END), FALSE)",
        ),
        # A NULL beside the largest value is an answer, so the condition guards the other one.
        (
            "max_by(a, struct(x, a)) FILTER (WHERE k > 1)",
            "MAX_BY(r.a, CASE WHEN r.k > 1 THEN STRUCT(r.x AS x, r.a AS a) END)",
        ),
        ("try_sum(a) FILTER (WHERE x > 1)", "TRY_SUM(CASE WHEN r.x > 1 THEN r.a END)"),
    ],
)
def test_aggregates(call: str, expected: str) -> None:
    (measure,) = aggregate_of(f"SELECT k, {call} AS p FROM r GROUP BY k").measures
    assert measure.expr.sql(dialect="spark").replace("`", "") == expected


def test_no_aggregate_is_taken_for_a_scalar() -> None:
    """Of all that sqlglot knows; some of them are operators to it."""
    kinds, names = _scalar_kinds()
    assert not [kind for kind in kinds if issubclass(kind, exp.AggFunc)]
    assert not names & {"std", "mean", "some", "every", "try_sum", "try_avg", "product"}


def test_arguments_that_the_parser_drops() -> None:
    assert lost_argument("SELECT percentile(a, 0.5) FROM r GROUP BY percentile(a, b), c") is None
    assert lost_argument("SELECT percentile(a, array(0.1, 0.5)), b, c FROM r") is None
    assert lost_argument("SELECT percentile(f(a, b), 0.5, k) FROM r") is not None


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("date_trunc('MONTH', t)", True),
        ("trunc(d, 'MM')", True),
        ("date_trunc(u, t)", False),
        ("DATE_TRUNC (CASE WHEN a > 1 THEN 'DAY' ELSE 'MONTH' END, t)", False),
        ("trunc(d, u)", False),
        ("trunc(f(a, 'b'), 'M' || 'M')", False),
        ("size(xs)", True),
        ("array_size(xs)", False),
    ],
)
def test_arguments_that_the_parser_takes_for_others(call: str, known: bool) -> None:
    """A column that holds a unit would be taken for the unit itself."""
    assert (lost_argument(f"SELECT {call} FROM r") is None) == known


def test_a_subquery_with_an_aggregate_by_another_name_is_one_group() -> None:
    group = aggregate_of("SELECT k FROM r WHERE a > (SELECT count_if(b > 1) FROM s)")
    assert [m.expr.sql() for m in group.measures] == ['COUNT(CASE WHEN "s.b" > 1 THEN 1 END)']


# GROUPING SETS


def numbered_sets(group: str) -> dict[int, str]:
    """Return the keys that each set of a GROUP BY keeps, by the set's number."""
    aggregate = aggregate_of(f"SELECT count(*) AS n FROM r GROUP BY {group}")
    assert isinstance(aggregate.input, Union)
    found: dict[int, str] = {}
    for arm in aggregate.input.inputs:
        assert isinstance(arm, Project)
        *keys, number = (named.expr for named in arm.columns[3:])
        kept = [key.sql().replace('"', "") for key in keys if not isinstance(key, exp.Case)]
        found[int(number.name)] = " ".join(kept)
    assert len(aggregate.input.inputs) == len(found)
    return found


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("ROLLUP (k, a)", {0: "r.k r.a", 1: "r.k", 3: ""}),
        ("k, a WITH ROLLUP", {0: "r.k r.a", 1: "r.k", 3: ""}),
        ("CUBE (k, a)", {0: "r.k r.a", 1: "r.k", 2: "r.a", 3: ""}),
        ("k, a WITH CUBE", {0: "r.k r.a", 1: "r.k", 2: "r.a", 3: ""}),
        ("GROUPING SETS ((a), (k, a), ())", {1: "r.a", 0: "r.a r.k", 3: ""}),
        ("GROUPING SETS (k, (k, a))", {1: "r.k", 0: "r.k r.a"}),
        ("k, a GROUPING SETS ((k), (a))", {1: "r.k", 2: "r.a"}),
        ("x, ROLLUP (k, a)", {0: "r.x r.k r.a", 1: "r.x r.k", 3: "r.x"}),
        ("ROLLUP (k), CUBE (a)", {0: "r.k r.a", 1: "r.k", 2: "r.a", 3: ""}),
        ("ROLLUP ((k, a), x)", {0: "r.k r.a r.x", 1: "r.k r.a", 7: ""}),
        ("GROUPING SETS (ROLLUP (k, a), (x))", {1: "r.k r.a", 3: "r.k", 7: "", 6: "r.x"}),
    ],
)
def test_grouping_sets(group: str, expected: dict[int, str]) -> None:
    """The first key has the highest bit of a set's number; a bit stands for a key left out."""
    assert numbered_sets(group) == expected


def test_grouping_is_read_off_the_number() -> None:
    listed = "grouping(k) AS g, grouping(a) AS h, grouping_id() AS i"
    query = f"SELECT {listed} FROM r GROUP BY ROLLUP (k, a)"
    assert meanings(query) == [
        "(CAST(CASE WHEN grouping set IN (3) THEN 1 ELSE 0 END AS TINYINT))",
        "(CAST(CASE WHEN grouping set IN (1, 3) THEN 1 ELSE 0 END AS TINYINT))",
        "(CAST(grouping set AS BIGINT))",
    ]


def test_an_aggregate_of_a_key_is_over_all_its_values() -> None:
    group = aggregate_of("SELECT k, max(k) AS m FROM r GROUP BY ROLLUP (k)")
    assert [m.expr.sql() for m in group.measures] == ['MAX("r.k")']
    assert [k.expr.sql() for k in group.keys] == ['"__hv_set_key_0"', '"grouping set"']


def test_keys_and_the_number_of_a_set_in_the_users_words() -> None:
    spelling = relation("SELECT a + 1 AS p FROM r GROUP BY ROLLUP (r.k, 1)").spelling
    assert spelling == {
        "`__hv_set_key_0`": "r.k",
        "`__hv_set_key_1`": "a + 1",
        "`grouping set`": "CAST(grouping_id() AS INT)",
    }
    # Spark's releases differ in the order of these keys.
    spelling = relation("SELECT k, a FROM r GROUP BY k, a GROUPING SETS ((a), (k))").spelling
    assert spelling is not None and "`grouping set`" not in spelling


# What has no rule


@pytest.mark.parametrize(
    ("query", "operator", "line", "column"),
    [
        ("SELECT k FROM r LIMIT 3", "LIMIT in an order that leaves ties open", 1, 23),
        ("SELECT k\nFROM r\nWHERE k > ANY (SELECT k FROM s)", "comparison with ANY", 3, None),
        (
            "SELECT k, row_number() OVER (ORDER BY a) AS n FROM r",
            "window function row_number in an order that leaves ties open",
            1,
            None,
        ),
        (
            "SELECT k, x, lag(a) OVER (PARTITION BY k ORDER BY a) AS n FROM r",
            "window function lag in an order that leaves ties open",
            1,
            None,
        ),
        (
            "SELECT x, sum(a) OVER (PARTITION BY k ORDER BY a ROWS 2 PRECEDING) AS n FROM r",
            "window function sum in an order that leaves ties open",
            1,
            None,
        ),
        ("SELECT rank() OVER w AS n FROM r WINDOW w AS (ORDER BY a)", None, 1, None),
        ("SELECT\n  k,\n  some_function(a) AS f\nFROM r", "function some_function", 3, None),
        ("SELECT any_value(a) AS p FROM r", "function any_value", 1, None),
        ("SELECT first(a) AS p FROM r", "function first", 1, None),
        ("SELECT collect_list(a) AS p FROM r", "function collect_list", 1, None),
        ("SELECT array_join(collect_set(a), ',') AS p FROM r", "function collect_set", 1, None),
        ("SELECT sort_array(collect_set(a) OVER (PARTITION BY k)) AS p FROM r", None, 1, None),
        ("SELECT mode(a) AS p FROM r", "function mode", 1, None),
        ("SELECT max_by(a, x) AS p FROM r", "function max_by", 1, None),
        ("SELECT max_by(a, struct(x, a), 3) AS p FROM r", "function max_by", 1, None),
        ("SELECT listagg(a) AS p FROM r", "function listagg", 1, None),
        ("SELECT product(a) AS p FROM r", "function product", 1, None),
        ("SELECT mode() WITHIN GROUP (ORDER BY a) AS p FROM r", None, 1, None),
        ("SELECT k FROM r TABLESAMPLE (10 PERCENT)", None, 1, None),
        (
            "SELECT (k IN (SELECT k FROM s)) = (a > 1) AS f FROM r",
            "IN with a subquery inside an expression (eq)",
            1,
            None,
        ),
        (
            "SELECT CASE k IN (SELECT k FROM s) WHEN false THEN 1 END AS f FROM r",
            "IN with a subquery inside an expression (case)",
            1,
            None,
        ),
        (
            "SELECT k, count(*) AS n FROM r GROUP BY GROUPING SETS ((k), (r.k))",
            "GROUPING SETS with a set that occurs twice",
            1,
            None,
        ),
        (
            "SELECT count(*) AS n FROM r GROUP BY GROUPING SETS (())",
            "GROUPING SETS with the empty set alone",
            1,
            None,
        ),
        (
            "SELECT count(*) AS n FROM r GROUP BY ROLLUP (a + x, x + a)",
            "GROUPING SETS over expressions that may be the same",
            1,
            None,
        ),
        (
            "SELECT k, grouping_id() AS g FROM r GROUP BY k, a GROUPING SETS ((a), (k))",
            "grouping_id of keys in another order",
            1,
            None,
        ),
        ("SELECT k, grouping(k) AS g FROM r GROUP BY k", "function grouping", 1, None),
        (
            "SELECT count(*) AS n FROM r GROUP BY CUBE (k, a, x, k + 1, a + 1, x + 1, k + 2)",
            "more than 64 GROUPING SETS",
            1,
            None,
        ),
        (
            "SELECT k, sum(k) OVER (PARTITION BY grouping(k)) AS g FROM r GROUP BY ROLLUP (k)",
            "window function sum of a key of GROUPING SETS",
            1,
            None,
        ),
        ("SELECT greatest(*) AS g FROM r", "star expression", 1, None),
        ("SELECT struct(*) AS g FROM r", "function struct", 1, None),
        ("SELECT grouping(a) AS g FROM r GROUP BY CUBE (k)", "grouping of what is no key", 1, None),
        (
            "SELECT k, (SELECT max(b) FROM s WHERE s.k = r.k) AS m FROM r GROUP BY ROLLUP (k)",
            "correlated subquery beside GROUPING SETS",
            1,
            None,
        ),
        (
            "SELECT a, count(*) AS n FROM r GROUP BY ROLLUP (k)",
            "expression over a column that is not grouped",
            1,
            None,
        ),
        ("SELECT k FROM r JOIN s ON r.k = s.k", "ambiguous column k", 1, 8),
        ("SELECT k.field FROM r", "reference k.field to a field", 1, 8),
        ("SELECT 1 AS one", "a query that reads no table", 1, None),
        ("SELECT count(*) AS n WHERE EXISTS (SELECT 1 FROM r)", "SELECT without FROM", 1, None),
        ("SELECT * EXCEPT (z) FROM r", "* EXCEPT of a column that is not there", 1, None),
        ("SELECT k FROM r UNION ALL BY NAME SELECT k FROM s", "BY_NAME", 1, None),
        ("SELECT k FROM r LATERAL VIEW json_tuple(a, 'b') e AS c", "function json_tuple", 1, None),
        (
            "SELECT a, count(*) AS n FROM r GROUP BY k",
            "expression over a column that is not grouped",
            1,
            None,
        ),
        ("SELECT k, count(*) AS n FROM r GROUP BY 3", "GROUP BY position", 1, None),
        ("SELECT * FROM range(3)", None, 1, None),
        ("SELECT * FROM VALUES (1), (2) AS v(a)", "a query that reads no table", 1, None),
        ("SELECT r.k FROM r JOIN VALUES (a) AS v(b) ON true", "column in VALUES", 1, None),
        ("SELECT r.k FROM r JOIN VALUES (1), (1, 2) ON true", None, 1, None),
    ],
)
def test_no_rule(query: str, operator: str | None, line: int, column: int | None) -> None:
    """The operator is named, and its place is inside the clause that has it."""
    definition = parse_definition(query)
    with pytest.raises(NoRule) as caught:
        resolve(parse_query(definition), SCHEMAS)
    if operator is not None:
        assert caught.value.operator == operator
    position = definition.position(caught.value.node)
    assert position.line == line
    assert column is None or position.column == column


def test_places_count_from_the_start_of_the_file() -> None:
    definition = parse_definition(
        "CREATE MATERIALIZED VIEW v\nAS\nSELECT k FROM r\nLIMIT 3", source="v.sql"
    )
    with pytest.raises(NoRule) as caught:
        resolve(parse_query(definition), SCHEMAS)
    assert definition.place(caught.value.node) == "v.sql:4:7"


# The load is the user's text with columns added


def loaded(query: str) -> str:
    """Return the load of a query with a hidden column `count(*)`."""
    definition: Definition = parse_definition(query)
    return with_columns(definition.query, (("__hv_rows", "count(*)"),))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, max(a) AS m FROM r GROUP BY k",
        "SELECT k, max(a) AS m -- the largest\nFROM r GROUP BY k",
        "SELECT k, max(a) AS m /* FROM here */ FROM r GROUP BY k",
        "SELECT k IS DISTINCT FROM 1 AS p, max(a) AS m FROM r GROUP BY 1",
        "SELECT k IS NOT DISTINCT FROM a AS p, max(a) AS m FROM r GROUP BY 1",
        "SELECT extract(YEAR FROM d) AS y, 'FROM' AS f, max(a) AS m FROM r GROUP BY 1",
        "WITH c AS (SELECT k, a FROM r) SELECT k, max(a) AS m FROM c GROUP BY k",
        "SELECT k, `from`, max(a) AS m FROM r GROUP BY k, `from`",
    ],
)
def test_a_hidden_column_is_the_last_of_the_list(query: str) -> None:
    before = parse_query(parse_definition(query)).selects
    after = parse_query(parse_definition(loaded(query))).selects
    assert after[: len(before)] == before
    assert [column.alias for column in after[len(before) :]] == ["__hv_rows"]


def test_distinct_becomes_a_count_of_copies() -> None:
    query = "SELECT DISTINCT a, k IS DISTINCT FROM 1 AS d FROM r -- all"
    assert counting_copies(query, "__hv_rows") == (
        "SELECT *, count(*) AS `__hv_rows`\nFROM (\n"
        "SELECT  a, k IS DISTINCT FROM 1 AS d FROM r -- all\n)\nGROUP BY ALL"
    )


def test_a_bag_gets_row_ids_around_the_text() -> None:
    load = with_row_ids("SELECT k FROM r -- all", "7", "__hv_epoch", "__hv_row")
    assert "\nSELECT k FROM r -- all\n" in load
    assert [c.alias_or_name for c in parse_query(parse_definition("SELECT k FROM r")).selects] == [
        "k"
    ]


def test_plans_are_values() -> None:
    query = "SELECT k, count(*) AS n FROM r WHERE a > 1 GROUP BY k"
    first: Plan = relation(query).plan
    assert first == relation(query).plan
    assert hash(first) == hash(relation(query).plan)


@pytest.mark.parametrize(
    "condition",
    [
        "EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND (s.b > r.a OR s.b IN (SELECT k FROM s)))",
        "NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND (r.a > 1 OR EXISTS (SELECT 1 FROM s u "
        "WHERE u.k = s.k)))",
        "r.a > (SELECT max(s.b) FROM s WHERE s.b > r.a OR s.b IN (SELECT k FROM s))",
    ],
)
def test_a_tied_condition_with_a_subquery_has_no_rule(condition: str) -> None:
    """It is a reason, not a bug."""
    with pytest.raises(NoRule, match="correlated condition with a subquery"):
        relation(f"SELECT r.k FROM r WHERE {condition}")
