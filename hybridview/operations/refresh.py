"""Refreshing: pin, plan, run, publish."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from hybridview.catalog import Catalog, RefreshRecord, TableRecord, ViewState
from hybridview.deltalog import FolderLog, LogGap, pin
from hybridview.engine.faults import reach
from hybridview.engine.interrupt import interruptible
from hybridview.engine.runner import Listener, Places, Runner
from hybridview.errors import (
    HybridviewError,
    NotDeltaError,
    TableMissingError,
    TableReplacedError,
    run,
)
from hybridview.operations.compaction import compact_one
from hybridview.operations.context import Context, view_named
from hybridview.operations.levels import Holds, is_complete, replay
from hybridview.operations.lock import WAIT, slot
from hybridview.plan.build import Request, build
from hybridview.plan.sources import BasePin
from hybridview.plan.steps import RefreshPlan, ViewPlan
from hybridview.schema import TROUBLE, Executed, Strategy, VersionVector
from hybridview.watermark import StoredState, stored_state


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What a refresh did; `epoch` is None if there was nothing to publish."""

    epoch: int | None
    attempt: str
    views: tuple[ViewState, ...]
    seconds: float
    epochs: tuple[int, ...] = ()
    """All epochs it published; several if a view wants every state of its tables."""

    @property
    def ok(self) -> bool:
        return all(v.executed not in TROUBLE for v in self.views)


class Interrupted(KeyboardInterrupt):
    """The user stopped a refresh; `written` views have new rows that no epoch names yet.

    To whoever calls it, it is the Ctrl-C that was pressed.
    """

    def __init__(self, epoch: int, written: tuple[str, ...]) -> None:
        super().__init__("interrupted")
        self.epoch = epoch
        self.written = written


def plan_refresh(
    context: Context,
    views: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    default: Strategy = Strategy.HYBRID,
    at: Mapping[str, int] | None = None,
) -> RefreshPlan:
    """Pin all versions and plan; starts no Spark and writes nothing.

    `at` gives the versions of base tables, by lower-case name, instead of the newest.
    """
    return _plan(context, context.catalog(), views, strategy, default, at, {})[0]


@dataclass(frozen=True, slots=True)
class Seen:
    """The version of each base table that a refresh is pinned at, and what tells its commit."""

    versions: VersionVector
    stamps: Mapping[str, str]


def _plan(
    context: Context,
    catalog: Catalog,
    views: tuple[str, ...],
    strategy: Strategy | None,
    default: Strategy,
    at: Mapping[str, int] | None,
    held: Holds,
) -> tuple[RefreshPlan, Seen]:
    """Return the plan, and what it is pinned at."""
    wanted = _with_parents(catalog, views)
    states = {v.name.lower(): stored_state(context.log(catalog, v.name)) for v in catalog.ordered()}
    named = tuple(view_named(catalog, name).name for name in views)
    request = Request(
        wanted, named, strategy, default, _next_epoch(catalog, states), str(uuid.uuid4())
    )
    pins = pin_tables(context, catalog, wanted, at)
    known = [p for p in pins.values() if p.problem is None]
    seen = Seen(
        {p.table_id: p.version for p in known},
        {p.table_id: stamp for p in known if (stamp := p.log.stamp(p.version))},
    )
    plan = build(catalog, pins, states, request)
    return replace(plan, views=tuple(_unless_held(view, held) for view in plan.views)), seen


def _unless_held(view: ViewPlan, held: Holds) -> ViewPlan:
    """Plan nothing for a view that is held; running the plan marks those that read it as stale."""
    why = held.get(view.name.lower())
    if why is None:
        return view
    return replace(
        view, executed=why.executed, reason=why.reason, error=why.error, step=None, feeds=()
    )


def refresh(
    context: Context,
    views: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    default: Strategy = Strategy.HYBRID,
    listener: Listener | None = None,
    wait: float = WAIT,
    waiting: Callable[[str], None] | None = None,
) -> RefreshResult:
    """Bring views up to date and publish one epoch; several if a view wants every state."""
    begun = time.monotonic()
    with slot(context, wait, waiting):
        catalog = context.catalog()
        wanted = _with_parents(catalog, views)
        complete = tuple(n for n in wanted if is_complete(catalog.views[n.lower()]))
        if not complete:
            result = _refresh_once(context, views, strategy, default, listener)
            return replace(result, seconds=round(time.monotonic() - begun, 3))
        pins = pin_tables(context, catalog, wanted)
        newest = {name: p.version for name, p in pins.items() if p.problem is None}
        results: list[RefreshResult] = []

        def once(
            names: tuple[str, ...], at: Mapping[str, int], held: Holds
        ) -> tuple[ViewState, ...]:
            done = _refresh_once(context, names, strategy, default, listener, at, held)
            results.append(done)
            return done.views

        families = {name: _with_parents(catalog, (name,)) for name in complete}
        once(views, newest, replay(context, catalog, families, newest, once))
        return _together(results, round(time.monotonic() - begun, 3))


def _together(results: list[RefreshResult], seconds: float) -> RefreshResult:
    """Return several epochs as one result: the last state of each view that did something."""
    states: dict[str, ViewState] = {}
    for result in results:
        for state in result.views:
            if state.name not in states or state.executed != Executed.NONE:
                states[state.name] = state
    epochs = tuple(e for r in results for e in r.epochs)
    newest = epochs[-1] if epochs else None
    return RefreshResult(newest, results[-1].attempt, tuple(states.values()), seconds, epochs)


def _refresh_once(
    context: Context,
    views: tuple[str, ...],
    strategy: Strategy | None,
    default: Strategy,
    listener: Listener | None,
    at: Mapping[str, int] | None = None,
    held: Holds | None = None,
) -> RefreshResult:
    """Pin, plan, run and publish one epoch."""
    begun = time.monotonic()
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    catalog = context.catalog()
    plan, seen = _plan(context, catalog, views, strategy, default, at, held or {})
    reach("planned")
    states = _execute(context, catalog, plan, listener)
    seconds = round(time.monotonic() - begun, 3)
    if not _worth_publishing(catalog, states):
        return RefreshResult(None, plan.attempt, _own(catalog, states), seconds)
    reach("before_publish")
    record = RefreshRecord(
        plan.epoch,
        plan.attempt,
        plan.strategy,
        started_at,
        seconds,
        (*states, *_untouched(catalog, states)),
        seen.versions,
        stamps=seen.stamps,
    )
    reach("during_publish")
    context.ledger.publish(record, catalog.store_id)
    reach("after_publish")
    applied = (Executed.INCREMENTAL, Executed.HYBRID)
    compact_one(context, catalog, [s.name for s in states if s.executed in applied])
    own = _own(catalog, states)
    return RefreshResult(plan.epoch, plan.attempt, own, seconds, (plan.epoch,))


def _own(catalog: Catalog, states: tuple[ViewState, ...]) -> tuple[ViewState, ...]:
    """Return the states of the user's own views, without state tables."""
    return tuple(s for s in states if not catalog.views[s.name.lower()].state_of)


def _execute(
    context: Context, catalog: Catalog, plan: RefreshPlan, listener: Listener | None
) -> tuple[ViewState, ...]:
    # One for each table: what a log says of a pinned version is read once for all views.
    logs = cache(lambda name: context.log(catalog, name))
    places = Places(lambda name: str(context.path(catalog, name).resolve()), logs)
    # A plan without steps never asks for a session, so Spark is not even started.
    sessions = iter(() if plan.idle else context.workers(_at_once(context, plan)))
    cancel = (lambda: None) if plan.idle else context.port().cancel
    runner = Runner(
        plan,
        lambda: next(sessions),
        places,
        listener or (lambda *_: None),
        _at_once(context, plan),
    )
    try:
        with interruptible(cancel) as runner.interrupted:
            return runner.run()
    except KeyboardInterrupt:
        raise Interrupted(catalog.epoch, tuple(runner.written)) from None


def _at_once(context: Context, plan: RefreshPlan) -> int:
    """Return how many views to work on at a time; no more than have something to do."""
    return max(1, min(context.parallel, sum(view.step is not None for view in plan.views)))


def _with_parents(catalog: Catalog, views: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wanted views and all views they read, so that one epoch has them all."""
    if not views:
        return tuple(v.name for v in catalog.ordered())
    wanted: dict[str, None] = {}

    def visit(name: str) -> None:
        record = catalog.views.get(name.lower())
        if record is None:
            return
        for source in record.reads:
            visit(source)
        wanted[record.name] = None

    for name in views:
        visit(view_named(catalog, name).name)
    return tuple(wanted)


def _next_epoch(catalog: Catalog, states: dict[str, StoredState | None]) -> int:
    """Return a number no refresh ever used, published or not: a seen transaction id is skipped."""
    used = [s.watermark.epoch for s in states.values() if s is not None]
    return 1 + max([catalog.epoch, *used])


def pin_tables(
    context: Context,
    catalog: Catalog,
    wanted: tuple[str, ...],
    at: Mapping[str, int] | None = None,
) -> dict[str, BasePin]:
    """Pin every base table the wanted views read, at versions that held together."""
    names = {
        source.lower()
        for view in wanted
        for source in catalog.views[view.lower()].sources
        if source.lower() in catalog.tables
    }
    records = [catalog.tables[name] for name in sorted(names)]
    problems: dict[str, HybridviewError] = {}

    def latest() -> dict[str, int]:
        found: dict[str, int] = {}
        for record in records:
            try:
                found[record.name.lower()] = FolderLog(context.table_path(record)).latest()
            except LogGap:
                problems[record.name.lower()] = _missing(context, record)
        return found

    versions = {**pin(latest), **{n: v for n, v in (at or {}).items() if n in names}}
    return {r.name.lower(): _base_pin(context, r, versions, problems) for r in records}


def _base_pin(
    context: Context,
    record: TableRecord,
    versions: dict[str, int],
    problems: dict[str, HybridviewError],
) -> BasePin:
    name = record.name.lower()
    log = FolderLog(context.table_path(record))
    if name not in versions:
        return BasePin(record.name, record.table_id, 0, log, problem=problems[name])
    try:
        info = log.info(versions[name])
    except LogGap as gap:
        unreadable = _unreadable(context, record, gap)
        return BasePin(record.name, record.table_id, versions[name], log, problem=unreadable)
    if info.id != record.table_id:
        problem = TableReplacedError(
            f'table "{record.name}" was replaced by another table',
            detail=f"Its Delta table id was {record.table_id} and is {info.id} now.",
            hint=run("table", "add", record.name, str(context.table_path(record)), "--replace"),
        )
        return BasePin(record.name, info.id, versions[name], log, problem=problem)
    return BasePin(record.name, info.id, versions[name], log, info)


def _missing(context: Context, record: TableRecord) -> TableMissingError:
    return TableMissingError(
        f'table "{record.name}" is gone',
        detail=f"There is no Delta table in {context.table_path(record)}.",
        hint=run("table", "add", record.name, "NEW_PATH", "--replace"),
    )


def _unreadable(context: Context, record: TableRecord, gap: LogGap) -> NotDeltaError:
    # delta-rs adds a stack trace, which tells a user nothing.
    return NotDeltaError(
        f'the log of table "{record.name}" cannot be read',
        detail=f"In {context.table_path(record)}: {str(gap).splitlines()[0]}",
        hint=run("table", "add", record.name, "NEW_PATH", "--replace"),
    )


def _worth_publishing(catalog: Catalog, states: tuple[ViewState, ...]) -> bool:
    """Say whether anything differs from the newest epoch: tables, inputs, or trouble.

    A version alone does not name rows: a table that was lost and loaded anew begins at 0 again.
    """
    newest = catalog.published()
    for state in states:
        old = newest.of(state.view_id) if newest else None
        if old is None or _shown(old) != _shown(state):
            return True
        # A failure that stands, word for word, is on record already.
        if _trouble(old) != _trouble(state):
            return True
    return False


def _shown(state: ViewState) -> tuple[object, ...]:
    return (state.table_id, state.version, state.inputs)


def _trouble(state: ViewState) -> tuple[str, ...]:
    if state.executed in TROUBLE:
        return (state.executed, state.reason, state.error)
    return ()


def _untouched(catalog: Catalog, states: tuple[ViewState, ...]) -> tuple[ViewState, ...]:
    """Return the states of the views this refresh did not ask about, as they were."""
    done = {s.view_id for s in states}
    newest = catalog.published()
    kept = newest.views if newest else ()
    names = {v.id: v.name for v in catalog.views.values()}
    return tuple(
        replace(s, name=names[s.view_id])
        for s in kept
        if s.view_id not in done and s.view_id in names
    )
