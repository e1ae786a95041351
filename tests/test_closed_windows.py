"""Values of RANGE frames: ties are closed by the value; columns keep the names they had."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from hybridview.sql.canonical import canonical
from hybridview.sql.closed_calls import with_closed_calls
from hybridview.sql.closed_windows import with_closed_frames
from hybridview.sql.kept_names import with_names
from tests.support.duck import connect, schema, to_duck


def closed(call: str) -> str:
    text = with_closed_frames(f"SELECT {call} AS v FROM r")
    return text.removeprefix("SELECT ").removesuffix(" AS v FROM r")


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (
            "last_value(x) OVER (PARTITION BY k ORDER BY a, b DESC)",
            "max(x) OVER (PARTITION BY k, a, b)",
        ),
        (
            "first(x) OVER (ORDER BY a RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            "min(x) OVER (PARTITION BY a)",
        ),
        (
            "last(x, true) OVER (ORDER BY a DESC)",
            "(min(CASE WHEN (x) IS NOT NULL THEN named_struct('n0', (a) IS NOT NULL, 'k0', a, "
            "'n', (x) IS NOT NULL, 'v', x) END) OVER (ORDER BY a DESC)).v",
        ),
        (
            "last_value(x) OVER (ORDER BY a NULLS LAST RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING)",
            "(max(named_struct('n0', (a) IS NULL, 'k0', a, 'n', (x) IS NOT NULL, 'v', x)) "
            "OVER (ORDER BY a NULLS LAST RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING)).v",
        ),
        (
            "nth_value(x, 2) IGNORE NULLS OVER (ORDER BY a)",
            "CASE WHEN count(x) OVER (ORDER BY a) >= 2 THEN nth_value(x, 2) IGNORE NULLS OVER "
            "(ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) END",
        ),
        (
            "collect_list(x) OVER (ORDER BY a)",
            "transform(sort_array(collect_list(CASE WHEN (x) IS NOT NULL THEN named_struct('n0', "
            "(a) IS NOT NULL, 'k0', a, 'n', (x) IS NOT NULL, 'v', x) END) OVER (ORDER BY a), true),"
            " __hv_e -> __hv_e.v)",
        ),
        ("any_value(x) OVER (ORDER BY a)", "first_value(x) OVER (ORDER BY a)"),
    ],
)
def test_the_value_breaks_ties(call: str, found: str) -> None:
    assert closed(call) == found


@pytest.mark.parametrize(
    "call",
    [
        "last_value(x) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "last_value(x) OVER (PARTITION BY k)",
        "first_value(x) OVER (ORDER BY a)",
        "last_value(x) IGNORE NULLS OVER (ORDER BY a, b DESC)",
        "nth_value(x, n) OVER (ORDER BY a)",
        "last_value((SELECT max(y) FROM s)) OVER (ORDER BY a)",
        "last_value(x)",
        "f.last_value(x) OVER (ORDER BY a)",
        "last_value",
    ],
)
def test_what_has_no_ties_or_no_rule_stays(call: str) -> None:
    assert closed(call) == call


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("last_value(x) OVER (PARTITION BY k)", "ORDER BY `r`.`x` ROWS BETWEEN UNBOUNDED PREC"),
        ("collect_list(x) OVER (PARTITION BY k)", "ORDER BY `r`.`x` ROWS BETWEEN UNBOUNDED PREC"),
        ("row_number() OVER (PARTITION BY k)", "OVER (PARTITION BY k)"),
    ],
)
def test_a_frame_that_is_the_whole_partition_stays_so(call: str, found: str) -> None:
    """With an order and no frame it would end with the current row."""
    tables = {"r": schema("r", k="int", x="int")}
    assert found in canonical(f"SELECT k, {call} AS v FROM r", 2, tables)


@pytest.mark.parametrize(
    "call",
    ["first(x, true)", "last(x) IGNORE NULLS", "any_value(x)", "first(x IGNORE NULLS)"],
)
def test_any_value_is_the_smallest(call: str) -> None:
    assert with_closed_calls(f"SELECT {call} FROM r") == "SELECT min(x) FROM r"


def test_columns_keep_their_names() -> None:
    found = ["k", "max(x) OVER ()", "n"]
    wanted = ["k", "last(x)", "n"]
    assert with_names("SELECT k, max(f(x, 1)), n FROM r", found, wanted) == (
        "SELECT k, max(f(x, 1)) AS `last(x)`, n FROM r"
    )
    distinct = "SELECT DISTINCT k, max(x) -- last\n, a IS DISTINCT FROM b FROM (SELECT 1, 2) AS r"
    assert with_names(distinct, found, wanted) == (
        "SELECT DISTINCT k, max(x) AS `last(x)` -- last\n"
        ", a IS DISTINCT FROM b FROM (SELECT 1, 2) AS r"
    )
    union = "WITH c AS (SELECT 1, 2 FROM r) SELECT k, max(x), n FROM r UNION ALL SELECT 1, 2, 3"
    assert with_names(union, found, wanted).startswith(
        "WITH c AS (SELECT 1, 2 FROM r) SELECT k, max(x) AS `last(x)`, n FROM r UNION"
    )


@pytest.mark.parametrize(
    "query", ["SELECT *, 1 FROM r", "SELECT k, x AS y, n FROM r", "VALUES (1)"]
)
def test_names_that_have_no_place_stay_away(query: str) -> None:
    assert with_names(query, ["k", "y", "n"], ["k", "z", "n"]) == query


CALLS = ("first_value(x)", "last_value(x)", "nth_value(x, 2)")
ORDERS = ("a", "a DESC", "a NULLS LAST", "a DESC NULLS FIRST")
STARTS = ("UNBOUNDED PRECEDING", "CURRENT ROW", "1 PRECEDING")
ENDS = ("CURRENT ROW", "UNBOUNDED FOLLOWING", "1 FOLLOWING", "1 PRECEDING")
Line = tuple[int, int | None, int | None]


def place_of(a: int | None, order: str) -> int | None:
    """Return where a value stands in an order; NULLs have no distance to others."""
    return None if a is None else -a if "DESC" in order else a


def sorted_frame(row: Line, rows: list[Line], order: str, start: str, end: str) -> list[list[Line]]:
    """Return the rows of a frame in order, those that tie together."""
    nulls_first = "NULLS FIRST" in order or order == "a"
    lists: dict[int | None, list[Line]] = {}
    for other in rows:
        lists.setdefault(place_of(other[1], order), []).append(other)
    ranks = sorted(p for p in lists if p is not None)
    places: list[int | None] = [None, *ranks] if nulls_first else [*ranks, None]
    places = [p for p in places if p in lists]
    here = place_of(row[1], order)
    current = places.index(here)

    def inside(index: int) -> bool:
        place = places[index]
        if "UNBOUNDED" not in start and index < current:
            near = place is not None and here is not None and here - place <= 1
            if start == "CURRENT ROW" or not near:
                return False
        if end == "1 PRECEDING":
            # NULLs are in the frames of each other, whatever their distance.
            far = here is not None and place is not None and here - place >= 1
            return far or (index <= current and (here is None or place is None))
        if "UNBOUNDED" not in end and index > current:
            near = place is not None and here is not None and place - here <= 1
            if end == "CURRENT ROW" or not near:
                return False
        return True

    return [lists[p] for i, p in enumerate(places) if inside(i)]


def allowed(call: str, ignores: bool, frame: list[list[Line]]) -> set[int | None]:
    """Return the values that a call may have, in some order of the rows that tie."""
    groups = [[r[2] for r in group if r[2] is not None or not ignores] for group in frame]
    groups = [group for group in groups if group]
    if call.startswith("last"):
        groups.reverse()
    wanted = 2 if call.startswith("nth") else 1
    for group in groups:
        if wanted <= len(group):
            return set(group)
        wanted -= len(group)
    return {None}


@pytest.mark.parametrize(("call", "order"), product(CALLS, ORDERS))
def test_the_answer_is_one_that_the_call_may_have(call: str, order: str) -> None:
    """Whatever the frame: a row's value is that of the right place, in some order of ties."""
    rng, duck = Random(f"{call} {order}"), connect()
    tables = {"r": schema("r", id="int", a="int", x="int")}
    closed_ones = 0
    for start, end, ignores in product(STARTS, ENDS, (False, True)):
        if (start, end) == ("CURRENT ROW", "1 PRECEDING"):
            continue
        treated = " IGNORE NULLS" if ignores else ""
        frame = f"RANGE BETWEEN {start} AND {end}"
        query = f"SELECT id, {call}{treated} OVER (ORDER BY {order} {frame}) AS v FROM r"
        text = canonical(query, 2, tables)
        if text == query:
            continue
        closed_ones += 1
        for _ in range(4):
            rows: list[Line] = [
                (i, rng.choice((None, 0, 0, 1, 1, 3)), rng.choice((None, None, 5, 6)))
                for i in range(rng.randint(1, 7))
            ]
            duck.execute("CREATE OR REPLACE TABLE r (id INT, a INT, x INT)")
            duck.executemany("INSERT INTO r VALUES (?, ?, ?)", rows)
            values = dict(duck.execute(to_duck(text)).fetchall())
            for row in rows:
                legal = allowed(call, ignores, sorted_frame(row, rows, order, start, end))
                assert values[row[0]] in legal, (text, row, rows)
    assert closed_ones >= (4 if call.startswith("nth") else 12)
