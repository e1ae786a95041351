"""A small change and the stored rows it meets -> a commit that needs no MERGE.

A MERGE of a few rows takes Spark several jobs. If a change was fetched, and the table's protocol
and size allow it, the rows it meets are found in the table's files, what becomes of them is
computed, and files and commit are written here. Spark still computes what an aggregate's columns
become, in one statement over literals, for several views at once where they have one. Whatever does
not fit is left to the MERGE, which does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from hybridview.compiler.layout import EPOCH, ROW, LayoutKind
from hybridview.compiler.program import Method
from hybridview.compiler.statements import KEY, PRESENT, Merge
from hybridview.engine import inline
from hybridview.engine.faults import reach
from hybridview.engine.session import literal
from hybridview.filestats import Size
from hybridview.plan.steps import Apply, ViewPlan
from hybridview.schema import WEIGHT
from hybridview.tablefiles.change import Change, Mark, Place, Row, Taken, commit
from hybridview.tablefiles.meeting import Met, meet
from hybridview.tablefiles.parquet import UNFIT
from hybridview.tablefiles.table import FileTable, open_table
from hybridview.tablefiles.values import identifies, kind_of

ENGINE = "hybridview"

Columns = Sequence[tuple[str, str]]
Texts = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A table, what becomes of its rows, and how much of it was read."""

    table: FileTable
    change: Change
    read: Size

    def store(self, transaction: str, number: int, user_metadata: str) -> bool:
        """Write it as one commit; False if somebody else was faster, or it does not fit."""
        mark = Mark(transaction, number, user_metadata, ENGINE)
        try:
            commit(self.table, self.change, mark, lambda: reach("before_commit"))
        except (Taken, *UNFIT):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Question:
    """Rows of a change beside those they meet; Spark knows what becomes of them."""

    table: FileTable
    met: Met
    places: tuple[Place | None, ...]
    query: str
    """Returns a number of `places`, whether the row goes, and its new values, as texts."""


def outcome(
    view: ViewPlan, folder: Path, columns: Columns, rows: Texts, epoch: int, only_grows: bool
) -> Outcome | None:
    """Return what becomes of a table whose new rows are in the change itself; None if unknown."""
    step = view.step
    assert isinstance(step, Apply)
    if step.method == Method.ADD:
        return None
    try:
        table = _open(view, folder)
        if table is None or not _same_types(table, columns):
            return None
        if step.method == Method.PATCH:
            return _patched(view, table, columns, rows, epoch, only_grows)
        return _replaced(view, table, columns, rows)
    except UNFIT:
        return None


def question(view: ViewPlan, folder: Path, columns: Columns, rows: Texts) -> Question | None:
    """Return what to ask Spark about a change that is added up; None if it is Spark's to write."""
    step = view.step
    assert isinstance(step, Apply)
    if step.method != Method.ADD or step.merge is None:
        return None
    try:
        table = _open(view, folder)
        if table is None:
            return None
        keys, met = _meet_keys(view, table, columns, rows)
        if met is None:
            return None
        pairs = [
            (row, place)
            for row, key in zip(rows, keys, strict=True)
            for place in met.by_key.get(key, [None])
        ]
        query = _new_rows(step.merge, table, columns, [(r, p, met) for r, p in pairs])
        return Question(table, met, tuple(place for _, place in pairs), query)
    except UNFIT:
        return None


def answered(asked: Question, answer: Texts) -> Outcome | None:
    """Return what becomes of a table, by Spark's answer; None if a row would change twice."""
    change = Change()
    places = [place for place in asked.places if place is not None]
    if len(set(places)) < len(places) or len(answer) != len(asked.places):
        return None  # two rows of the change meet one stored row: the MERGE says what is wrong
    kinds = [asked.table.kind(c.name) for c in asked.table.columns]
    try:
        if not inline.are_whole(answer):
            return None
        for number, gone, *texts in answer:
            place = asked.places[int(number)]
            row = tuple(
                None if text is None else kind.parse(text)
                for kind, text in zip(kinds, texts, strict=True)
            )
            if place is None:
                change.arrived.append(row)
            elif gone == "true":
                change.gone.append(place)
            else:
                change.updated[place] = row
    except UNFIT:
        return None
    return Outcome(asked.table, change, _size(asked.met))


def _open(view: ViewPlan, folder: Path) -> FileTable | None:
    if view.layout is None or view.stored_version is None:
        return None
    table = open_table(folder, view.stored_version)
    if table is None or {c.name for c in table.columns} != set(view.layout.stored):
        return None
    return table


def _same_types(table: FileTable, columns: Columns) -> bool:
    """Say whether the columns of a change can be stored as they are."""
    types = table.types
    return all(kind.lower() == types[name].lower() for name, kind in columns if name in types)


def _size(met: Met) -> Size:
    return Size(met.files, met.bytes, len(met.rows))


def _values(columns: Columns, names: Sequence[str], rows: Texts) -> list[Row]:
    """Return some columns of a change as plain values."""
    places = {name: place for place, (name, _) in enumerate(columns)}
    kinds = {name: kind_of(kind) for name, kind in columns}
    read = [(places[name], kinds[name]) for name in names]
    if any(kind is None for _, kind in read):
        raise ValueError("a type that is not carried")
    return [
        tuple(
            None if row[place] is None else kind.parse(row[place])
            for place, kind in read
            if kind is not None
        )
        for row in rows
    ]


def _identify(view: ViewPlan, table: FileTable, names: Sequence[str]) -> bool:
    """Say whether rows are told apart by plain values of some columns, as Spark tells them."""
    assert view.layout is not None
    odd = dict(view.layout.odd)
    return all(name not in odd and identifies(table.types[name]) for name in names)


def _meet_keys(
    view: ViewPlan, table: FileTable, columns: Columns, rows: Texts
) -> tuple[list[Row], Met | None]:
    """Return the key of each row of a change, and the stored rows that have them."""
    assert view.layout is not None
    names = view.layout.keys
    types = dict(columns)
    changed = [f"{KEY}{number}" for number in range(len(names))]
    alike = (
        types[c].lower() == table.types[n].lower() for c, n in zip(changed, names, strict=True)
    )
    if not _identify(view, table, names) or not all(alike):
        return [], None
    keys = _values(columns, changed, rows)
    return keys, meet(table, names, keys)


def _replaced(view: ViewPlan, table: FileTable, columns: Columns, rows: Texts) -> Outcome | None:
    """Put the rows of a change in the place of the stored ones with their keys."""
    keys, met = _meet_keys(view, table, columns, rows)
    if met is None or len(set(keys)) < len(keys):
        return None
    present = [row[0] for row in _values(columns, [PRESENT], rows)]
    fresh = _values(columns, [c.name for c in table.columns], rows)
    change = Change()
    for key, here, row in zip(keys, present, fresh, strict=True):
        places = met.by_key.get(key, [])
        if here is None:
            change.gone += places
        elif places:
            change.updated |= dict(zip(places, repeat(row)))
        else:
            change.arrived.append(row)
    return Outcome(table, change, _size(met))


def _patched(
    view: ViewPlan, table: FileTable, columns: Columns, rows: Texts, epoch: int, only_grows: bool
) -> Outcome | None:
    """Take away as many copies of each row as went, the oldest first, and add those that came."""
    assert view.layout is not None
    if view.layout.kind is not LayoutKind.BAG:
        return None
    visible = view.layout.visible
    weights = [weight for (weight,) in _values(columns, [WEIGHT], rows)]
    values = _values(columns, visible, rows)
    change = Change()
    read = Size()
    if not only_grows:
        if not _identify(view, table, visible):
            return None
        going = Counter[Row]()
        for row, weight in zip(values, weights, strict=True):
            if weight < 0:
                going[row] += -weight
        met = meet(table, visible, list(going))
        if met is None:
            return None
        names = [c.name for c in table.columns]
        age = (names.index(EPOCH), names.index(ROW))
        for row, copies in going.items():
            places = sorted(
                met.by_key.get(row, []), key=lambda p: tuple(met.rows[p][n] for n in age)
            )
            if len(places) < copies:
                return None  # the MERGE says what is wrong
            change.gone += places[:copies]
        read = _size(met)
    arriving = [r for r, w in zip(values, weights, strict=True) for _ in range(max(w, 0))]
    for number, row in enumerate(arriving):
        named = {**dict(zip(visible, row, strict=True)), EPOCH: epoch, ROW: number}
        change.arrived.append(tuple(named[c.name] for c in table.columns))
    return Outcome(table, change, read)


def _new_rows(
    merge: Merge,
    table: FileTable,
    columns: Columns,
    pairs: Sequence[tuple[tuple[Any, ...], Place | None, Met]],
) -> str:
    """Return the query of what becomes of rows of a change beside those they meet."""
    kinds = [table.kind(c.name) for c in table.columns]
    texts: list[list[Any]] = []
    for number, (row, place, met) in enumerate(pairs):
        stored: Sequence[Any] = met.rows[place] if place is not None else [None] * len(kinds)
        found = [
            None if value is None else kind.show(value)
            for kind, value in zip(kinds, stored, strict=True)
        ]
        texts.append([str(number), None if place is None else "true", *row, *found])
    stored_columns = [(c.name, c.type) for c in table.columns]
    d = _struct(columns, 2)
    t = _struct(stored_columns, 2 + len(columns))
    gone, values = merge.outcome("met")
    shown = [
        inline.encode(f"CAST({values[name]} AS {kind})", kind.lower())
        for name, kind in stored_columns
    ]
    return (
        f"SELECT array(number, CAST({gone} AS STRING), {', '.join(shown)}) AS answer FROM ("
        f"SELECT inlined[0] AS number, inlined[1] IS NOT NULL AS met, {d} AS d, {t} AS t "
        f"FROM ({inline.exploded(texts)}))"
    )


def _struct(columns: Columns, start: int) -> str:
    fields = ", ".join(
        f"{literal(name)}, {inline.decode(f'inlined[{place}]', kind.lower())}"
        for place, (name, kind) in enumerate(columns, start)
    )
    return f"named_struct({fields})" if fields else "NULL"


__all__ = ["Outcome", "Question", "answered", "outcome", "question"]
