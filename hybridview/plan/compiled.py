"""A view's record -> its compiled form, from recorded schemas and types alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from hybridview.algebra.plan import Plan
from hybridview.catalog import ViewRecord
from hybridview.compiler.kinds import Recorded
from hybridview.compiler.layout import Layout, LayoutKind
from hybridview.compiler.magnitude import magnitudes
from hybridview.compiler.openness import Open, openness, openness_of_text
from hybridview.compiler.program import Compilable, refuses
from hybridview.compiler.relevant import relevant, selective
from hybridview.compiler.staging import readings
from hybridview.compiler.state import State
from hybridview.compiler.view import CompiledView, compile_view, plan_view
from hybridview.plan.remembered import Remembered
from hybridview.schema import Column, TableSchema
from hybridview.sql.carried import only_carries
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.resolve import NoRule, Relation, UnknownTable, Unresolved, resolve
from hybridview.sql.uses import used_columns


@dataclass(frozen=True, slots=True)
class Compiled:
    """A view's layout, and its plan if delta rules cover it; else why not, and where."""

    layout: Layout
    compilable: Compilable | None
    no_rule: str = ""
    place: str = ""
    state: State | None = None
    view: CompiledView | None = None
    """What its programs are made from, if delta rules cover it."""
    uses: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    """The columns it may use of each source."""
    readings: Mapping[str, int] = field(default_factory=dict)
    """How often its text reads each source, by the name in lower case."""
    magnitudes: Mapping[str, str] = field(default_factory=dict)
    """SQL of sum(|x|), by column; to judge floating point sums by."""
    open: Mapping[str, Open] = field(default_factory=dict)
    """What Spark's answer leaves open about each column; to judge differences by."""
    relevant: Mapping[str, str] = field(default_factory=dict)
    """The conditions that rows of its sources meet if they can matter to it."""
    selective: frozenset[str] = frozenset()
    """The sources of which few rows matter to it, by the look of these conditions."""


def recorded_types(view: ViewRecord) -> Recorded:
    """Return what Spark's analysis said about the types of a view and its sources."""
    read = {**view.sources, **view.parts}
    return Recorded(
        {n.lower(): {c.name.lower(): c.type for c in cs} for n, cs in read.items()},
        {c.name: c.type for c in view.columns},
        view.types,
    )


def known_types(view: ViewRecord) -> Mapping[str, str]:
    """Return the types of aggregate arguments, as far as sums of them may be added up.

    Without ANSI mode a sum that overflows is silently NULL or wraps around, and nothing can be
    added to that: such views re-evaluate their groups.
    """
    ansi = view.settings.get("spark.sql.ansi.enabled", "true").lower() == "true"
    return view.types if ansi else {}


_compiled: Remembered[Compiled] = Remembered(1000)


def compile_record(view: ViewRecord) -> Compiled:
    """Compile a recorded view. Deterministic: the same record always gives the same layout."""
    return _compiled.get(repr(view), lambda: compile_anew(view))


def compile_anew(view: ViewRecord) -> Compiled:
    """Compile a recorded view whether that was done before or not."""
    # Blank lines stand for what comes before the query in its file, so that places are right.
    before = "\n" * (view.line - 1) + " " * (view.column - 1)
    definition = Definition(
        view.name, view.text, source=view.source, text=before + view.text, offset=len(before)
    )
    parsed = parse_query(definition)
    compiled = _compile(view, definition, parsed)
    if not compiled.open:
        types = {c.name: c.type for c in view.columns}
        compiled = replace(compiled, open=openness_of_text(parsed, types))
    often = Counter(name.lower() for name in readings(parsed).elements())
    uses = used_columns(view.text, parsed, view.sources)
    return replace(compiled, uses=uses, readings=dict(often))


def _compile(view: ViewRecord, definition: Definition, parsed: exp.Query) -> Compiled:
    names = tuple(c.name for c in view.columns)
    schemas = {n: TableSchema(n, columns) for n, columns in view.sources.items()}
    bag = Layout(LayoutKind.BAG, names)
    if (padded := compared_padded(view, parsed)) is not None:
        reason = f'column "{padded.name}" is compared, and is a {str(padded.declared).upper()}'
        return Compiled(bag, None, f"{reason}: a change does not keep how Spark pads it")
    try:
        relation = resolve(parsed, schemas)
    except NoRule as reason:
        place = definition.place(reason.node)
        return Compiled(bag, None, f"{reason.operator} has no delta rule", place)
    except (Unresolved, UnknownTable) as reason:
        return Compiled(bag, None, f"{reason} could not be resolved", definition.place(reason.node))
    if not _matches(relation, names):
        return Compiled(bag, None, "its columns could not be matched with Spark's analysis")
    plan = plan_view(relation, names, schemas)
    recorded = recorded_types(view)
    compiled = compile_cut(view, parsed, relation, plan, recorded)
    if {part.name for part in compiled.parts} != set(view.parts):
        # Its parts could not be kept when it was defined.
        compiled = compile_cut(view, parsed, relation, plan, recorded, cut=False)
    refusal = ""
    if compiled.state is None:
        refusal = refuses(compiled.compilable, compiled.whole) or ""
    return Compiled(
        compiled.compilable.layout,
        None if refusal else compiled.compilable,
        refusal,
        state=compiled.state,
        view=None if refusal else compiled,
        magnitudes=magnitudes(plan, None if parsed.args.get("distinct") else relation.spelling),
        open=openness(plan, recorded),
        relevant=relevant(compiled.compilable.plan, compiled.compilable.recorded),
        selective=selective(compiled.compilable.plan),
    )


def compared_padded(view: ViewRecord, parsed: exp.Query) -> Column | None:
    """Return a CHAR column that a query does more with than to carry its values, if there is one.

    A view's string made from one may be padded as well; that it is, is noted with the view.
    """
    uses = used_columns(view.text, parsed, view.sources)
    padded = [column for columns in uses.values() for column in columns if column.padded]
    if not padded or only_carries(parsed, [column.name for column in padded]):
        return None
    return padded[0]


def _matches(relation: Relation, names: tuple[str, ...]) -> bool:
    """Say whether columns are those of Spark's analysis, one by one, as far as they have names."""
    if len(relation.columns) != len(names):
        return False
    pairs = zip(relation.columns, names, strict=True)
    return all(c.name.lower() == name.lower() for c, name in pairs if c.certain)


def compile_cut(
    view: ViewRecord,
    parsed: exp.Query,
    relation: Relation,
    plan: Plan,
    recorded: Recorded,
    cut: bool = True,
) -> CompiledView:
    """Compile a view's plan, cut into the parts it needs if that is wanted."""
    return compile_view(
        view.name,
        view.text,
        parsed,
        relation,
        plan,
        known_types(view),
        with_state=bool(view.state),
        recorded=recorded,
        stored=frozenset(name.lower() for name in view.over) if cut else None,
        needed=view.needed,
    )
