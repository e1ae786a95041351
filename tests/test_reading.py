"""Reading at one moment: which versions and columns a statement is given. No JVM: a port that
writes down what it is sent stands for Spark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.catalog import RefreshRecord
from hybridview.engine.session import LITERALS, OWN_SETTINGS, temp_view
from hybridview.errors import (
    EpochGoneError,
    HybridviewError,
    NotRefreshedError,
    ReadOnlyQueryError,
    TableMissingError,
    UsageError,
)
from hybridview.operations.query import KEEP_PLANS, NO_FILES
from tests.support.plain_store import PlainStore

DEFAULTS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}


@dataclass
class Port:
    """A session that runs nothing. `on_run` is called before each statement."""

    on_run: Callable[[str], None] = lambda _: None
    values: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    statements: list[str] = field(default_factory=list)
    writers: list[Port] = field(default_factory=list)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        self.on_run(sql)
        self.statements.append(sql)
        return []

    def register(self, name: str, query: str) -> None:
        self.run(temp_view(name, query))

    def describe(self, query: str) -> list[tuple[str, str]]:
        self.statements.append(f"DESCRIBE QUERY {query}")
        return []

    def frame(self, query: str) -> tuple[str, dict[str, str]]:
        return query, dict(self.values)

    def set(self, settings: Mapping[str, str]) -> None:
        self.values.update(settings)

    def unset(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.values.pop(name, None)

    def setting(self, name: str) -> str:
        return self.values[name]

    def given(self, name: str) -> str:
        return self.values.get(name, "")

    def settings(self) -> dict[str, str]:
        return dict(self.values)

    def cancel(self) -> None:
        raise AssertionError("nobody interrupted")

    def writer(self) -> Port:
        self.writers.append(Port(self.on_run, {**DEFAULTS, **OWN_SETTINGS}))
        return self.writers[-1]


@dataclass
class Reader:
    """A store, and the port its statements go to."""

    shop: PlainStore
    port: Port

    def sql(self, statement: str, **when: Any) -> dict[str, str]:
        """Run a statement; return what each of its tables is read as: columns @ version."""
        self.port.writers.clear()
        self.shop.store.sql(statement, **when)
        (session,) = self.port.writers
        assert not self.port.statements, "nothing is registered in the user's own session"
        assert session.statements[-1] == f"DESCRIBE QUERY {statement}"
        found = {}
        for text in session.statements[:-1]:
            match = re.fullmatch(
                r"CREATE OR REPLACE TEMPORARY VIEW `(\w+)` AS SELECT (.+) "
                r"FROM delta.`(.+)` VERSION AS OF (\d+)",
                text,
            )
            assert match, text
            assert Path(match[3]).name == match[1]
            found[match[1]] = f"{match[2].replace('`', '')} @ {match[4]}"
        return found


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Epoch 1 and epoch 2 of two views over one table, and a table that no view reads."""
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.table("prices")
    shop.view("totals", "orders")
    shop.view("large", "totals")
    shop.refresh("totals", "large")
    shop.insert("orders", 2)
    shop.refresh("totals", "large")
    port = Port()
    shop.context._port = port  # type: ignore[assignment]
    return Reader(shop, port)


def refused(kind: type[HybridviewError], action: Callable[[], object]) -> HybridviewError:
    with pytest.raises(kind) as caught:
        action()
    assert caught.value.detail or caught.value.hint
    return caught.value


def republish(shop: PlainStore, epoch: int, pins: dict[str, int]) -> None:
    """Publish the newest states once more, with pins."""
    newest: RefreshRecord = shop.catalog.published()
    record = replace(newest, epoch=epoch, attempt=f"attempt {epoch}", pins=pins)
    shop.context.ledger.publish(record, shop.catalog.store_id)


BOTH = "SELECT * FROM totals t JOIN large l ON t.id = l.id"


def test_views_are_read_at_the_newest_published_epoch(reader: Reader) -> None:
    assert reader.sql(BOTH) == {"totals": "id @ 1", "large": "id @ 1"}
    reader.shop.write("totals")  # by a refresh that was not published yet, or never will be
    assert reader.sql(BOTH) == {"totals": "id @ 1", "large": "id @ 1"}
    assert reader.sql(BOTH, latest=True) == {"totals": "id @ 2", "large": "id @ 1"}
    reader.shop.publish()
    assert reader.sql(BOTH) == {"totals": "id @ 2", "large": "id @ 1"}


def test_an_older_epoch(reader: Reader) -> None:
    assert reader.sql(BOTH, epoch=1) == {"totals": "id @ 0", "large": "id @ 0"}
    query, _ = reader.shop.store.read("totals", epoch=1)
    assert query.endswith("/views/totals` VERSION AS OF 0")


def test_no_mixture_of_two_epochs(reader: Reader) -> None:
    """A refresh publishes after the first view was registered: the second is read as before."""
    published = []

    def publish(_: str) -> None:
        if not published:
            published.append(True)
            reader.shop.insert("orders", 3)
            reader.shop.refresh("totals", "large")

    reader.port.on_run = publish
    statement = "SELECT * FROM totals, large, orders"
    before = {"totals": "id @ 1", "large": "id @ 1", "orders": "id @ 1"}
    assert reader.sql(statement) == before
    assert published, "the refresh did come in between"
    after = {"totals": "id @ 2", "large": "id @ 2", "orders": "id @ 2"}
    assert reader.sql(statement) == after


def test_base_tables_are_read_at_one_moment(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit lands while versions are being looked up: they are looked up once more."""
    from hybridview.operations import query

    looked_up: list[str] = []
    original = query.newest_version

    def newest_version(context: Any, table: Any) -> int:
        looked_up.append(table.name)
        version = original(context, table)
        if looked_up == ["orders"]:
            reader.shop.insert("orders", 7)
            reader.shop.insert("prices", 7)
        return version

    monkeypatch.setattr(query, "newest_version", newest_version)
    assert reader.sql("SELECT * FROM orders, prices") == {"orders": "id @ 2", "prices": "id @ 1"}


def test_base_tables_at_an_epoch(reader: Reader) -> None:
    statement = "SELECT * FROM totals, orders"
    reader.shop.insert("orders", 3)
    assert reader.sql(statement) == {"totals": "id @ 1", "orders": "id @ 2"}
    # What the views of the epoch reflect, where the refresh noted nothing itself.
    assert reader.sql(statement, epoch=1) == {"totals": "id @ 0", "orders": "id @ 0"}
    assert reader.sql(statement, epoch=2) == {"totals": "id @ 1", "orders": "id @ 1"}
    orders, prices = (reader.shop.catalog.tables[n].table_id for n in ("orders", "prices"))
    error = refused(EpochGoneError, lambda: reader.sql("SELECT * FROM prices", epoch=2))
    assert 'epoch 2 knows nothing of table "prices"' in error.fact
    republish(reader.shop, 3, {orders: 2, prices: 0})
    assert reader.sql("SELECT * FROM orders, prices", epoch=3) == {
        "orders": "id @ 2",
        "prices": "id @ 0",
    }


def test_the_columns_are_those_of_the_epoch(reader: Reader) -> None:
    """A view was redefined: it had other columns then, and others than its record says now."""
    path = reader.shop.path("totals")
    rows = pa.table({"id": [1], "odd `name`": [2], "__hv_rows": [3]})
    write_deltalake(str(path), rows, mode="overwrite", schema_mode="overwrite")
    assert reader.sql("SELECT * FROM totals", latest=True) == {"totals": "id, odd name @ 2"}
    assert reader.sql("SELECT * FROM totals", epoch=2) == {"totals": "id @ 1"}
    query, _ = reader.shop.store.read("totals", latest=True)
    assert query.startswith("SELECT `id`, `odd ``name``` FROM delta.`")


def test_files_that_are_gone(reader: Reader) -> None:
    path = reader.shop.path("totals")
    old = set(path.glob("*.parquet"))
    reader.shop.refresh("totals", "large")
    for file in old:
        file.unlink()  # as VACUUM does
    assert reader.sql("SELECT * FROM totals") == {"totals": "id @ 2"}
    for read in (
        lambda: reader.shop.store.read("totals", epoch=2),
        lambda: reader.sql("SELECT * FROM totals", epoch=2),
    ):
        error = refused(EpochGoneError, read)
        assert error.fact == 'view "totals" can no longer be read at epoch 2'
        assert "VACUUM" in error.detail
    assert reader.sql("SELECT * FROM large", epoch=2) == {"large": "id @ 1"}


def test_a_log_that_was_cleaned(reader: Reader) -> None:
    path = reader.shop.path("totals")
    (path / "_delta_log" / f"{0:020d}.json").unlink()
    error = refused(EpochGoneError, lambda: reader.shop.store.read("totals", epoch=1))
    assert "version 0" in error.detail


def test_a_folder_that_holds_another_table(reader: Reader) -> None:
    """Version numbers start anew in a table made anew; they must not be taken for the old ones."""
    path = reader.shop.path("totals")
    shutil.rmtree(path)
    reader.shop.write("totals")
    error = refused(EpochGoneError, lambda: reader.shop.store.read("totals", epoch=1))
    assert "another table" in error.detail


def test_the_same_for_a_base_table(reader: Reader) -> None:
    path = reader.shop.path("orders")
    shutil.rmtree(path)
    refused(TableMissingError, lambda: reader.sql("SELECT * FROM orders"))
    write_deltalake(str(path), pa.table({"id": [1]}))
    assert reader.sql("SELECT * FROM orders") == {"orders": "id @ 0"}
    refused(EpochGoneError, lambda: reader.sql("SELECT * FROM orders", epoch=1))


def test_moments_that_are_none(reader: Reader) -> None:
    store = reader.shop.store
    refused(UsageError, lambda: store.sql("SELECT 1", epoch=1, latest=True))
    refused(UsageError, lambda: store.sql("SELECT 1", epoch=9))
    refused(UsageError, lambda: store.read("totals", epoch=0))
    reader.shop.view("young", "orders")
    for when in ({}, {"latest": True}, {"epoch": 2}):
        error = refused(NotRefreshedError, lambda when=when: store.read("young", **when))
        assert "no rows yet" in error.fact
    reader.shop.refresh("young")
    error = refused(NotRefreshedError, lambda: store.read("young", epoch=2))
    assert error.detail == "It was loaded later."


def test_an_expired_epoch(reader: Reader) -> None:
    reader.shop.context.ledger.append("expired", {"epochs": [1], "at": ""})
    refused(EpochGoneError, lambda: reader.sql("SELECT 1", epoch=1))
    refused(EpochGoneError, lambda: reader.shop.store.read("totals", epoch=1))


def test_a_statement_has_a_session_of_its_own(reader: Reader) -> None:
    """With the user's settings that change answers, and none of a refresh; without files."""
    reader.port.values["spark.sql.session.timeZone"] = "Europe/Rome"
    _, settings = reader.shop.store.sql("SELECT * FROM totals")
    wanted = {**OWN_SETTINGS, **KEEP_PLANS, **NO_FILES}
    assert settings == {**DEFAULTS, **wanted, "spark.sql.session.timeZone": "Europe/Rome"}
    assert settings.items() >= LITERALS.items()
    reader.shop.store.sql("SELECT 1")
    assert len(reader.port.writers) == 2
    # A view that is read whole is a DataFrame of the user's own session, unless Delta refuses its
    # age there.
    assert reader.shop.store.read("totals")[1] == reader.port.values
    assert reader.shop.store.read("totals", epoch=1)[1].items() >= OWN_SETTINGS.items()


@pytest.mark.parametrize(
    "statement",
    ["", "  -- nothing", "RESET", "(RESET)", "reset ", "'SELECT'", "`select` 1", "SHOW TABLES"],
)
def test_what_does_not_start_like_a_query_never_reaches_spark(
    reader: Reader, statement: str
) -> None:
    refused(ReadOnlyQueryError, lambda: reader.shop.store.sql(statement))
    assert not reader.port.writers


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("FROM totals |> WHERE id > 1 |> JOIN `large` USING (id)", {"totals", "large"}),
        ("WITH totals AS (SELECT 1 AS id) SELECT * FROM totals", set()),
        ("(SELECT id FROM TOTALS) UNION ALL TABLE large", {"totals", "large"}),
        ("SELECT 1 WHERE 1 IN (SELECT id FROM large)", {"large"}),
        ("WITH x AS (TABLE totals) SELECT * FROM x", {"totals"}),
        ("VALUES (1)", set()),
    ],
)
def test_the_names_of_a_statement(reader: Reader, statement: str, names: set[str]) -> None:
    assert set(reader.sql(statement)) == names
