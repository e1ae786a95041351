"""RefreshPlan -> commits, one per view at most, and what became of each view."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hybridview.catalog import ViewState
from hybridview.deltalog import FEED_PROPERTY, FILE_RETENTION, LOG_RETENTION, DeltaLog
from hybridview.engine import inline
from hybridview.engine.faults import reach
from hybridview.engine.relations import Known, Relations
from hybridview.engine.session import Session, literal, quote, table_at
from hybridview.engine.spark_errors import (
    as_refresh_error,
    is_conflict,
    spark_errors,
    why_recompute,
)
from hybridview.errors import HybridviewError, RaceLostError, RefreshFailedError, run
from hybridview.plan.steps import Apply, Load, Pinned, RefreshPlan, ViewPlan
from hybridview.schema import TROUBLE, WEIGHT, Executed, VersionVector
from hybridview.watermark import Watermark, stored_state

TRANSACTION = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)
MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
RETRIES, PAUSE = 5, 0.2
"""How often a statement is run that loses against OPTIMIZE and the like; seconds between."""
# A plain VACUUM must not take the files of a published epoch; `maintain` does, once it expired.
KEPT = dict.fromkeys((FILE_RETENTION, LOG_RETENTION), "interval 365 days")
ODD_CHARACTERS = set(" ,;{}()\n\t=")


@dataclass(frozen=True, slots=True)
class Places:
    """Where tables are: the folder and the log of a base table or a view, by name."""

    path: Callable[[str], str]
    log: Callable[[str], DeltaLog]


Listener = Callable[[int, int, ViewPlan, ViewState | None], None]
"""Told before (state None) and after each view: its number, how many there are, its plan."""


@dataclass
class Runner:
    """Executes one plan in a session of its own."""

    plan: RefreshPlan
    spark: Session | None
    """None if no view has a step."""
    places: Places
    listener: Listener = lambda *_: None
    states: dict[str, ViewState] = field(default_factory=dict)
    written: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The views written so far, each with the version and the table id this gave it."""
    known: dict[str, Known] = field(default_factory=dict)
    interrupted: Callable[[], bool] = lambda: False
    """Says whether the user wants it to end: then an error of Spark's is no fault of a view."""

    @property
    def session(self) -> Session:
        assert self.spark is not None, "a plan with steps needs a session"
        return self.spark

    @property
    def relations(self) -> Relations:
        return Relations(self.session, self.places.path, self.known)

    def run(self) -> tuple[ViewState, ...]:
        """Refresh all views in order; a view that fails does not stop the others."""
        total, number = sum(not v.state_of for v in self.plan.views), 0
        try:
            for view in self.plan.views:
                if self.interrupted():
                    raise KeyboardInterrupt
                number += not view.state_of
                # A state table works for the view after it: the user hears of that view.
                self.listener(max(number, 1), total, view, None)
                started = time.monotonic()
                state = self._state(view, started)
                self.states[view.name.lower()] = state
                if not view.state_of or state.error:
                    self.listener(max(number, 1), total, view, state)
        finally:
            if self.spark is not None:
                self.relations.release()
        return tuple(self.states.values())

    def _state(self, view: ViewPlan, started: float) -> ViewState:
        if view.executed in TROUBLE:
            return self._kept(view, view.executed, view.reason, started, view.error)
        broken = self._broken_parent(view)
        if broken:
            reason = f'view "{broken}" it reads was not refreshed'
            return self._kept(view, Executed.STALE, reason, started)
        try:
            return self._refresh(view, started)
        except RaceLostError:
            raise
        except HybridviewError as error:
            return self._kept(
                view, Executed.FAILED, error.detail or error.fact, started, str(error)
            )
        except spark_errors() as error:
            if self.interrupted():
                raise KeyboardInterrupt from None
            fault = as_refresh_error(view.name, error)
            return self._kept(
                view, Executed.FAILED, fault.detail or fault.fact, started, str(fault)
            )

    def _broken_parent(self, view: ViewPlan) -> str:
        reads: list[Pinned] = [*view.sources, *view.parts]
        if view.state is not None:
            reads.append(view.state)
        for source in reads:
            state = self.states.get(source.name.lower())
            if state and state.executed in TROUBLE:
                return source.name
        return ""

    def _refresh(self, view: ViewPlan, started: float) -> ViewState:
        sources = tuple(self._settle(source) for source in view.sources)
        parts = tuple(self._settle(part) for part in view.parts)
        inputs = {s.table_id: s.version for s in (*sources, *parts) if s.version is not None}
        unchanged = bool(view.feeds) and all(
            self._end(feed.name, feed.end) == feed.start for feed in view.feeds
        )
        if view.step is None or (isinstance(view.step, Apply) and unchanged):
            reason = view.reason if view.step is None else "nothing changed"
            return self._done(view, Executed.NONE, reason, inputs, started)
        self.session.set(view.settings or {})
        if isinstance(view.step, Apply):
            try:
                rows = self._apply(view, view.step, (*sources, *parts), inputs)
                executed, reason = self._with_parts(view)
                return self._done(view, executed, reason, inputs, started, rows)
            except _TooLarge as share:
                reason = str(share)
            except spark_errors() as error:
                reason = why_recompute(error)
                if view.step.otherwise is None or not reason:
                    raise
            view = replace(
                view, executed=Executed.SNAPSHOT, reason=reason, step=view.step.otherwise
            )
        assert isinstance(view.step, Load)
        rows = self._load(view, view.step, sources, inputs)
        return self._done(view, view.executed, view.reason, inputs, started, rows)

    def _with_parts(self, view: ViewPlan) -> tuple[Executed, str]:
        """Return what was done to a view, told with what was done to its parts before it."""
        for part in (*view.parts, *((view.state,) if view.state is not None else ())):
            state = self.states.get(part.name.lower())
            if state is not None and state.executed in (Executed.SNAPSHOT, Executed.HYBRID):
                reason = f"{part.name} was computed anew: {state.reason}; {view.reason}"
                return Executed.HYBRID, reason
        return view.executed, view.reason

    def _settle(self, source: Pinned) -> Pinned:
        """Fill in the version of a view that this same plan refreshed."""
        state = self.states.get(source.name.lower())
        if state is None or state.version is None:
            return source
        return Pinned(source.name, state.table_id, state.version, source.columns)

    def _end(self, name: str, end: int | None) -> int:
        if end is not None:
            return end
        version = self.states[name.lower()].version
        assert version is not None
        return version

    def _load(
        self,
        view: ViewPlan,
        step: Load,
        sources: tuple[Pinned, ...],
        inputs: VersionVector,
    ) -> dict[str, int]:
        """Run the author's text over the pinned sources and replace all rows."""
        self.relations.pin_for_text(sources)
        if step.from_stored:
            self.relations.target(view.name)
        sql = step.sql
        target = table_at(self.places.path(view.name))
        log = self.places.log(view.name)
        # Delta refuses CREATE ... AS SELECT with both column mapping and a change feed.
        feed_later = step.create and _needs_mapping(view)
        if step.create:
            sql = f"{_create(view, target, log.exists(), not feed_later)}\nAS {step.sql}"
        self._commit(view, sql, inputs)
        if feed_later:
            reach("before_feed")
            self.session.run(f"ALTER TABLE {target} SET TBLPROPERTIES ('{FEED_PROPERTY}' = 'true')")
        return {"rows": log.row_count(log.latest()) or 0}

    def _apply(
        self,
        view: ViewPlan,
        step: Apply,
        sources: tuple[Pinned, ...],
        inputs: VersionVector,
    ) -> dict[str, int]:
        """Compute the change; write it in one commit unless it is empty."""
        relations = self.relations
        relations.pin(sources)
        if view.state is not None:
            relations.pin((self._settle(view.state),))
        relations.target(view.name)
        for feed in () if step.whole else view.feeds:
            changed = relations.changes(feed, self._end(feed.name, feed.end))
            if step.at_most is not None and feed.rewritten and changed is not None:
                self._check_share(feed.name, changed, step.at_most)
        pinned = {source.name.lower(): source for source in sources}
        for read in step.near:
            relations.near(read, pinned[read.name.lower()])
        counts = self._compute_change(view.name, step.change)
        try:
            if not counts.rows:
                return {"inserted": 0, "updated": 0, "deleted": 0}
            insert_only = step.without_deletes is not None and not counts.negative
            sql = step.without_deletes if insert_only and step.without_deletes else step.sql
            # Literal rows are the same however often MERGE reads them.
            self.session.set({MATERIALIZE: "none" if counts.inlined else "auto"})
            result = self._commit(view, sql, inputs)
        finally:
            if not counts.inlined:
                self.session.run(f"UNCACHE TABLE IF EXISTS {quote(f'{view.name}@change')}")
        if insert_only:
            return {"inserted": counts.total, "updated": 0, "deleted": 0}
        _, updated, deleted, inserted = result[0]
        return {"inserted": int(inserted), "updated": int(updated), "deleted": int(deleted)}

    def _check_share(self, name: str, changed: int, at_most: float) -> None:
        """Stop where so much of a recomputed view changed that adding it up would cost more."""
        log = self.places.log(name)
        total = log.row_count(log.latest())
        if total is not None and changed > at_most * total:
            share = changed / max(total, 1)
            raise _TooLarge(
                f"{share:.0%} of {name} changed; merging would cost more than recomputing"
            )

    def _compute_change(self, name: str, query: str) -> _Change:
        """Make `v@change` readable: as literals if it is small, else kept in memory."""
        symbol = f"{name}@change"
        columns = self.session.describe(query)
        weight = next((i for i, c in enumerate(columns) if c[0] == WEIGHT), None)
        rows = inline.fetch(self.session, query, columns)
        if rows is not None:
            if rows:
                relation = inline.as_relation(rows, columns)
                self.session.run(f"CREATE OR REPLACE TEMPORARY VIEW {quote(symbol)} AS {relation}")
            weights = [int(row[weight]) for row in rows] if weight is not None else []
            total = sum(w for w in weights if w > 0)
            return _Change(len(rows), any(w < 0 for w in weights), total, True)
        self.session.run(f"DROP VIEW IF EXISTS {quote(symbol)}")
        self.session.run(f"CACHE TABLE {quote(symbol)} AS {query}")
        sums = "false, 0"
        if weight is not None:
            w = quote(WEIGHT)
            sums = f"coalesce(min({w}), 0) < 0, coalesce(sum(CASE WHEN {w} > 0 THEN {w} END), 0)"
        count, negative, total = self.session.run(f"SELECT count(*), {sums} FROM {quote(symbol)}")[
            0
        ]
        return _Change(int(count), bool(negative), int(total), False)

    def _commit(self, view: ViewPlan, sql: str, inputs: VersionVector) -> list[tuple[Any, ...]]:
        """Run the one statement that writes a view, and make sure that it was ours that landed.

        Delta skips a write whose transaction id it has seen, without a word; so the newest commit
        is read back and must carry this attempt's mark, on top of the version it was computed for.
        """
        reach("before_write")
        if self.written:
            reach("between_tables")
        plan = self.plan
        reads_stored = isinstance(view.step, Apply) or (view.step and view.step.from_stored)
        base = view.stored_version if reads_stored else None
        mark = Watermark(plan.store_id, plan.attempt, plan.epoch, inputs, view.program, base)
        values = (view.view_id, str(plan.epoch), mark.to_json())
        if sql.startswith(("MERGE", "INSERT")):
            symbol = quote(f"{view.name}@target")
            sql = sql.replace(symbol, table_at(self.places.path(view.name)), 1)
        self.session.set(dict(zip(TRANSACTION, values, strict=True)))
        try:
            rows = self._write(view, sql)
        finally:
            self.session.unset(TRANSACTION)
        reach("after_write")
        state = stored_state(self.places.log(view.name))
        if state is None or state.foreign or state.watermark.attempt != plan.attempt:
            raise self._race_lost(view)
        self.written[view.name] = (state.claimed_at, state.table_id)
        return rows

    def _write(self, view: ViewPlan, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; again if it lost against a commit that moved files and no rows."""
        for number in range(RETRIES):
            try:
                reach("during_write")
                return self.session.run(sql)
            except spark_errors() as error:
                if not is_conflict(error) or number + 1 == RETRIES:
                    raise
            state = stored_state(self.places.log(view.name))
            if state is not None and state.claimed_at > (view.stored_version or 0):
                raise self._race_lost(view)
            if isinstance(view.step, Apply) and (state is None or state.foreign):
                raise RefreshFailedError(
                    f'view "{view.name}" was changed by hand while it was refreshed',
                    hint=run("refresh", view.name),
                )
            time.sleep(PAUSE * 2**number)
        raise AssertionError("unreachable")

    def _race_lost(self, view: ViewPlan) -> RaceLostError:
        return RaceLostError(
            f'another process wrote view "{view.name}" at the same time',
            detail="Nothing is published by this process.",
            hint=run("refresh"),
        )

    def _done(
        self,
        view: ViewPlan,
        executed: Executed,
        reason: str,
        inputs: Mapping[str, int],
        started: float,
        rows: Mapping[str, int] | None = None,
    ) -> ViewState:
        version, table_id = view.kept.version, view.kept.table_id
        if view.name in self.written:
            version, table_id = self.written[view.name]
        method = view.step.method if isinstance(view.step, Apply) else ""
        return ViewState(
            view.name,
            view.view_id,
            version,
            table_id,
            dict(inputs),
            executed.value,
            reason,
            round(time.monotonic() - started, 3),
            dict(rows or {}),
            "",
            method,
            self.plan.epoch,
            view.program,
        )

    def _kept(
        self, view: ViewPlan, executed: Executed, reason: str, started: float, error: str = ""
    ) -> ViewState:
        """Return the state of a view whose old rows stay."""
        return ViewState(
            view.name,
            view.view_id,
            view.kept.version,
            view.kept.table_id,
            dict(view.kept.inputs),
            executed.value,
            reason,
            round(time.monotonic() - started, 3),
            {},
            error,
            epoch=self.plan.epoch,
            program=view.kept.program,
        )


class _TooLarge(Exception):
    """A change is so large that the view is better recomputed; the text says how large."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What is known of a computed change: rows, whether some go, copies that come."""

    rows: int
    negative: bool
    total: int
    inlined: bool


def _needs_mapping(view: ViewPlan) -> bool:
    """Say whether a column's name has characters that Parquet refuses."""
    assert view.layout is not None
    return any(ODD_CHARACTERS & set(name) for name in view.layout.stored)


def _create(view: ViewPlan, target: str, exists: bool, feed: bool) -> str:
    """Return the head of the statement that makes a view's table."""
    properties = {FEED_PROPERTY: str(feed).lower(), "hybridview.view": view.name, **KEPT}
    if _needs_mapping(view):
        properties["delta.columnMapping.mode"] = "name"
    parts = [f"CREATE {'OR REPLACE ' if exists else ''}TABLE {target} USING delta"]
    if view.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(quote(c) for c in view.cluster_by)})")
    if view.comment:
        parts.append(f"COMMENT {literal(view.comment)}")
    pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
    parts.append(f"TBLPROPERTIES ({pairs})")
    return " ".join(parts)
