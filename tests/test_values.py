"""Functions, fields and lambdas in a query -> plan expressions; what no rule may carry."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from hybridview.algebra.plan import Constant, Project
from hybridview.algebra.walk import tables, walk
from hybridview.compiler.identity import read_type
from hybridview.compiler.kinds import OPAQUE, Recorded, kind_of
from hybridview.schema import Column, TableSchema
from hybridview.sql.functions import SCALAR_SAMPLES, TYPED_SAMPLES, unknown_part
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import Relation, resolve
from hybridview.sql.scope import NoRule
from tests.test_resolve import SCHEMAS as PLAIN

NESTED = TableSchema(
    "n",
    (
        Column("k", "int"),
        Column("p", "struct<x:int,Y:struct<`a:b`:decimal(10,2),z:string>>"),
        Column("xs", "array<struct<x:int>>"),
        Column("m", "map<string,int>"),
    ),
)
SCHEMAS = PLAIN | {"n": NESTED}


def relation(query: str) -> Relation:
    return resolve(parse_query(parse_definition(query)), SCHEMAS)


def meanings(query: str) -> list[str]:
    """Return what each column of a query's outermost SELECT stands for."""
    plan = relation(query).plan
    assert isinstance(plan, Project)
    return [named.expr.sql(dialect="spark").replace("`", "") for named in plan.columns]


# Fields of structs


def test_a_field_of_a_struct() -> None:
    assert meanings("SELECT p.x, n.p.y.Z, p.y.`a:b` FROM n") == [
        "(n.p).x",
        "(n.p).Y.z",
        "(n.p).Y.a:b",
    ]
    assert meanings("SELECT (p).x, xs[0].x FROM n") == ["(n.p).x", "n.xs[0].x"]


def test_a_source_comes_before_a_struct() -> None:
    """As in Spark: `p.x` is column x of a source p, if there is one."""
    assert meanings("SELECT p.x FROM n JOIN (SELECT a AS x FROM r) AS p ON true") == ["p.x"]
    assert meanings("SELECT p.y.z FROM n JOIN r AS q ON q.k = n.k") == ["(n.p).Y.z"]
    with pytest.raises(NoRule, match="to a field"):
        relation("SELECT n.p.x FROM n JOIN r AS p ON p.k = n.k")


def test_a_field_through_a_derived_table() -> None:
    assert meanings("SELECT p.x FROM (SELECT p FROM n) AS q") == ["(q.p).x"]
    assert meanings("SELECT w.`A b` FROM (SELECT named_struct('a b', k) AS w FROM r) AS q") == [
        "(q.w).a b"
    ]
    assert meanings("SELECT p.x, count(*) AS c FROM n GROUP BY p.x")[0] == "(n.p).x"


@pytest.mark.parametrize("path", ["m.k", "xs.x", "p.none", "p.x.deeper", "k.x"])
def test_what_only_looks_like_a_field(path: str) -> None:
    with pytest.raises(NoRule, match="to a field"):
        relation(f"SELECT {path} FROM n")


# Lambdas


def test_lambda_variables_are_no_columns() -> None:
    """Not even if a column or a source has their name: Spark takes them for variables."""
    query = "SELECT transform(array(a), k -> k + x) AS t FROM r AS k"
    assert meanings(query) == ["TRANSFORM(ARRAY(k.a), __hv_v0_0 -> __hv_v0_0 + k.x)"]
    nested = "SELECT transform(xs, x -> transform(array(x.x), x -> x + p.x)) AS t FROM n"
    assert meanings(nested) == [
        "TRANSFORM(n.xs, __hv_v1_0 -> "
        "TRANSFORM(ARRAY(__hv_v1_0.x), __hv_v0_0 -> __hv_v0_0 + (n.p).x))"
    ]
    fields = "SELECT transform(xs, e -> struct(e, e.x AS f)) AS t FROM n"
    assert meanings(fields) == [
        "TRANSFORM(n.xs, __hv_v0_0 -> STRUCT(__hv_v0_0 AS e, __hv_v0_0.x AS f))"
    ]


def test_exists_of_an_array_is_no_subquery() -> None:
    found = relation("SELECT k FROM n WHERE exists(xs, e -> e.x > 1) AND NOT exists(xs, e -> true)")
    assert tables(found.plan) == ("n",)


# What a call is


@pytest.mark.parametrize("sample", f"{SCALAR_SAMPLES};{TYPED_SAMPLES}".split(";"))
def test_samples_are_plain_calls(sample: str) -> None:
    """No aggregate and no generator is among them, and each is one that a rule carries."""
    node = sqlglot.parse_one(sample.strip(), dialect="spark")
    assert unknown_part(node) is None
    assert node.find(exp.AggFunc, exp.UDTF) is None


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("SELECT transform(array(1), z -> Z + 1) AS t FROM r", "lambda variable in another case"),
        ("SELECT log10(a) AS l FROM r", "function log"),
        ("SELECT 'it''s' AS l FROM r", "function concat"),
        ("SELECT concat(*) AS l FROM r", "star expression"),
        ("SELECT count(r.*) AS l FROM r", "star expression"),
        ("SELECT a:b FROM r", "path into a column"),
        ("SELECT main.abs(a) AS l FROM r", "dot expression"),
        ("SELECT named_struct(concat('a', 'b'), a) AS l FROM r", "function struct"),
        ("SELECT unix_timestamp() AS l FROM r", None),
        ("SELECT to_char(a, '999') AS l FROM r", None),
        ("SELECT parse_json(a) AS l FROM r", None),
        ("SELECT get_json_object(a, 'b') AS l FROM r", None),
    ],
)
def test_no_rule(query: str, operator: str | None) -> None:
    with pytest.raises(NoRule) as caught:
        relation(query)
    assert operator in (None, caught.value.operator)


# Types of values inside others


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("(p).x", "int"),
        ("(p).Y.z", "string"),
        ("xs[0]", "struct<x:int>"),
        ("(xs[0]).x", "int"),
        ("m['k']", "int"),
    ],
)
def test_types_of_parts(sql: str, kind: str) -> None:
    below = {c.name: read_type(c.type) for c in NESTED.columns}
    found = kind_of(sqlglot.parse_one(sql, dialect="spark"), below, Recorded())
    assert found == read_type(kind)


@pytest.mark.parametrize(
    "sql", ["map('a', k)", "array(map('a', k))", "from_json('{}', 'x MAP<STRING, INT>')", "m"]
)
def test_maps_are_known(sql: str) -> None:
    """Rows with them cannot be told apart by Spark's equality."""
    below = {c.name: read_type(c.type) for c in NESTED.columns}
    found = kind_of(sqlglot.parse_one(sql, dialect="spark"), below, Recorded())
    assert found is OPAQUE or found.holds("map")


def test_a_range_is_constant_rows() -> None:
    found = relation("SELECT id, k FROM range(2, 7, 2) AS n JOIN r ON r.k = n.id")
    (rows,) = (node.rows for node in walk(found.plan) if isinstance(node, Constant))
    listed = [value.sql(dialect="spark") for (value,) in rows]
    assert listed == [f"CAST({n} AS BIGINT)" for n in (2, 4, 6)]


@pytest.mark.parametrize(
    "call", ["range(0)", "range(k)", "range(1001)", "range(1, 2, 0)", "range()"]
)
def test_a_range_that_is_not_listed(call: str) -> None:
    with pytest.raises(NoRule, match="range"):
        relation(f"SELECT k FROM {call} AS n JOIN r ON r.k = n.id")


def test_with_recursive_alone_is_no_recursion() -> None:
    assert relation("WITH RECURSIVE c AS (SELECT k FROM r) SELECT k FROM c").columns
    walked = "WITH RECURSIVE c(n) AS (SELECT k FROM r UNION ALL SELECT n + 1 FROM c WHERE n < 3)"
    with pytest.raises(NoRule, match="recursive CTE c"):
        relation(f"{walked} SELECT n FROM c")
