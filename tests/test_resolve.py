"""Names in a query -> plan columns; and what has no delta rule, named and placed."""

from __future__ import annotations

import pytest

from hybridview.algebra.plan import Aggregate, Filter, Plan, Project, Scan, tables, walk
from hybridview.schema import Column, TableSchema
from hybridview.sql.load import counting_copies, with_columns, with_row_ids
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
    assert outputs("SELECT s.* FROM r JOIN s USING (k)") == ["b", "k"]


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


# What has no rule


@pytest.mark.parametrize(
    ("query", "operator", "line", "column"),
    [
        ("SELECT k FROM r LIMIT 3", "LIMIT", 1, 23),
        ("SELECT k\nFROM r\nWHERE k > ANY (SELECT k FROM s)", "comparison with ANY", 3, None),
        ("SELECT k, row_number() OVER (ORDER BY a) AS n FROM r", "window function", 1, None),
        (
            "SELECT k, lag(a) OVER (PARTITION BY k ORDER BY a) AS n FROM r",
            "window function",
            1,
            None,
        ),
        (
            "SELECT sum(a) OVER (PARTITION BY k ORDER BY a ROWS 2 PRECEDING) AS n FROM r",
            "window function",
            1,
            None,
        ),
        ("SELECT rank() OVER w AS n FROM r WINDOW w AS (ORDER BY a)", None, 1, None),
        ("SELECT\n  k,\n  some_function(a) AS f\nFROM r", "function some_function", 3, None),
        ("SELECT percentile(a, 0.5) AS p FROM r", None, 1, None),
        ("SELECT any_value(a) AS p FROM r", "function any_value", 1, None),
        ("SELECT collect_list(a) AS p FROM r", None, 1, None),
        ("SELECT k FROM r TABLESAMPLE (10 PERCENT)", None, 1, None),
        (
            "SELECT k FROM r WHERE a IN (SELECT max(b) FROM s WHERE s.k = r.k GROUP BY b)",
            "correlated subquery",
            1,
            None,
        ),
        (
            "SELECT CASE WHEN k IN (SELECT k FROM s) THEN 1 END AS f FROM r",
            "IN with a subquery inside an expression",
            1,
            None,
        ),
        (
            "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE EXISTS "
            "(SELECT 1 FROM s z WHERE z.k = r.k))",
            "subquery correlated over two levels",
            1,
            None,
        ),
        ("SELECT k, count(*) AS n FROM r GROUP BY ROLLUP (k)", "GROUPING SETS", 1, None),
        (
            "SELECT k, a, count(*) AS n FROM r GROUP BY GROUPING SETS ((k), (a))",
            "GROUPING SETS",
            1,
            None,
        ),
        ("SELECT k FROM r JOIN s ON r.k = s.k", "ambiguous column k", 1, 8),
        ("SELECT k.field FROM r", "struct field reference", 1, 8),
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
        ("WITH RECURSIVE c AS (SELECT k FROM r) SELECT k FROM c", "recursive CTE", 1, None),
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
