"""A view's plan -> how its table is laid out: which columns, which of them identify a row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named
from hybridview.algebra.plan import Aggregate, Filter, Plan, Project
from hybridview.compiler.identity import PLAIN, Type
from hybridview.compiler.measures import Kind, Measure, Part, Types, decompose
from hybridview.schema import HIDDEN

EPOCH = f"{HIDDEN}epoch"
ROW = f"{HIDDEN}row"


class LayoutKind(StrEnum):
    """keyed: one row per key, changed by MERGE. bag: rows may repeat and have a hidden id."""

    KEYED = "keyed"
    BAG = "bag"


@dataclass(frozen=True, slots=True)
class Hidden:
    """A column only hybridview reads, and the SQL that fills it inside the user's own SELECT."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A partial aggregate and the column that holds it, hidden or one of the view's own."""

    part: Part
    column: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a view's table: the view's own first, the hidden ones last."""

    kind: LayoutKind
    visible: tuple[str, ...]
    keys: tuple[str, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    parts: tuple[StoredPart, ...] = ()
    distinct: bool = False
    """The query is SELECT DISTINCT: its load counts copies instead of dropping them."""
    odd: tuple[tuple[str, Type], ...] = ()
    """The stored columns that Spark's equality is too coarse for, or has none for."""

    @property
    def stored(self) -> tuple[str, ...]:
        ids = (EPOCH, ROW) if self.kind is LayoutKind.BAG else ()
        return (*self.visible, *(h.name for h in self.hidden), *ids)

    @property
    def signature(self) -> str:
        """A name for what the columns hold: rows stored under another one cannot be added to.

        The same view may be laid out in another way by another version of this program.
        """
        parts = [(p.column, p.part.kind.value, p.part.type) for p in self.parts]
        hidden = [(h.name, h.sql) for h in self.hidden]
        text = repr((self.kind.value, self.visible, self.keys, hidden, parts, self.distinct))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def type_of(self, column: str) -> Type:
        """Return the type to tell values of a stored column apart by."""
        return dict(self.odd).get(column, PLAIN)

    @property
    def rows(self) -> StoredPart | None:
        """The part that counts a group's rows; a group goes when it reaches zero."""
        return next((p for p in self.parts if p.part.kind is Kind.ROWS), None)


@dataclass(frozen=True, slots=True)
class Shape:
    """The top of a view: its columns over an optional HAVING over an aggregate; or none."""

    project: Project
    having: Filter | None
    aggregate: Aggregate | None


def shape(plan: Plan) -> Shape:
    """Recognise the top of a normalised plan."""
    assert isinstance(plan, Project), "a view's plan ends with its column names"
    below = plan.input
    if isinstance(below, Aggregate):
        return Shape(plan, None, below)
    if isinstance(below, Filter) and isinstance(below.input, Aggregate):
        return Shape(plan, below, below.input)
    return Shape(plan, None, None)


def lay_out(
    plan: Plan, types: Types, originals: Mapping[str, str] | None, distinct: bool
) -> Layout:
    """Choose the layout of a view.

    `originals` gives the user's own spelling of keys and aggregate arguments, by their plan
    spelling; None if hidden columns cannot be added to the user's SELECT.
    """
    top = shape(plan)
    visible = tuple(named.name for named in top.project.columns)
    bag = Layout(LayoutKind.BAG, visible)
    if top.aggregate is None:
        return bag
    keys = _stored_keys(top, originals)
    if keys is None:
        return bag
    columns, hidden_keys = keys
    parts = _stored_parts(top, types, originals)
    if parts is None:
        return Layout(LayoutKind.KEYED, visible, columns, hidden_keys)
    stored, hidden_parts = parts
    hidden = (*hidden_keys, *hidden_parts)
    return Layout(LayoutKind.KEYED, visible, columns, hidden, stored, distinct)


def measures(top: Shape, types: Types) -> tuple[Measure, ...] | None:
    """Split all aggregates of a view into parts; None if one has none, or HAVING hides groups."""
    assert top.aggregate is not None
    if top.having is not None:
        # Groups that fail HAVING are not in the view's table, so there is nothing to add to.
        return None
    found = [decompose(m.expr, types) for m in top.aggregate.measures]
    return None if any(m is None for m in found) else tuple(m for m in found if m)


def _stored_keys(
    top: Shape, originals: Mapping[str, str] | None
) -> tuple[tuple[str, ...], tuple[Hidden, ...]] | None:
    """Return the key columns; None if a key is in no column and cannot be added."""
    assert top.aggregate is not None
    columns: list[str] = []
    hidden: list[Hidden] = []
    for index, key in enumerate(top.aggregate.keys):
        shown = _shown_as(top.project, key.name)
        if shown is None:
            original = (originals or {}).get(_text(key.expr))
            if original is None:
                return None
            hidden.append(Hidden(f"{HIDDEN}key_{index}", original))
            shown = hidden[-1].name
        columns.append(shown)
    return tuple(columns), tuple(hidden)


def _stored_parts(
    top: Shape, types: Types, originals: Mapping[str, str] | None
) -> tuple[tuple[StoredPart, ...], tuple[Hidden, ...]] | None:
    """Return where each part is stored: in a column that shows it anyway, or in a hidden one."""
    assert top.aggregate is not None
    found = measures(top, types)
    if found is None:
        return None
    parts = dict.fromkeys([Part(Kind.ROWS), *(part for m in found for part in m.parts)])
    shown = _parts_shown(top, found)
    stored: list[StoredPart] = []
    hidden: list[Hidden] = []
    for index, part in enumerate(parts):
        name = shown.get(part)
        if name is None:
            # A hidden column cannot hold collated strings.
            if originals is None or " collate " in part.type:
                return None
            argument = ""
            if part.argument is not None:
                original = originals.get(_text(part.argument))
                if original is None:
                    return None
                argument = original
            name = f"{HIDDEN}{part.kind.value}" + (f"_{index}" if part.argument is not None else "")
            hidden.append(Hidden(name, part.call(argument)))
        stored.append(StoredPart(part, name))
    return tuple(stored), tuple(hidden)


def _parts_shown(top: Shape, found: tuple[Measure, ...]) -> dict[Part, str]:
    """Return the parts whose value a visible column is."""
    assert top.aggregate is not None
    shown: dict[Part, str] = {}
    for named, measure in zip(top.aggregate.measures, found, strict=True):
        column = _shown_as(top.project, named.name)
        if column is not None and not isinstance(measure.call, exp.Avg):
            shown.setdefault(measure.parts[0], column)
    return shown


def _shown_as(project: Project, name: str) -> str | None:
    """Return the view's column that is exactly the plan column `name`."""
    for named in project.columns:
        if isinstance(named.expr, exp.Column) and named.expr.name == name:
            return named.name
    return None


def _text(expr: Expr) -> str:
    return expr.sql(dialect="spark")


__all__ = ["Layout", "LayoutKind", "Named", "Shape", "lay_out", "measures", "shape"]
