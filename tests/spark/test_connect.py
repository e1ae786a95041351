"""A store over Spark Connect: one store from end to end, through a server in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import Store
from hybridview.engine.connect import ConnectPort, attach, port_of
from hybridview.engine.session import SparkPort
from hybridview.errors import RejectedQueryError, UsageError
from hybridview.watermark import stored_state
from tests.support.connect_server import connect_server, free_port

pytestmark = pytest.mark.spark

TRANSACTION = {
    "spark.databricks.delta.write.txnAppId": "mine",
    "spark.databricks.delta.write.txnVersion": "7",
}

VIEWS = {
    "totals": "SELECT g, sum(x) AS total, count(*) AS n FROM t GROUP BY g",
    "ranges": "SELECT g, min(x) AS low, max(x) AS high FROM t GROUP BY g",
    "lines": "SELECT x, g FROM t WHERE x <> 3",
    "kinds": "SELECT DISTINCT g FROM t",
    "overall": "SELECT min(x) AS low, count(*) AS n FROM t",
    "large": "SELECT g, total FROM totals WHERE total > 10",
    "odd names": "SELECT g AS `a group`, sum(x) AS `a sum` FROM t GROUP BY g",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[Any]:
    """A user's session on the server."""
    port = attach(server)
    yield port.spark
    port.stop()


def write(root: Path, rows: dict[str, list[int]]) -> None:
    """Append to the base table, without a JVM."""
    write_deltalake(
        str(root / "tables" / "t"),
        pa.table({n: pa.array(v, pa.int32()) for n, v in rows.items()}),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def assert_exact(store: Store, client: Any) -> None:
    """Compare all views with their queries over the newest base table, in a session apart."""
    session = port_of(client).writer()
    session.run(f"CREATE TEMPORARY VIEW t AS SELECT * FROM delta.`{store.root}/tables/t`")
    session.run(f"CREATE TEMPORARY VIEW totals AS {VIEWS['totals']}")
    for name, query in VIEWS.items():
        found = sorted(repr(tuple(row)) for row in store.read(name).collect())
        assert found == sorted(map(repr, session.run(query))), name
    session.stop()


def test_a_store_from_end_to_end(client: Any, tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = Store.open(root, spark=client)
    write(root, {"id": list(range(40)), "g": [i % 4 for i in range(40)], "x": list(range(40))})
    for name, query in VIEWS.items():
        store.create_view(name, query)
    first = store.refresh()
    assert first.ok, first
    assert {v.executed for v in first.views} == {"initial"}
    assert isinstance(store.session(), ConnectPort)

    # Settings of the user's session stay his, and ours stay ours.
    for key, value in TRANSACTION.items():
        client.conf.set(key, value)
    write(root, {"id": [100, 101], "g": [1, 9], "x": [7, 3]})
    client.sql(f"DELETE FROM delta.`{root}/tables/t` WHERE id = 2")
    second = store.refresh(strategy="incremental")
    assert second.ok, second
    assert {v.executed for v in second.views} == {"incremental"}
    assert {v.name: v.method for v in second.views}["totals"] == "add"
    for key, value in TRANSACTION.items():
        assert client.conf.get(key) == value
        client.conf.unset(key)
    catalog = store._context.catalog()
    for view in catalog.views.values():
        log = store._context.log(catalog, view.name)
        state = stored_state(log)
        assert state is not None and state.watermark.epoch == 2
        assert log.commit(state.claimed_at).transactions == {view.id: 2}

    client.sql(f"UPDATE delta.`{root}/tables/t` SET x = x + 1 WHERE id > 30")
    third = store.refresh(["large"], strategy="snapshot")
    assert [(v.name, v.executed) for v in third.views] == [
        ("totals", "snapshot"),
        ("large", "snapshot"),
    ]
    write(root, {"id": [102], "g": [2], "x": [5]})
    fourth = store.refresh(strategy="hybrid")
    assert fourth.ok and fourth.epoch == 4
    assert_exact(store, client)
    assert all(store.verify(name).ok for name in ("lines", "large"))
    assert store.sql("SELECT sum(n) AS n FROM totals").collect()[0].n == 42
    assert store.sql("SELECT sum(n) AS n FROM totals", epoch=1).collect()[0].n == 40
    store.close()
    assert client.sql("SELECT 1 AS one").collect()[0].one == 1, "the user's session is not ours"


def test_errors_come_through(client: Any, tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = Store.open(root, spark=client)
    write(root, {"id": [1, 2], "g": [5, 10], "x": [5, 10]})
    with pytest.raises(RejectedQueryError, match="DATATYPE_MISMATCH"):
        store.create_view("wrong", "SELECT x + array(1) AS y FROM t")
    store.create_view("shares", "SELECT id, 100 / x AS share FROM t")
    store.create_view("sums", "SELECT g, sum(x) AS s FROM t GROUP BY g")
    assert store.refresh().ok
    write(root, {"id": [3], "g": [5], "x": [0]})
    result = {v.name: v for v in store.refresh(strategy="incremental").views}
    assert (result["shares"].executed, result["sums"].executed) == ("failed", "incremental")
    assert "DIVIDE_BY_ZERO" in result["shares"].error

    folder = next(v.folder for v in store.views() if v.name == "shares")
    client.sql(f"DELETE FROM delta.`{root}/tables/t` WHERE id = 3")
    client.sql(f"DELETE FROM delta.`{root}/views/{folder}` WHERE id = 1")
    rebuilt = store.refresh(["shares"]).views[0]
    assert rebuilt.executed == "snapshot" and rebuilt.reason.startswith("its table was changed")


def test_a_statement_can_be_cancelled(client: Any) -> None:
    """The server is told to stop what a writer runs, by a port that knows its writers."""
    import threading

    from pyspark.errors import PySparkException

    port = port_of(client)
    writer = port.writer()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            # A task that can be woken up: else it would keep the server busy after its end.
            writer.run("SELECT java_method('java.lang.Thread', 'sleep', 600000L) FROM range(1)")
        except PySparkException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        port.cancel()
        thread.join(0.2)
    assert "OPERATION_CANCELED" in str(raised[0])


def test_the_command_line_attaches(server: str, tmp_path: Path) -> None:
    """hybridview.toml names the server; no JVM is started."""
    root = tmp_path / "store"
    write(root, {"id": [1, 2], "g": [5, 10], "x": [5, 10]})
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "sums.sql").write_text("SELECT g, sum(x) AS s FROM t GROUP BY g")
    (tmp_path / "hybridview.toml").write_text(
        f'store = "store"\nviews = "views"\n[spark]\n"spark.remote" = "{server}"\n'
    )
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}
    for words in (["init", "store"], ["apply"], ["refresh"], ["verify"]):
        done = subprocess.run(
            [sys.executable, "-m", "hybridview.cli.app", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def test_the_port_suits_the_session(client: Any) -> None:
    from pyspark.sql import SparkSession

    assert type(port_of(client)) is ConnectPort
    assert type(port_of(object.__new__(SparkSession))) is SparkPort


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridview.engine.connect.PATIENCE", 1)
    with pytest.raises(UsageError, match="no Spark Connect server answers"):
        attach(f"sc://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("url", ["localhost:15002", "sc://host:1;token=secret", "sc://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UsageError, match="not the address") as caught:
        attach(url)
    assert "secret" not in str(caught.value)
