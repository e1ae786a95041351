"""A view that is computed from its parts as a whole -> the program that applies what differs."""

from __future__ import annotations

from sqlglot import exp

from hybridview.algebra.plan import Consolidate, Negate, Plan, Reference, Union
from hybridview.algebra.walk import tables
from hybridview.compiler import statements
from hybridview.compiler.layout import Layout, LayoutKind
from hybridview.compiler.program import Compilable, DeltaProgram, Method
from hybridview.compiler.render import render
from hybridview.compiler.statements import PRESENT, quote
from hybridview.schema import HIDDEN


def difference(view: Compilable, epoch: str) -> DeltaProgram:
    """Return the program for a view without a key to restrict by.

    dV = Q(parts_new) - V

    The stored rows are the old result, so it need not be computed again.
    """
    read = ", ".join(tables(view.plan))
    brief = f"computed anew from {read}"
    reason = f"piecewise: computed from {read}, which is maintained; what differs is applied"
    if view.layout.kind is LayoutKind.BAG:
        return _rows(view, epoch, brief, reason)
    return one_row(view.view, view.layout, render(view.plan, view.recorded), brief, reason)


def _rows(view: Compilable, epoch: str, brief: str, reason: str) -> DeltaProgram:
    layout = view.layout
    stored = Reference(f"{view.view}@target", layout.visible)
    change: Plan = Consolidate(Union((view.plan, Negate(stored)), layout.visible))
    kinds = {name: layout.type_of(name) for name in layout.visible}
    return DeltaProgram(
        view.view,
        Method.PATCH,
        render(change, view.recorded, kinds),
        statements.patch(view.view, layout, epoch),
        statements.append(view.view, layout, epoch),
        brief,
        reason,
    )


def one_row(view: str, layout: Layout, fresh: exp.Query, brief: str, reason: str) -> DeltaProgram:
    """Return the program that puts a new row in the place of the one a view has.

    HAVING may leave no row: then the stored one goes.
    """
    stored = layout.stored
    columns = ", ".join(f"n.{quote(c)}" for c in stored)
    unchanged = statements.unchanged(layout, stored, "n", "t")
    mark, present = f"t.{quote(f'{HIDDEN}stored')}", f"n.{quote(PRESENT)}"
    change = (
        f"SELECT {present}, {columns} FROM (SELECT 1 AS {quote(f'{HIDDEN}one')}) AS o "
        f"LEFT JOIN (SELECT *, TRUE AS {quote(PRESENT)} FROM ({fresh.sql(dialect='spark')}) AS q) "
        f"AS n ON TRUE LEFT JOIN (SELECT *, TRUE AS {quote(f'{HIDDEN}stored')} "
        f"FROM {statements.target(view)}) AS t ON TRUE "
        f"WHERE ({present} IS NULL AND {mark} IS NOT NULL) OR "
        f"({present} IS NOT NULL AND ({mark} IS NULL OR NOT ({unchanged})))"
    )
    merge = statements.replace(view, layout)
    return DeltaProgram(
        view,
        Method.REPLACE,
        exp.maybe_parse(change, dialect="spark"),
        merge.statement(),
        None,
        brief,
        reason,
        merge=merge,
    )


__all__ = ["difference", "one_row"]
