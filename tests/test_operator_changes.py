"""Random changes of views with one operator each: after every batch the view equals its query."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pytest

from hybridview.compiler.program import NotIncremental
from tests.support.cases import Row
from tests.support.duck import Duck, connect, schema

SCHEMAS = {
    "r": schema("r", k="int", a="int", x="int", w="string", at="timestamp"),
    "s": schema("s", k="int", b="int"),
}
CONNECTION = connect()
WINDOW = "OVER (PARTITION BY k ORDER BY a"

VIEWS = {
    "last known": f"SELECT k, a, last_value(x) IGNORE NULLS {WINDOW}) AS v FROM r",
    "first known": f"SELECT k, first_value(x, true) {WINDOW} DESC NULLS FIRST) AS v FROM r",
    "last of ties": f"SELECT k, a, last(x) {WINDOW}, w DESC) AS v FROM r",
    "last near": f"SELECT k, a, last(x) {WINDOW} RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS v "
    "FROM r",
    "first before": f"SELECT a, first(x) {WINDOW} RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    ") AS v FROM r",
    "second": f"SELECT k, nth_value(x, 2) IGNORE NULLS {WINDOW}) AS v FROM r",
    "of a partition": "SELECT k, a, last_value(x) OVER (PARTITION BY k) AS v FROM r",
    "lists so far": f"SELECT k, array_join(collect_list(w) {WINDOW} DESC), ',') AS v FROM r",
    "of groups": "SELECT k, last_value(sum(x)) IGNORE NULLS OVER (ORDER BY k) AS v FROM r "
    "GROUP BY k",
    "texts": "SELECT k, listagg(w, '-') WITHIN GROUP (ORDER BY a DESC) AS v FROM r GROUP BY k",
    "different texts": "SELECT a, listagg(DISTINCT w) AS v, count(*) AS n FROM r GROUP BY a",
    "all texts": "SELECT string_agg(w, ',') FILTER (WHERE x > 1) AS v FROM r",
    "time": "SELECT k, window.start, sum(x) AS v FROM r GROUP BY k, window(at, '1 hour')",
    "overlapping time": "SELECT window.end, max(x) AS v FROM r GROUP BY "
    "window(at, '50 minutes', '20 minutes', '5 minutes')",
    "time of rows": "SELECT q.k, q.w.start AS v FROM (SELECT k, window(at, '2 hours') AS w FROM r) "
    "AS q WHERE q.k > 0",
    "key inside": "SELECT (SELECT sum(b) FROM s WHERE s.k = r.k) AS v, count(*) AS n, max(x) AS m "
    "FROM r GROUP BY v",
    "key of a total": "SELECT a, (SELECT max(b) FROM s) AS v, sum(x) AS n FROM r GROUP BY ALL",
    "beside sets": "SELECT k, a, sum(x) AS v, (SELECT count(*) FROM s) AS n FROM r "
    "GROUP BY CUBE (k, a)",
    "having beside sets": "SELECT k, count(*) AS v FROM r GROUP BY ROLLUP (k) "
    "HAVING count(*) >= (SELECT min(b) FROM s)",
    "deciding": "SELECT k, CASE WHEN a NOT IN (SELECT b FROM s) THEN 1 WHEN k IN "
    "(SELECT k FROM s) THEN 2 ELSE 3 END AS v FROM r",
    "deciding beside groups": "SELECT k, if(NOT (k IN (SELECT b FROM s) AND count(*) > 1), 0, 1) "
    "AS v FROM r GROUP BY k",
    "deciding in sums": "SELECT a, sum(CASE WHEN k IN (SELECT b FROM s WHERE s.k = r.a) THEN x "
    "ELSE 0 END) AS v FROM r GROUP BY a",
    "deciding keys": "SELECT CASE WHEN k NOT IN (SELECT k FROM s) THEN a END AS v, count(*) AS n "
    "FROM r GROUP BY 1",
    "wide": "SELECT * FROM (SELECT k, a, w, x FROM r) PIVOT (sum(x) AS s, max(x) AS m FOR (a, w) "
    "IN ((1, 'p') AS one, (2, 'q') AS two))",
    "tall": "SELECT v, n, m FROM (SELECT k, a, x, k + 1 AS y FROM r) AS q "
    "UNPIVOT INCLUDE NULLS ((n, m) FOR v IN ((k, a) AS one, (x, k)))",
    "first rows inside": "SELECT k, x FROM r WHERE (k, x) IN (SELECT * FROM s ORDER BY b LIMIT 3)",
    "first rows of pairs": "SELECT q.b, count(*) AS n FROM (SELECT s.*, r.x FROM s JOIN r ON "
    "r.k = s.k ORDER BY x DESC LIMIT 4) AS q GROUP BY q.b",
    "numbers": "SELECT id, count(r.x) AS n, max(r.x) AS m FROM range(0, 4) LEFT JOIN r ON r.a = id "
    "GROUP BY id",
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("seed", range(2))
def test_changes(name: str, seed: int) -> None:
    rng = Random(f"{name} {seed}")
    duck = Duck(SCHEMAS, CONNECTION)
    for table in SCHEMAS:
        duck.load(table, [random_row(rng, table) for _ in range(rng.randint(0, 6))])
    duck.create("v", VIEWS[name])
    for epoch in range(1, 11):
        changes = {}
        for table in rng.sample(sorted(SCHEMAS), rng.choice((1, 2))):
            gone = rng.sample(duck.rows[table], min(len(duck.rows[table]), rng.randint(0, 3)))
            come = [random_row(rng, table) for _ in range(rng.randint(0, 3))]
            changes[table] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        done = duck.refresh_all(duck.change(changes), epoch)
        assert duck.stored("v") == duck.fresh("v"), changes
        assert not isinstance(done["v"], NotIncremental)


def random_row(rng: Random, table: str) -> Row:
    k, a, x = (rng.choice((None, 0, 1, 1, 2, 3)) for _ in range(3))
    if table == "s":
        return (k, a)
    at = datetime(2024, 1, 1) + timedelta(minutes=rng.choice((-70, -1, 0, 5, 5, 59, 120)))
    return (k, a, x, rng.choice((None, "p", "q", "q", "")), rng.choice((None, at, at)))
