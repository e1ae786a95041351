"""A view's text + the schemas of its sources -> its plan, its layout, and its load query."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.plan import Aggregate, Plan, Project, Window, walk
from hybridview.compiler.kinds import Recorded
from hybridview.compiler.layout import EPOCH, ROW, Layout, LayoutKind, lay_out
from hybridview.compiler.matching import with_types
from hybridview.compiler.measures import Types, argument_of
from hybridview.compiler.normalise import normalise
from hybridview.compiler.program import Compilable
from hybridview.compiler.state import State, state
from hybridview.sql.load import counting_copies, with_columns, with_row_ids
from hybridview.sql.lost import lost_argument
from hybridview.sql.resolve import Relation, rename


def plan_view(relation: Relation, names: tuple[str, ...]) -> Plan:
    """Return a view's normalised plan; `names` are its columns in Spark's own analysis."""
    return normalise(rename(relation, names))


def arguments(plan: Plan) -> dict[str, tuple[exp.Expr, Plan]]:
    """Return every aggregate argument and the plan it is evaluated over, by its text."""
    found: dict[str, tuple[exp.Expr, Plan]] = {}
    for node in walk(plan):
        if isinstance(node, Aggregate):
            calls = [measure.expr for measure in node.measures]
        elif isinstance(node, Window):
            calls = [function.expr.this for function in node.functions]
        else:
            continue
        for call in calls:
            argument = argument_of(call)
            if argument is not None:
                found.setdefault(argument.sql(dialect="spark"), (argument, node.input))
    return found


@dataclass(frozen=True, slots=True)
class CompiledView:
    """A view ready for `compile_program`, and the query that fills its table."""

    compilable: Compilable
    load: str
    state: State | None = None
    """What the view's row is computed from, where it cannot be added up."""


def needs_state(parsed: exp.Query, relation: Relation, plan: Plan, types: Types) -> State | None:
    """Return the state table a view needs, if it needs one and one can be made from its text."""
    plain = isinstance(parsed, exp.Select) and not parsed.args.get("distinct")
    if not plain or parsed.args.get("order"):
        return None
    return state(plan, types, relation.spelling)


def compile_view(
    name: str,
    query: str,
    parsed: exp.Query,
    relation: Relation,
    plan: Plan,
    types: Types,
    with_state: bool = False,
    recorded: Recorded | None = None,
) -> CompiledView:
    """Lay out a view and prepare its load; all its columns are plain if no types are recorded."""
    found = needs_state(parsed, relation, plan, types) if with_state else None
    if found is not None:
        bare = Layout(LayoutKind.KEYED, tuple(named for named, _ in found.view))
        if recorded is not None:
            bare = with_types(bare, plan, recorded)
        return CompiledView(
            Compilable(name, plan, bare, types, recorded), load_query(query, bare), found
        )
    distinct = isinstance(parsed, exp.Select) and bool(parsed.args.get("distinct"))
    spelling = relation.spelling
    if distinct:
        # The aggregate at the top is DISTINCT itself; its keys are the columns.
        spelling = {}
    layout = lay_out(plan, types, spelling, distinct)
    if recorded is not None:
        layout = with_types(layout, plan, recorded)
    lost = lost_argument(query)
    return CompiledView(
        Compilable(name, plan, layout, types, recorded, lost), load_query(query, layout)
    )


def load_query(query: str, layout: Layout, epoch: str = "0") -> str:
    """Return the query that computes all stored columns of a view."""
    if layout.kind is LayoutKind.BAG:
        return with_row_ids(query, epoch, EPOCH, ROW)
    if layout.distinct:
        return counting_copies(query, layout.hidden[0].name)
    if layout.hidden:
        return with_columns(query, tuple((h.name, h.sql) for h in layout.hidden))
    return query


__all__ = ["CompiledView", "Project", "arguments", "compile_view", "load_query", "plan_view"]
