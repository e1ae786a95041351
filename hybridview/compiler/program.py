"""A view's plan and layout + a batch -> DeltaProgram: its change as a query, how to apply it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, same, substitute
from hybridview.algebra.plan import (
    Aggregate,
    Consolidate,
    Domain,
    Filter,
    Join,
    Partial,
    Plan,
    Project,
    Reference,
    Scan,
    Top,
    Window,
    output,
)
from hybridview.algebra.sharing import parts, share
from hybridview.algebra.walk import walk
from hybridview.compiler import statements
from hybridview.compiler.batch import Batch, only_grows, touched
from hybridview.compiler.derive import derive
from hybridview.compiler.identity import equal
from hybridview.compiler.kinds import Recorded
from hybridview.compiler.layout import Layout, LayoutKind, Shape, measures, shape
from hybridview.compiler.matching import cannot_match
from hybridview.compiler.measures import Kind, Part, Types, decompose, is_inexact
from hybridview.compiler.narrow import found_in, narrow
from hybridview.compiler.openness import Open, openness
from hybridview.compiler.render import FEW, render
from hybridview.compiler.rules.aggregate import domain_of, restricted
from hybridview.compiler.staging import KeptPart
from hybridview.compiler.statements import KEY, PART, PRESENT, Column

DOMAIN = f"{FEW}touched"


class Method(StrEnum):
    """How a change reaches the view's table."""

    ADD = "add"
    REPLACE = "replace"
    PATCH = "patch"


class NotIncremental(Exception):
    """A plan, or a batch, whose change cannot be computed from the change alone."""


@dataclass(frozen=True, slots=True)
class DeltaProgram:
    """`v@change` := change; then one statement applies it to `v@target`.

    `without_deletes` is a cheaper statement for a change that takes no row away.
    """

    view: str
    method: Method
    change: exp.Query
    apply: str
    without_deletes: str | None
    brief: str
    """How the change is applied, in a few words."""
    reason: str
    """The same with the reason, for `explain`."""
    near: tuple[Scan, ...] = ()
    """The tables of which only rows near the change are read."""
    readings: Mapping[str, int] = field(default_factory=dict)
    """How often each relation is read, by its symbol."""
    kept: tuple[KeptPart, ...] = ()
    """The parts of a large change that are computed before it, each once, in this order."""
    merge: statements.Merge | None = None
    """What `apply` does, row by row, if it meets stored rows by their keys."""


@dataclass(frozen=True, slots=True)
class Compilable:
    """Everything a view's programs are made from."""

    view: str
    plan: Plan
    layout: Layout
    types: Types
    recorded: Recorded | None = None
    """What is known of types beyond aggregate arguments; None if all columns are plain."""
    lost: str | None = None
    """What the plan misses of the view's text; no program is made from such a plan."""


def compile_program(view: Compilable, batch: Batch, epoch: str = "0") -> DeltaProgram:
    """Return the program that brings a view from before `batch` to after it."""
    refusal = refuses(view)
    if refusal:
        raise NotIncremental(refusal)
    top = shape(view.plan)
    if view.layout.kind is LayoutKind.BAG:
        return _patch(view, batch, epoch)
    assert top.aggregate is not None
    obstacle = _cannot_add(view, top, batch)
    if obstacle is None:
        return _add(view, top, batch)
    if not top.aggregate.keys:
        raise NotIncremental(obstacle)
    return _replace(view, top, batch, obstacle)


def refuses(view: Compilable, whole: bool = False) -> str | None:
    """Return why no batch at all can be applied incrementally; None if some can.

    A view that is computed as a `whole` from its parts only needs its rows to be found again.
    """
    if view.lost:
        return view.lost
    if not whole:
        refusal = _has_no_key(view)
        if refusal:
            return refusal
    return cannot_match(view.plan, view.layout, view.recorded) if view.recorded else None


def _has_no_key(view: Compilable) -> str | None:
    """Return which operator has no key to restrict by, or no repeatable values."""
    top = shape(view.plan)
    for node in walk(view.plan):
        keyed_top = node is top.aggregate and view.layout.kind is LayoutKind.KEYED
        if isinstance(node, Top):
            return "LIMIT has no key to restrict by"
        if isinstance(node, Window):
            if not node.partition:
                return "a window without PARTITION BY has no key to restrict by"
            reason = inexact([(f.name, f.expr.this) for f in node.functions], view.types)
            if reason:
                return reason
        if not isinstance(node, Aggregate) or keyed_top:
            continue
        if not node.keys:
            return "an aggregate without GROUP BY below another operator has no key to restrict by"
        reason = inexact([(m.name, m.expr) for m in node.measures], view.types)
        if reason:
            return reason
    if top.aggregate is not None and not top.aggregate.keys:
        if top.having is not None:
            return "HAVING over an aggregate without GROUP BY has no key to restrict by"
        if measures(top, view.types) is None or not view.layout.parts:
            return "an aggregate without GROUP BY has no key to restrict by, and cannot be added up"
    return None


def inexact(calls: list[tuple[str, Expr]], types: Types) -> str | None:
    """Return why values that others are computed from may differ from one run to the next."""
    for name, call in calls:
        if is_inexact(call, types):
            return (
                f"{name} below another operator adds floating point numbers, "
                "whose last digits depend on the order"
            )
    return None


def _cannot_add(view: Compilable, top: Shape, batch: Batch) -> str | None:
    """Return why stored partial aggregates cannot simply be added to; None if they can."""
    assert top.aggregate is not None
    if not view.layout.parts:
        return _no_partials(view, top)
    grows = only_grows(top.aggregate.input, batch)
    if view.recorded is not None and not grows:
        found = openness(top.aggregate, view.recorded)
        for key in top.aggregate.keys:
            if found[key.name] is Open.SPELLING:
                return f"{key.name} is compared under a collation, and rows may have gone"
    for stored in view.layout.parts:
        if stored.part.needs_growth and not grows:
            what = (
                "adds floating point numbers"
                if stored.part.kind is Kind.SUM
                else "is a minimum or maximum"
            )
            return f"{stored.column} {what}, and rows may have gone"
    return None


def _no_partials(view: Compilable, top: Shape) -> str:
    """Return why a view's table has no partial aggregates that could be added to."""
    assert top.aggregate is not None
    if top.having is not None:
        return "groups that HAVING leaves out are not stored"
    for measure in top.aggregate.measures:
        if decompose(measure.expr, view.types) is None:
            return f"{measure.name} cannot be added up"
    return "its SELECT has no place for the hidden columns that adding up needs"


def _add(view: Compilable, top: Shape, batch: Batch) -> DeltaProgram:
    """View += partial aggregates of the change."""
    node = top.aggregate
    assert node is not None
    keys = tuple(Named(f"{KEY}{i}", k.expr) for i, k in enumerate(node.keys))
    parts = tuple(Named(f"{PART}{i}", s.part.change()) for i, s in enumerate(view.layout.parts))
    partial = Partial(derive(node.input, batch), keys, parts)
    # A group whose parts all stay the same is no change: its MERGE would be a commit for nothing.
    moved = [_moved(f"{PART}{i}", s.part) for i, s in enumerate(view.layout.parts)]
    condition = exp.or_(*(exp.maybe_parse(m, dialect="spark") for m in moved))
    narrowed = narrow(Filter(partial, condition), view.recorded)
    change = render(narrowed, view.recorded)
    merge = statements.add(view.view, view.layout, *_stored_values(view, top))
    return DeltaProgram(
        view.view,
        Method.ADD,
        change,
        merge.statement(),
        None,
        "added to the stored aggregates",
        "additive: partial aggregates of the change are added to the stored ones",
        near_scans(narrowed),
        merge=merge,
    )


def _moved(name: str, part: Part) -> str:
    quoted = statements.quote(name)
    if part.kind in (Kind.MIN, Kind.MAX):
        return f"{quoted} IS NOT NULL"
    return f"coalesce({quoted}, 0) <> 0"


def _stored_values(view: Compilable, top: Shape) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return every stored column's value when a group is updated, and when it is new."""
    updated = statements.new_parts(view.layout)
    fresh = {s.part: f"d.{statements.quote(f'{PART}{i}')}" for i, s in enumerate(view.layout.parts)}
    old_keys = [_stored_key(view.layout, key) for key in view.layout.keys]
    new_keys = [f"d.{statements.quote(f'{KEY}{i}')}" for i in range(len(view.layout.keys))]
    return (
        stored_columns(view, top, updated, old_keys),
        stored_columns(view, top, _cast_parts(fresh), new_keys),
    )


def _stored_key(layout: Layout, key: str) -> str:
    """Return a stored key as what is made of it compares it: no collation is stored."""
    kind, sql = layout.type_of(key), f"t.{statements.quote(key)}"
    return f"({sql} COLLATE {kind.name})" if kind.kind == "collated" else sql


def _cast_parts(values: dict[Part, str]) -> dict[Part, str]:
    return {
        part: f"CAST({sql} AS {part.type})" if part.kind is Kind.SUM else sql
        for part, sql in values.items()
    }


def stored_columns(
    view: Compilable, top: Shape, parts: dict[Part, str], keys: list[str]
) -> tuple[Column, ...]:
    """Return all stored columns as SQL over given parts and keys."""
    assert top.aggregate is not None
    found = measures(top, view.types)
    assert found is not None
    values: dict[str, Expr] = {}
    for key, sql in zip(top.aggregate.keys, keys, strict=True):
        values[key.name] = exp.maybe_parse(sql, dialect="spark")
    for named, measure in zip(top.aggregate.measures, found, strict=True):
        values[named.name] = exp.maybe_parse(measure.value(parts), dialect="spark")
    columns = [
        Column(c.name, substitute(c.expr, values).sql(dialect="spark")) for c in top.project.columns
    ]
    shown = {c.name for c in columns}
    for name, sql in zip(view.layout.keys, keys, strict=True):
        if name not in shown:
            columns.append(Column(name, sql))
    for stored in view.layout.parts:
        if stored.column not in shown:
            columns.append(Column(stored.column, parts[stored.part]))
    return tuple(columns)


def _replace(view: Compilable, top: Shape, batch: Batch, obstacle: str) -> DeltaProgram:
    """View := re-evaluated rows, for the touched keys.

    The source is *touched keys LEFT JOIN new rows*, so that groups without rows are deleted; rows
    that are stored already are left out, so that nothing is written for them.
    """
    node = top.aggregate
    assert node is not None
    domain = domain_of(node, derive(node.input, batch))
    keys = output(domain)
    touched = {DOMAIN: found_in(domain, view.recorded)}
    rows = narrow(_stored_rows(view, top, Reference(DOMAIN, keys)), view.recorded, touched)
    near_domain = narrow(domain, view.recorded)
    fresh = render(rows, view.recorded)
    new, old = "n", "t"
    # A hidden key has the name of the key it is found by, and its value.
    stored = [c for c in view.layout.stored if c not in keys]
    select = [f"k.{statements.quote(k)}" for k in keys]
    select += [f"{new}.{statements.quote(PRESENT)}"]
    select += [f"{new}.{statements.quote(c)}" for c in stored]
    unchanged = statements.unchanged(view.layout, stored, new, old)
    query = exp.select(*select, dialect="spark").from_(f"{DOMAIN} AS k")
    query = query.join(
        exp.Subquery(this=fresh, alias=exp.TableAlias(this=exp.to_identifier(new))),
        on=_same_keys(view.layout, keys, new, [f"__hv_new_{k}" for k in keys]),
        join_type="left",
        dialect="spark",
    )
    query = query.join(
        f"(SELECT *, TRUE AS __hv_stored FROM {statements.target(view.view)}) AS {old}",
        on=_same_keys(view.layout, keys, old, view.layout.keys),
        join_type="left",
        dialect="spark",
    )
    query = query.where(
        f"({new}.{PRESENT} IS NULL AND {old}.__hv_stored IS NOT NULL) OR "
        f"({new}.{PRESENT} IS NOT NULL AND "
        f"({old}.__hv_stored IS NULL OR NOT ({unchanged})))",
        dialect="spark",
    )
    query = query.with_(DOMAIN, as_=render(near_domain, view.recorded, label="domain"))
    names = ", ".join(key.name for key in node.keys)
    merge = statements.replace(view.view, view.layout)
    return DeltaProgram(
        view.view,
        Method.REPLACE,
        query,
        merge.statement(),
        None,
        f"touched groups re-evaluated, because {obstacle}",
        f"affected keys: touched groups ({names}) are re-evaluated, because {obstacle}",
        near_scans(near_domain, rows),
        merge=merge,
    )


def _same_keys(layout: Layout, keys: tuple[str, ...], alias: str, columns: Sequence[str]) -> str:
    """Return a condition that columns of a relation have the values of the touched keys."""
    quote = statements.quote
    named = zip(keys, columns, layout.keys, strict=True)
    pairs = [equal(f"k.{quote(k)}", f"{alias}.{quote(c)}", layout.type_of(t)) for k, c, t in named]
    return " AND ".join(pairs)


def _stored_rows(view: Compilable, top: Shape, domain: Plan) -> Plan:
    """Return the plan of all stored columns of the touched groups, at the new version."""
    node = top.aggregate
    assert node is not None
    extra: list[Named] = []
    for i, s in enumerate(view.layout.parts):
        text = s.part.argument.sql(dialect="spark") if s.part.argument is not None else ""
        call: Expr = exp.maybe_parse(s.part.call(text), dialect="spark")
        extra.append(Named(f"{PART}{i}", call))
    wide = Aggregate(node.input, node.keys, (*node.measures, *extra))
    rows: Plan = restricted(wide, node.input, domain)
    if top.having is not None:
        rows = Filter(rows, top.having.condition)
    columns = list(top.project.columns)
    shown = {c.name for c in columns}
    for name, key in zip(view.layout.keys, node.keys, strict=True):
        if name not in shown:
            columns.append(Named(name, column(key.name)))
    for i, s in enumerate(view.layout.parts):
        if s.column not in shown:
            columns.append(Named(s.column, column(f"{PART}{i}")))
    for i, key in enumerate(node.keys):
        columns.append(Named(f"__hv_new_{KEY}{i}", column(key.name)))
    columns.append(Named(PRESENT, exp.Boolean(this=True)))
    return Project(rows, tuple(columns))


def _patch(view: Compilable, batch: Batch, epoch: str) -> DeltaProgram:
    """View += signed rows."""
    change = narrow(Consolidate(derive(view.plan, batch)), view.recorded)
    kinds = {name: view.layout.type_of(name) for name in view.layout.visible}
    return DeltaProgram(
        view.view,
        Method.PATCH,
        render(change, view.recorded, kinds),
        statements.patch(view.view, view.layout, epoch),
        statements.append(view.view, view.layout, epoch),
        "applied row by row",
        "rows: the netted change is inserted and deleted row by row",
        near_scans(change),
    )


def near_scans(*plans: Plan) -> tuple[Scan, ...]:
    """Return the scans that read rows near the change, one for each relation they read."""
    found = (n for plan in plans for n in parts(share(plan)) if isinstance(n, Scan) and n.near)
    return tuple({scan.symbol: scan for scan in found}.values())


__all__ = [
    "Compilable",
    "DeltaProgram",
    "Domain",
    "Join",
    "Method",
    "NotIncremental",
    "Scan",
    "compile_program",
    "same",
    "touched",
]
