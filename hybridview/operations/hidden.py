"""A view's record -> the records of what is kept for it beside its rows: state, and parts.

They are ordinary views that the user does not see: refreshed before the view, in the same epoch.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from hybridview.catalog import ViewRecord
from hybridview.compiler.pieces import Part
from hybridview.compiler.state import SUFFIX
from hybridview.compiler.view import needs_state, plan_view
from hybridview.errors import HybridviewError
from hybridview.operations.analyse import Analyst, Schemas
from hybridview.plan.compiled import (
    compared_padded,
    compile_cut,
    compile_record,
    known_types,
    recorded_types,
)
from hybridview.schema import TableSchema
from hybridview.sql.load import with_list
from hybridview.sql.parse import Definition, parse_query
from hybridview.sql.resolve import NoRule, UnknownTable, Unresolved, resolve, sources

STRATEGY = "hybridview.strategy"


class _CannotKeep(Exception):
    """A part whose rows cannot be stored, or not be maintained from changes."""


def with_hidden(analyst: Analyst, view: ViewRecord, schemas: Schemas) -> tuple[ViewRecord, ...]:
    """Return the records of a view's state and parts, if it needs any, and its own last."""
    parsed = parse_query(Definition(view.name, view.text))
    if compared_padded(view, parsed) is not None:
        return (view,)
    try:
        relation = resolve(parsed, schemas)
    except (NoRule, Unresolved, UnknownTable):
        return (view,)
    if len(relation.columns) != len(view.columns):
        return (view,)
    plan = plan_view(relation, tuple(c.name for c in view.columns), schemas)
    cut = compile_cut(view, parsed, relation, plan, recorded_types(view))
    found = needs_state(parsed, relation, plan, known_types(view))
    # What reads stored rows alone can be computed from them; what does not may need state.
    if found is not None and not (cut.whole and not cut.parts):
        name = f"{view.name}{SUFFIX}"
        kept = _record(
            analyst, view, name, with_list(view.text, found.columns, found.keys), schemas
        )
        return (*with_hidden(analyst, kept, schemas), replace(view, state=name))
    try:
        return _with_parts(analyst, view, cut.parts, schemas)
    except (_CannotKeep, HybridviewError):
        return (view,)  # it is refreshed by snapshot, and says which operator wants that


def _with_parts(
    analyst: Analyst, view: ViewRecord, parts: tuple[Part, ...], schemas: Schemas
) -> tuple[ViewRecord, ...]:
    known = dict(schemas)
    found: list[ViewRecord] = []
    kept: dict[str, TableSchema] = {}
    for part in parts:
        made = _record(analyst, view, part.name, part.query(), known)
        if part.needed:
            family: tuple[ViewRecord, ...] = (replace(made, needed=part.needed),)
        else:
            family = with_hidden(analyst, made, known)
        if compile_record(family[-1]).compilable is None:
            raise _CannotKeep
        found += family
        kept[part.name] = known[part.name] = made.schema
    columns = {name: schema.columns for name, schema in kept.items()}
    return (*found, replace(view, parts=columns))


def _record(
    analyst: Analyst, view: ViewRecord, name: str, query: str, schemas: Schemas
) -> ViewRecord:
    """Analyse a hidden view; it reads some of the tables its view reads, or parts before it."""
    own = {key: value for key, value in view.properties.items() if key == STRATEGY}
    definition = Definition(name, query, properties=own, source=view.source)
    read = _tables(parse_query(definition))
    return analyst.view(
        definition,
        name,
        {n: s for n, s in schemas.items() if n.lower() in read},
        view.state_of or view.name,
    )


def _tables(parsed: exp.Query) -> set[str]:
    return {table.name.lower() for table in sources(parsed)}


__all__ = ["with_hidden"]
