"""Which rows of a change can matter to a view: the conditions, and that none that can is missed."""

from __future__ import annotations

import random

import pytest

from hybridview.compiler.relevant import relevant, selective
from tests.support.duck import Duck, connect, schema, to_duck

CONNECTION = connect()
SCHEMAS = {
    "r": schema("r", k="int", a="int", b="int"),
    "s": schema("s", k="int", c="int", d="int"),
}

CASES = {
    "filter": ("SELECT a FROM r WHERE b > 1 AND a < 3", {"r": "`a` < 3 AND `b` > 1"}),
    "no condition": ("SELECT a FROM r", {}),
    "computed": (
        "SELECT x FROM (SELECT a + b AS x FROM r) AS t WHERE x > 1",
        {"r": "(`a` + `b`) > 1"},
    ),
    "join": (
        "SELECT r.a FROM r JOIN s ON r.k = s.k AND s.c > 1 WHERE r.b = 2 AND r.a < s.d",
        {"r": "`b` = 2", "s": "`c` > 1"},
    ),
    "one of two scans": (
        "SELECT x.a FROM r AS x JOIN r AS y ON x.k = y.k WHERE x.a = 1 AND y.b = 2",
        {"r": "(`a` = 1) OR (`b` = 2)"},
    ),
    "any row of one scan": ("SELECT x.a FROM r AS x JOIN r AS y ON x.k = y.k WHERE x.a = 1", {}),
    "left join": (
        "SELECT r.a FROM r LEFT JOIN s ON r.k = s.k AND s.c > 1 AND r.b > 1 WHERE r.a < 3",
        {"r": "`a` < 3", "s": "`c` > 1"},
    ),
    "no partner any more": (
        "SELECT r.a FROM r LEFT JOIN s ON r.k = s.k WHERE coalesce(s.c, 0) < 2",
        {},
    ),
    "full join": ("SELECT r.a FROM r FULL JOIN s ON r.k = s.k AND s.c > 1 AND r.b > 1", {}),
    "exists": (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.c > 1 AND r.b > 1)",
        {"r": "`b` > 1", "s": "`c` > 1"},
    ),
    "not exists": (
        "SELECT a FROM r WHERE a = 1 AND NOT EXISTS "
        "(SELECT 1 FROM s WHERE s.k = r.k AND s.c > 1 AND r.b > 1)",
        {"r": "`a` = 1", "s": "`c` > 1"},
    ),
    "not in": ("SELECT a FROM r WHERE a NOT IN (SELECT c FROM s WHERE d = 1)", {"s": "`d` = 1"}),
    "groups": (
        "SELECT k, sum(a) AS x FROM r WHERE b = 1 GROUP BY k HAVING sum(a) > 2",
        {"r": "`b` = 1"},
    ),
    "groups of a subquery": (
        "SELECT s.c FROM s JOIN (SELECT k, max(a) AS m FROM r WHERE b = 1 GROUP BY k) AS t "
        "ON s.k = t.k WHERE t.m > 1",
        {"r": "`b` = 1"},
    ),
    "arms": (
        "SELECT x FROM (SELECT a AS x FROM r UNION ALL SELECT c FROM s WHERE d = 1) AS t "
        "WHERE x > 1",
        {"r": "`a` > 1", "s": "`c` > 1 AND `d` = 1"},
    ),
    "window": (
        "SELECT k, n FROM (SELECT k, a, row_number() OVER (PARTITION BY k ORDER BY a, b) AS n "
        "FROM r WHERE b = 1) AS t WHERE a > 1",
        {"r": "`b` = 1"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_conditions(name: str) -> None:
    text, expected = CASES[name]
    duck = Duck(SCHEMAS, CONNECTION, cut=False)
    view = duck.create("v", text)
    found = relevant(view.compilable.plan, view.compilable.recorded)
    assert {table: _sorted(sql) for table, sql in found.items()} == {
        table: _sorted(sql) for table, sql in expected.items()
    }


def test_conditions_stay_in_the_order_of_the_text() -> None:
    """The first may be what keeps the second from failing."""
    duck = Duck(SCHEMAS, CONNECTION, cut=False)
    view = duck.create(
        "v",
        "SELECT r.a FROM r JOIN s ON r.k = s.k AND s.c <> 0 AND 1 / s.c > 1 "
        "WHERE r.a <> 0 AND 1 / r.a > 2",
    )
    found = relevant(view.compilable.plan, view.compilable.recorded)
    assert found["r"].index("<> 0") < found["r"].index("> 2")
    assert found["s"].index("<> 0") < found["s"].index("> 1")


@pytest.mark.parametrize(
    ("condition", "few"),
    [
        ("b = 1", True),
        ("1 < b", True),
        ("b BETWEEN 1 AND 2", True),
        ("b IN (1, 2)", True),
        ("b <> 1 AND a = 1", True),
        ("b = 1 OR a = 1", True),
        ("b = 1 OR a <> 1", False),
        ("a < b", False),
        ("b <> 1", False),
        ("b IS NOT NULL", False),
        ("b NOT IN (1, 2)", False),
        ("string(b) LIKE '%1%'", False),
        ("string(b) LIKE '1%'", True),
        ("string(b) NOT LIKE '1%'", False),
    ],
)
def test_which_conditions_look_as_if_they_let_few_rows_through(condition: str, few: bool) -> None:
    duck = Duck(SCHEMAS, CONNECTION, cut=False)
    view = duck.create("v", f"SELECT r.a FROM r JOIN s ON r.k = s.k WHERE {condition}")
    assert selective(view.compilable.plan) == ({"r"} if few else set())


def test_of_a_table_that_is_read_twice_few_rows_must_matter_to_both() -> None:
    both, one = (CASES[name][0] for name in ("one of two scans", "any row of one scan"))
    duck = Duck(SCHEMAS, CONNECTION, cut=False)
    found = [selective(duck.create(f"v{i}", q).compilable.plan) for i, q in enumerate((both, one))]
    assert found == [{"r"}, set()]


def _sorted(condition: str) -> list[str]:
    return sorted(condition.split(" AND "))


@pytest.mark.parametrize("name", [n for n, (_, expected) in CASES.items() if expected])
def test_other_rows_change_nothing(name: str) -> None:
    """V(T) = V(T where c), with NULLs: whatever does not meet the condition may be there or not."""
    text, _ = CASES[name]
    chosen = random.Random(7)
    for _ in range(20):
        duck = Duck(SCHEMAS, CONNECTION, cut=False)
        rows = {
            table: [tuple(chosen.choice([None, 0, 1, 2, 3]) for _ in range(3)) for _ in range(8)]
            for table in SCHEMAS
        }
        for table, found in rows.items():
            duck.load(table, found)
        view = duck.create("v", text)
        all_rows = duck.fresh("v")
        for table, condition in relevant(view.compilable.plan, view.compilable.recorded).items():
            duck.connection.execute(
                to_duck(f"DELETE FROM `{table}` WHERE ({condition}) IS NOT TRUE")
            )
        assert duck.fresh("v") == all_rows
