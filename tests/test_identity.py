"""The expressions that tell values apart, by type; and what a plan's columns are known to be."""

from __future__ import annotations

import pytest

from hybridview.compiler.batch import Batch
from hybridview.compiler.identity import UNKNOWN, any_of, equal, identity, read_type, same
from hybridview.compiler.kinds import OPAQUE, Recorded, kinds
from hybridview.compiler.openness import Open, openness, openness_of_text
from hybridview.compiler.program import Method, compile_program
from hybridview.compiler.view import plan_view
from hybridview.engine.netting import netted_sql
from hybridview.schema import WEIGHT, Column, TableSchema
from hybridview.sql.parse import parse_definition, parse_query
from hybridview.sql.resolve import resolve
from tests.support.duck import Duck

PLAIN_TYPES = (
    "int",
    "bigint",
    "decimal(10,2)",
    "string",
    "string collate UTF8_BINARY",
    "date",
    "timestamp_ntz",
    "binary",
    "array<int>",
    "struct<a:int,b:array<decimal(3,1)>>",
)


@pytest.mark.parametrize("name", PLAIN_TYPES)
def test_plain_types_are_told_apart_by_themselves(name: str) -> None:
    assert identity("x", read_type(name)) == ("x",)
    assert same("a", "b", read_type(name)) == equal("a", "b", read_type(name)) == "a <=> b"


SIGN = "CASE WHEN {0} = 0 THEN CAST({0} AS STRING) END"
ODD_TYPES = {
    "double": ("x", SIGN.format("x")),
    "FLOAT": ("x", SIGN.format("x")),
    "string collate UTF8_LCASE": ("(x COLLATE UTF8_BINARY)",),
    "variant": ("to_json(x)", "schema_of_variant(x)"),
    "map<string,int>": ("map_keys(x)", "map_values(x)"),
    "struct<`a``b`:float,c:int>": (
        "(x IS NULL)",
        "(x).`a``b`",
        SIGN.format("(x).`a``b`"),
        "(x).`c`",
    ),
    "array<double>": (f"transform(x, e0 -> struct(e0 AS i0, {SIGN.format('e0')} AS i1))",),
    "map<int,array<variant>>": (
        "map_keys(x)",
        "transform(map_values(x), e0 -> struct(transform(e0, e1 -> "
        "struct(to_json(e1) AS i0, schema_of_variant(e1) AS i1)) AS i0))",
    ),
    "struct<a: what>is<this": ("x", "CAST(x AS STRING)"),
}


@pytest.mark.parametrize("name", ODD_TYPES)
def test_odd_types_need_more(name: str) -> None:
    assert identity("x", read_type(name)) == ODD_TYPES[name]


def test_groups_are_found_by_what_group_by_takes_for_one() -> None:
    assert equal("a", "b", read_type("double")) == "a <=> b"
    spelled = equal("a", "b", read_type("string collate unicode_ci"))
    assert spelled == "(a COLLATE UNICODE_CI) <=> (b COLLATE UNICODE_CI)"
    entries = equal("a", "b", read_type("map<string,int>"))
    assert entries == "array_sort(map_entries(a)) <=> array_sort(map_entries(b))"
    assert read_type("map<string,double>").groupable
    assert not read_type("map<string,map<int,int>>").groupable
    assert not read_type("array<map<int,int>>").groupable
    assert not read_type("variant").groupable


def test_a_value_is_taken_from_its_group() -> None:
    assert any_of("x", read_type("array<double>")) == "max(x)"
    assert any_of("x", read_type("map<int,int>")) == "first(x)"


def test_plain_columns_cost_nothing_when_netted() -> None:
    sql = netted_sql("SELECT * FROM r", [("a", "int"), ("b c", "string")])
    assert "GROUP BY s.`a`, s.`b c` HAVING" in sql
    assert f"SELECT s.`a`, s.`b c`, CAST(sum(s.`{WEIGHT}`) AS BIGINT)" in sql
    odd = netted_sql("SELECT * FROM r", [("x", "double")])
    assert "max(s.`x`) AS `x`" in odd
    assert f"GROUP BY s.`x`, {SIGN.format('s.`x`')}" in odd


TYPES = {
    "i": "int",
    "d": "decimal(10,2)",
    "s": "string",
    "x": "double",
    "c": "string collate UTF8_LCASE",
    "m": "map<string,int>",
}
SCHEMAS = {"r": TableSchema("r", tuple(Column(n, t) for n, t in TYPES.items()))}


def analysed(sql: str):  # type: ignore[no-untyped-def]
    """Return a view's plan and what is recorded about it, without the types of its columns."""
    parsed = parse_query(parse_definition(sql))
    relation = resolve(parsed, SCHEMAS)
    plan = plan_view(relation, tuple(c.name for c in relation.columns))
    return plan, Recorded({"r": TYPES}, {}, {f"`r.{n}`": t for n, t in TYPES.items()})


KINDS = {
    "i": read_type("int"),
    "i + d * 2": read_type("decimal(1,0)"),
    "i + x": UNKNOWN,
    "i / 2": UNKNOWN,
    "s + 1": UNKNOWN,
    "CAST(i AS DOUBLE)": read_type("double"),
    "coalesce(i, d)": read_type("decimal(1,0)"),
    "coalesce(i, NULL)": read_type("int"),
    "coalesce(s, i)": UNKNOWN,
    "CASE WHEN i > 1 THEN x ELSE 1e0 END": read_type("double"),
    "upper(s)": read_type("string"),
    "s COLLATE UTF8_LCASE": read_type("string collate UTF8_LCASE"),
    "c = 'a'": read_type("boolean"),
    "coalesce(m, m)": read_type("map<string,int>"),
    "CASE WHEN i > 1 THEN m ELSE nullif(m, m) END": OPAQUE,
}


@pytest.mark.parametrize("expression", KINDS)
def test_types_of_expressions(expression: str) -> None:
    plan, recorded = analysed(f"SELECT {expression} AS y FROM r")
    assert kinds(plan, recorded)["y"] == KINDS[expression]


def test_what_may_be_collated_is_known_to_be() -> None:
    plan, recorded = analysed("SELECT concat(c, 'x') AS y, length(c) AS n FROM r")
    found = kinds(plan, recorded)
    assert found["y"].holds("collated") and not found["y"].plain
    assert found["n"].plain


OPEN = {
    "SELECT x, c, m FROM r": (Open.NOTHING, Open.NOTHING, Open.NOTHING),
    "SELECT x, count(DISTINCT c) AS n FROM r GROUP BY x": (Open.NOTHING, Open.NOTHING),
    "SELECT c, length(c) AS n FROM r GROUP BY c": (Open.SPELLING, Open.SPELLING),
    "SELECT min(x) AS lo, max(c) AS hi, max(s) AS t FROM r": (
        Open.SIGN,
        Open.SPELLING,
        Open.NOTHING,
    ),
    "SELECT r.x, t.lo FROM r JOIN (SELECT i, min(x) AS lo FROM r GROUP BY i) t ON r.i = t.i": (
        Open.NOTHING,
        Open.SIGN,
    ),
    "SELECT x FROM r UNION ALL SELECT max(x) FROM r": (Open.SIGN,),
}


@pytest.mark.parametrize("sql", OPEN)
def test_what_an_answer_leaves_open(sql: str) -> None:
    plan, recorded = analysed(sql)
    assert tuple(openness(plan, recorded).values()) == OPEN[sql]


def test_what_a_text_leaves_open() -> None:
    columns = {"c": TYPES["c"], "x": "double"}
    plain = parse_query(parse_definition("SELECT c, x FROM r ORDER BY x LIMIT 3"))
    assert set(openness_of_text(plain, columns).values()) == {Open.NOTHING}
    merged = parse_query(parse_definition("SELECT DISTINCT c, x FROM r"))
    assert openness_of_text(merged, columns) == {"c": Open.SPELLING, "x": Open.SIGN}


def test_a_change_names_each_column_once() -> None:
    """The key of a group that is not shown is stored under a hidden name, and matched by it."""
    view = Duck({"r": TableSchema("r", (Column("k", "int"), Column("a", "int")))}).create(
        "v", "SELECT min(a) AS lo FROM r GROUP BY k"
    )
    program = compile_program(view.compilable, Batch(frozenset({"r"})))
    assert program.method is Method.REPLACE
    names = program.change.named_selects
    assert "__hv_key_0" in names and len(names) == len(set(names))
