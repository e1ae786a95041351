"""Names reach SQL as quoted identifiers only, whatever they are. No JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hybridview import Store
from hybridview.catalog import ViewRecord
from hybridview.compiler.statements import literal, quote
from hybridview.compiler.view import arguments, plan_view
from hybridview.engine.creating import create
from hybridview.engine.relations import Relations
from hybridview.engine.session import table_at, temp_view
from hybridview.errors import RaceLostError
from hybridview.operations.explain import explain_record
from hybridview.operations.verify import _within_tolerance
from hybridview.plan.steps import Pinned, ViewPlan
from hybridview.schema import Column, Executed, TableSchema
from hybridview.sql.lexer import Kind, pieces
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.resolve import resolve
from tests.support.odd_names import ODD, ODD_COLUMNS, quoted
from tests.test_reading import Port

PLAIN = {"table": "plain_table", "view": "plain_view", "key": "plain_key", "value": "plain_value"}

QUERIES = {
    "additive": "SELECT {key} AS {value}, sum({value}) AS {key}, avg({value}) FROM {table} "
    "GROUP BY {key}",
    "touched": "SELECT {key}, max({value}) AS {value}, count(DISTINCT {value}) FROM {table} "
    "GROUP BY {key} HAVING count(*) > 1",
    "bag": "SELECT a.{key}, b.{value} AS x FROM {table} a JOIN {table} AS {value} "
    "ON a.{key} = {value}.{key} JOIN {table} b ON b.{value} > 1",
    "distinct": "SELECT DISTINCT {value}, {key} FROM {table} WHERE {key} IS NOT NULL",
    "nested": "SELECT n.{key}, count(*) FROM (SELECT {key}, sum({value}) AS {value} FROM {table} "
    "GROUP BY {key}) AS n WHERE n.{value} > 0 GROUP BY n.{key}",
}
OUTPUTS = {
    "additive": ("value", "key", "avg"),
    "touched": ("key", "value", "n"),
    "bag": ("key", "x"),
    "distinct": ("value", "key"),
    "nested": ("key", "n"),
}


def record(kind: str, names: dict[str, str]) -> ViewRecord:
    """Return a view as `create` records it, without Spark's help."""
    query = QUERIES[kind].format(**{role: quoted(name) for role, name in names.items()})
    columns = tuple(Column(names.get(role, role), "decimal(10,2)") for role in OUTPUTS[kind])
    source = tuple(Column(names[role], "decimal(10,2)") for role in ("key", "value"))
    parsed = parse_query(Definition(None, query))
    relation = resolve(parsed, {names["table"]: TableSchema(names["table"], source)})
    plan = plan_view(relation, tuple(c.name for c in columns))
    types = dict.fromkeys(arguments(plan), "decimal(10,2)")
    sources = {names["table"]: source}
    return ViewRecord("id", names["view"], "folder", query, "", (), {}, columns, sources, types, {})


def statements(kind: str, names: dict[str, str]) -> list[str]:
    """Return all SQL that maintains a view."""
    view = record(kind, names)
    found = explain_record(view)
    assert found.incremental and found.program is not None, found.reasons
    shown = found.as_dict()
    texts = [str(shown[part]) for part in ("change", "apply", "snapshot")]
    texts.append(found.program.without_deletes or "")
    session = Port()
    relations = Relations(session, lambda name: f"/data/{name}")  # type: ignore[arg-type]
    columns = (names["key"], names["value"])
    relations.pin((Pinned(names["table"], "id", 3, columns),))
    relations.pin_for_text((Pinned(names["table"], "id", 3, columns),))
    relations.target(names["view"])
    return [*texts, *session.statements]


def shape(text: str, names: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pieces of a text, with names in quotes replaced by what they stand for."""
    found = []
    for piece in pieces(text):
        value = piece.text
        if piece.kind is Kind.QUOTED:
            for role, name in sorted(names.items(), key=lambda item: -len(item[1])):
                # A dot in a table's name does not get into the aliases made from it, a backtick
                # not into the name of a computed column.
                for form in (name, name.replace(".", "_"), name.replace("`", "")):
                    value = value.replace(form, f"<{role}>")
        found.append((piece.kind.value, value))
    return found


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("odd", ODD_COLUMNS, ids=range(len(ODD_COLUMNS)))
def test_the_words_of_a_statement_are_the_same_whatever_the_names(kind: str, odd: str) -> None:
    wanted = [shape(text, PLAIN) for text in statements(kind, PLAIN)]
    table = odd if odd in ODD else "another table"
    names = {"table": f"{table}~t", "view": f"{table}~v", "key": f"{odd}~k", "value": f"{odd}~x"}
    assert [shape(text, names) for text in statements(kind, names)] == wanted


@pytest.mark.parametrize("odd", [*ODD_COLUMNS, "\\", "\\'", "a\\\\'b"])
def test_quote_and_literal_make_one_piece(odd: str) -> None:
    (name,) = pieces(quote(odd))
    assert (name.kind, name.text) == (Kind.QUOTED, odd)
    (value,) = pieces(literal(odd))
    assert value.kind is Kind.STRING
    assert value.text.replace("\\'", "'").replace("\\\\", "\\") == odd
    path = [p.text for p in pieces(table_at(f"/data/{odd}", 7))]
    assert path == ["delta", ".", f"/data/{odd}", "VERSION", "AS", "OF", "7"]
    view = [p.text for p in pieces(temp_view(odd, "SELECT 1"))]
    assert view == ["CREATE", "OR", "REPLACE", "TEMPORARY", "VIEW", odd, "AS", "SELECT", "1"]


@pytest.mark.parametrize("odd", ODD_COLUMNS)
def test_comments_and_clustering_are_quoted(odd: str) -> None:
    def head(name: str) -> list[tuple[str, str]]:
        view = record("additive", {**PLAIN, "view": name})
        layout = explain_layout(view)
        plan = ViewPlan(
            name, "id", "folder", Executed.INITIAL, "", (), layout=layout, cluster_by=(name,),
            comment=name,
        )  # fmt: skip
        text = create(plan, table_at(f"/data/{name}"), True)
        return [(p.kind.value, "<odd>" if name in unescaped(p) else p.text) for p in pieces(text)]

    assert head(odd) == head("plain")


def explain_layout(view: ViewRecord) -> Any:
    from hybridview.plan.compiled import compile_record

    return compile_record(view).layout


def unescaped(piece: Any) -> str:
    text: str = piece.text
    if piece.kind is Kind.STRING:
        return text.replace("\\'", "'").replace("\\\\", "\\")
    return text if piece.kind is Kind.QUOTED else ""


@pytest.mark.parametrize("odd", ODD)
def test_names_of_views_and_tables_in_what_a_store_sends(odd: str, tmp_path: Path) -> None:
    """Create and load a view: every name in every statement is one quoted piece."""
    import pyarrow as pa
    from deltalake import write_deltalake

    store = Store.open(tmp_path / "store")
    write_deltalake(
        str(tmp_path / "base"),
        pa.table({odd: [1], "id": [1]}),
        configuration={"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "none"},
    )
    port = Port()
    port.describe = lambda query: [(odd, "bigint")]  # type: ignore[method-assign]
    store._context._port = port  # type: ignore[assignment]
    store._context._workers = [port]  # type: ignore[list-item]
    store.add_table(odd, tmp_path / "base")
    text = f"CREATE MATERIALIZED VIEW {quoted(odd + ' v')} COMMENT {literal(odd)} AS "
    store.create_view(None, f"{text} SELECT {quoted(odd)} FROM {quoted(odd)}")
    with pytest.raises(RaceLostError):  # because nobody wrote the table
        store.refresh()
    assert any(statement.startswith("CREATE OR REPLACE TABLE") for statement in port.statements)
    for statement in port.statements:
        rest = [p for p in pieces(statement) if p.kind in (Kind.WORD, Kind.SIGN)]
        assert {p.text.upper() for p in rest} <= WORDS, statement


@pytest.mark.parametrize("odd", ["{x}", "{", "{}", "%s", "{0} {view.name}"])
def test_a_view_whose_name_looks_like_a_placeholder_is_verified(odd: str) -> None:
    """Floating point columns are compared by a statement of their own."""
    names = {**PLAIN, "view": odd}
    columns = (Column("a", "int"), Column("b", "double"))
    view = replace(record("additive", names), columns=columns)
    port = Port()
    port.run = lambda sql: port.statements.append(sql) or [(0,)]  # type: ignore[func-returns-value, method-assign]
    relation = quote(f"{odd}@difference")
    assert _within_tolerance(port, view, "SELECT 1", relation, "w")  # type: ignore[arg-type]
    assert port.statements[-1].count(relation) == 2


WORDS = {
    *("CREATE", "OR", "REPLACE", "TEMPORARY", "TEMP", "VIEW", "AS", "SELECT", "FROM", "WHERE"),
    *("FALSE", "CAST", "NULL", "BIGINT", "(", ")", ",", ".", "=", "*", "DELTA", "VERSION", "OF"),
    *("TABLE", "USING", "COMMENT", "TBLPROPERTIES", "MONOTONICALLY_INCREASING_ID", "COUNT", "DROP"),
    *("IF", "EXISTS", *map(str, range(10))),
}
