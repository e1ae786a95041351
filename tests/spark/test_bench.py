"""The benchmark on Spark, small: the same change for all contenders, right results, resumption."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hybridview.bench import run
from hybridview.bench.cells import CONTENDERS, HYBRID, INCREMENTAL, RECOMPUTE, SNAPSHOT
from hybridview.bench.changes import LAYOUT
from hybridview.bench.contenders import Hand
from hybridview.bench.floors import TOTALS, Extent, Ground, as_a_command, measure_floors
from hybridview.bench.targets import ALL_OF_FIFTY, FIVE_OF_FIFTY
from hybridview.deltalog import FolderLog
from hybridview.engine.session import Session, SparkPort, table_at

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_two_queries_from_end_to_end(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    plan = run.Plan(tmp_path, 0.01, (6, 12), (1.0,), least=2, most=2, floors=False)
    sessions = _sessions(monkeypatch)
    results = run.run(plan, said.append, SparkPort(spark))
    # What loading and changing tables needs is no setting that a recompute is measured with.
    # (Delta Lake notes some of its own in each session.)
    untouched, used = SparkPort(spark).writer(), sessions[0]
    names = {*untouched.settings(), *LAYOUT, "spark.sql.adaptive.coalescePartitions.enabled"}
    assert {n: used.given(n) for n in names} == {n: untouched.given(n) for n in names}
    assert set(results.cells) == {(0.01, 6, 1.0), (0.01, 12, 1.0)}
    for cell in results.cells.values():
        assert set(cell.rounds) == set(CONTENDERS)
        assert cell.verified == {INCREMENTAL: True, SNAPSHOT: True, HYBRID: True, "hand": True}
        for name, rounds in cell.rounds.items():
            assert len(rounds) == 2
            assert not any(r.problem for r in rounds), (name, rounds)
            assert all(r.seconds > 0 and r.jobs > 0 and r.bytes_read > 0 for r in rounds), name
        executed = {n: cell.rounds[n][0].executed for n in (SNAPSHOT, INCREMENTAL, HYBRID)}
        assert executed == {
            SNAPSHOT: "snapshot",
            INCREMENTAL: "incremental",
            HYBRID: "incremental",
        }
        commits = {name: rounds[0].commits for name, rounds in cell.rounds.items()}
        assert commits[RECOMPUTE] == commits["hand"] == 1
        # One commit of the view's own table and one of bookkeeping.
        assert commits[SNAPSHOT] == commits[INCREMENTAL] == 2
    _check_tables(tmp_path / "sf0.01", SparkPort(spark))
    lines, right = run.show(tmp_path)
    assert right
    assert "verified: 8 results, all right" in lines
    assert (tmp_path / run.REPORT).exists()
    monkeypatch.setattr(Hand, "run", lambda _: pytest.fail("measured again"))
    assert run.run(plan, said.append, SparkPort(spark)).cells == results.cells


def _sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Return the sessions that are made from now on; recomputes run in the first."""
    made: list[Session] = []
    writer = SparkPort.writer

    def noted(port: SparkPort) -> Session:
        made.append(writer(port))
        return made[-1]

    monkeypatch.setattr(SparkPort, "writer", noted)
    return made


def _check_tables(place: Path, port: SparkPort) -> None:
    """The base stays as it was; the change is new orders at the end and others all over."""
    assert not (place / "raw").exists()
    assert not list((place / "rounds").glob("*"))
    for name in ("orders", "lineitem"):
        assert FolderLog(place / "base" / name).latest() == 0
        files = DeltaTable(str(place / "base" / name)).get_add_actions(flatten=True)
        key = f"{name[0]}_orderkey"
        low, high = (
            sorted(v.as_py() for v in files.column(f"{kind}.{key}")) for kind in ("min", "max")
        )
        assert len(low) >= 4
        # Sorted by key: no file begins before the one before it ends.
        assert all(h <= following for h, following in zip(high, low[1:], strict=False)), name
    orders = str((place / "changes" / "1" / "orders").resolve())
    assert FolderLog(Path(orders)).latest() == 2
    highest = port.run(f"SELECT max(o_orderkey) FROM {table_at(orders, 0)}")[0][0]
    port.register_feed("bench_orders_feed", orders, 1, 2)
    feed = port.run(
        "SELECT _change_type, count(*), min(o_orderkey), max(o_orderkey) "
        "FROM bench_orders_feed GROUP BY _change_type"
    )
    found = {row[0]: row[1:] for row in feed}
    assert found["insert"] == (76, highest + 1, highest + 76)
    assert found["delete"][0] == found["update_postimage"][0] == 37
    assert found["delete"][1] < highest / 5 < highest * 4 / 5 < found["delete"][2]


SMALL = Extent(2_000, 100, 12, rounds=1, stores=(1, 3), few=1, vectors=3_000, compiled=(1, 6))


def test_a_small_change_by_the_command(tmp_path: Path, spark: Any) -> None:
    ground = Ground(SparkPort(spark), tmp_path / "floors", replace(SMALL, commands=1))
    store = ground.store("one", {"totals": TOTALS})
    floors = list(as_a_command(ground))
    assert [floor.name for floor in floors] == [
        "one small change, the command starts Spark",
        "hybridview up",
        "one small change, the command attaches to the engine",
    ]
    assert not any(floor.note for floor in floors)
    # One without the engine, two that warm it and one that counts: each applied a change.
    executed = [refresh.views[0].executed for refresh in store.history()]
    assert executed.count("incremental") == 4
    assert store.down() is None  # it is down already


def test_floors_small(tmp_path: Path, spark: Any) -> None:
    extent = replace(SMALL, start=False, commands=0)
    found = {
        floor.name: floor
        for floor in measure_floors(SparkPort(spark), tmp_path / "floors", print, extent)
    }
    assert found["nothing changed, Spark jobs"].value == 0
    for name in ("refresh, nothing changed", "status", "history", "explain", "refresh --dry-run"):
        assert found[f"hybridview {name}"].note == "no JVM", name
    for count in ("1 view", "3 views"):
        line = found[f"planning and bookkeeping, {count}"]
        assert line.note == "1 bookkeeping commit"
    assert found[ALL_OF_FIFTY].value > 0
    assert found[FIVE_OF_FIFTY].value > 0
    assert found["one small change / one bare MERGE + one append"].value > 0
    assert found["compiling 2 queries of TPC-H"].value > 0
    for what in ("MERGE of 1,000 scattered rows into", "reading all of"):
        assert found[f"{what} 3,000 rows, deletion vectors / none"].value > 0
    assert not (tmp_path / "floors").exists()
