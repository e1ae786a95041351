"""Verifying: recompute a view from its author's text at recorded versions, compare both ways."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hybridview.catalog import Catalog, ViewRecord, ViewState
from hybridview.compiler.identity import Type, identity, read_type
from hybridview.compiler.openness import Open
from hybridview.engine.interrupt import interruptible
from hybridview.engine.relations import Relations
from hybridview.engine.session import Session, quote, table_at, temp_view
from hybridview.engine.spark_errors import as_refresh_error, spark_errors
from hybridview.errors import EpochGoneError, run
from hybridview.operations.context import Context, view_named
from hybridview.operations.keys import broken_key, broken_link
from hybridview.operations.read import published, select
from hybridview.plan.compiled import compile_record
from hybridview.plan.links import links
from hybridview.plan.steps import Pinned
from hybridview.schema import HIDDEN
from hybridview.sql.load import with_columns
from hybridview.watermark import stored_state

SAMPLES = 5
TOLERANCE = 1e-9
"""Floating point columns may differ by this share of what was added up for them: their last digits
depend on the order of rows."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one view: rows it misses, rows it has too many, and some of each."""

    view: str
    epoch: int
    rows: int
    missing: int
    extra: int
    missing_rows: tuple[tuple[Any, ...], ...] = ()
    extra_rows: tuple[tuple[Any, ...], ...] = ()
    columns: tuple[str, ...] = ()
    broken_keys: tuple[str, ...] = ()
    """Declared keys that the rows do not agree with: refreshes believe them."""

    @property
    def ok(self) -> bool:
        return not self.missing and not self.extra and not self.broken_keys


def verify(context: Context, name: str, epoch: int | None = None) -> Verdict:
    """Compare a view's published rows with its query at the versions its record names."""
    catalog = context.catalog()
    view = view_named(catalog, name)
    state = published(catalog, view, epoch)
    # A view may have been redefined since: its rows are what its text said then.
    view = replace(catalog.definitions.get(state.program, view), name=view.name)
    stored = stored_state(context.log(catalog, view.name))
    if epoch is None and stored is not None and stored.foreign is not None:
        # Somebody changed the table by hand: that is what its readers see.
        state = replace(state, version=stored.version)
    session = context.worker()
    session.set(dict(view.settings))
    relations = Relations(session, lambda n: str(context.path(catalog, n).resolve()))
    try:
        sources = _sources(catalog, view, state)
        relations.pin_for_text(sources)
        with interruptible(context.port().cancel):
            verdict = _compare(context, session, view, state, epoch or catalog.epoch)
            return replace(verdict, broken_keys=_broken_keys(context, session, catalog, sources))
    except spark_errors() as error:
        raise as_refresh_error(view.name, error) from None


def _sources(catalog: Catalog, view: ViewRecord, state: ViewState) -> tuple[Pinned, ...]:
    """Return the view's sources at the versions it reflects."""
    by_id = {t.table_id: t.name.lower() for t in catalog.tables.values()}
    names = {v.id: v.name.lower() for v in catalog.views.values()}
    for record in catalog.refreshes:
        for other in record.views:
            by_id[other.table_id] = names.get(other.view_id, other.name.lower())
    versions = {by_id[i]: (i, v) for i, v in state.inputs.items() if i in by_id}
    found: list[Pinned] = []
    # Not all that were there when it was made: one that it does not use may be gone.
    for name, columns in compile_record(view).uses.items():
        if name.lower() not in versions:
            raise EpochGoneError(
                f'view "{view.name}" cannot be verified: its source "{name}" was replaced',
                detail=f'What it reflects is another table than the one called "{name}" now.',
                hint=run("refresh", view.name),
            )
        table_id, version = versions[name.lower()]
        found.append(Pinned(name, table_id, version, tuple(c.name for c in columns)))
    return tuple(found)


def _broken_keys(
    context: Context, session: Session, catalog: Catalog, sources: tuple[Pinned, ...]
) -> tuple[str, ...]:
    """Return which declared keys and foreign keys of a view's sources do not hold."""
    at = {
        s.name: table_at(str(context.path(catalog, s.name).resolve()), s.version) for s in sources
    }
    found = links(catalog, tuple(at))
    problems = {broken_link(session, link, at) for link in found}
    keys = {
        (name, catalog.tables[name.lower()].key) for name in at if name.lower() in catalog.tables
    }
    for target, key in {(name, key) for name, key in keys if key}:
        repeated = broken_key(session, at[target], key)
        problems.add(f"{target} ({', '.join(key)}): {repeated}" if repeated else "")
    return tuple(sorted(problems - {""}))


def _compare(
    context: Context, session: Session, view: ViewRecord, state: ViewState, epoch: int
) -> Verdict:
    """Net both sides against each other: what is left over is the difference."""
    names = ", ".join(f"c{i}" for i in range(len(view.columns)))
    weight = quote(f"{HIDDEN}difference")
    stored = select(context, view, state)
    session.run(temp_view(f"{view.name}@difference", _difference(view, stored, weight)))
    relation = quote(f"{view.name}@difference")
    counts = session.run(
        f"SELECT coalesce(sum(stored), 0), "
        f"coalesce(sum(CASE WHEN {weight} > 0 THEN {weight} END), 0), "
        f"coalesce(-sum(CASE WHEN {weight} < 0 THEN {weight} END), 0) FROM {relation}"
    )[0]
    rows, missing, extra = (int(c) for c in counts)
    if missing or extra:
        judged = _difference(view, stored, weight, magnitudes=True)
        if _within_tolerance(session, view, judged, relation, weight):
            missing = extra = 0
    samples: list[tuple[tuple[Any, ...], ...]] = []
    for count, sign in ((missing, ">"), (extra, "<")):
        query = f"SELECT {names} FROM {relation} WHERE {weight} {sign} 0 LIMIT {SAMPLES}"
        samples.append(tuple(session.run(query)) if count else ())
    columns = tuple(c.name for c in view.columns)
    return Verdict(view.name, epoch, rows, missing, extra, samples[0], samples[1], columns)


def _difference(view: ViewRecord, stored: str, weight: str, magnitudes: bool = False) -> str:
    """Return the query of rows that one side has more often; if wanted, with what was added up."""
    known = compile_record(view).magnitudes if magnitudes else {}
    names = ", ".join(f"c{i}" for i in range(len(view.columns)))
    sizes = [f"m{i}" for i, c in enumerate(view.columns) if c.name in known]
    query = view.text
    if known:
        listed = tuple(
            (f"m{i}", known[c.name]) for i, c in enumerate(view.columns) if c.name in known
        )
        query = with_columns(query, listed)
    aliases = ", ".join([names, *sizes])
    nothing = "".join(f", CAST(NULL AS DOUBLE) AS {m}" for m in sizes)
    fresh = f"SELECT {aliases}, 1 AS side FROM ({query}\n) AS q({aliases})"
    kept = f"SELECT {names}{nothing}, -1 AS side FROM ({stored}) AS q({names})"
    keys = ", ".join(key for column in _judged(view) for key in column.grouped_by()) or "TRUE"
    shown = [f"first(c{i}) AS c{i}" for i in range(len(view.columns))]
    for i in range(len(view.columns) if magnitudes else 0):
        size = f"max(m{i})" if f"m{i}" in sizes else "CAST(NULL AS DOUBLE)"
        shown.append(f"{size} AS m{i}")
    return (
        f"SELECT {', '.join(shown)}, sum(side) AS {weight}, "
        f"count(CASE WHEN side < 0 THEN 1 END) AS stored "
        f"FROM ({fresh}\nUNION ALL\n{kept}) GROUP BY {keys}"
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """A column, and how two values of it are compared: `open` if other answers are right too."""

    name: str
    kind: Type
    open: Open

    @property
    def left_out(self) -> bool:
        """Whether it follows from a spelling that is left open, so that nothing can be said."""
        return self.open is Open.SPELLING and not self.kind.holds("collated")

    def grouped_by(self, relation: str = "") -> tuple[str, ...]:
        """Return what values of it are grouped by."""
        column = f"{relation}.{self.name}" if relation else self.name
        if self.left_out:
            return ()
        loose = self.open is not Open.NOTHING and self.kind.comparable
        return (column,) if loose else identity(column, self.kind)

    def same(self, left: str, right: str) -> str:
        """Return a condition that two relations have the same value in it."""
        pairs = zip(self.grouped_by(left), self.grouped_by(right), strict=True)
        return " AND ".join(f"{a} <=> {b}" for a, b in pairs) or "TRUE"


def _judged(view: ViewRecord) -> tuple[_Judged, ...]:
    open_columns = compile_record(view).open
    return tuple(
        _Judged(f"c{i}", read_type(c.type), open_columns.get(c.name, Open.NOTHING))
        for i, c in enumerate(view.columns)
    )


def _within_tolerance(
    session: Session, view: ViewRecord, difference: str, relation: str, weight: str
) -> bool:
    """Say whether what is left differs in the last digits of floating point columns only.

    Left-over rows are paired by their other columns, in the order of their floating point ones.
    A difference is judged by what was added up, where that is known, else by the values.
    """
    floats = [i for i, c in enumerate(view.columns) if c.type.lower() in ("float", "double")]
    if not floats:
        return False
    columns = _judged(view)
    others = [column for i, column in enumerate(columns) if i not in floats]
    keys = ", ".join(key for column in others for key in column.grouped_by())
    partition = f"PARTITION BY {keys} " if keys else ""
    order = ", ".join(f"c{i}" for i in floats)
    ranked = (
        f"SELECT *, row_number() OVER ({partition}ORDER BY {order}) AS place "
        f"FROM {relation} LATERAL VIEW explode(sequence(1, abs({weight}))) AS copy "
        f"WHERE {weight}"
    )
    matches = " AND ".join([*(c.same("a", "b") for c in others), "a.place = b.place"])
    close = " AND ".join(_close(columns[i], f"m{i}") for i in floats)
    session.run(temp_view(f"{view.name}@difference", difference))
    query = (
        f"SELECT count(*) FROM ({ranked} > 0) a FULL JOIN ({ranked} < 0) b "
        f"ON {matches} WHERE NOT coalesce({close}, FALSE)"
    )
    return int(session.run(query)[0][0]) == 0


def _close(column: _Judged, size: str) -> str:
    """Return a condition that two floating point values differ in their last digits at most."""
    a, b = f"a.{column.name}", f"b.{column.name}"
    near = f"abs({a} - {b}) <= {TOLERANCE} * greatest(abs({a}), abs({b}), coalesce(a.{size}, 0))"
    # -0.0 and 0.0 are not far apart, but they are not each other.
    return f"({column.same('a', 'b')} OR ({a} <> {b} AND {near}))"
