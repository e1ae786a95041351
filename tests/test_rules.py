"""Every delta rule matters: a plausible wrong version of it gives wrong rows, the right one none.

Each case runs twice on DuckDB: once as it is, once with one rule replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column
from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Constant,
    Domain,
    Empty,
    Expand,
    Filter,
    Join,
    Negate,
    Outer,
    Plan,
    PlanError,
    Project,
    Repeat,
    Restrict,
    Scan,
    Semi,
    Union,
    Window,
    output,
    signed,
)
from hybridview.algebra.walk import tables, walk
from hybridview.compiler import derive as derive_module
from hybridview.compiler import program as program_module
from hybridview.compiler.batch import Batch
from hybridview.compiler.derive import before, derive
from hybridview.compiler.program import NotIncremental
from hybridview.compiler.rules import aggregate as aggregate_module
from hybridview.compiler.rules import semi as semi_module
from hybridview.compiler.rules.aggregate import KEY, aggregate
from hybridview.compiler.rules.outer import outer
from hybridview.compiler.rules.semi import read_by, semi
from hybridview.compiler.rules.window import window
from hybridview.sql import block as block_module
from hybridview.sql.grouping import KEY as SETS_KEY
from hybridview.sql.grouping import SET, Sets, repeated
from tests.support.cases import Row
from tests.support.duck import Duck, Signed, connect, schema

CONNECTION = connect()
SCHEMAS = {
    "r": schema("r", k="int", a="int"),
    "s": schema("s", k="int", b="int"),
}
FIRST: dict[str, list[Row]] = {
    "r": [(1, 10), (1, 10), (2, 20), (None, 5)],
    "s": [(1, 7), (2, 8), (2, 8)],
}
BOTH_CHANGE: dict[str, Signed] = {
    "r": [((3, 30), 1), ((1, 10), -1), ((2, 20), -1), ((2, 21), 1)],
    "s": [((3, 9), 1), ((2, 8), -1)],
}


@dataclass(frozen=True)
class Case:
    """A view and a batch that shows whether a rule is right."""

    view: str
    changes: dict[str, Signed]


def is_right(case: Case, cut: bool = True) -> bool:
    """Say whether the view's table holds the query's rows after the batch."""
    # A rule that let wrong rows through would not be noticed if it never got any.
    duck = Duck(SCHEMAS, CONNECTION, cut=cut, show_every=True)
    for table, rows in FIRST.items():
        duck.load(table, rows)
    duck.create("v", case.view)
    for done in duck.refresh_all(duck.change(case.changes), 1).values():
        if isinstance(done, NotIncremental):
            raise done
    return duck.stored("v") == duck.fresh("v")


# Wrong rules, each with the case that shows it.


def scan_of_the_table(node: Scan, batch: Batch) -> Plan:
    """The whole table instead of its change."""
    return node


def filter_nothing(node: Filter, change: Plan) -> Plan:
    """The change unfiltered."""
    return change


def project_in_reverse(node: Project, change: Plan) -> Plan:
    """The right names over the wrong expressions."""
    names = [named.name for named in node.columns]
    values = [named.expr for named in reversed(node.columns)]
    return Project(change, tuple(Named(n, e) for n, e in zip(names, values, strict=True)))


def union_of_first(node: Union, changes: tuple[Plan, ...]) -> Plan:
    """Only one arm's change."""
    first = next(change for change in changes if not isinstance(change, Empty))
    return Union((first,), node.names)


def join_both_new(node: Join, left_change: Plan, right_change: Plan, left_before: Plan) -> Plan:
    """Both sides new: a pair of two fresh rows counts twice."""
    terms = (
        Join(left_change, node.right, node.condition),
        Join(node.left, right_change, node.condition),
    )
    return Union(terms, output(node))


def join_left_only(node: Join, left_change: Plan, right_change: Plan, left_before: Plan) -> Plan:
    """The change of the right side forgotten."""
    return Join(left_change, node.right, node.condition)


def aggregate_ignores_old(node: Aggregate, change: Plan, before: Plan) -> Plan:
    """The new groups without taking the old ones away."""
    domain = aggregate_module.domain_of(node, change)
    return Consolidate(
        Union(
            (aggregate_module.restricted(node, node.input, domain), Negate(Empty(output(node)))),
            output(node),
        )
    )


def aggregate_old_is_new(node: Aggregate, change: Plan, before: Plan) -> Plan:
    """The old groups read from the new rows: nothing ever changes."""
    return aggregate(node, change, node.input)


def keys_that_came(node: Aggregate, change: Plan) -> Domain:
    """Keys of one sign only: vanished groups stay."""
    keys = tuple(Named(f"{KEY}{i}", key.expr) for i, key in enumerate(node.keys))
    net = Expand(Consolidate(change))
    return Domain(net, keys)


def before_is_new(plan: Plan, batch: Batch, memo: object = None) -> Plan:
    """The past read from the present."""
    return plan


def semi_of_the_left(
    node: Semi,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    *_: Plan,
) -> Plan:
    """Rows that stay are never judged anew."""
    return Semi(left_change, node.right, node.condition, node.anti)


def semi_old_is_new(
    node: Semi,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    *_: Plan,
) -> Plan:
    """The old partners looked for among the new rows: no row ever comes back."""
    return semi(node, left_change, right_change, left_before, node.right)


def semi_both_new(
    node: Semi,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    *_: Plan,
) -> Plan:
    """Fresh rows of the left judged twice."""
    return semi(node, left_change, right_change, node.left, right_before)


def partners_that_came(condition: Expr | None, rows: Plan) -> Domain:
    """The new partners of one sign only: a row whose last partner goes is not judged anew."""
    return read_by(condition, Expand(Consolidate(rows)) if signed(rows) else rows)


def outer_of_the_left(
    node: Outer,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    *_: Plan,
) -> Plan:
    """Rows that stay are never joined anew."""
    return Outer(left_change, node.right, node.condition, True, False)


def outer_old_is_new(
    node: Outer,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    *_: Plan,
) -> Plan:
    """The rows to take away joined with the new partners."""
    return outer(node, left_change, right_change, left_before, node.right)


def outer_both_new(
    node: Outer,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    *_: Plan,
) -> Plan:
    """Fresh rows of the left joined twice."""
    return outer(node, left_change, right_change, node.left, right_before)


def window_ignores_old(node: Window, change: Plan, before: Plan) -> Plan:
    """The new partitions without taking the old ones away."""
    found = window(node, change, before)
    assert isinstance(found, Union)
    return Union((found.inputs[0], Negate(Empty(output(node)))), output(node))


def window_old_is_new(node: Window, change: Plan, before: Plan) -> Plan:
    """The old partitions read from the new rows: nothing ever changes."""
    return window(node, change, node.input)


def repeat_once(node: Repeat, change: Plan) -> Plan:
    """Every row once, however many copies there are."""
    return change


def sets_of_one_number(plan: Plan, found: Sets) -> tuple[Plan, tuple[Expr, ...]]:
    """The sets not told apart: a NULL that was there falls together with a total."""
    rows, keys = repeated(plan, found)
    assert isinstance(rows, Union)
    arms: list[Plan] = []
    for arm in rows.inputs:
        assert isinstance(arm, Project)
        arms.append(Project(arm.input, (*arm.columns[:-1], Named(SET, exp.Literal.number(0)))))
    return Union(tuple(arms), rows.names), keys


def sets_of_changed_columns(plan: Plan, found: Sets) -> tuple[Plan, tuple[Expr, ...]]:
    """The keys a set leaves out gone for aggregates too."""
    rows, keys = repeated(plan, found)
    meaning = {name: column(f"{SETS_KEY}0") for name in output(plan) if name == "r.k"}
    changed = tuple(
        Named(n, meaning[n]) if n in meaning else Named(n, column(n)) for n in output(rows)
    )
    return Project(rows, changed), keys


JOIN = Case("SELECT r.a, s.b FROM r JOIN s ON r.k = s.k", BOTH_CHANGE)
NESTED = Case(
    "SELECT m.n, s.b FROM (SELECT k, count(*) AS n FROM r GROUP BY k) AS m JOIN s ON m.k = s.k",
    BOTH_CHANGE,
)
EXISTS = Case("SELECT k, a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k)", BOTH_CHANGE)
ANTI = Case(
    "SELECT k, a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k)",
    {"s": [((1, 7), -1), ((2, 8), -1)]},
)
KEPT = Case("SELECT r.k, r.a, s.b FROM r LEFT JOIN s ON r.k = s.k", BOTH_CHANGE)
RANKED = Case("SELECT k, rank() OVER (PARTITION BY k ORDER BY a) AS n FROM r", BOTH_CHANGE)
REPLACED = Case("SELECT k, max(a) AS m FROM r GROUP BY k", {"r": [((2, 20), -1), ((1, 10), -1)]})
ROLLED = Case("SELECT k, count(*) AS n, max(k) AS m FROM r GROUP BY ROLLUP (k)", BOTH_CHANGE)

WRONG: list[tuple[Any, str, Callable[..., Any], Case]] = [
    (derive_module, "scan", scan_of_the_table, Case("SELECT k, a FROM r", BOTH_CHANGE)),
    (
        derive_module,
        "filter",
        filter_nothing,
        Case("SELECT k, a FROM r WHERE a > 25", BOTH_CHANGE),
    ),
    (derive_module, "project", project_in_reverse, Case("SELECT k, a FROM r", BOTH_CHANGE)),
    (
        derive_module,
        "union",
        union_of_first,
        Case("SELECT k FROM r UNION ALL SELECT b FROM s", BOTH_CHANGE),
    ),
    (derive_module, "join", join_both_new, JOIN),
    (derive_module, "join", join_left_only, JOIN),
    (derive_module, "before", before_is_new, JOIN),
    (derive_module, "before", before_is_new, NESTED),
    (derive_module, "aggregate", aggregate_ignores_old, NESTED),
    (derive_module, "aggregate", aggregate_old_is_new, NESTED),
    (aggregate_module, "domain_of", keys_that_came, NESTED),
    (derive_module, "semi", semi_of_the_left, ANTI),
    (derive_module, "semi", semi_old_is_new, ANTI),
    (derive_module, "semi", semi_both_new, EXISTS),
    (semi_module, "read_by", partners_that_came, ANTI),
    (derive_module, "before", before_is_new, ANTI),
    (derive_module, "outer", outer_of_the_left, KEPT),
    (derive_module, "outer", outer_old_is_new, KEPT),
    (derive_module, "outer", outer_both_new, KEPT),
    (derive_module, "before", before_is_new, KEPT),
    (derive_module, "window", window_ignores_old, RANKED),
    (derive_module, "window", window_old_is_new, RANKED),
    (
        derive_module,
        "repeat",
        repeat_once,
        Case("SELECT k, a FROM r EXCEPT ALL SELECT k, b FROM s", {"r": [((5, 5), 1), ((5, 5), 1)]}),
    ),
    (program_module, "domain_of", keys_that_came, REPLACED),
    (block_module, "repeated", sets_of_one_number, ROLLED),
    (block_module, "repeated", sets_of_changed_columns, ROLLED),
]


@pytest.mark.parametrize(
    ("module", "name", "wrong", "case"), WRONG, ids=[f"{w[1]}-{w[2].__name__}" for w in WRONG]
)
def test_a_wrong_rule_gives_wrong_rows(
    module: Any, name: str, wrong: Callable[..., Any], case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_right(case)
    monkeypatch.setattr(module, name, wrong)
    assert not is_right(case)


def test_every_rule_has_a_wrong_version() -> None:
    replaced = {name for module, name, _, _ in WRONG if module is derive_module}
    assert replaced >= {"scan", "filter", "project", "union", "join", "aggregate", "before"}
    assert replaced >= {"semi", "outer", "window", "repeat"}


def test_rows_that_are_not_netted_cannot_reach_an_aggregate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`plain` left out: the plan refuses to exist rather than count deleted rows."""
    monkeypatch.setattr(aggregate_module, "plain", lambda plan: plan)
    with pytest.raises(PlanError, match="signed rows"):
        is_right(NESTED)


def test_old_rows_must_be_netted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`plain` that only drops the negative rows: what came in the batch is counted as old."""

    def without_netting(plan: Plan) -> Plan:
        if isinstance(plan, Restrict) and isinstance(plan.input, Union):
            kept = tuple(arm for arm in plan.input.inputs if not signed(arm))
            return Restrict(Union(kept, plan.input.names), plan.domain, plan.keys)
        return plan

    assert is_right(NESTED)
    monkeypatch.setattr(aggregate_module, "plain", without_netting)
    assert not is_right(NESTED)


# What the rules leave out.

R = Scan("r", "r", ("k", "a"))
S = Scan("s", "s", ("k", "b"))
ONLY_R = Batch(frozenset({"r"}))


def test_a_table_that_did_not_change_has_no_change() -> None:
    assert derive(S, ONLY_R) == Empty(output(S))
    assert derive(R, ONLY_R) == Changes("r", "r", ("k", "a"))


def test_constant_rows_never_change() -> None:
    rows = Constant(("v.x",), ((exp.Literal.number(1),), (exp.Null(),)))
    assert derive(rows, ONLY_R) == Empty(("v.x",))
    assert before(rows, ONLY_R) is rows
    assert derive(Join(R, rows, None), ONLY_R) == Join(Changes("r", "r", ("k", "a")), rows, None)
    with pytest.raises(PlanError, match="constant row"):
        Constant(("v.x",), ((column("r.k"),),))


def test_a_join_reads_nothing_old_when_one_side_changed() -> None:
    change = derive(Join(R, S, None), ONLY_R)
    assert change == Join(Changes("r", "r", ("k", "a")), S, None)


def test_a_chain_of_joins_has_one_term_per_table() -> None:
    third = Scan("t", "t", ("k",))
    everything = Batch(frozenset({"r", "s", "t"}))
    change = derive(Join(Join(R, S, None), third, None), everything)
    deltas = [node for node in walk(change) if isinstance(node, Changes)]
    # dr*s*t + r_old*ds*t + (r*s)_old*dt: an old table is the new one minus its change.
    assert [node.table for node in deltas] == ["r", "r", "s", "r", "s", "t"]


def test_before_reads_no_old_files() -> None:
    past = before(R, ONLY_R)
    assert past == Union((R, Negate(Changes("r", "r", ("k", "a")))), output(R))
    assert before(S, ONLY_R) is S


# What has no incremental plan, and says why.


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        ("SELECT min(a) AS m FROM r", "minimum or maximum, and rows may have gone"),
        ("SELECT count(DISTINCT a) AS n FROM r", "cannot be added up"),
        ("SELECT count(*) AS n FROM r HAVING count(*) > 1", "HAVING over an aggregate without"),
        (
            "SELECT r.a FROM r JOIN (SELECT max(b) AS m FROM s) AS q ON r.a = q.m",
            "an aggregate without GROUP BY below another operator",
        ),
        (
            "SELECT n FROM (SELECT k, sum(CAST(a AS DOUBLE)) AS n FROM r GROUP BY k) AS q",
            "adds floating point numbers",
        ),
    ],
)
def test_refused_with_a_reason(view: str, reason: str) -> None:
    with pytest.raises(NotIncremental, match=reason):
        is_right(Case(view, {"r": [((1, 10), -1)]}), cut=False)


@pytest.mark.parametrize(
    ("view", "parts"),
    [
        ("SELECT count(*) AS n FROM r HAVING count(*) > 1", 1),
        ("SELECT k, a FROM r ORDER BY a DESC LIMIT 1", 1),
        ("SELECT k, rank() OVER (ORDER BY a) AS n FROM r", 1),
        ("SELECT r.a FROM r JOIN (SELECT max(b) AS m FROM s) AS q ON r.a = q.m", 2),
        ("SELECT k FROM r WHERE a > (SELECT min(a) FROM r)", 2),
        ("SELECT n FROM (SELECT k, sum(CAST(a AS DOUBLE)) AS n FROM r GROUP BY k) AS q", 1),
    ],
)
def test_what_has_no_key_is_computed_from_parts(view: str, parts: int) -> None:
    duck = Duck(SCHEMAS, CONNECTION)
    compiled = duck.create("v", view)
    assert len(compiled.parts) == parts
    assert all(table.startswith("v@part") for table in tables(compiled.compilable.plan))
    for change in ({"r": [((1, 10), -1)]}, {"r": [((7, 99), 1)]}, BOTH_CHANGE):
        assert is_right(Case(view, change))


@pytest.mark.parametrize(
    "view",
    [
        "SELECT q.n, s.b FROM (SELECT k, sum(DISTINCT a) AS n FROM r GROUP BY k) AS q "
        "JOIN s ON q.k = s.k",
        "SELECT q.n, s.b FROM (SELECT k, avg(a) AS n FROM r GROUP BY k) AS q JOIN s ON q.k = s.k",
    ],
)
def test_exact_sums_below_another_operator_are_incremental(view: str) -> None:
    assert is_right(Case(view, BOTH_CHANGE))
