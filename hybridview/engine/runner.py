"""RefreshPlan -> commits, one per view at most, and what became of each view.

Views that do not read each other are refreshed at the same time, each in a session of its own:
the settings that carry transaction ids belong to a session.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue

from hybridview.catalog import ViewState
from hybridview.engine.changes import Changes
from hybridview.engine.commits import Written, is_overtaken, race_lost
from hybridview.engine.neighbours import Neighbours
from hybridview.engine.relations import Relations
from hybridview.engine.session import Session
from hybridview.engine.settled import Places, Settled
from hybridview.engine.spark_errors import as_refresh_error, spark_errors, why_recompute
from hybridview.engine.together import Together
from hybridview.engine.writer import Done, TooLarge, Writer
from hybridview.errors import HybridviewError, RaceLostError
from hybridview.plan.steps import Apply, Load, Pinned, RefreshPlan, ViewPlan
from hybridview.schema import TROUBLE, Executed

Listener = Callable[[int, int, ViewPlan, ViewState | None], None]
"""Told before (state None) and after each view: its number, how many there are, its plan."""


@dataclass
class Runner:
    """Executes one plan in sessions of its own."""

    plan: RefreshPlan
    session: Callable[[], Session]
    """Makes a session; not called for a plan without steps."""
    places: Places
    listener: Listener = lambda *_: None
    at_once: int = 1
    """How many views may be refreshed at the same time."""
    states: dict[str, ViewState] = field(default_factory=dict)
    written: dict[str, Written] = field(default_factory=dict)
    """The views written so far, each with the version and the table id this gave it."""
    interrupted: Callable[[], bool] = lambda: False
    """Says whether the user wants it to end: then an error of Spark's is no fault of a view."""

    def __post_init__(self) -> None:
        self.changes = Changes(self.places.path, self.plan.attempt, self.plan.views)
        self.together = Together(self.plan.views)
        self.neighbours = Neighbours(self.plan.views)
        self.idle: SimpleQueue[Writer] = SimpleQueue()
        self.writers: list[Writer] = []
        self.telling = threading.Lock()
        self.told = 0
        """How many views the listener has heard the end of."""

    def run(self) -> tuple[ViewState, ...]:
        """Refresh all views, each after those it reads; one that fails does not stop the others."""
        try:
            if self.at_once > 1 and sum(v.step is not None for v in self.plan.views) > 1:
                self._run_together()
            else:
                for view in self.plan.views:
                    if self.interrupted():
                        raise KeyboardInterrupt
                    self._visit(view)
        finally:
            if self.writers:
                # What became of the views counts, even if Spark is gone by now.
                with suppress(*spark_errors()):
                    self.changes.release(self.writers[0].session)
        return tuple(self.states[view.name.lower()] for view in self.plan.views)

    def _run_together(self) -> None:
        """Start each view as soon as all it reads are done."""
        views = {view.name.lower(): view for view in self.plan.views}
        missing = {name: _reads(view) & views.keys() for name, view in views.items()}
        running: dict[Future[None], str] = {}
        with ThreadPoolExecutor(self.at_once, "hybridview") as pool:
            try:
                while missing or running:
                    for name in [name for name, reads in missing.items() if not reads]:
                        del missing[name]
                        running[pool.submit(self._visit, views[name])] = name
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        name = running.pop(future)
                        future.result()
                        for reads in missing.values():
                            reads.discard(name)
                    if self.interrupted():
                        raise KeyboardInterrupt
            except BaseException:
                for future in running:
                    future.cancel()
                raise

    def _visit(self, view: ViewPlan) -> None:
        with self.telling:
            self.listener(self._number(view), self.total, view, None)
        started = time.monotonic()
        state = self._state(view, started)
        with self.telling:
            self.states[view.name.lower()] = state
            self._tell()

    def _tell(self) -> None:
        """Report what is done in the order of the plan: nobody wants to search a list that moves.

        A state table or a part works for the view after it: the user hears of that view.
        """
        while self.told < len(self.plan.views):
            view = self.plan.views[self.told]
            state = self.states.get(view.name.lower())
            if state is None:
                return
            self.told += 1
            if not view.state_of or state.error:
                self.listener(self._number(view), self.total, view, state)

    @property
    def total(self) -> int:
        return sum(not v.state_of for v in self.plan.views)

    def _number(self, view: ViewPlan) -> int:
        """Return the place of a view among the user's own; that of its view for a part."""
        before = itertools.takewhile(lambda v: v is not view, self.plan.views)
        return min(self.total, 1 + sum(not v.state_of for v in before))

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
            fault = error
        except spark_errors() as error:
            if self.interrupted():
                raise KeyboardInterrupt from None
            fault = as_refresh_error(view.name, error)
        if is_overtaken(self.plan, view, self.places):
            # Rows that another process took away already are no damage: it was faster.
            raise race_lost(view)
        return self._kept(view, Executed.FAILED, fault.detail or fault.fact, started, str(fault))

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
        settled = self._settled(view)
        unchanged = bool(view.feeds) and all(
            settled.ends[feed.name] == feed.start for feed in view.feeds
        )
        if view.step is None or (isinstance(view.step, Apply) and unchanged):
            reason = view.reason if view.step is None else "nothing changed"
            return self._done(settled, Executed.NONE, reason, started)
        writer = self._writer()
        try:
            return self._write(writer, settled, started)
        finally:
            self.written |= writer.commits.written
            self.idle.put(writer)

    def _write(self, writer: Writer, settled: Settled, started: float) -> ViewState:
        view = settled.view
        if isinstance(view.step, Apply):
            try:
                done = writer.apply(settled, view.step)
                self.written |= writer.commits.written
                executed, reason = self._with_parts(view)
                return self._done(settled, executed, reason, started, done)
            except TooLarge as share:
                reason = str(share)
            except spark_errors() as error:
                reason = why_recompute(error)
                if view.step.otherwise is None or not reason:
                    raise
            view = replace(
                view, executed=Executed.SNAPSHOT, reason=reason, step=view.step.otherwise
            )
            settled = replace(settled, view=view)
        assert isinstance(view.step, Load)
        done = writer.load(settled, view.step)
        self.written |= writer.commits.written
        return self._done(settled, view.executed, view.reason, started, done)

    def _writer(self) -> Writer:
        """Return a writer that nobody uses."""
        with suppress(Empty):
            return self.idle.get_nowait()
        with self.telling:
            session = self.session()
            relations = Relations(session, self.places.path, self.changes)
            made = Writer(self.plan, self.places, relations, self.together, self.neighbours)
            self.writers.append(made)
            return made

    def _settled(self, view: ViewPlan) -> Settled:
        """Fill in the versions of views that this same plan refreshed."""
        sources = tuple(self._settle(source) for source in (*view.sources, *view.parts))
        return Settled(
            view,
            sources,
            self._settle(view.state) if view.state is not None else None,
            {s.table_id: s.version for s in sources if s.version is not None},
            {feed.name: self._end(feed.name, feed.end) for feed in view.feeds},
        )

    def _with_parts(self, view: ViewPlan) -> tuple[Executed, str]:
        """Return what was done to a view, told with what was done to its parts before it."""
        for part in (*view.parts, *((view.state,) if view.state is not None else ())):
            state = self.states.get(part.name.lower())
            if state is not None and state.executed in (Executed.SNAPSHOT, Executed.HYBRID):
                reason = f"{part.name} was computed anew: {state.reason}; {view.reason}"
                return Executed.HYBRID, reason
        return view.executed, view.reason

    def _settle(self, source: Pinned) -> Pinned:
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

    def _done(
        self,
        settled: Settled,
        executed: Executed,
        reason: str,
        started: float,
        done: Done | None = None,
    ) -> ViewState:
        view = settled.view
        version, table_id = view.kept.version, view.kept.table_id
        if view.name in self.written:
            version, table_id = self.written[view.name]
        method = view.step.method if isinstance(view.step, Apply) else ""
        return ViewState(
            view.name,
            view.view_id,
            version,
            table_id,
            dict(settled.inputs),
            executed.value,
            reason,
            round(time.monotonic() - started, 3),
            done.rows if done else {},
            "",
            method,
            self.plan.epoch,
            view.program,
            {"files": done.read.files, "bytes": done.read.bytes} if done else {},
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


def _reads(view: ViewPlan) -> set[str]:
    """Return what must be done before a view, as far as this plan does it."""
    reads = [*view.sources, *view.parts, *([view.state] if view.state is not None else [])]
    return {source.name.lower() for source in reads}


__all__ = ["Listener", "Places", "Runner"]
