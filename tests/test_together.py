"""Which views' changes are computed by one statement, and what becomes of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from hybridview.engine import inline
from hybridview.engine.together import MOST, Together, follows_from_changes, groups
from hybridview.plan.steps import Apply, Feed, NearRead, Pinned, ViewPlan
from hybridview.schema import Executed

FEED = Feed("t", 1, 2, ("a",), True, 10)
COLUMNS = [("k", "int"), ("n", "bigint")]


def view(name: str, change: str = "SELECT k, n FROM `t@changes`", **changed: Any) -> ViewPlan:
    step = Apply(change, "MERGE", None, "additive", 10, readings={"t@changes": 1})
    sources = (Pinned("t", "id", 2, ("a",)),)
    plan = ViewPlan(name, name, name, Executed.INCREMENTAL, "", sources, (FEED,), step=step)
    return replace(plan, **changed)


class Answers:
    """A session that answers every statement with rows it was given, and remembers both."""

    def __init__(self, *answers: list[tuple[Any, ...]] | Exception) -> None:
        self.answers = list(answers)
        self.statements: list[str] = []

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def fetch(together: Together, session: Any, plan: ViewPlan) -> Any:
    return together.fetch(session, plan, lambda _: COLUMNS, lambda _: True)


def test_one_statement_for_all_of_a_group() -> None:
    views = [view("a"), view("b"), view("c")]
    session = Answers([(0, ["1", "2"]), (2, [None, "4"]), (0, ["5", "6"])])
    together = Together(views)
    assert fetch(together, session, views[2]) == [(None, "4")]
    assert fetch(together, session, views[0]) == [("1", "2"), ("5", "6")]
    assert fetch(together, session, views[1]) == [], "nothing changed for it"
    assert len(session.statements) == 1
    assert session.statements[0].count("UNION ALL") == 2


def test_only_views_that_follow_from_small_changes() -> None:
    near = NearRead("t@near", "t", "a", (("t", "a"),))
    step = view("a").step
    assert isinstance(step, Apply)
    assert follows_from_changes(view("a"))
    for changed in (
        {"step": None},
        {"feeds": ()},
        {"feeds": (replace(FEED, end=None),)},
        {"feeds": (replace(FEED, rows=None),)},
        {"feeds": (replace(FEED, rows=inline.MAX_ROWS + 1),)},
        {"step": replace(step, whole=True)},
        {"step": replace(step, kept=(("few", "SELECT 1"),))},
        {"step": replace(step, near=(near,))},
        {"step": replace(step, change="SELECT * FROM `t@new`")},
        {"step": replace(step, change="SELECT * FROM `a@target`")},
        {"step": replace(step, readings={"t@changes": 9})},
    ):
        assert not follows_from_changes(view("a", **changed)), changed


def test_other_changes_and_other_settings_are_other_groups() -> None:
    views = [
        view("a"),
        view("b", feeds=(replace(FEED, start=0),)),
        view("c", settings={"spark.sql.ansi.enabled": "false"}),
    ]
    together = Together(views)
    assert len({id(kin) for kin in together.kin.values()}) == 3


def test_other_conditions_and_columns_are_no_other_group() -> None:
    views = [view("a"), view("b", feeds=(replace(FEED, wanted="a > 1", own=("a",)),))]
    together = Together(views)
    assert together.kin["a"] is together.kin["b"]


def test_neighbours_are_in_different_groups() -> None:
    views = [view(f"v{i}") for i in range(MOST + 1)]
    found = groups(views)
    made = [found[v.name] for v in views]
    assert made[0] is not made[1]
    assert made[0] is made[2]
    assert max(len(g.views) for g in made) <= MOST


def test_views_that_no_changed_row_matters_to_are_left_out() -> None:
    views = [view(f"v{i}") for i in range(MOST + 1)]
    session = Answers([(0, ["1", "2"]), (1, ["3", "4"])])
    together, concerned = Together(views), {"v3", "v7"}

    def fetched(name: str) -> Any:
        return together.fetch(
            session, views[int(name[1:])], lambda _: COLUMNS, lambda v: v.name in concerned
        )

    assert fetched("v7") == [("3", "4")]
    assert fetched("v3") == [("1", "2")]
    assert len(session.statements) == 1
    assert session.statements[0].count("UNION ALL") == 1


def test_a_statement_that_fails_leaves_each_to_itself() -> None:
    views = [view("a"), view("b")]
    together, session = Together(views), Answers(PySparkException("[DIVIDE_BY_ZERO] no"))
    assert fetch(together, session, views[0]) is None
    assert fetch(together, session, views[1]) is None
    assert len(session.statements) == 1


def test_types_that_text_cannot_carry_and_changes_that_are_large() -> None:
    views = [view("a"), view("b")]
    session = Answers([(1, [str(i), "1"]) for i in range(5)])
    together = Together(views)
    kinds = {"a": [("m", "map<int,int>")], "b": COLUMNS}
    assert together.fetch(session, views[0], lambda v: kinds[v.name], lambda _: True) is None
    assert "UNION" not in session.statements[0]
    found = together.fetch(session, views[1], lambda v: kinds[v.name], lambda _: True)
    assert found is not None and len(found) == 5
    much = [(0, [str(i), "1"]) for i in range(inline.MAX_ROWS + 1)]
    together = Together(views)
    assert fetch(together, Answers([*much, (1, ["1", "1"])]), views[0]) is None
    assert together.fetch(session, views[1], lambda v: kinds[v.name], lambda _: True) == [
        ("1", "1")
    ]


def test_a_view_in_no_group_is_fetched_alone() -> None:
    assert fetch(Together([]), Answers(), view("a")) is None
