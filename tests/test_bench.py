"""The pure parts of the benchmark: sizes, rounds, resumption, report, targets, shared copies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview.bench import data, run
from hybridview.bench.cells import (
    CONTENDERS,
    HYBRID,
    INCREMENTAL,
    RECOMPUTE,
    Cell,
    Duck,
    Floor,
    Results,
    Round,
    middle,
    read_results,
    rotated,
    still_to_run,
    wanted_cells,
    write_results,
)
from hybridview.bench.changes import ALL_SIZES, change_of, statements
from hybridview.bench.duck import measure_duckdb
from hybridview.bench.links import copy_store, copy_table, show_commits
from hybridview.bench.meter import own_bytes_read
from hybridview.bench.page import write_page, write_settings
from hybridview.bench.queries import ALL, BY_HAND, QUICK, hand_program, tables_of
from hybridview.bench.report import all_right, crossover, report, scale_report
from hybridview.bench.shell import time_command
from hybridview.bench.targets import (
    ALL_OF_FIFTY,
    FIVE_OF_FIFTY,
    geometric_mean,
    percentile,
    targets,
    to_best,
)
from hybridview.deltalog import FolderLog
from hybridview.errors import UsageError
from tests.cli.terminal import check_golden


def rounds(*seconds: float, executed: str = "", problem: str = "") -> tuple[Round, ...]:
    return tuple(Round(s, 10, 2, 5_000_000, executed, problem) for s in seconds)


def cell(
    query: int = 1,
    percent: float = 0.01,
    scale: float = 10,
    executed: str = "incremental",
    **seconds: float,
) -> Cell:
    """Return a cell whose contenders took so many seconds in each of three rounds."""
    times = {
        RECOMPUTE: 20.0,
        "snapshot": 21.0,
        INCREMENTAL: 2.0,
        HYBRID: 2.1,
        "hand": 1.9,
        **seconds,
    }
    return Cell(
        scale,
        query,
        percent,
        150,
        {n: rounds(t, t, t, executed=executed if n == HYBRID else "") for n, t in times.items()},
        {INCREMENTAL: True, HYBRID: True},
        {"jvm": 3_000_000_000, "python": 200_000_000},
    )


def results(*cells: Cell) -> Results:
    found = Results({c.key: c for c in cells}, machine={"machine": "2 cores"})
    found.ducks[10, 1] = Duck(10, 1, (2.0, 2.2, 2.1), 4)
    found.floors[ALL_OF_FIFTY] = Floor(ALL_OF_FIFTY, 12.0, "x", 15, "24.00 s / 2.00 s")
    return found


# Changes


@pytest.mark.parametrize("percent", ALL_SIZES)
@pytest.mark.parametrize("orders", [15_000, 1_500_000, 15_000_000])
def test_a_change_has_all_kinds_and_the_right_size(percent: float, orders: int) -> None:
    change = change_of(percent, orders)
    assert min(change.inserted, change.deleted, change.updated) >= 1
    assert change.orders == max(3, round(orders * percent / 100))
    assert change.deleted + change.updated <= change.inserted + 2
    assert change.orders <= orders


def test_the_same_absolute_change_at_two_scales() -> None:
    small, large = change_of(0.1, 1_500_000), change_of(0.01, 15_000_000)
    assert replace(small, percent=0.01) == large


def test_a_change_is_an_insert_and_a_merge_per_table() -> None:
    texts = statements(Path("/work"), change_of(1, 1000))
    starts = [text.split()[0] for text in texts]
    assert starts == ["CREATE", "INSERT", "INSERT", "MERGE", "MERGE"]


# Texts


def test_every_query_and_its_tables() -> None:
    assert tables_of(1) == ("lineitem",)
    assert tables_of(15) == ("supplier", "lineitem")  # and not the name of its WITH
    assert all(tables_of(number) for number in ALL)
    untouched = [n for n in ALL if not {"orders", "lineitem"} & set(tables_of(n))]
    assert untouched == [2, 11, 16]


def test_programs_written_by_hand() -> None:
    assert [n for n in ALL if hand_program(n)] == list(BY_HAND)
    assert set(BY_HAND) <= set(QUICK)
    third = hand_program(3)
    assert third is not None
    assert third.create.startswith("SELECT l_orderkey")
    assert len(third.prepare) == 2
    assert third.merge.startswith("MERGE INTO hand_q3 t USING (")
    assert third.feeds == ("orders", "lineitem")
    assert third.tables == ("customer", "orders", "lineitem")
    first = hand_program(1)
    assert first is not None
    assert (first.feeds, first.tables) == (("lineitem",), ("lineitem",))


# Rounds


def test_every_contender_is_first_in_turn() -> None:
    orders = [rotated(CONTENDERS, number) for number in range(len(CONTENDERS))]
    assert [order[0] for order in orders] == list(CONTENDERS)
    assert all(sorted(order) == sorted(CONTENDERS) for order in orders)
    assert rotated((), 3) == ()


def test_nobody_always_runs_after_the_same_one() -> None:
    orders = [rotated(CONTENDERS, number) for number in range(3)]
    after = [order.index(HYBRID) > order.index(INCREMENTAL) for order in orders]
    assert after == [True, False, True]


def test_narrow_rounds_end_at_the_least() -> None:
    done = {RECOMPUTE: rounds(2, 2.1, 2), HYBRID: rounds(1, 1.1, 1)}
    assert still_to_run({n: r[:2] for n, r in done.items()}) == (RECOMPUTE, HYBRID)
    assert still_to_run(done) == ()


def test_a_wide_spread_asks_for_more_of_all_up_to_the_most() -> None:
    done = {RECOMPUTE: rounds(2, 2.1, 2), HYBRID: rounds(1, 1.5, 1)}
    assert still_to_run(done) == (RECOMPUTE, HYBRID)
    assert still_to_run(done, 3, 3) == ()
    seven = {RECOMPUTE: rounds(*[2.0] * 7), HYBRID: rounds(*[1.0, 2.0] * 3, 1.0)}
    assert still_to_run(seven) == ()


def test_rounds_that_differ_by_next_to_nothing_agree() -> None:
    assert still_to_run({HYBRID: rounds(0.03, 0.06, 0.04)}) == ()
    assert still_to_run({HYBRID: rounds(0.3, 0.6, 0.4)}) == (HYBRID,)


def test_what_takes_long_and_agrees_is_measured_enough() -> None:
    long = {RECOMPUTE: rounds(30, 31, 30), HYBRID: rounds(1, 1.5, 1), INCREMENTAL: rounds(1, 1, 1)}
    assert still_to_run(long) == (HYBRID, INCREMENTAL)
    more = {**long, HYBRID: rounds(1, 1.5, 1, 1), INCREMENTAL: rounds(1, 1, 1, 1)}
    assert still_to_run(more) == (HYBRID, INCREMENTAL)
    wide = {**long, RECOMPUTE: rounds(30, 45, 30)}
    assert still_to_run(wide) == (RECOMPUTE, HYBRID, INCREMENTAL)


def test_what_failed_or_is_hopeless_is_not_repeated() -> None:
    failed = {RECOMPUTE: rounds(2), INCREMENTAL: rounds(1, problem="no rule")}
    assert still_to_run(failed) == (RECOMPUTE,)
    slow = {RECOMPUTE: rounds(20), INCREMENTAL: rounds(250), HYBRID: rounds(150)}
    assert still_to_run(slow) == (RECOMPUTE, HYBRID)
    quick = {RECOMPUTE: rounds(1), INCREMENTAL: rounds(50)}
    assert still_to_run(quick) == (RECOMPUTE, INCREMENTAL)


def test_medians() -> None:
    assert middle(rounds(3, 1, 2)) == 2
    assert middle(()) is None
    assert middle((*rounds(1, 2), *rounds(3, problem="lost"))) is None
    assert cell().ratio(RECOMPUTE, HYBRID) == pytest.approx(20 / 2.1)
    assert cell().ratio(RECOMPUTE, "nobody") is None
    assert to_best(cell()) == pytest.approx(1.05)
    assert geometric_mean([1, 100]) == pytest.approx(10)
    assert geometric_mean([]) is None
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([7.0], 0.95) == 7


# Resumption


def test_results_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    before = results(cell(), cell(3, 1.0), cell(3, 1.0, scale=1))
    write_results(path, before)
    assert read_results(path) == before
    assert read_results(tmp_path / "none.json") == Results()
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}', '{"schema": 1}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="holds no results"):
        read_results(path)


def test_finished_cells_are_not_measured_again() -> None:
    have = results(cell(1, 0.01), cell(1, 1.0), cell(3, 0.01))
    assert wanted_cells(have, 10, (1, 3, 6), (0.01, 1.0)) == {3: (1.0,), 6: (0.01, 1.0)}
    assert wanted_cells(have, 10, (1,), (0.01, 1.0)) == {}
    assert wanted_cells(have, 1, (1,), (0.01,)) == {1: (0.01,)}
    assert wanted_cells(have, 10, (1,), (0.01, 1.0), again=True) == {1: (0.01, 1.0)}


def test_a_finished_run_starts_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have = results(cell(1, 0.01))
    have.floors[FIVE_OF_FIFTY] = Floor(FIVE_OF_FIFTY, 3.0, "x", 4)
    write_results(tmp_path / run.RESULTS, have)
    monkeypatch.setattr(run, "start_local", lambda *_: pytest.fail("Spark was started"))
    said: list[str] = []
    plan = run.Plan(tmp_path, 10, (1,), (0.01,))
    assert run.run(plan, said.append).cells.keys() == {(10, 1, 0.01)}
    assert said == ["everything is measured already; --again measures it anew"]


def test_floors_that_were_interrupted_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Started(Exception):
        pass

    def start(*_: object) -> None:
        raise Started

    write_results(tmp_path / run.RESULTS, results(cell(1, 0.01)))
    monkeypatch.setattr(run, "start_local", start)
    with pytest.raises(Started):
        run.run(run.Plan(tmp_path, 10, (1,), (0.01,)), lambda _: None)
    run.run(run.Plan(tmp_path, 10, (1,), (0.01,), floors=False), lambda _: None)


def test_what_to_measure_is_read_from_text() -> None:
    assert run.read_queries("q1, 3 6,3") == (1, 3, 6)
    assert run.read_queries("all") == ALL
    assert run.read_queries("none") == ()
    assert run.read_sizes("10, 0.01%") == (0.01, 10)
    assert run.read_sizes("all") == ALL_SIZES
    for text in ("0", "23", "x", ""):
        with pytest.raises(UsageError, match="names no queries"):
            run.read_queries(text)
    for text in ("0", "101", "much", ""):
        with pytest.raises(UsageError, match="gives no change sizes"):
            run.read_sizes(text)


# The report


def test_the_report() -> None:
    have = results(
        cell(1, 0.01),
        cell(1, 1.0, incremental=15.0, hybrid=15.5),
        cell(1, 10.0, incremental=60.0, hybrid=21.5, executed="snapshot"),
        cell(2, 0.01, executed="none", hybrid=0.05, incremental=0.05),
    )
    check_golden("bench_report.txt", "\n".join(report(have)))


def test_a_wrong_result_is_shouted() -> None:
    wrong = replace(cell(), verified={HYBRID: True, INCREMENTAL: False})
    assert not all_right(results(wrong))
    assert "NO, THESE DIFFER: q1 at 0.01 % of SF10: incremental" in report(results(wrong))[-1]
    assert all_right(results(cell()))


def test_a_contender_that_failed_is_shown() -> None:
    failed = cell()
    lost = {**failed.rounds, INCREMENTAL: rounds(1, problem="no rule")}
    lines = scale_report(results(replace(failed, rounds=lost)), 10)
    assert "failed" in lines[2]


def test_the_crossover_is_between_two_sizes() -> None:
    cells = [cell(1, 1.0, incremental=10.0), cell(1, 100.0, incremental=40.0)]
    assert crossover(cells) == pytest.approx(10)  # half-way on both logarithmic scales
    assert crossover(cells[:1]) is None
    assert crossover(cells[1:]) == pytest.approx(100)
    assert crossover([]) is None


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from hybridview.bench.plot import draw

    have = results(*(cell(q, p) for q in (1, 2, 3, 4) for p in (0.01, 1.0, 10.0)), cell(5, 1.0))
    paths = draw(have, 10, tmp_path)
    drawn = paths[1].read_text(encoding="utf-8")
    # The last query has one size only, and shares its axis with the others.
    assert all(f"<!-- {size} -->" in drawn for size in ("0.01", "1", "10"))
    assert [p.suffix for p in paths] == [".png", ".svg"]
    assert all(p.stat().st_size > 5_000 for p in paths)
    assert draw(have, 1, tmp_path) == ()


# Targets


def test_targets_met_missed_and_not_measured() -> None:
    every = [cell(number, 0.01) for number in ALL]
    lines = {line.name: line for line in targets(results(*every))}
    recompute = lines["SF10, 0.01 %: Spark recompute / hybrid, geometric mean"]
    assert (recompute.bound, recompute.met) == (">= 5", True)
    assert recompute.note == "22 of 22 queries; 9.52 for those whose tables changed"
    assert recompute.measured == pytest.approx(20 / 2.1)
    assert lines["SF1, 0.01 %: Spark recompute / hybrid, geometric mean"].measured is None
    hand = lines["SF10, 0.01 %: hybrid / hand-written MERGE, geometric mean"]
    assert hand.met and hand.note == "5 of 5 queries, worst 1.11"
    assert lines[ALL_OF_FIFTY].met
    assert lines["Q1, SF10, 0.01 %: DuckDB recompute / hybrid"].met
    assert lines["Q6, SF10, 0.01 %: DuckDB recompute / hybrid"].met is None


def test_a_target_over_some_of_the_queries_is_not_met_yet() -> None:
    line = targets(results(cell(1)))[0]
    assert line.measured is not None
    assert line.met is None
    assert line.note.startswith("1 of 22 queries")


def test_targets_over_all_cells() -> None:
    cells = [cell(number, 0.01) for number in ALL[:10]] + [cell(1, 1.0, hybrid=9.0)]
    found = {line.name: line for line in targets(results(*cells))}
    assert found["hybrid / best strategy, median of all cells"].met
    assert found["hybrid / best strategy, 95th percentile"].met is False
    assert found["hybrid / best strategy, 95th percentile"].measured == pytest.approx(4.5)


def test_scales_are_compared_at_the_same_number_of_orders() -> None:
    small = cell(1, 0.1, scale=1, hybrid=2.0)
    other = cell(1, 0.01, scale=1, hybrid=9.0)
    lines = {line.name: line for line in targets(results(cell(1, 0.01, hybrid=3.2), small, other))}
    line = lines["hybrid SF10 / SF1 at the same absolute change, geometric mean"]
    assert line.measured == pytest.approx(1.6)
    assert line.met is False
    assert line.note == "1 pairs of cells"


def test_cells_of_several_runs_say_when_they_were_measured() -> None:
    large = replace(cell(1, 0.01), measured="2026-11-18 02:00 UTC")
    later = replace(cell(3, 0.01), measured="2026-11-18 03:00 UTC")
    small = replace(cell(1, 0.1, scale=1), measured="2026-11-17 23:30 UTC")
    text = report(results(large, later, small, cell(4, 0.01, scale=1)))
    head = "seconds (median) and ratios, measured"
    assert f"SF10: {head} 2026-11-18 02:00 UTC to 2026-11-18 03:00 UTC" in text
    assert f"SF1: {head} 2026-11-17 23:30 UTC (1 of 2 cells earlier)" in text
    assert any(line.endswith("1 pairs of cells, at most 2.5 hours apart") for line in text)


def test_floors() -> None:
    assert Floor("x", 0.05, "s", 0.1).met
    assert Floor("x", 1, "jobs", 0).met is False
    assert Floor("x", 1, "s").met is None


def test_a_command_is_timed_without_java(tmp_path: Path) -> None:
    floor = time_command("doctor", ("doctor", "--store", str(tmp_path / "none")), rounds=1)
    assert floor.note.startswith("FAILED: error HV201")
    made = time_command("init", ("init", str(tmp_path / "store")), rounds=1)
    assert made.note == "no JVM"
    assert 0 < made.value < 60


# Data


def test_large_tables_have_many_files() -> None:
    assert data.files_for("region", 1_000) == 1
    assert data.files_for("lineitem", 1_000) == data.FEW_FILES
    assert data.files_for("lineitem", 640_000_001) == 21


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([(1, 5), (5, 9)], True),
        ([(5, 9), (1, 5)], True),
        ([(1, 6), (5, 9)], False),
        ([(1, 9)], False),
    ],
)
def test_large_tables_are_sorted_if_they_do_not_come_in_order(
    tmp_path: Path, files: list[tuple[int, int]], expected: bool
) -> None:
    for ends in files:
        write_deltalake(tmp_path / "t", pa.table({"k": list(ends)}), mode="append")
    assert data.in_order(FolderLog(tmp_path / "t"), "k") is expected


def test_a_missing_generator_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        data.generate(tmp_path / "raw", 0.01)
    assert "pip install 'hybridview[bench]'" in str(caught.value)


def test_duckdb_runs_every_query(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    data.generate(raw, 0.001)
    tables = data.Data(0.001, tmp_path, {})
    for name in data.TABLES:
        arrow = pq.read_table(raw / f"{name}.parquet")
        write_deltalake(tables.table(name), arrow)
    for number in ALL:
        found = measure_duckdb(tables, number, rounds=1)
        assert (found.problem, len(found.rounds)) == ("", 1), number
    assert measure_duckdb(tables, 1, rounds=1).rows == 4


# Copies that share files


def values(path: Path) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist())


def test_a_copy_stops_at_a_version_and_is_shown_the_rest(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for number in range(3):
        write_deltalake(source, pa.table({"x": [number]}), mode="append")
    copy_table(source, target, until=0)
    assert values(target) == [0]
    show_commits(source, target, after=0, until=1)
    assert values(target) == [0, 1]
    show_commits(source, target, after=1)
    assert values(target) == [0, 1, 2]
    assert DeltaTable(target).metadata().id == DeltaTable(source).metadata().id


def test_a_copy_shares_files_and_not_its_log(tmp_path: Path) -> None:
    source = tmp_path / "store" / "views" / "v"
    write_deltalake(source, pa.table({"x": [1]}))
    copy_store(tmp_path / "store", tmp_path / "copy")
    target = tmp_path / "copy" / "views" / "v"
    file = next(source.glob("*.parquet"))
    assert (target / file.name).stat().st_ino == file.stat().st_ino
    log = "_delta_log/00000000000000000000.json"
    assert (target / log).stat().st_ino != (source / log).stat().st_ino
    write_deltalake(target, pa.table({"x": [2]}), mode="append")
    assert (values(source), values(target)) == ([1], [1, 2])


def test_a_page_keeps_the_notes_below_its_line(tmp_path: Path) -> None:
    results, picture = tmp_path / "results.json", tmp_path / "sf1.svg"
    results.write_text("{}", encoding="utf-8")
    picture.write_text("<svg/>", encoding="utf-8")
    pictures = (tmp_path / "sf1.png", picture)
    page = write_page(tmp_path / "docs", ["first figures"], results, pictures)
    page.write_text(page.read_text() + "\n---\n\nWhy Q21 is slow.\n")
    page = write_page(tmp_path / "docs", ["second figures"], results, pictures)
    shown = page.read_text()
    assert "second figures" in shown and "first figures" not in shown
    assert shown.endswith("\n---\n\nWhy Q21 is slow.\n")
    assert "![sf1](sf1.svg)" in shown
    assert {p.name for p in page.parent.iterdir()} == {"speed.md", "results.json", "sf1.svg"}


def test_the_page_of_settings_keeps_its_notes_too(tmp_path: Path) -> None:
    page = write_settings(tmp_path, ["| web interface | 1.10x |"], 3, "on a Monday")
    page.write_text(page.read_text() + "\n---\n\nWhy there is none.\n")
    shown = write_settings(tmp_path, ["| web interface | 1.20x |"], 3, "on a Tuesday").read_text()
    assert "1.20x" in shown and "1.10x" not in shown
    assert "on a Tuesday" in shown and shown.endswith("\n---\n\nWhy there is none.\n")


def test_bytes_that_this_process_reads_are_counted(tmp_path: Path) -> None:
    """A small change is read by pyarrow, of which Spark knows nothing."""
    if not Path("/proc/self/io").exists():
        pytest.skip("nobody counts them here")
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": list(range(100_000))}), file)
    before = own_bytes_read()
    with pq.ParquetFile(file) as opened:
        opened.read(use_threads=False)
    assert own_bytes_read() - before >= file.stat().st_size * 0.9
    assert own_bytes_read() - before < file.stat().st_size * 1.5
