"""Random views x random change streams on DuckDB: after every batch the view equals its query.

HV_SEED picks other views, HV_CASES how many (view, batch) cases run; a batch that no view reads is
checked too, but not counted. A failure is made small and printed as a `.test` script.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from sqlglot import exp

from hybridview.algebra.plan import Aggregate
from hybridview.algebra.walk import walk
from hybridview.compiler.batch import Batch, only_grows
from hybridview.compiler.layout import shape
from hybridview.compiler.margin import USED_UP
from hybridview.compiler.program import Compilable, DeltaProgram, NotIncremental
from tests.support.case_text import format_script
from tests.support.cases import Change, Expect, Refresh, Script, SignedRow
from tests.support.duck import Outcome, bag, connect, open_script, signed_rows, to_duck
from tests.support.generator import random_script

SEED = int(os.environ.get("HV_SEED", "20240"))
CASES = int(os.environ.get("HV_CASES", "2200"))
BATCHES = 16
PARTS, FAR = 4, 1_000_000
"""A run is made of parts, which several processes share; their seeds lie far apart."""
CONNECTION = connect()

FEATURES = {
    "self-join": r"\b(r|t|u) AS \w+ .*JOIN \1 AS",
    "comma join": r"AS \w+, \w+ AS \w+ .*WHERE",
    "four sources": r"(FROM|JOIN|,) \w+ AS \w+( \w+)* (JOIN|,).*(JOIN|,).*JOIN",
    "USING": r"USING \(k\)",
    "CROSS JOIN": "CROSS JOIN",
    "GROUP BY position": r"GROUP BY 1",
    "GROUP BY ALL": r"GROUP BY ALL",
    "GROUP BY alias": r"GROUP BY c\d",
    "GROUP BY expression": r"GROUP BY [^,]*[+(%]",
    "GROUP BY truth value": r"GROUP BY [^,()]* (OR|AND) ",
    "COUNT(truth value)": r"count\((NOT |[^()]* (OR|AND) )",
    "PARTITION BY truth value": r"PARTITION BY (NOT |[^()]* (OR|AND) )",
    "HAVING": "HAVING",
    "COUNT(*)": r"count\(\*\)",
    "COUNT(x)": r"count\([a-z]\d",
    "SUM": r"sum\([^D]",
    "AVG": r"avg\(",
    "MIN": r"min\(",
    "MAX": r"max\(",
    "COUNT(DISTINCT)": r"count\(DISTINCT",
    "SUM(DISTINCT)": r"sum\(DISTINCT",
    "SELECT DISTINCT": "SELECT DISTINCT",
    "text of a number": r"AS STRING\) LIKE",
    "UNION ALL": "UNION ALL",
    "UNION": "UNION SELECT",
    "CTE": "^WITH",
    "CTE used twice": r"^WITH.* cte0 AS .* cte0 AS ",
    "derived table": r"\(SELECT",
    "aggregate over aggregate": r"GROUP BY.*GROUP BY",
    "truth value": r" OR [^()]* AS c\d",
    "view over view": r"\bv AS \w+",
    "LEFT JOIN": " LEFT JOIN",
    "RIGHT JOIN": " RIGHT JOIN",
    "FULL JOIN": " FULL JOIN",
    "LEFT SEMI JOIN": " LEFT SEMI JOIN",
    "LEFT ANTI JOIN": " LEFT ANTI JOIN",
    "EXISTS": r"[^T] EXISTS \(",
    "NOT EXISTS": "NOT EXISTS",
    "IN": r"[^T] IN \(SELECT",
    "NOT IN": r"NOT IN \(SELECT",
    "correlated IN": r"IN \(SELECT [^()]* WHERE",
    "scalar subquery": r"< \(SELECT",
    "groups in a subquery": r"EXISTS \(SELECT \S+ FROM .* GROUP BY \S+ HAVING",
    "groups in IN": r" IN \(SELECT max\(.*GROUP BY",
    "groups below a scalar subquery": r"<= \(SELECT max\(n\) FROM \(SELECT count",
    "first row of a subquery": r"ORDER BY v LIMIT 1\)",
    "subquery under OR": r"\) OR ",
    "INTERSECT": "INTERSECT SELECT",
    "EXCEPT": "EXCEPT SELECT",
    "INTERSECT ALL": "INTERSECT ALL",
    "EXCEPT ALL": "EXCEPT ALL",
    "window": r"OVER \(",
    "QUALIFY": "QUALIFY",
    "ROW_NUMBER": r"row_number\(\)",
    "LAG": r"lag\(",
    "ROWS": "ROWS BETWEEN",
    "window over all rows": r"OVER \(\)",
    "LIMIT": r"LIMIT \d",
    "OFFSET": "OFFSET 1",
    "value over all rows": r"< \(SELECT \w+\([^()]*\) FROM \w+ AS \w+\)",
    "FILTER": r"FILTER \(",
    "ROLLUP": r"GROUP BY ROLLUP \(",
    "CUBE": r"CUBE \(",
    "GROUPING SETS": r"GROUPING SETS \(",
    "ROLLUP of some keys": r", ROLLUP \(",
    "GROUPING": r"grouping\(",
    "GROUPING_ID": r"grouping_id\(",
    "MEDIAN": r"median\(",
    "MAX_BY": r"max_by\(",
    "sorted list": r"sort_array\(",
    "VALUES": r"VALUES \(",
    "LATERAL VIEW": "LATERAL VIEW explode",
    "LATERAL VIEW OUTER": "LATERAL VIEW OUTER explode",
    "lambda": "e -> ",
    "array": "element_at",
}
"""What the views of a run must show somewhere, as patterns of their text."""


@dataclass(frozen=True)
class Failure:
    """A refresh after which a view is not its query, or that could not run."""

    refresh: int
    what: str


def run(script: Script) -> Iterator[tuple[dict[str, Outcome], Batch, dict[str, Compilable]]]:
    """Yield what each refresh after the first did; raises AssertionError on a difference."""
    duck = open_script(script, CONNECTION)
    duck.change(signed_rows(script.refreshes[0]))
    for view in script.views:
        duck.create(view.name, view.sql)
    for number, refresh in enumerate(script.refreshes[1:], start=1):
        batch = duck.change(signed_rows(refresh))
        outcomes = duck.refresh_all(batch, number)
        for view in script.views:
            stored, fresh = duck.stored(view.name), duck.fresh(view.name)
            missing, extra = dict(fresh - stored), dict(stored - fresh)
            assert stored == fresh, f"{view.name} misses {missing}, has too much {extra}"
        yield outcomes, batch, {name: view.compilable for name, view in duck.views.items()}


def failure(script: Script) -> Failure | None:
    """Return how a script fails, or None; one that takes away missing rows does not count."""
    done = 0
    try:
        for _ in run(script):
            done += 1
    except ValueError:
        return None
    except Exception as error:
        return Failure(done + 1, f"{type(error).__name__}: {error}")
    return None


@pytest.mark.timeout(900 + CASES)
@pytest.mark.parametrize("part", range(PARTS))
def test_view_equals_query_after_every_batch(part: int) -> None:
    cases, refused, views_made, methods = 0, 0, 0, Counter[str]()
    first = seed = SEED + part * FAR
    while cases < CASES / PARTS:
        seed += 1
        script = random_script(seed, BATCHES)
        views_made += len(script.views)
        try:
            for outcomes, batch, views in run(script):
                cases += any(outcome is not None for outcome in outcomes.values())
                for name, outcome in outcomes.items():
                    methods[kind_of(outcome)] += 1
                    if isinstance(outcome, NotIncremental):
                        refused += 1
                        assert justified(views[name], batch, str(outcome)), outcome
        except Exception as error:
            raise AssertionError(f"{error}\n\n{small_script(script)}") from error
    print(f"{cases} cases, {views_made} views, {dict(methods)}, seeds {first + 1} to {seed}")
    assert refused < 0.15 * sum(methods.values())
    assert {"add", "replace", "patch", "none"} <= set(methods)


def test_the_views_have_every_feature() -> None:
    """Among as many views as a run of 2,200 cases surely makes."""
    seeds = [SEED + part * FAR + n for part in range(PARTS) for n in range(1, 200 // PARTS)]
    texts = [view.sql for seed in seeds for view in random_script(seed, BATCHES).views]
    unseen = [f for f, sign in FEATURES.items() if not any(re.search(sign, t) for t in texts)]
    assert unseen == []
    assert max(map(nesting, texts)) >= 3


def nesting(text: str) -> int:
    """Return how deep derived tables nest in a query."""
    deepest, open_parts = 0, list[bool]()
    for found in re.finditer(r"\(SELECT|\(|\)", text):
        if found[0] == ")":
            open_parts.pop()
        else:
            open_parts.append(found[0] != "(")
        deepest = max(deepest, sum(open_parts))
    return deepest


def kind_of(outcome: Outcome) -> str:
    if outcome is None:
        return "none"
    return outcome.method.value if isinstance(outcome, DeltaProgram) else "refused"


def justified(view: Compilable, batch: Batch, reason: str) -> bool:
    """Say whether a refusal's reason is true of the view, read off its plan."""
    if reason == USED_UP:
        return "@part" in view.view
    top = shape(view.plan)
    inner = [n for n in walk(view.plan) if isinstance(n, Aggregate) and n is not top.aggregate]
    if "below another operator has no key" in reason:
        return any(not node.keys for node in inner)
    if "below another operator adds floating point" in reason:
        calls = [m.expr for node in (*inner, top.aggregate) if node for m in node.measures]
        sums = [call for call in calls if isinstance(call, exp.Sum | exp.Avg | exp.Median)]
        return any(isinstance(c, exp.VariancePop) for c in calls) or any(
            "double" in view.types.get(c.this.sql(dialect="spark"), "") for c in sums
        )
    if top.aggregate is None or top.aggregate.keys:
        return False
    calls = [measure.expr for measure in top.aggregate.measures]
    if "HAVING over an aggregate without GROUP BY" in reason:
        return top.having is not None
    if "cannot be added up" in reason:
        # Distinct values; averages of widened sums; or a SELECT around the aggregate's own, to
        # which no hidden column can be added.
        return any(isinstance(c.this, exp.Distinct) for c in calls) or not view.layout.parts
    grows = only_grows(top.aggregate.input, batch)
    if "is a minimum or maximum, and rows may have gone" in reason:
        return not grows and any(isinstance(c, exp.Min | exp.Max) for c in calls)
    if "adds floating point numbers, and rows may have gone" in reason:
        return not grows and any(isinstance(c, exp.Sum | exp.Avg) for c in calls)
    return False


def small_script(script: Script) -> str:
    """Return a failing script made small, with the rows a recompute gives, as `.test` text."""
    small = shrink(script)
    found = failure(small)
    head = f"# {found.what if found else 'fails only together with others'}".replace("\n", " ")
    return f"{head}\n{format_script(with_expected_rows(small))}"


def shrink(script: Script) -> Script:
    """Leave out refreshes, views and rows as long as the script fails."""
    found = failure(script)
    if found is None:
        return script
    small = replace(script, refreshes=script.refreshes[: found.refresh + 1])
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(small):
            if failure(candidate) is not None:
                small, changed = candidate, True
                break
    return small


def _smaller(script: Script) -> Iterator[Script]:
    """Yield scripts with one thing less: a view, a batch, a row (with the row that undoes it)."""
    if len(script.views) > 1:
        yield replace(script, views=script.views[:-1])
    steps = script.refreshes
    for i in range(1, len(steps) - 1):
        merged = Refresh(0, (*steps[i - 1].changes, *steps[i].changes))
        yield replace(script, refreshes=(*steps[: i - 1], merged, *steps[i + 1 :]))
    places = [
        (i, j, k)
        for i, step in enumerate(steps)
        for j, change in enumerate(step.changes)
        for k in range(len(change.rows))
    ]
    for n, first in enumerate(places):
        yield _without(script, {first})
        opposite = next((p for p in places[n + 1 :] if _undoes(steps, first, p)), None)
        if opposite is not None:
            yield _without(script, {first, opposite})


Place = tuple[int, int, int]


def _undoes(steps: tuple[Refresh, ...], one: Place, other: Place) -> bool:
    (i, j, k), (a, b, c) = one, other
    first, second = steps[i].changes[j], steps[a].changes[b]
    row = first.rows[k]
    return first.table == second.table and second.rows[c] == SignedRow(-row.weight, row.values)


def _without(script: Script, gone: set[Place]) -> Script:
    refreshes = []
    for i, step in enumerate(script.refreshes):
        changes = []
        for j, change in enumerate(step.changes):
            rows = tuple(r for k, r in enumerate(change.rows) if (i, j, k) not in gone)
            changes += [Change(change.table, rows)] if rows else []
        refreshes.append(Refresh(0, tuple(changes)))
    return replace(script, refreshes=tuple(refreshes))


def with_expected_rows(script: Script) -> Script:
    """Fill in every `expect` from the views' own text, which needs no program."""
    duck = open_script(script, CONNECTION)
    before = {view.name: bag([]) for view in script.views}
    refreshes = []
    for refresh in script.refreshes:
        duck.change(signed_rows(refresh))
        expects = []
        for view in script.views:
            duck.connection.execute(f"CREATE OR REPLACE VIEW {view.name} AS {to_duck(view.sql)}")
            now = bag(duck.connection.execute(f"SELECT * FROM {view.name}").fetchall())
            gained = [SignedRow(1, row) for row in (now - before[view.name]).elements()]
            lost = [SignedRow(-1, row) for row in (before[view.name] - now).elements()]
            expects.append(Expect(view.name, (*lost, *gained)))
            before[view.name] = now
        refreshes.append(replace(refresh, expects=tuple(expects)))
    return replace(script, refreshes=tuple(refreshes))
