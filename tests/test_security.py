"""Nothing leaves the store by a name, a link or a record; nothing but SQL runs. No JVM."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview import Store
from hybridview.catalog import ViewRecord, as_payload, rows_of
from hybridview.cli import render
from hybridview.errors import (
    HybridviewError,
    NonDeterministicError,
    NotDeltaError,
    OutsideStoreError,
    ReservedNameError,
    SyntaxFault,
    UnsafeQueryError,
    UsageError,
)
from hybridview.inside import inside
from hybridview.operations.lock import slot
from hybridview.operations.names import folder_name
from hybridview.sql.lexer import Kind, pieces
from hybridview.sql.parse import parse_definition
from hybridview.sql.unsafe import file_read, refuse_unsafe
from tests.cli.terminal import FEED
from tests.support.odd_names import ODD, ODD_COLUMNS
from tests.support.plain_store import PlainStore

PACKAGE = Path(__file__).resolve().parent.parent / "hybridview"

# No code from data


def calls(tree: ast.AST) -> set[str]:
    """Return the names of all calls: `eval`, `yaml.load`, `os.system`."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_data_never_become_code(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
    }
    assert not imported & {"pickle", "cloudpickle", "dill", "marshal", "shelve", "yaml", "ctypes"}
    forbidden = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.execvp"}
    assert not calls(tree) & forbidden
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            assert not any(keyword.arg == "shell" for keyword in node.keywords)


# Queries run no programs

UNSAFE = (
    "SELECT reflect('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT REFLECT ('java.lang.System', 'exit', 0)",
    "SELECT java_method('java.lang.Runtime', 'getRuntime') AS x",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT `reflect`('a', 'b')",
    "SELECT system.builtin.reflect('a', 'b')",
    "SELECT builtin . `java_method` /* here */ ('a', 'b')",
    "SELECT reflect -- there\n ('a', 'b')",
    "SELECT * FROM (SELECT 1 WHERE EXISTS (SELECT reflect('a', 'b')))",
    "SELECT IDENTIFIER('ref' || 'lect')('a', 'b')",
    "SELECT * FROM identifier('parquet.`/etc`')",
    "SELECT TRANSFORM(id) USING 'rm -rf /' AS (x) FROM t",
    'FROM t SELECT TRANSFORM(id) USING "sh" AS (x)',
    "SELECT TRANSFORM(id) USING r'sh' AS (x) FROM t",
    "SELECT * FROM table_changes_by_path('/data/t', 0)",
    "SELECT * FROM table_changes('t', 0)",
    # Where Spark's own lexer cuts, and others do not: all of these run in Spark.
    "SELECT -- \\\n'\n reflect('a', 'b') -- '",
    "SELECT r'\\', reflect('a', 'b')",
    "SELECT R\"\\\", reflect('a', 'b')",
    "SELECT /* /*+ */ reflect('a', 'b')",
    "SELECT '\\'', reflect('a', 'b')",
    "SELECT `a``b`, reflect('a', 'b')",
    "SELECT 'a''b', reflect('a', 'b')",
)
HARMLESS = (
    "SELECT 'reflect(1)' AS reflect, \"java_method(2)\" FROM t -- reflect(3)",
    "SELECT reflect, t.java_method FROM t /* reflect(1) /* reflect(2) */ reflect(3) */",
    "SELECT transform(array(1), x -> x + 1) FROM t JOIN s USING (id)",
    "SELECT identifier, `using` FROM t JOIN s USING(`it's`)",
    "SELECT /*+ BROADCAST(t) */ * FROM t",
    "SELECT r'reflect(1)', R\"reflect(2)\", `reflect(3)` FROM t",
    "SELECT reflected(1), my_reflect(2) FROM t",
)


@pytest.mark.parametrize("query", UNSAFE)
def test_queries_that_run_programs_are_refused(query: str) -> None:
    with pytest.raises(UnsafeQueryError) as caught:
        refuse_unsafe(query, lambda at: f"<sql>:{at}")
    at = int(caught.value.where.split(":")[1])
    named = re.match(r"`?(\w+)", query[at:])
    assert named and named[1].lower() in caught.value.fact.lower() + " using"
    for text in (query, f"CREATE MATERIALIZED VIEW v AS {query}"):
        with pytest.raises((UnsafeQueryError, SyntaxFault)):
            parse_definition(text)


@pytest.mark.parametrize("query", HARMLESS)
def test_words_that_run_nothing_are_not(query: str) -> None:
    refuse_unsafe(query, str)
    parse_definition(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT `rand`() AS x FROM t",
        "SELECT system.builtin.current_timestamp() AS x FROM t",
        "SELECT r'\\', rand() AS x FROM t",
        "SELECT current_date FROM t",
    ],
)
def test_calls_that_change_by_themselves_are_found_wherever_they_hide(query: str) -> None:
    with pytest.raises(NonDeterministicError):
        parse_definition(query)


def test_a_text_that_two_readers_understand_differently_is_refused() -> None:
    """For Spark there is no WHERE in this one; a plan made with it would give other rows."""
    with pytest.raises(SyntaxFault) as caught:
        parse_definition("SELECT id FROM t -- all \\\nWHERE id > 5")
    assert "two ways" in caught.value.fact
    numbers = "SELECT 10L, 5BD, 1.5e3, x'1F', r'\\', 'a''b', '\\'', `x``y` /* /* */ */ FROM t -- d"
    parse_definition(numbers)


def test_columns_named_like_such_functions_are_no_calls() -> None:
    parse_definition("SELECT o.current_date, `current_timestamp`, rand FROM orders o")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM parquet.`/etc`", True),
        ("SELECT * FROM `binaryFile` . `x`", True),
        ("SELECT * FROM csv.folder", True),
        ("SELECT * FROM org.apache.spark.sql.json.`/x`", True),
        ("SELECT * FROM main.sales.orders", False),
        ("SELECT 'parquet.`/etc`' FROM t", False),
    ],
)
def test_files_named_in_a_query_are_recognised(query: str, found: bool) -> None:
    assert (file_read(query) is not None) is found


# Files outside of the store


@pytest.mark.parametrize("name", [*ODD, *ODD_COLUMNS, "..", ".", "a/b", "\\..\\x", "x" * 5000])
def test_a_view_has_a_plain_folder_whatever_its_name(name: str, tmp_path: Path) -> None:
    folder = folder_name(name)
    assert re.fullmatch(r"[a-z0-9_]+(-[0-9a-f]{8})?", folder) and len(folder) < 110
    assert inside(tmp_path, "views", folder).parent == tmp_path / "views"


@pytest.mark.parametrize(
    "name", ["a\nb", "a\rb", "a\x1b[2Jb", "a\u202eb", "a\u2028b", "a\x00b", " ", "a`b", "a@b"]
)
def test_names_that_cannot_be_seen_are_refused(name: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    for action in (
        lambda: store.create_view(name, "SELECT 1 AS x"),
        lambda: store.add_table(name, tmp_path),
    ):
        with pytest.raises(ReservedNameError) as caught:
            action()
        assert all(c.isprintable() for c in caught.value.fact)


@pytest.mark.parametrize("name", ["../outside", "..", "a/../../outside", "/tmp", "x" * 300])
def test_a_name_does_not_lead_to_a_table_elsewhere(name: str, tmp_path: Path) -> None:
    """Tables under tables/ are found by their name, and only there."""
    import pyarrow as pa

    write_deltalake(str(tmp_path / "outside"), pa.table({"id": [1]}), configuration=FEED)
    store = Store.open(tmp_path / "store")
    with pytest.raises(NotDeltaError):
        store.add_table(name)
    with pytest.raises(HybridviewError) as caught:
        store.create_view("v", f"SELECT id FROM `{name}`")
    assert caught.value.code == "HV102"
    assert not store.tables()


@pytest.mark.parametrize("name", ["a%20b", "per%cent", "new\nline", "back\\slash", "tab\t", "\x00"])
def test_paths_that_the_log_reader_mistakes_are_refused(name: str, tmp_path: Path) -> None:
    """It would decode them, and look at another folder: here, at the one called "a b"."""
    import pyarrow as pa

    write_deltalake(str(tmp_path / "a b"), pa.table({"other": [1]}), configuration=FEED)
    store = Store.open(tmp_path / "store")
    for action in (
        lambda: store.add_table("t", f"{tmp_path}/{name}"),
        lambda: Store.open(f"{tmp_path}/{name}"),
        lambda: Store.open(f"{tmp_path}/{name}/deeper"),
    ):
        with pytest.raises(UsageError) as caught:
            action()
        assert "cannot be used" in caught.value.fact and "\n" not in caught.value.fact
    assert {p.name for p in tmp_path.iterdir()} == {"a b", "store"}


@pytest.mark.parametrize("sign", "|^[]")
def test_a_store_is_not_made_where_it_could_not_be_written(sign: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Store.open(tmp_path / f"a{sign}b")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def shop(tmp_path: Path) -> PlainStore:
    """A store with two views, beside a folder of somebody else's."""
    (tmp_path / "outside" / "_delta_log").mkdir(parents=True)
    (tmp_path / "outside" / "precious.txt").write_text("keep me", encoding="utf-8")
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.view("totals", "orders")
    shop.view("others", "orders")
    shop.refresh("totals", "others")
    return shop


def files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def record_with(shop: PlainStore, folder: str) -> dict[str, Any]:
    view: ViewRecord = shop.catalog.views["totals"]
    return {**as_payload(view), "folder": folder}


@pytest.mark.parametrize(
    "folder", ["../../outside", "..", ".", "", "/etc", "a/b", "..\\..\\x", "a\x00b"]
)
def test_a_record_cannot_name_a_folder_outside(shop: PlainStore, folder: str) -> None:
    """Somebody wrote to the bookkeeping table: no command does anything with such a record."""
    outside = files(shop.root.parent / "outside")
    shop.context.ledger.append("view", record_with(shop, folder))
    for action in (
        shop.store.status,
        shop.store.refresh,
        lambda: shop.store.drop_view("totals"),
        lambda: Store.open(shop.root),
    ):
        with pytest.raises(OutsideStoreError):
            action()
    assert files(shop.root.parent / "outside") == outside


def link_view(shop: PlainStore) -> Path:
    return shop.root / "views" / "totals"


def link_log(shop: PlainStore) -> Path:
    return shop.root / "views" / "totals" / "_delta_log"


def link_views(shop: PlainStore) -> Path:
    return shop.root / "views"


@pytest.mark.parametrize("place", [link_view, link_log, link_views])
def test_links_are_not_followed(shop: PlainStore, place: Callable[[PlainStore], Path]) -> None:
    target = shop.root.parent / "outside"
    path = place(shop)
    path.rename(shop.root.parent / "moved")
    path.symlink_to(target, target_is_directory=True)
    ledger = str(shop.context.ledger.path)
    outside, records = files(target), rows_of(DeltaTable(ledger))
    store = shop.store
    for action in (
        lambda: store.drop_view("totals"),
        lambda: store.refresh(["totals"]),
        lambda: store.refresh(strategy="snapshot"),
        lambda: store.read("totals"),
        store.status,
        lambda: store.maintain(),
    ):
        with pytest.raises(OutsideStoreError) as caught:
            action()
        assert str(path) in caught.value.fact and str(target) in caught.value.detail
    assert files(target) == outside
    assert rows_of(DeltaTable(ledger)) == records, "nothing was dropped, and nothing published"
    # The hint works: without the link the view is only without its table.
    words = shlex.split(caught.value.hint.split(": ")[1])
    assert words[0] == "rm"
    Path(words[1]).unlink()
    assert "totals" in {view.name for view in store.status().views}


def test_dropping_several_views_stops_before_the_first(shop: PlainStore) -> None:
    shop.view("child", "totals")
    shop.refresh("child")
    path = shop.root / "views" / "totals"
    path.rename(shop.root.parent / "moved")
    path.symlink_to(shop.root.parent / "outside", target_is_directory=True)
    with pytest.raises(OutsideStoreError):
        shop.store.drop_view("totals", cascade=True)
    assert (shop.root / "views" / "child" / "_delta_log").is_dir()


def test_the_bookkeeping_table_is_no_link(shop: PlainStore) -> None:
    path = shop.root / "_hybridview"
    path.rename(shop.root.parent / "moved")
    path.symlink_to(shop.root.parent / "moved", target_is_directory=True)
    with pytest.raises(OutsideStoreError):
        Store.open(shop.root)


def test_the_lock_is_no_link(shop: PlainStore) -> None:
    """Whoever holds the lock signs the file: through a link, somebody else's."""
    precious = shop.root.parent / "outside" / "precious.txt"
    lock = shop.root / "hybridview.lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(precious)
    with pytest.raises(OutsideStoreError), slot(shop.context):
        pass
    assert precious.read_text(encoding="utf-8") == "keep me"


def test_a_store_may_be_reached_by_a_link(shop: PlainStore) -> None:
    link = shop.root.parent / "link"
    link.symlink_to(shop.root, target_is_directory=True)
    assert {v.name for v in Store.open(link).status().views} == {"totals", "others"}
    assert Store.open(link).drop_view("totals") == ("totals",)


# Names in hints can be pasted


@pytest.mark.parametrize("name", ["a; touch x", "$(touch x)", "it's", "a b", "&& touch x"])
def test_hints_can_be_pasted(name: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    with pytest.raises(HybridviewError) as caught:
        store.create_view("v", f"SELECT id FROM `{name}`")
    words = shlex.split(caught.value.hint.removeprefix("Register it: "))
    assert words == ["hybridview", "table", "add", name, "PATH"]
    with pytest.raises(HybridviewError) as caught:
        Store.open(tmp_path / name, create=False)
    words = shlex.split(caught.value.hint.removeprefix("Create one with: "))
    assert words == ["hybridview", "init", str(tmp_path / name)]


# Rows on a terminal


def test_rows_give_the_terminal_no_commands() -> None:
    rows = [("a\x1b[2J\nb", "\u202egnp.exe", "größe 😀\u00a0x", 1)]
    lines = render.rows(["two\nlines", "b", "c", "n"], rows, 200)
    assert len(lines) == 3
    assert all(c.isprintable() or c == "\u00a0" for line in lines for c in line)
    assert lines[0].startswith("two\\nlines") and "a\\x1b[2J\\nb  \\u202egnp.exe" in lines[2]
    assert "größe 😀\u00a0x" in lines[2]


# The lexer


def test_pieces_of_a_text() -> None:
    text = "SELECT `a``b`.c, 'it''s', r'\\' -- x \\\n y\n/* /* */ */ FROM gs://b/x--y <=> 1.5"
    found = [(p.kind.value, p.text) for p in pieces(text)]
    assert found == [
        ("word", "SELECT"),
        ("quoted", "a`b"),
        ("sign", "."),
        ("word", "c"),
        ("sign", ","),
        ("string", "it''s"),
        ("sign", ","),
        ("string", "\\"),
        ("word", "FROM"),
        ("word", "gs://b/x--y"),
        ("sign", "<"),
        ("sign", "="),
        ("sign", ">"),
        ("word", "1"),
        ("sign", "."),
        ("word", "5"),
    ]
    for piece in pieces(text):
        assert text[piece.start :].startswith(("`", "'", "r'", piece.text[:1]))
    assert [p.kind for p in pieces("'open")] == [Kind.SIGN, Kind.WORD]
    assert not list(pieces("/* open"))
