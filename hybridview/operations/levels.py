"""Consistency levels: which states of its tables a view must show, and proof of which it did.

strong: every published state of a view is its query at some state of its tables, and these states
follow each other in order. complete: besides, none is left out: each commit that changed rows has
an epoch of its own, ordered by commit time and table id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hybridview.catalog import Catalog, RefreshRecord, ViewRecord, ViewState
from hybridview.deltalog import DeltaLog, LogGap
from hybridview.operations.context import Context
from hybridview.schema import TROUBLE, Executed
from hybridview.watermark import stored_state

PROPERTY = "hybridview.consistency"


def is_complete(view: ViewRecord) -> bool:
    return view.properties.get(PROPERTY) == "complete"


@dataclass(frozen=True, slots=True)
class Held:
    """Why a view is not refreshed although it was asked for."""

    executed: Executed
    reason: str
    error: str = ""


Holds = Mapping[str, Held]
"""By the lower-case name of a view."""

Once = Callable[[tuple[str, ...], Mapping[str, int], Holds], tuple[ViewState, ...]]
"""Refreshes views to a state of the base tables, but for those held; says what became of them."""


def replay(
    context: Context,
    catalog: Catalog,
    families: Mapping[str, tuple[str, ...]],
    newest: Mapping[str, int],
    once: Once,
) -> Holds:
    """Bring complete views through every state before `newest`; return what is not to go there.

    `families` are these views, each with itself and all it reads. At a state, a view that is past
    it already is left as it is: none goes back. One that fails is held there, for to go on would
    skip that state; so are the views it reads, whose older states would be lost to it. The others
    are not concerned.
    """
    held: dict[str, Held] = {}
    seen = reached(context, catalog)
    for cut in cuts(context, catalog, tuple(families), newest):
        due = tuple(
            name
            for name, family in families.items()
            if not is_past(seen[name.lower()], cut)
            and not any(member.lower() in held for member in family)
        )
        # No name at all would mean every view.
        for state in once(due, cut, {}) if due else ():
            if state.name in families and state.executed in TROUBLE:
                waits = f'it waits for view "{state.name}", which is to show every state'
                for member in families[state.name]:
                    held.setdefault(member.lower(), Held(Executed.STALE, waits))
                found = Held(Executed(state.executed), state.reason, state.error)
                held[state.name.lower()] = found
    return held


@dataclass(frozen=True, slots=True, order=True)
class _Step:
    """One commit that changed rows; in the order in which commits are replayed."""

    time: int
    table_id: str
    version: int
    name: str


def cuts(
    context: Context, catalog: Catalog, views: tuple[str, ...], newest: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the states of base tables that lie between what views reflect and `newest`.

    Each differs from the one before by one commit that changed rows. The last one, `newest`
    itself, is not among them: the refresh ends there anyway. Views that have no rows yet begin at
    the newest state.
    """
    now: dict[str, int] = {}
    for name in views:
        found = base_inputs(catalog, catalog.views[name.lower()])
        for table, version in (found or {}).items():
            if table in newest:
                now[table] = min(version, now.get(table, version))
    steps: list[_Step] = []
    for table, start in now.items():
        record = catalog.tables[table]
        log = context.log(catalog, table)
        steps += _steps(log, table, record.table_id, start, newest[table])
    state = {**newest, **now}
    for step in sorted(steps)[:-1]:
        state[step.name] = step.version
        yield dict(state)


def _steps(log: DeltaLog, name: str, table_id: str, start: int, end: int) -> list[_Step]:
    """Return the row-changing commits of one table; their times never go back."""
    found: list[_Step] = []
    time = 0
    try:
        for version in range(start + 1, end + 1):
            commit = log.commit(version)
            time = max(time, commit.timestamp)
            if commit.changes_rows:
                found.append(_Step(time, table_id, version, name))
    except LogGap:
        # What is gone cannot be replayed: the refresh says so when it meets the gap.
        return []
    return found


def reached(context: Context, catalog: Catalog) -> dict[str, dict[str, int]]:
    """Return the newest version of each base table that a view, or one it reads, reflects.

    By lower-case names. What was written counts as much as what was published: a refresh that
    crashed in between may have brought a view further than its record says. A view counts as far
    as those it reads: there is no older state of them to compute it from.
    """
    found: dict[str, dict[str, int]] = {}
    for view in catalog.ordered():
        seen = dict(base_inputs(catalog, view) or {})
        for other in (
            _written_inputs(context, catalog, view),
            *(found.get(name.lower(), {}) for name in view.reads),
        ):
            for table, version in other.items():
                seen[table] = max(version, seen.get(table, version))
        found[view.name.lower()] = seen
    return found


def _written_inputs(context: Context, catalog: Catalog, view: ViewRecord) -> dict[str, int]:
    """Return the versions of the base tables a view reads itself, by its table's own commit."""
    stored = stored_state(context.log(catalog, view.name))
    inputs = stored.watermark.inputs if stored else {}
    tables = [catalog.tables[s.lower()] for s in view.sources if s.lower() in catalog.tables]
    return {t.name.lower(): inputs[t.table_id] for t in tables if t.table_id in inputs}


def is_past(seen: Mapping[str, int], cut: Mapping[str, int]) -> bool:
    """Say whether a view that reflects `seen` would go back in time if it were brought to a cut."""
    return any(version > cut.get(table, version) for table, version in seen.items())


def base_inputs(
    catalog: Catalog, view: ViewRecord, record: RefreshRecord | None = None
) -> dict[str, int] | None:
    """Return the version of every base table a view reflects, through the views it reads."""
    record = record or catalog.published()
    state = record.of(view.id) if record else None
    if state is None or state.version is None:
        return None
    return _resolve(catalog, state)


def _resolve(catalog: Catalog, state: ViewState) -> dict[str, int]:
    tables = {t.table_id: t.name.lower() for t in catalog.tables.values()}
    found: dict[str, int] = {}
    for table_id, version in state.inputs.items():
        if table_id in tables:
            found[tables[table_id]] = version
            continue
        parent = _state_at(catalog, table_id, version)
        for name, seen in (_resolve(catalog, parent) if parent else {}).items():
            found[name] = min(seen, found.get(name, seen))
    return found


def _state_at(catalog: Catalog, table_id: str, version: int) -> ViewState | None:
    """Return the newest published state of a view whose table had this id and version."""
    for record in catalog.refreshes.newest_first():
        for state in record.views:
            if (state.table_id, state.version) == (table_id, version):
                return state
    return None
