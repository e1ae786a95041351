"""Refreshing: pin, plan, run, publish."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from hybridview.catalog import Catalog, RefreshRecord, TableRecord, ViewState
from hybridview.deltalog import FolderLog, LogGap, pin
from hybridview.engine.faults import reach
from hybridview.engine.runner import Listener, Places, Runner
from hybridview.errors import HybridviewError, TableMissingError, TableReplacedError
from hybridview.operations.context import Context, view_named
from hybridview.plan.build import BasePin, Request, build
from hybridview.plan.steps import RefreshPlan
from hybridview.schema import Executed, Strategy
from hybridview.watermark import StoredState, stored_state


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What a refresh did; `epoch` is None if there was nothing to publish."""

    epoch: int | None
    attempt: str
    views: tuple[ViewState, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return all(v.executed not in (Executed.FAILED, Executed.STALE) for v in self.views)


class Interrupted(Exception):
    """The user stopped a refresh; `written` views have new rows that no epoch names yet."""

    def __init__(self, epoch: int, written: tuple[str, ...]) -> None:
        super().__init__("interrupted")
        self.epoch = epoch
        self.written = written


def plan_refresh(
    context: Context,
    views: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    default: Strategy = Strategy.HYBRID,
) -> RefreshPlan:
    """Pin all versions and plan; starts no Spark and writes nothing."""
    catalog = context.catalog()
    wanted = _with_parents(catalog, views)
    states = {v.name.lower(): stored_state(context.log(catalog, v.name)) for v in catalog.ordered()}
    named = tuple(view_named(catalog, name).name for name in views)
    request = Request(
        wanted, named, strategy, default, _next_epoch(catalog, states), str(uuid.uuid4())
    )
    return build(catalog, _pins(context, catalog, wanted), states, request)


def refresh(
    context: Context,
    views: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    default: Strategy = Strategy.HYBRID,
    listener: Listener | None = None,
    started: Callable[[RefreshPlan], None] | None = None,
) -> RefreshResult:
    """Bring views up to date and publish one epoch."""
    begun = time.monotonic()
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    plan = plan_refresh(context, views, strategy, default)
    if started is not None:
        started(plan)
    catalog = context.catalog()
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
    )
    context.ledger.publish(record, catalog.store_id)
    return RefreshResult(plan.epoch, plan.attempt, _own(catalog, states), seconds)


def _own(catalog: Catalog, states: tuple[ViewState, ...]) -> tuple[ViewState, ...]:
    """Return the states of the user's own views, without state tables."""
    return tuple(s for s in states if not catalog.views[s.name.lower()].state_of)


def _execute(
    context: Context, catalog: Catalog, plan: RefreshPlan, listener: Listener | None
) -> tuple[ViewState, ...]:
    places = Places(
        lambda name: str(context.path(catalog, name).resolve()),
        lambda name: context.log(catalog, name),
    )
    # A plan without steps never touches the session, so Spark is not even started.
    session = None if plan.idle else context.worker()
    runner = Runner(plan, session, places, listener or (lambda *_: None))
    try:
        return runner.run()
    except KeyboardInterrupt:
        context.port().cancel()
        raise Interrupted(catalog.epoch, tuple(runner.written)) from None


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


def _pins(context: Context, catalog: Catalog, wanted: tuple[str, ...]) -> dict[str, BasePin]:
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

    versions = pin(latest)
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
        return BasePin(record.name, record.table_id, 0, log, problems[name])
    info = log.info(versions[name])
    if info.id != record.table_id:
        problem = TableReplacedError(
            f'table "{record.name}" was replaced by another table',
            detail=f"Its Delta table id was {record.table_id} and is {info.id} now.",
            hint=f"If that is meant, run: hybridview table add {record.name} "
            f"{context.table_path(record)} --replace",
        )
        return BasePin(record.name, info.id, versions[name], log, problem)
    return BasePin(record.name, info.id, versions[name], log)


def _missing(context: Context, record: TableRecord) -> TableMissingError:
    return TableMissingError(
        f'table "{record.name}" is gone',
        detail=f"There is no Delta table in {context.table_path(record)}.",
        hint=f"Put it back, or run: hybridview table add {record.name} NEW_PATH --replace",
    )


def _worth_publishing(catalog: Catalog, states: tuple[ViewState, ...]) -> bool:
    """Say whether anything differs from the newest epoch: versions, inputs, or trouble."""
    newest = catalog.published()
    for state in states:
        old = newest.view(state.name) if newest else None
        if state.executed in (Executed.FAILED, Executed.STALE):
            return True
        if old is None or (old.version, old.inputs) != (state.version, state.inputs):
            return True
        if old.executed in (Executed.FAILED, Executed.STALE):
            return True
    return False


def _untouched(catalog: Catalog, states: tuple[ViewState, ...]) -> tuple[ViewState, ...]:
    """Return the states of the views this refresh did not ask about, as they were."""
    done = {s.name.lower() for s in states}
    newest = catalog.published()
    kept = newest.views if newest else ()
    known = {v.name.lower(): v.id for v in catalog.views.values()}
    return tuple(
        s for s in kept if s.name.lower() not in done and known.get(s.name.lower()) == s.view_id
    )
