"""Every script of tests/cases on DuckDB: the expected rows, the executed program, view = query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hybridview.compiler.program import DeltaProgram
from tests.support.case_text import format_script
from tests.support.cases import (
    CASES,
    CaseError,
    Executed,
    Refresh,
    Script,
    parse_cases,
    read_cases,
    rows_after,
)
from tests.support.duck import Duck, Outcome, connect, open_script, signed_rows

SCRIPTS = read_cases()
CONNECTION = connect()


def check_rows(duck: Duck, script: Script, count: int) -> None:
    """Compare all views after `count` refreshes with the script and with their own text."""
    place = f"{script.source} line {script.refreshes[count - 1].line}"
    for view in script.views:
        done = [e for r in script.refreshes[:count] for e in r.expects if e.view == view.name]
        assert duck.stored(view.name) == rows_after(done), f"{place}: rows of {view.name}"
        assert duck.stored(view.name) == duck.fresh(view.name), f"{place}: {view.name} = query"


def check_executed(expected: Executed, program: Outcome, place: str) -> None:
    if expected.what == "none":
        assert program is None, f"{place}: {expected.view} read nothing that changed"
        return
    assert isinstance(program, DeltaProgram), f"{place}: {expected.view}: {program!r}"
    assert expected.method in ("", program.method.value), f"{place}: {program.reason}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_first_refresh_loads(script: Script) -> None:
    """The views are made over the first rows, as a store does; then every refresh adds to them."""
    duck = open_script(script, CONNECTION)
    duck.change(signed_rows(script.refreshes[0]))
    for view in script.views:
        duck.create(view.name, view.sql)
    check_rows(duck, script, 1)
    for number, refresh in enumerate(script.refreshes[1:], start=2):
        programs = duck.refresh_all(duck.change(signed_rows(refresh)), number)
        check_rows(duck, script, number)
        for expected in refresh.executed:
            check_executed(expected, programs[expected.view], f"{script.source} {refresh.line}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_views_of_nothing(script: Script) -> None:
    """The views are made over empty tables, so that the first rows come by a program too."""
    duck = open_script(script, CONNECTION)
    for view in script.views:
        duck.create(view.name, view.sql)
    for number, refresh in enumerate(script.refreshes, start=1):
        duck.refresh_all(duck.change(signed_rows(refresh)), number)
        check_rows(duck, script, number)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.test")), ids=lambda path: path.stem)
def test_every_file_has_the_hard_batches(path: Path) -> None:
    """An empty batch, an undo, NULLs, and insert + update + delete of one key in one batch."""
    scripts = [script for script in SCRIPTS if script.source.startswith(path.name + ":")]
    refreshes = [refresh for script in scripts for refresh in script.refreshes]
    assert any(not refresh.changes for refresh in refreshes), "no empty batch"
    assert any(undone(script) for script in scripts), "no batch that undoes the one before"
    values = [v for r in refreshes for c in r.changes for row in c.rows for v in row.values]
    assert None in values, "no NULL"
    assert any(mixed(refresh) for refresh in refreshes), "no batch with all three on one key"


def undone(script: Script) -> bool:
    """Say whether some refresh takes back exactly what an earlier one brought."""
    signed = [
        {(c.table, row.values, row.weight) for c in refresh.changes for row in c.rows}
        for refresh in script.refreshes
    ]
    negated = [{(table, row, -weight) for table, row, weight in rows} for rows in signed]
    return any(
        rows and rows == negated[i] for later, rows in enumerate(signed) for i in range(later)
    )


def mixed(refresh: Refresh) -> bool:
    """Say whether one key comes at least twice and goes at least twice in a batch."""
    counts: dict[tuple[str, object, int], int] = {}
    for change in refresh.changes:
        for row in change.rows:
            place = (change.table, row.values[0], row.weight)
            counts[place] = counts.get(place, 0) + 1
    return any(
        count > 1 and counts.get((table, key, -weight), 0) > 1
        for (table, key, weight), count in counts.items()
    )


def test_a_script_reads_back() -> None:
    for script in SCRIPTS:
        (again,) = parse_cases(format_script(script))
        assert (again.tables, again.views) == (script.tables, script.views)
        assert [r.changes for r in again.refreshes] == [r.changes for r in script.refreshes]
        assert [r.expects for r in again.refreshes] == [r.expects for r in script.refreshes]
        assert [r.executed for r in again.refreshes] == [r.executed for r in script.refreshes]


HEAD = "table t  a int\nview v = SELECT a FROM t\n"


def faults() -> Iterator[tuple[str, str]]:
    yield "tables t  a int", "case:1: unknown word 'tables'"
    yield HEAD + "change u + 1\nrefresh\nexpect nothing", "case:3: there is no table 'u'"
    yield HEAD + "change t + 1 2\nrefresh\nexpect nothing", "case:3: a row has 1 values, not 2"
    yield HEAD + "change t 1\nrefresh\nexpect nothing", "case:3: a row starts with"
    yield HEAD + "refresh\nexpect nothing\nexecuted v maybe", "case:5: executed is none or"
    yield HEAD + "refresh", "case:3: a refresh needs one expect for every view"
    yield HEAD + "refresh\nexpect nothing\nchange t + 1", "a script has a view, and ends with"


@pytest.mark.parametrize(("text", "message"), faults())
def test_a_wrong_script_says_where(text: str, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        parse_cases(text)
