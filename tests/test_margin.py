"""The first rows of a table, kept with few to spare: random changes, and the rule broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from hybridview.compiler import margin, view
from hybridview.compiler.margin import USED_UP
from hybridview.compiler.program import NotIncremental
from tests.support.duck import Duck, connect, schema, to_duck

TABLES = {
    "t": schema("t", a="int", b="string", c="double"),
    "u": schema("u", k="int", v="string"),
}
VIEWS = {
    "plain": "SELECT * FROM t ORDER BY a LIMIT 3",
    "backwards": "SELECT a, b FROM t ORDER BY a DESC, b LIMIT 2 OFFSET 1",
    "nulls": "SELECT b, a FROM t ORDER BY b NULLS LAST, a DESC NULLS FIRST LIMIT 4",
    "hidden_key": "SELECT b FROM t WHERE a IS NOT NULL ORDER BY abs(c) DESC LIMIT 3",
    "floats": "SELECT c, a FROM t ORDER BY c LIMIT 3",
    "joined": "SELECT t.a, u.v FROM t JOIN u ON t.a = u.k ORDER BY u.v DESC, t.b LIMIT 3",
    "outer": "SELECT t.a, u.v FROM t LEFT JOIN u ON t.a = u.k ORDER BY u.v DESC NULLS LAST LIMIT 4",
    "union_": "SELECT a, b FROM t UNION ALL SELECT k, v FROM u ORDER BY 1, 2 LIMIT 3",
    "nested": "SELECT sum(q.a) AS s FROM (SELECT a FROM t ORDER BY a DESC LIMIT 3) AS q",
    "unordered": "SELECT a, b FROM t LIMIT 5",
    "child": "SELECT a, count(*) AS n FROM plain GROUP BY a",
    "first_of_first": "SELECT * FROM backwards ORDER BY b LIMIT 1",
}
ROUNDS = 12
MARGINS = len(VIEWS) - 2
"""Views of views read what is stored anyway."""


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    found = connect()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def few_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(margin, "size_of", lambda needed: needed + 1)
    monkeypatch.setattr(margin, "LEAST", 1)


def row(dice: Random, table: str) -> tuple[Any, ...]:
    """Return a row with few different values, so that there are duplicates and ties."""
    number = dice.choice([None, *range(6)])
    word = dice.choice([None, "x", "y", "z"])
    if table == "u":
        return (number, word)
    return (number, word, dice.choice([None, -1.5, 0.0, 0.5, 1.5]))


def stream(store: Duck, dice: Random, rounds: int) -> Iterator[dict[str, Any]]:
    """Return changes: many deletes, so that margins are used up, and now and then a small table."""
    for _ in range(rounds):
        changes: dict[str, Any] = {}
        for name, most in (("t", 6), ("u", 2)):
            rows = list(store.rows[name])
            gone = dice.sample(rows, min(len(rows), dice.randrange(most)))
            if dice.random() < 0.1:
                gone = rows
            come = [row(dice, name) for _ in range(dice.randrange(most + 1))]
            changes[name] = [*((r, -1) for r in gone), *((r, 1) for r in come)]
        yield changes


def broken_invariant(store: Duck, name: str) -> str:
    """Return which property of a margin does not hold; empty if both do."""
    kept = store.views[name].margin
    assert kept is not None
    text = store.texts[name].replace(f"<= {kept.size}", "<= {count}")
    stored = store.stored(name)
    size = sum(stored.values())
    # The rows of rank <= |P| are P, if and only if P is a prefix with all peers of its last row.
    prefix = Counter(store._fetch(to_duck(text.format(count=size))))
    if size and prefix != Counter(store._rows(name)):
        return f"{name} is no prefix: {stored} is not {prefix}"
    whole = sum(Counter(store._fetch(to_duck(text.format(count=10**6)))).values())
    if size < kept.needed and size != whole:
        return f"{name} has {size} of {whole} rows, and needs {kept.needed}"
    return ""


def run(connection: Any, seed: int, rounds: int) -> tuple[str, Counter[str]]:
    """Return what went wrong first, and how often what happened."""
    dice = Random(seed)
    store = Duck(TABLES, connection)
    for name in TABLES:
        store.load(name, [row(dice, name) for _ in range(dice.choice([0, 3, 12]))])
    for name, sql in VIEWS.items():
        store.create(name, sql)
    margins = [name for name, view in store.views.items() if view.margin is not None]
    happened: Counter[str] = Counter({"margins": len(margins)})
    for number, changes in enumerate(stream(store, dice, rounds), start=1):
        sizes = {name: sum(store.stored(name).values()) for name in margins}
        done = store.refresh_all(store.change(changes), number)
        for name, outcome in done.items():
            if isinstance(outcome, NotIncremental):
                assert (name in margins, str(outcome)) == (True, USED_UP), (name, str(outcome))
                happened["used up"] += 1
            elif name in margins and outcome is not None:
                happened["maintained"] += 1
                kept = store.views[name].margin
                assert kept is not None
                happened["trimmed"] += sizes[name] > kept.size >= sum(store.stored(name).values())
            if store.stored(name) != store.fresh(name) and name not in margins:
                return f"round {number}: {name}", happened
        for name in margins:
            found = broken_invariant(store, name)
            if found:
                return f"round {number}: {found}", happened
            happened["a part of its input"] += sum(store.stored(name).values()) < len(
                store.rows["t"]
            )
    return "", happened


@pytest.mark.parametrize("seed", range(3))
def test_random_changes(connection: Any, seed: int) -> None:
    wrong, happened = run(connection, seed, ROUNDS)
    assert wrong == ""
    assert happened["margins"] == MARGINS
    assert happened["maintained"] > 30
    assert min(happened[what] for what in ("used up", "trimmed", "a part of its input")) > 0


BREAKS = {
    "rows behind the last one enter": (" OR `__hv_behind` > 0 THEN", " OR TRUE THEN"),
    "rows of a whole input stay out": ("`__hv_had` < {n} OR ", ""),
    "rows before the last one stay out": (" OR `__hv_behind` > 0 THEN", " THEN"),
    "it is never used up": ("`__hv_had` >= {n} AND `__hv_has` < {n}", "FALSE"),
    "peers of the last row stay out": ("CURRENT ROW AND UNBOUNDED", "1 FOLLOWING AND UNBOUNDED"),
    "too many rows go": ("`__hv_before` < {size}", "`__hv_before` < 1"),
    "rows in the middle go": ("`__hv_before` < {size}", "`__hv_before` % 2 = 0"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_rules_are_caught(
    connection: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = margin._change

    def wrong(part: Any, kept: margin.Margin) -> str:
        old, new = (sql.format(n=kept.needed, size=kept.size) for sql in BREAKS[name])
        sql = right(part, kept)
        assert old in sql
        sql = sql.replace(old, new)
        return sql.replace("RANGE BETWEEN 1", "ROWS BETWEEN 1")

    monkeypatch.setattr(margin, "_change", wrong)
    assert any(run(connection, seed, ROUNDS)[0] for seed in range(4))


def test_a_load_that_cuts_between_equal_rows_is_caught(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = view.load_query

    def wrong(query: str, layout: Any, epoch: str = "0") -> str:
        return right(re.sub(r"\brank\(\)", "row_number()", query, flags=re.I), layout, epoch)

    monkeypatch.setattr(view, "load_query", wrong)
    assert any(run(connection, seed, ROUNDS)[0] for seed in range(4))


def test_what_keeps_all_its_rows(connection: Any) -> None:
    """Groups, an OFFSET without a LIMIT, and what is stored anyway."""
    store = Duck(TABLES, connection)
    store.create("plain", VIEWS["plain"])
    for name, sql in {
        "groups": "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC LIMIT 2",
        "rest": "SELECT a FROM t ORDER BY a OFFSET 2",
        "nothing": "SELECT a FROM t ORDER BY a LIMIT 0",
        "of_a_view": "SELECT a FROM plain ORDER BY a LIMIT 1",
    }.items():
        assert all(part.margin is None for part in store.create(name, sql).parts), name
