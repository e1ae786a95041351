"""CHAR columns: Spark pads what they are compared with, and a change does not keep that. No JVM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import parse_one

from hybridview.catalog import ViewRecord
from hybridview.plan.compiled import compile_record
from hybridview.plan.sources import changed_column
from hybridview.records import _columns
from hybridview.schema import Column
from hybridview.sql.carried import only_carries
from hybridview.tablefiles.fields import declared

CARRIED = [
    "SELECT id, code FROM t",
    "SELECT * FROM t WHERE id > 3",
    "SELECT code AS c, count(*) AS n FROM t GROUP BY code ORDER BY code",
    "SELECT x.c, u.y FROM (SELECT code AS c, id FROM t) x JOIN u ON x.id = u.id",
    "SELECT DISTINCT code FROM t",
    "SELECT count(code), count(DISTINCT code) FROM t",
]
COMPARED = [
    "SELECT id FROM t WHERE code = 'AB'",
    "SELECT id FROM t WHERE 'AB' <> code",
    "SELECT id FROM t WHERE code IN ('AB', 'CD')",
    "SELECT id, CASE code WHEN 'AB' THEN 1 END FROM t",
    "SELECT upper(code) FROM t",
    "SELECT max(code) FROM t",
    "SELECT t.id FROM t JOIN u ON t.code = u.y",
    "SELECT t.id FROM t JOIN u USING (code)",
    "SELECT t.id FROM t NATURAL JOIN u",
    "SELECT id FROM (SELECT code AS c, id FROM t) WHERE c = 'AB'",
    "SELECT id FROM (SELECT d AS e, id FROM (SELECT code AS d, id FROM t)) WHERE e = 'AB'",
    "SELECT id FROM t AS a(id, c) WHERE c = 'AB'",
    "SELECT x FROM (SELECT x FROM u UNION ALL SELECT code FROM t) WHERE x = 'AB'",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.y = t.code)",
    "SELECT id FROM t WHERE id IN (SELECT code FROM u)",
    "SELECT id FROM t WHERE code.a = 'AB'",
    "SELECT id FROM t WHERE t.code.a = 'AB'",
    "SELECT id FROM t WHERE 'AB' = (SELECT code FROM u)",
    "SELECT row_number() OVER (PARTITION BY id ORDER BY code) FROM t",
]


@pytest.mark.parametrize("query", CARRIED)
def test_values_that_are_carried(query: str) -> None:
    assert only_carries(parse_one(query, dialect="spark"), ["code"])


@pytest.mark.parametrize("query", COMPARED)
def test_values_that_are_compared(query: str) -> None:
    assert not only_carries(parse_one(query, dialect="spark"), ["Code"])


def test_what_a_table_declares() -> None:
    field = {"name": "c", "type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "CHAR(5)"}}
    assert declared(field) == "char(5)"
    assert declared({"name": "c", "type": "string"}) == ""
    assert Column("c", "string", "char(5)").padded
    assert Column("c", "struct<a:string>", "struct<a:char(5)>").padded
    assert not Column("c", "string", "varchar(5)").padded


def view(query: str, column: Column) -> ViewRecord:
    names = tuple(Column(name, "string") for name in ("id",))
    sources = {"t": (Column("id", "int"), column)}
    return ViewRecord("1", "v", "v", query, "", (), {}, names, sources, {}, {}, program="p")


def test_only_a_padded_column_that_is_compared_has_no_rule() -> None:
    char, text = Column("code", "string", "char(5)"), Column("code", "string", "varchar(5)")
    compared = "SELECT id FROM t WHERE code = 'AB'"
    found = compile_record(view(compared, char))
    assert found.view is None
    assert 'column "code" is compared, and is a CHAR(5)' in found.no_rule
    assert compile_record(view(compared, text)).view is not None
    assert compile_record(view("SELECT id FROM t WHERE id > 1", char)).view is not None


def test_a_wider_column_is_another_one() -> None:
    """The table of a view has the declared type of what it was made from."""
    before = Column("name", "string", "varchar(5)")
    assert changed_column((before,), (before,)) == ""
    now = replace(before, declared="varchar(20)")
    assert changed_column((before,), (now,)) == (
        'column "name" has type varchar(20) now, and had varchar(5)'
    )
    noted = _columns([{"name": "name", "type": "string"}, {"name": "c", "type": "string"}])
    assert changed_column(noted, (now, Column("c", "string"))) == "", "it was not noted then"
    assert changed_column(noted, (now, Column("c", "string", "char(3)"))) == (
        'column "c" has type char(3) now, and had string'
    )
    plain = replace(before, declared="")
    assert changed_column((plain,), (before,)) == (
        'column "name" has type varchar(5) now, and had string'
    )
