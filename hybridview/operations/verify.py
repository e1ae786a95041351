"""Verifying: recompute a view from its author's text at recorded versions, compare both ways."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hybridview.catalog import Catalog, ViewRecord, ViewState
from hybridview.engine.relations import Relations
from hybridview.engine.session import Session, quote, temp_view
from hybridview.engine.spark_errors import as_refresh_error, spark_errors
from hybridview.operations.context import Context, view_named
from hybridview.operations.read import published, select
from hybridview.plan.steps import Pinned
from hybridview.schema import HIDDEN
from hybridview.watermark import stored_state

SAMPLES = 5
TOLERANCE = 1e-9
"""Floating point columns may differ by this share: their last digits depend on the order."""


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

    @property
    def ok(self) -> bool:
        return not self.missing and not self.extra


def verify(context: Context, name: str, epoch: int | None = None) -> Verdict:
    """Compare a view's published rows with its query at the versions its record names."""
    catalog = context.catalog()
    view = view_named(catalog, name)
    state = published(catalog, view, epoch)
    stored = stored_state(context.log(catalog, view.name))
    if epoch is None and stored is not None and stored.foreign is not None:
        # Somebody changed the table by hand: that is what its readers see.
        state = replace(state, version=stored.version)
    session = context.worker()
    session.set(dict(view.settings))
    relations = Relations(session, lambda n: str(context.path(catalog, n).resolve()))
    try:
        relations.pin_for_text(_sources(catalog, view, state))
        return _compare(context, session, view, state, epoch or catalog.epoch)
    except spark_errors() as error:
        raise as_refresh_error(view.name, error) from None


def _sources(catalog: Catalog, view: ViewRecord, state: ViewState) -> tuple[Pinned, ...]:
    """Return the view's sources at the versions it reflects."""
    by_id = {t.table_id: t.name.lower() for t in catalog.tables.values()}
    for record in catalog.refreshes:
        for other in record.views:
            by_id[other.table_id] = other.name.lower()
    versions = {by_id[i]: (i, v) for i, v in state.inputs.items() if i in by_id}
    found: list[Pinned] = []
    for name, columns in view.sources.items():
        table_id, version = versions[name.lower()]
        found.append(Pinned(name, table_id, version, tuple(c.name for c in columns)))
    return tuple(found)


def _compare(
    context: Context, session: Session, view: ViewRecord, state: ViewState, epoch: int
) -> Verdict:
    """Net both sides against each other: what is left over is the difference."""
    columns = ", ".join(quote(c.name) for c in view.columns)
    names = ", ".join(f"c{i}" for i in range(len(view.columns)))
    weight = quote(f"{HIDDEN}difference")
    fresh = f"SELECT {names}, 1 AS side FROM ({view.query}\n) AS q({names})"
    stored = f"SELECT {names}, -1 AS side FROM ({select(context, view, state)}) AS q({names})"
    keys = ", ".join(_comparable(f"c{i}", c.type) for i, c in enumerate(view.columns))
    shown = ", ".join(f"first(c{i}) AS c{i}" for i in range(len(view.columns)))
    union = f"{fresh}\nUNION ALL\n{stored}"
    session.run(
        temp_view(
            f"{view.name}@difference",
            f"SELECT {shown}, sum(side) AS {weight}, "
            f"count(CASE WHEN side < 0 THEN 1 END) AS stored FROM ({union}) GROUP BY {keys}",
        )
    )
    relation = quote(f"{view.name}@difference")
    counts = session.run(
        f"SELECT coalesce(sum(stored), 0), "
        f"coalesce(sum(CASE WHEN {weight} > 0 THEN {weight} END), 0), "
        f"coalesce(-sum(CASE WHEN {weight} < 0 THEN {weight} END), 0) FROM {relation}"
    )[0]
    rows, missing, extra = (int(c) for c in counts)
    if (missing or extra) and _within_tolerance(session, view, relation, weight):
        missing = extra = 0
    samples: list[tuple[tuple[Any, ...], ...]] = []
    for count, sign in ((missing, ">"), (extra, "<")):
        query = f"SELECT {names} FROM {relation} WHERE {weight} {sign} 0 LIMIT {SAMPLES}"
        samples.append(tuple(session.run(query)) if count else ())
    assert columns
    return Verdict(view.name, epoch, rows, missing, extra, samples[0], samples[1])


def _comparable(column: str, type_name: str) -> str:
    """Return an expression by which values of a type can be grouped."""
    lowered = type_name.lower()
    if lowered.startswith("map<"):
        return f"array_sort(map_entries({column}))"
    if "map<" in lowered or "variant" in lowered:
        return f"to_json(named_struct('v', {column}))"
    return column


def _within_tolerance(session: Session, view: ViewRecord, relation: str, weight: str) -> bool:
    """Say whether what is left differs in the last digits of floating point columns only.

    Left-over rows are paired by their other columns, in the order of their floating point ones.
    """
    floats = [f"c{i}" for i, c in enumerate(view.columns) if c.type.lower() in ("float", "double")]
    if not floats:
        return False
    others = [f"c{i}" for i in range(len(view.columns)) if f"c{i}" not in floats]
    partition = f"PARTITION BY {', '.join(others)} " if others else ""
    ranked = (
        f"SELECT *, row_number() OVER ({partition}ORDER BY {', '.join(floats)}) AS place "
        f"FROM {relation} LATERAL VIEW explode(sequence(1, abs({weight}))) AS copy "
        f"WHERE {weight} {{}} 0"
    )
    matches = " AND ".join(f"a.{c} <=> b.{c}" for c in (*others, "place"))
    close = " AND ".join(
        f"(a.{c} <=> b.{c} OR abs(a.{c} - b.{c}) <= {TOLERANCE} * greatest(abs(a.{c}), abs(b.{c})))"
        for c in floats
    )
    query = (
        f"SELECT count(*) FROM ({ranked.format('>')}) a FULL JOIN ({ranked.format('<')}) b "
        f"ON {matches} WHERE NOT coalesce({close}, FALSE)"
    )
    return int(session.run(query)[0][0]) == 0
