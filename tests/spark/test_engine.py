"""The warm engine with a true server: who gets in, who attaches, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.engine.connect import attach
from hybridview.engine.spark_errors import spark_errors
from hybridview.engine.warm.place import Place, place_of
from hybridview.engine.warm.record import Record, birth, find
from hybridview.store import Store
from tests.conftest import SETTINGS

pytestmark = pytest.mark.spark

NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin:/bin"}
"""A command with this environment cannot start Spark itself."""
ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000000) b WHERE hash(a.id, b.id) = 1"


@dataclass(frozen=True)
class Shop:
    """A folder with a store, in which commands are typed."""

    folder: Path

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "hybridview.cli.app", *words],
            cwd=self.folder,
            env={**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> tuple[str, str]:
        """Run a command that does not fail; return what it printed on stdout and stderr."""
        command = self.start(*words, **environment)
        out, err = command.communicate(timeout=300)
        assert command.returncode == 0, (words, out, err)
        return out, err

    @property
    def place(self) -> Place:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
            return place_of(self.folder / "store")

    @property
    def record(self) -> Record:
        found = find(self.place)
        assert found is not None
        return found

    def configure(self, **spark: str) -> None:
        lines = [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in {**SETTINGS, **spark}.items()]
        text = "\n".join(['store = "store"', "[spark]", *lines])
        (self.folder / "hybridview.toml").write_text(text)

    def add(self, *ids: int) -> None:
        write_deltalake(
            str(self.folder / "store" / "tables" / "t"),
            pa.table({"g": pa.array([i % 3 for i in ids], pa.int32()), "x": pa.array(ids)}),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A store whose engine is up."""
    found = Shop(tmp_path_factory.mktemp("engine"))
    found.configure(**{"spark.driver.memory": "1g"})
    Store.open(found.folder / "store")
    found.add(*range(1, 31))
    out, err = found.run("up", "--idle", "20 minutes")
    assert "engine is up: process" in out and "starting Spark" in err
    yield found
    found.run("down", "--force")


def test_commands_attach(shop: Shop) -> None:
    """They refresh, verify and query where no Java can be found."""
    shop.run("create", "totals", "SELECT g, sum(x) AS s FROM t GROUP BY g", **NO_JAVA)
    shop.run("refresh", **NO_JAVA)
    shop.add(31, 32)
    out, err = shop.run("refresh", **NO_JAVA)
    assert "incremental" in out and not err
    out, _ = shop.run("sql", "SELECT sum(s) AS s FROM totals", "--json", **NO_JAVA)
    assert json.loads(out)["rows"] == [[528]]
    assert "1 equal" in shop.run("verify", **NO_JAVA)[0]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_nobody_gets_in_without_the_token(
    shop: Shop, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    url = replace(shop.record, token=token).url if token else f"sc://127.0.0.1:{shop.record.port}"
    port = attach(url)
    with pytest.raises(spark_errors(), match=r"(?i)unauthenticated|token"):
        port.run("SELECT 1")
    with contextlib.suppress(Exception):
        port.stop()


def jvm_of(record: Record) -> int:
    """Return the process of Spark behind a server."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return next(int(pid) for pid, parent in pairs if int(parent) == record.pid)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_it_listens_on_the_loopback_only(shop: Shop) -> None:
    sockets = set()
    for link in Path(f"/proc/{jvm_of(shop.record)}/fd").iterdir():
        with contextlib.suppress(OSError):
            if found := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())):
                sockets.add(found[1])
    addresses = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in sockets:  # it listens
                address, _, port = words[1].rpartition(":")
                addresses[int(port, 16)] = address
    assert shop.record.port in addresses
    assert all(a.endswith("0100007F") for a in addresses.values()), addresses


def test_the_token_is_not_shown(shop: Shop) -> None:
    token = shop.record.token
    listed = subprocess.run(["ps", "-efww"], capture_output=True, text=True, check=True).stdout
    assert str(shop.record.pid) in listed and token not in listed
    for words in (["status", "--json"], ["history", "--json"], ["up", "--json"], ["doctor"]):
        assert token not in "".join(shop.run(*words)), words
    assert token not in shop.place.log.read_text()
    out, _ = shop.run("status", "--json")
    engine = json.loads(out)["status"]["engine"]
    assert (engine["pid"], engine["port"]) == (shop.record.pid, shop.record.port)
    assert engine["idle_timeout"] == 1200 and not engine["in_use"] and not engine["changed"]


def test_other_settings_do_without_it(shop: Shop) -> None:
    shop.configure(**{"spark.driver.memory": "2g"})
    try:
        command = shop.start("show", "totals", **NO_JAVA)
        _, err = command.communicate(timeout=60)
        assert "started with other settings (spark.driver.memory)" in err
        assert "error HV401" in err, "it went on to start its own session"
        out, _ = shop.run("status")
        assert "commands do without it; changed: spark.driver.memory" in out
    finally:
        shop.configure(**{"spark.driver.memory": "1g"})


def cpu(pid: int) -> float:
    """Return the seconds of processor time a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_ctrl_c_cancels_on_the_server(shop: Shop) -> None:
    command = shop.start("sql", ENDLESS)
    jvm, start = jvm_of(shop.record), time.monotonic()
    before = cpu(jvm)
    while cpu(jvm) - before < 3 and time.monotonic() - start < 120:
        time.sleep(0.2)
    assert command.poll() is None
    out, _ = shop.run("status", "--json")
    assert json.loads(out)["status"]["engine"]["in_use"]
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=60)
    assert command.returncode == 130 and "interrupted" in err
    time.sleep(1)
    before = cpu(jvm)
    time.sleep(2)
    assert cpu(jvm) - before < 1, "the server still works on it"
    out, _ = shop.run("sql", "SELECT 1 AS one", "--json", **NO_JAVA)
    assert json.loads(out)["rows"] == [[1]]


@pytest.mark.long
def test_it_ends_with_its_process_and_by_itself(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.configure(**{"spark.driver.memory": "1g"})
    Store.open(tmp_path / "store")
    shop.run("up")
    first = shop.record
    jvm = jvm_of(first)
    os.kill(first.pid, signal.SIGKILL)
    assert within(30, lambda: not birth(jvm)), "the JVM stays"
    assert "engine" not in shop.run("status")[0]
    assert not shop.place.record.exists()

    shop.run("up", "--idle", "3 seconds")
    second = shop.record
    assert second.pid != first.pid
    assert within(60, lambda: find(shop.place) is None), "it does not end"
    assert within(30, lambda: not birth(second.pid))
    assert "nobody used it" in shop.place.log.read_text()


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until something is so; say whether it came to be."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False
