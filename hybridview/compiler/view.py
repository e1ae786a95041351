"""A view's text + the schemas of its sources -> its plan, its layout, and its load query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.plan import Aggregate, Empty, Plan, Project, Window, output
from hybridview.algebra.walk import walk
from hybridview.compiler.batch import Batch
from hybridview.compiler.derive import derive
from hybridview.compiler.difference import difference
from hybridview.compiler.kinds import Recorded, kinds
from hybridview.compiler.layout import EPOCH, ROW, Layout, LayoutKind, lay_out, shape
from hybridview.compiler.margin import Margin, maintain, read_margin
from hybridview.compiler.matching import with_types
from hybridview.compiler.measures import Types, argument_of
from hybridview.compiler.normalise import normalise
from hybridview.compiler.pieces import Part, Pieces, pieces
from hybridview.compiler.program import Compilable, DeltaProgram, compile_program
from hybridview.compiler.staging import readings, staged
from hybridview.compiler.state import State, read_state, state
from hybridview.schema import TableSchema
from hybridview.sql.aggregates import is_aggregate
from hybridview.sql.load import counting_copies, with_columns, with_row_ids
from hybridview.sql.lost import lost_argument
from hybridview.sql.resolve import Relation, rename


def plan_view(
    relation: Relation, names: tuple[str, ...], schemas: Mapping[str, TableSchema] | None = None
) -> Plan:
    """Return a view's normalised plan.

    `names` are its columns in Spark's own analysis, `schemas` those of its sources.
    """
    sources = {
        name.lower(): {c.name.lower(): c.type for c in schema.columns}
        for name, schema in (schemas or {}).items()
    }
    return normalise(rename(relation, names), sources)


def arguments(plan: Plan) -> dict[str, tuple[exp.Expr, Plan]]:
    """Return every aggregate argument and the plan it is evaluated over, by its text."""
    found: dict[str, tuple[exp.Expr, Plan]] = {}
    for node in walk(plan):
        if isinstance(node, Aggregate):
            calls = [measure.expr for measure in node.measures]
        elif isinstance(node, Window):
            calls = [f.expr.this for f in node.functions if is_aggregate(f.expr.this)]
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
    parts: tuple[Part, ...] = ()
    """The parts of it that are kept in tables of their own."""
    whole: bool = False
    """Whether it is computed as a whole from its parts."""
    margin: Margin | None = None
    """Which first rows of its plan are kept; None for all."""


def delta_program(view: CompiledView, batch: Batch, epoch: str = "0") -> DeltaProgram:
    """Return the program that brings a view from before `batch` to after it."""
    program = _program(view, batch, epoch)
    kept, change = staged(program.view, program.change)
    read = sum((readings(query) for query in (*(k.query for k in kept), change)), Counter())
    return replace(program, kept=kept, change=change, readings=dict(read))


def _program(view: CompiledView, batch: Batch, epoch: str) -> DeltaProgram:
    if view.state is not None:
        return read_state(view.compilable.view, view.compilable.layout, view.state)
    if view.margin is not None:
        return maintain(view.compilable, view.margin, batch, epoch)
    if view.whole:
        return difference(view.compilable, epoch)
    return compile_program(view.compilable, batch, epoch)


def is_unaffected(view: CompiledView, batch: Batch) -> bool:
    """Say whether declared keys alone show that a batch changes no row of a view."""
    if not batch.growing_links or view.whole or view.state is not None:
        return False
    return isinstance(derive(view.compilable.plan, batch), Empty)


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
    stored: frozenset[str] | None = None,
    needed: int = 0,
) -> CompiledView:
    """Lay out a view and prepare its load; all its columns are plain if no types are recorded.

    `stored` are the sources that are views, in lower case; None if it must not be cut into parts.
    `needed` is the number of rows that must be there of a part that keeps its first rows.
    """
    if needed:
        return _compile_margin(name, query, plan, types, recorded, needed)
    found = needs_state(parsed, relation, plan, types) if with_state else None
    if found is not None:
        bare = Layout(LayoutKind.KEYED, tuple(named for named, _ in found.view))
        if recorded is not None:
            bare = with_types(bare, plan, recorded)
        return CompiledView(
            Compilable(name, plan, bare, types, recorded), load_query(query, bare), found
        )
    distinct = isinstance(parsed, exp.Select) and bool(parsed.args.get("distinct"))
    # The aggregate at the top is DISTINCT itself; its keys are the columns.
    spelling = {} if distinct else relation.spelling
    layout = lay_out(plan, types, spelling, distinct)
    cut = Pieces(plan, (), False)
    if stored is not None:
        top = shape(plan).aggregate
        grouped = layout.kind is LayoutKind.KEYED and top is not None and bool(top.keys)
        # Without a state table to compute them from, such values are computed from the rows.
        lossy = any(s.part.needs_growth for s in layout.parts)
        added = bool(layout.parts) and not (
            lossy and needs_state(parsed, relation, plan, types) is None
        )
        cut = pieces(name, plan, stored, types, grouped or added)
        if cut.parts or cut.whole:
            # What is computed as a whole has nothing to add to, and so nothing to hide.
            layout = lay_out(cut.plan, types, None if cut.whole else spelling, distinct)
    recorded = _with_parts(recorded, cut.parts)
    if recorded is not None:
        layout = with_types(layout, cut.plan, recorded)
    compilable = Compilable(name, cut.plan, layout, types, recorded, lost_argument(query))
    load = load_query(query, layout)
    return CompiledView(compilable, load, parts=cut.parts, whole=cut.whole)


def _compile_margin(
    name: str, query: str, plan: Plan, types: Types, recorded: Recorded | None, needed: int
) -> CompiledView:
    """Compile a part that keeps the first rows of its input; its plan is that of all of them."""
    found = read_margin(plan, needed)
    assert found is not None, "the text of a margin is our own"
    rows, margin = found
    layout = lay_out(rows, types, None, False)
    if recorded is not None:
        layout = with_types(layout, rows, recorded)
    compilable = Compilable(name, rows, layout, types, recorded)
    return CompiledView(compilable, load_query(query, layout), margin=margin)


def _with_parts(recorded: Recorded | None, parts: tuple[Part, ...]) -> Recorded | None:
    """Add the types of parts, as far as their plans tell and no table recorded them."""
    if recorded is None or not parts:
        return recorded
    known = dict(recorded.sources)
    for part in parts:
        if part.name.lower() not in known:
            found = kinds(part.plan, Recorded(known, {}, recorded.arguments))
            named = zip(part.columns, output(part.plan), strict=True)
            known[part.name.lower()] = {c: found[n].name for c, n in named if found[n].name}
    return replace(recorded, sources=known)


def load_query(query: str, layout: Layout, epoch: str = "0") -> str:
    """Return the query that computes all stored columns of a view."""
    if layout.kind is LayoutKind.BAG:
        return with_row_ids(query, epoch, EPOCH, ROW)
    if layout.distinct:
        return counting_copies(query, layout.hidden[0].name)
    if layout.hidden:
        return with_columns(query, tuple((h.name, h.sql) for h in layout.hidden))
    return query


__all__ = [
    "CompiledView",
    "Project",
    "arguments",
    "compile_view",
    "delta_program",
    "is_unaffected",
    "load_query",
    "plan_view",
]
