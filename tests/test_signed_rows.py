"""Fetched rows of a change: which of them matter to which view, and what became of keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from hybridview.algebra.plan import GONE, KEPT
from hybridview.engine.change import Change
from hybridview.engine.changes import Changes
from hybridview.engine.signed_rows import MOST_CONDITIONS, fetch_judged, netted, of_keys
from hybridview.plan.steps import Feed, ViewPlan
from hybridview.schema import Executed

COLUMNS = [("k", "int"), ("x", "int"), ("__hv_weight", "int")]
FEED = Feed("t", 1, 2, ("k", "x"), False, 10, key=("k",))
UTC, BERLIN = {"spark.sql.session.timeZone": "UTC"}, {"spark.sql.session.timeZone": "Europe/Berlin"}


def view(name: str, *wanted: str, settings: dict[str, str] = UTC) -> ViewPlan:
    feeds = tuple(replace(FEED, wanted=condition) for condition in wanted)
    return ViewPlan(name, name, name, Executed.INCREMENTAL, "", (), feeds, settings=settings)


class Answers:
    """A session that answers statements with rows it was given, and remembers the statements."""

    def __init__(self, *answers: list[tuple[Any, ...]] | Exception) -> None:
        self.answers, self.statements = list(answers), []

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_rows_that_cancel() -> None:
    fetched = [("1", "a", "1"), ("1", "a", "-1"), ("2", "b", "-1"), ("2", "b", "-1")]
    assert netted(fetched) == [("2", "b", "-1"), ("2", "b", "-1")]


def test_what_became_of_keys() -> None:
    rows = [("1", "a", "-1"), ("1", "b", "1"), ("2", "c", "-1"), ("3", "d", "1")]
    assert of_keys(rows, [0], KEPT) == rows[:2]
    assert of_keys(rows, [0], GONE) == [rows[2]]


def test_all_conditions_are_judged_by_the_statement_that_fetches() -> None:
    session: Any = Answers([("10", "1", "5", "1"), ("11", "2", "9", "-1"), ("00", "3", "0", "1")])
    found = fetch_judged(session, "SELECT * FROM t", COLUMNS, ["x > 1", "x > 5"])
    assert found is not None
    rows, met = found
    assert rows == [("1", "5", "1"), ("2", "9", "-1"), ("3", "0", "1")]
    assert met == {"x > 1": {("1", "5"), ("2", "9")}, "x > 5": {("2", "9")}}
    assert len(session.statements) == 1


def test_without_conditions_that_can_be_computed_nothing_is_known() -> None:
    rows = [("1", "5", "1")]
    failing: Any = Answers(PySparkException("[DIVIDE_BY_ZERO] no"), rows)
    assert fetch_judged(failing, "q", COLUMNS, ["1 / x > 1"]) == (rows, {})
    for conditions in ([], [f"x > {n}" for n in range(MOST_CONDITIONS + 1)]):
        session: Any = Answers(rows)
        assert fetch_judged(session, "q", COLUMNS, conditions) == (rows, {})
        assert len(session.statements) == 1


def test_a_view_without_a_condition_wants_every_row() -> None:
    changes = Changes(str, "attempt", [view("a", "x > 1"), view("b", "")])
    assert changes._wanted(changes.views[0], FEED) == ["x > 1", ""]


def test_a_condition_means_what_the_settings_of_its_view_make_of_it() -> None:
    views = [view("a", "x > 1"), view("b", "x > 2"), view("c", "x > 3", settings=BERLIN)]
    changes = Changes(str, "attempt", views)
    assert changes._wanted(views[0], FEED) == ["x > 1", "x > 2", ""]
    assert changes._wanted(views[2], FEED) == ["", "x > 3"]


def test_each_view_gets_the_rows_that_matter_to_it() -> None:
    rows = [("1", "5", "1"), ("2", "9", "-1")]
    whole = Change(
        "q", 2, COLUMNS, rows, met={"x > 5": frozenset({("2", "9")}), "x > 9": frozenset()}
    )
    changes = Changes(str, "attempt")
    assert changes.relevant(whole, FEED) is whole
    assert changes.relevant(whole, replace(FEED, wanted="x > 5")).fetched == rows[1:]
    assert changes.relevant(whole, replace(FEED, wanted="x > 9")).fetched == []
    assert changes.relevant(whole, replace(FEED, wanted="y > 0")) is whole, "it was not judged"


def test_keys_that_are_gone_are_no_values_to_look_for() -> None:
    rows = [("1", "5", "1"), ("1", "4", "-1"), ("2", "9", "-1"), ("3", "7", "1")]
    whole, session = Change("q", 4, COLUMNS, rows), Answers()
    changes = Changes(str, "attempt")
    gone = changes.gone_keys(FEED, whole)
    assert gone == ("int", frozenset({"2"}))
    found = changes.values(session, whole, "k", gone)  # type: ignore[arg-type]
    assert found is not None and found.listed == ("1", "3")
    every = changes.values(session, whole, "k")  # type: ignore[arg-type]
    assert every is not None and every.listed == ("1", "2", "3")
    other = changes.values(session, whole, "k", ("bigint", frozenset({"2"})))  # type: ignore[arg-type]
    assert other is not None and other.listed == ("1", "2", "3"), "texts of another type"


def test_null_is_looked_for_although_its_row_is_gone() -> None:
    """It is no key that a row refers to; but a join by <=> finds the rows that have none."""
    whole, changes = Change("q", 1, COLUMNS, [(None, "9", "-1")]), Changes(str, "attempt")
    gone = changes.gone_keys(FEED, whole)
    assert gone == ("int", frozenset())
    found = changes.values(Answers(), whole, "k", gone)  # type: ignore[arg-type]
    assert found is not None and found.null


def test_without_one_key_column_nothing_is_gone() -> None:
    rows = [("2", "9", "-1")]
    changes = Changes(str, "attempt")
    for feed in (replace(FEED, key=()), replace(FEED, key=("k", "x"))):
        assert changes.gone_keys(feed, Change("q", 1, COLUMNS, rows))[1] == frozenset()
    assert changes.gone_keys(FEED, Change("q", None, COLUMNS))[1] == frozenset()


def test_a_key_that_leaves_a_condition_is_not_gone() -> None:
    """It stays, and its row of before matters; to see what matters alone would be to lose it."""
    rows = [("1", "5", "-1"), ("1", "15", "1"), ("2", "6", "-1"), ("3", "16", "-1")]
    met = {"x < 10": frozenset({("1", "5"), ("2", "6")})}
    whole, session = Change("q", 4, COLUMNS, rows, met=met), Answers()
    feed, changes = replace(FEED, wanted="x < 10"), Changes(str, "attempt")

    def part(name: str, columns: tuple[str, ...] = ("k", "x")) -> Any:
        return changes.part(session, whole, feed, name, columns).fetched  # type: ignore[arg-type]

    assert part(KEPT) == rows[:1]
    assert part(GONE) == rows[2:3]
    assert changes.gone_keys(feed, whole)[1] == frozenset({"2", "3"})
