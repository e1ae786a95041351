"""The warm engine's files, locks and manners, with a server that is no Spark."""

from __future__ import annotations

import copy
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybridview import Store
from hybridview.cli import render
from hybridview.engine.connect import _on_loopback
from hybridview.engine.later import import_connect
from hybridview.engine.warm import end, server, start
from hybridview.engine.warm.place import Place, make_private, place_of, take
from hybridview.engine.warm.record import Record, birth, find, fingerprint, write
from hybridview.engine.warm.use import attach_if_up, engine_status
from hybridview.errors import BusyError, EngineError, UsageError
from hybridview.operations.engine import trouble
from tests.support.fake_engine import use_fakes

TOKEN = "a-token-that-nobody-may-see"
SETTINGS = {"spark.driver.memory": "2g", "spark.hadoop.fs.s3a.secret.key": "hush-hush-hush"}


@pytest.fixture(autouse=True)
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files go to a folder of the test; servers are fakes, and none outlives it."""
    use_fakes(monkeypatch, tmp_path / "state")
    monkeypatch.setattr(end, "GENTLE", 2.0)
    yield
    for file in (tmp_path / "state").rglob("engine.json"):
        pid = json.loads(file.read_text())["pid"]
        if pid != os.getpid() and "fake_engine" in command_line(pid):
            os.kill(pid, signal.SIGKILL)


def command_line(pid: int) -> str:
    words = ["ps", "-o", "args=", "-p", str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    Store.open(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def place(root: Path) -> Place:
    found = place_of(root)
    make_private(found)
    return found


def record(pid: int, port: int = 1) -> Record:
    now = "2026-01-01T00:00:00+00:00"
    started_with = fingerprint(SETTINGS, TOKEN)
    return Record(pid, birth(pid), port, TOKEN, now, 1800.0, "store", started_with)


def silent(_: str) -> None:
    """Take no notice."""


# The files


def test_only_the_user_reads_the_token(place: Place) -> None:
    write(place, record(os.getpid()))
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.record.stat().st_mode) == 0o600
    assert TOKEN in place.record.read_text()
    assert TOKEN not in repr(record(os.getpid()))


def test_no_value_of_a_setting_is_written_down(place: Place) -> None:
    write(place, record(os.getpid()))
    assert "hush-hush-hush" not in place.record.read_text()


def test_a_folder_prepared_by_others_is_refused(root: Path, tmp_path: Path) -> None:
    found = place_of(root)
    found.folder.parent.mkdir(parents=True)
    found.folder.symlink_to(tmp_path)
    with pytest.raises(UsageError, match="cannot keep its files"):
        make_private(found)


def test_stores_do_not_share_an_engine(root: Path, tmp_path: Path) -> None:
    assert place_of(root) != place_of(tmp_path / "other")
    assert place_of(root) == place_of(root / ".." / root.name)


# Who is alive


def test_a_record_counts_while_its_server_holds_the_lock(place: Place) -> None:
    write(place, record(os.getpid()))
    serving = take(place.serving)
    assert serving is not None
    assert find(place) == record(os.getpid())
    serving.release()
    assert find(place) is None
    assert not place.record.exists(), "the record of a dead server goes away"


def test_a_record_that_is_none(place: Place) -> None:
    place.record.write_text("{")
    assert find(place) is None
    place.record.write_text('{"pid": 1}')
    assert find(place) is None


def test_a_lock_ends_with_its_process(place: Place) -> None:
    code = (
        "import sys, time; from pathlib import Path; from hybridview.engine.warm.place import take;"
        "held = take(Path(sys.argv[1])); print(held is not None, flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(place.serving)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "True\n"
    assert take(place.serving, shared=True) is None
    holder.kill()
    holder.wait()
    assert take(place.serving, patience=2) is not None


def test_a_process_is_known_by_its_birth() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert birth(os.getpid()) == birth(os.getpid()) != ""
    assert birth(sleeper.pid) != birth(os.getpid())
    sleeper.kill()
    sleeper.wait()
    assert birth(sleeper.pid) == ""


# up


def test_up_starts_a_server_once(root: Path) -> None:
    told: list[str] = []
    first, started = start.up(root, SETTINGS, 60.0, told.append)
    assert started and told == ["starting Spark"]
    assert first.token not in command_line(first.pid)
    second, started = start.up(root, SETTINGS, 60.0, silent)
    assert not started and second == first
    assert end.down(root) == first
    assert end.down(root) is None


def test_two_at_once_start_one_server(root: Path, place: Place) -> None:
    found: list[tuple[Record, bool]] = []
    threads = [
        threading.Thread(target=lambda: found.append(start.up(root, SETTINGS, 60.0, silent)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(started for _, started in found) == [False, False, True]
    assert len({r.pid for r, _ in found}) == 1
    assert (place.folder / "starts").read_text() == "x"
    end.down(root)


def test_a_server_whose_up_was_killed_is_waited_for(root: Path, place: Place) -> None:
    order = {"token": TOKEN, "settings": SETTINGS, "idle": 60.0, "store": str(root)}
    orphan = start._spawn(place, json.dumps(order))
    while not (place.folder / "starts").exists():
        time.sleep(0.02)
    found, started = start.up(root, SETTINGS, 60.0, silent)
    assert not started and found.pid == orphan.pid
    end.down(root)


def test_a_user_without_a_home(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert f"hybridview-{os.getuid()}" in str(place_of(root).folder)


def test_up_with_other_settings_says_which(root: Path) -> None:
    start.up(root, SETTINGS, 60.0, silent)
    with pytest.raises(EngineError, match="other settings") as caught:
        start.up(root, {**SETTINGS, "spark.driver.memory": "3g"}, 60.0, silent)
    assert "spark.driver.memory" in caught.value.detail
    assert "hybridview down && hybridview up" in caught.value.hint
    end.down(root)


def test_a_server_that_dies_at_its_start(
    root: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HV_FAKE", "broken")
    with pytest.raises(EngineError, match="did not start") as caught:
        start.up(root, SETTINGS, 60.0, silent)
    assert "OutOfMemoryError" in caught.value.detail
    assert str(place.log) in caught.value.hint
    assert find(place) is None


def test_a_start_that_is_interrupted_leaves_nothing(
    root: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[int] = []

    def interrupted(_: Place, process: Any) -> Record:
        spawned.append(process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "_await", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start.up(root, SETTINGS, 60.0, silent)
    assert birth(spawned[0]) == ""
    assert take(place.starting) is not None, "the next one may start"


def test_missing_packages_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "PACKAGES", ("json", "no_such_package.part"))
    with pytest.raises(UsageError, match="not installed") as caught:
        start.up(root, SETTINGS, 60.0, silent)
    assert caught.value.detail == "Missing: no_such_package.part."
    assert "pip install" in caught.value.hint


def test_a_store_with_a_server_of_its_own_gets_none(root: Path) -> None:
    with pytest.raises(UsageError, match="already"):
        start.up(root, {"spark.remote": "sc://elsewhere"}, 60.0, silent)


# down


def test_down_is_firm_with_the_deaf(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HV_FAKE", "deaf")
    monkeypatch.setattr(end, "GENTLE", 0.3)
    found, _ = start.up(root, SETTINGS, 60.0, silent)
    assert end.down(root) == found
    os.waitpid(found.pid, 0)
    assert birth(found.pid) == ""


def test_down_never_ends_another_process(root: Path, place: Place) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    serving = take(place.serving)
    write(place, replace(record(sleeper.pid), born="at another time"))
    with pytest.raises(EngineError, match="is not the engine"):
        end.down(root)
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()
    assert serving is not None


def test_down_leaves_an_engine_in_use_alone(root: Path, place: Place) -> None:
    found, _ = start.up(root, SETTINGS, 60.0, silent)
    using = take(place.used, shared=True)
    assert using is not None
    with pytest.raises(BusyError, match="in use"):
        end.down(root)
    assert find(place) == found
    assert end.down(root, force=True) == found


# Idle


def serve(place: Place, idle: float, alive: bool = True) -> threading.Thread:
    jvm = SimpleNamespace(poll=lambda: None if alive else 1)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=jvm)))
    ending = threading.Event()
    place.used.touch()
    thread = threading.Thread(target=server._serve, args=(place, spark, idle, ending), daemon=True)
    thread.start()
    return thread


def test_an_idle_server_ends(place: Place) -> None:
    serving = serve(place, idle=0.3)
    serving.join(5)
    assert not serving.is_alive()


def test_a_server_in_use_does_not_end(place: Place) -> None:
    place.used.touch()
    using = take(place.used, shared=True)
    assert using is not None
    serving = serve(place, idle=0.2)
    serving.join(1)
    assert serving.is_alive()
    using.release()
    serving.join(5)
    assert not serving.is_alive()


def test_a_server_without_spark_ends(place: Place) -> None:
    serving = serve(place, idle=2, alive=False)
    serving.join(5)
    assert not serving.is_alive()


# Commands


def test_no_engine_costs_nothing(root: Path) -> None:
    told: list[str] = []
    assert attach_if_up(root, SETTINGS, told.append) is None
    assert not told and engine_status(root, SETTINGS) is None
    assert not place_of(root).folder.exists()


def test_other_settings_are_told(root: Path, place: Place) -> None:
    serving = take(place.serving)
    write(place, record(os.getpid()))
    told: list[str] = []
    assert attach_if_up(root, {"spark.driver.memory": "9g"}, told.append) is None
    assert "spark.driver.memory" in told[0] and "going on without it" in told[0]
    assert "hush" not in told[0] and serving is not None


def test_an_engine_that_does_not_answer_is_told(root: Path, place: Place) -> None:
    serving = take(place.serving)
    write(place, record(os.getpid()))
    told: list[str] = []
    assert attach_if_up(root, SETTINGS, told.append) is None
    assert "no Spark Connect server answers" in told[0] and str(place.log) in told[0]
    assert TOKEN not in told[0]
    assert take(place.used) is not None, "it is not in use"
    found = engine_status(root, SETTINGS)
    assert found is not None and "does not answer" in trouble(found)[0]
    assert serving is not None


def test_an_engine_about_to_end_is_left_alone(root: Path, place: Place) -> None:
    serving, ending = take(place.serving), take(place.used)
    write(place, record(os.getpid()))
    told: list[str] = []
    before = time.monotonic()
    assert attach_if_up(root, SETTINGS, told.append) is None
    assert time.monotonic() - before < 5 and not told
    assert serving is not None and ending is not None


def test_status_and_doctor_show_it(root: Path) -> None:
    store = Store.open(root, settings=SETTINGS)
    found, started = store.up("1 hour")
    assert started
    now = store.status()
    assert now.engine is not None and now.engine.pid == found.pid
    text = "\n".join(render.status(now, 100))
    assert f"engine: process {found.pid}, port 1, since 20" in text
    assert "idle timeout 1 hour" in text
    token = json.loads(place_of(root).record.read_text())["token"]
    assert token not in render.as_json("status", {"status": now})
    troubled = [f for f in store.doctor() if f.what == "engine"]
    assert [f.ok for f in troubled] == [False] and "does not answer" in troubled[0].detail
    changed = Store.open(root).status()
    assert changed.engine is not None and "spark.driver.memory" in changed.engine.changed
    assert "commands do without it" in "\n".join(render.status(changed, 100))
    assert store.down() == found.pid
    assert store.status().engine is None


def test_a_time_that_is_none(root: Path) -> None:
    with pytest.raises(UsageError, match='"soon" is not a time'):
        Store.open(root).up("soon")


def test_the_token_goes_to_an_address_of_this_machine() -> None:
    """`localhost` may be another address first, at which anybody may listen and get the token."""
    builder, _ = import_connect()
    address = _on_loopback(builder)(record(os.getpid(), 12345).url)
    assert (address.endpoint, address.token) == ("ipv4:127.0.0.1:12345", TOKEN)
    # A session of its own is made from a copy of it.
    assert copy.deepcopy(address).endpoint == "ipv4:127.0.0.1:12345"
