"""A view's record -> its compiled form, from recorded schemas and types alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hybridview.algebra.plan import Plan, Scan, walk
from hybridview.catalog import ViewRecord
from hybridview.compiler.layout import Layout, LayoutKind
from hybridview.compiler.program import Compilable, refuses
from hybridview.compiler.state import State
from hybridview.compiler.view import compile_view, plan_view
from hybridview.schema import TableSchema
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.resolve import NoRule, UnknownTable, Unresolved, resolve

UNNETTABLE = ("map<", "variant")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A view's layout, and its plan if delta rules cover it; else why not, and where."""

    layout: Layout
    compilable: Compilable | None
    no_rule: str = ""
    place: str = ""
    state: State | None = None


def _unnettable(plan: Plan, schemas: dict[str, TableSchema]) -> str:
    """Say which column the view reads has a type whose values cannot be compared."""
    for node in walk(plan):
        if not isinstance(node, Scan):
            continue
        for name in node.columns:
            column = schemas[node.table].find(name)
            if column and any(kind in column.type.lower() for kind in UNNETTABLE):
                return f"rows with {node.table}.{name} of type {column.type} cannot be compared"
    return ""


def known_types(view: ViewRecord) -> Mapping[str, str]:
    """Return the types of aggregate arguments, as far as sums of them may be added up.

    Without ANSI mode a sum that overflows is silently NULL or wraps around, and nothing can be
    added to that: such views re-evaluate their groups.
    """
    ansi = view.settings.get("spark.sql.ansi.enabled", "true").lower() == "true"
    return view.types if ansi else {}


def compile_record(view: ViewRecord) -> Compiled:
    """Compile a recorded view. Deterministic: the same record always gives the same layout."""
    names = tuple(c.name for c in view.columns)
    # Blank lines stand for what comes before the query in its file, so that places are right.
    before = "\n" * (view.line - 1) + " " * (view.column - 1)
    definition = Definition(
        view.name, view.query, source=view.source, text=before + view.query, offset=len(before)
    )
    parsed = parse_query(definition)
    schemas = {n: TableSchema(n, columns) for n, columns in view.sources.items()}
    bag = Layout(LayoutKind.BAG, names)
    try:
        relation = resolve(parsed, schemas)
    except NoRule as reason:
        place = definition.place(reason.node)
        return Compiled(bag, None, f"{reason.operator} has no delta rule", place)
    except (Unresolved, UnknownTable) as reason:
        return Compiled(bag, None, f"{reason} could not be resolved", definition.place(reason.node))
    if len(relation.columns) != len(names):
        return Compiled(bag, None, "its columns could not be matched with Spark's analysis")
    plan = plan_view(relation, names)
    unnettable = _unnettable(plan, schemas)
    if unnettable:
        return Compiled(bag, None, unnettable)
    compiled = compile_view(
        view.name,
        view.query,
        parsed,
        relation,
        plan,
        known_types(view),
        with_state=bool(view.state),
    )
    if compiled.state is not None:
        return Compiled(compiled.compilable.layout, compiled.compilable, state=compiled.state)
    refusal = refuses(compiled.compilable)
    if refusal:
        return Compiled(compiled.compilable.layout, None, refusal)
    return Compiled(compiled.compilable.layout, compiled.compilable)
