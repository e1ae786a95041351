"""Which reads near changes look for the same rows; without a JVM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hybridview.engine import inline, neighbours
from hybridview.engine.neighbours import Neighbours, own_rows
from hybridview.plan.steps import Apply, Feed, NearRead, Pinned, ViewPlan
from hybridview.schema import Executed

FEED = Feed("t", 1, 2, ("k", "x"), True, 10)
READ = NearRead("u@near k in t@changes.k", "u", "k", (("t@changes", "k"),))


def view(name: str, columns: tuple[str, ...] = ("k", "y"), **changed: Any) -> ViewPlan:
    sources = (Pinned("t", "id of t", 2, ("k", "x")), Pinned("u", "id of u", 5, columns))
    step = Apply("SELECT", "MERGE", None, "additive", 10, near=(changed.pop("read", READ),))
    plan = ViewPlan(name, name, name, Executed.INCREMENTAL, "", sources, (FEED,), step=step)
    return replace(plan, **changed)


def together(*views: ViewPlan) -> bool:
    """Say whether the first read of the first view is shared with others."""
    step = views[0].step
    assert isinstance(step, Apply)
    return Neighbours(views).group(views[0], step.near[0]) is not None


def test_views_that_join_the_same_rows() -> None:
    one, two = view("a", ("k", "y")), view("b", ("label", "k"))
    group = Neighbours([one, two]).group(two, READ)
    assert group is not None
    assert group.columns == ("k", "y", "label")
    assert group.wanted_by(lambda feed: True) == 2
    assert own_rows("SELECT 1", two.sources[1].columns) == "SELECT `label`, `k` FROM (SELECT 1)"
    assert not together(one), "nobody else wants them"


def test_parts_of_a_change_are_near_the_same() -> None:
    part = replace(READ, symbol="u@near kept", found_in=(("t@kept", "k"),))
    assert together(view("a"), view("b", read=part))


def test_each_view_has_its_own_conditions() -> None:
    """A view to which no row of the change matters does not look, and does not count."""
    picky = view("b", feeds=(replace(FEED, wanted="`x` > 3"),))
    group = Neighbours([view("a"), picky]).group(view("a"), READ)
    assert group is not None
    assert group.wanted_by(lambda feed: not feed.wanted) == 1


def test_other_rows_are_other_groups() -> None:
    one = view("a")
    for other in (
        view("b", read=replace(READ, column="y")),
        view("b", read=replace(READ, found_in=(("t@changes", "x"),))),
        view("b", feeds=(replace(FEED, start=0),)),
        view("b", feeds=(replace(FEED, end=3),)),
        view("b", settings={"spark.sql.session.timeZone": "Asia/Tokyo"}),
        view("b", sources=(one.sources[0], replace(one.sources[1], version=4))),
    ):
        assert not together(one, other), other


def test_what_is_not_known_yet_or_large_is_not_shared() -> None:
    for unlike in (
        replace(FEED, rows=None),
        replace(FEED, rows=inline.MAX_ROWS + 1),
        replace(FEED, end=None),
        replace(FEED, compare="its change feed cannot be read"),
    ):
        assert not together(view("a", feeds=(unlike,)), view("b", feeds=(unlike,))), unlike
    unmade = (view("a").sources[0], replace(view("a").sources[1], version=None))
    assert not together(view("a", sources=unmade), view("b", sources=unmade))


def test_rows_are_looked_for_once() -> None:
    class Answers:
        asked = 0

        def describe(self, _: str) -> list[tuple[str, str]]:
            return [("k", "int")]

        def run(self, _: str) -> list[tuple[Any, ...]]:
            self.asked += 1
            return [("1",)]

    session: Any = Answers()
    group = Neighbours([view("a"), view("b")]).group(view("a"), READ)
    assert group is not None
    first, second = group.find(session, "SELECT 1"), group.find(session, "SELECT 1")
    assert (first[0], first[1], second[1]) == (second[0], True, False)
    assert session.asked == 1
    # The changed keys are in the query: near others are other rows.
    assert group.find(session, "SELECT 2")[1] and session.asked == 2


def test_what_was_too_many_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answers:
        def describe(self, _: str) -> list[tuple[str, str]]:
            return [("k", "int")]

        def run(self, _: str) -> list[tuple[Any, ...]]:
            return [("1",)] * (inline.MAX_ROWS + 1)

    monkeypatch.setattr(neighbours, "_too_many", {})
    views = [view("a"), view("b")]
    session: Any = Answers()
    group = Neighbours(views).group(views[0], READ)
    assert group is not None and group.find(session, "SELECT 1") == ("", True)
    assert Neighbours(views).group(views[0], READ) is None
    fewer = [replace(v, feeds=(replace(FEED, rows=5),)) for v in views]
    assert Neighbours(fewer).group(fewer[0], READ) is not None
