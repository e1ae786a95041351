"""Catalog + pinned versions + stored states -> RefreshPlan. Reads logs, writes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hybridview.catalog import Catalog, ViewRecord, ViewState
from hybridview.compiler.batch import Batch
from hybridview.compiler.program import DeltaProgram, NotIncremental, compile_program
from hybridview.compiler.render import text
from hybridview.compiler.state import read_state
from hybridview.compiler.statements import overwrite
from hybridview.compiler.view import load_query
from hybridview.deltalog import DeltaLog
from hybridview.errors import HybridviewError, NotIncrementalError
from hybridview.plan.compiled import Compiled, compile_record
from hybridview.plan.steps import Apply, Feed, Load, Pinned, RefreshPlan, ViewPlan
from hybridview.schema import Executed, Strategy, VersionVector
from hybridview.strategy.decide import Decision, IncrementalImpossible, Options, decide
from hybridview.strategy.facts import ChangeFacts, change_facts
from hybridview.watermark import StoredState


@dataclass(frozen=True, slots=True)
class BasePin:
    """A base table at its pinned version; `problem` if it cannot be used."""

    name: str
    table_id: str
    version: int
    log: DeltaLog
    problem: HybridviewError | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    views: tuple[str, ...]
    named: tuple[str, ...]
    """The views the user named himself; the others come along because these read them."""
    strategy: Strategy | None
    default: Strategy
    epoch: int
    attempt: str


def build(
    catalog: Catalog,
    pins: Mapping[str, BasePin],
    states: Mapping[str, StoredState | None],
    request: Request,
) -> RefreshPlan:
    """Plan a refresh of the wanted views, parents first."""
    plans: dict[str, ViewPlan] = {}
    wanted = {name.lower() for name in request.views}
    for view in catalog.ordered():
        if view.name.lower() not in wanted:
            continue
        builder = _ViewBuilder(catalog, pins, states, request, plans)
        try:
            plans[view.name.lower()] = builder.build(view)
        except HybridviewError as error:
            plans[view.name.lower()] = builder.failed(view, error)
    strategy = (request.strategy or request.default).value
    return RefreshPlan(
        catalog.store_id, request.epoch, request.attempt, strategy, tuple(plans.values())
    )


def program_hash(view: ViewRecord) -> str:
    """Identify what a stored table was computed by: another text needs another load."""
    parts = (view.id, view.query, *(f"{c.name}:{c.type}" for c in view.columns))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class _ViewBuilder:
    """Plans one view; `plans` holds those of the views before it."""

    def __init__(
        self,
        catalog: Catalog,
        pins: Mapping[str, BasePin],
        states: Mapping[str, StoredState | None],
        request: Request,
        plans: Mapping[str, ViewPlan],
    ) -> None:
        self.catalog, self.pins, self.states = catalog, pins, states
        self.request, self.plans = request, plans

    def build(self, view: ViewRecord) -> ViewPlan:
        sources = self._sources(view)
        state = self.states.get(view.name.lower())
        inputs = self._inputs(view, state)
        compiled = compile_record(view)
        base = ViewPlan(
            view.name,
            view.id,
            view.folder,
            Executed.NONE,
            "",
            sources,
            columns=tuple((c.name, c.type) for c in view.columns),
            cluster_by=view.cluster_by,
            comment=view.comment,
            settings=dict(view.settings),
            program=program_hash(view),
            stored_version=state.version if state else None,
            stored_id=state.table_id if state else "",
            stored_inputs=inputs,
            layout=compiled.layout,
            state_of=view.state_of,
            state=self._source(view.state) if view.state else None,
        )
        rebuild = self._must_rebuild(view, state, inputs, sources)
        usable = state is not None and not rebuild
        facts = self._facts(view, inputs, sources) if usable else ()
        program, obstacle = self._program(compiled, facts) if usable else (None, "")
        options = Options(
            state is not None and inputs is not None,
            rebuild,
            obstacle,
            program.brief if program else "",
            self.request.strategy is Strategy.SNAPSHOT and view.name in self.request.named,
            self._recomputed_parent(view),
        )
        decision = self._decide(view, compiled, facts, options)
        return self._with_step(base, view, compiled, decision, facts, program)

    def failed(self, view: ViewRecord, error: HybridviewError) -> ViewPlan:
        """Plan nothing for a view that cannot be refreshed; the others go on."""
        state = self.states.get(view.name.lower())
        return ViewPlan(
            view.name,
            view.id,
            view.folder,
            Executed.FAILED,
            error.fact,
            (),
            stored_version=state.version if state else None,
            stored_id=state.table_id if state else "",
            stored_inputs=self._inputs(view, state),
            error=str(error),
        )

    def _decide(
        self,
        view: ViewRecord,
        compiled: Compiled,
        facts: tuple[ChangeFacts, ...],
        options: Options,
    ) -> Decision:
        own = view.properties.get("hybridview.strategy")
        requested = self.request.strategy or (Strategy(own) if own else self.request.default)
        try:
            return decide(requested, facts, options)
        except IncrementalImpossible as reason:
            raise NotIncrementalError(
                f'cannot refresh view "{view.name}" incrementally',
                where=compiled.place,
                detail=f"{str(reason)[:1].upper()}{str(reason)[1:]}.",
                hint=f"Run: hybridview refresh {view.name} --strategy hybrid",
            ) from None

    def _sources(self, view: ViewRecord) -> tuple[Pinned, ...]:
        return tuple(
            self._source(name, tuple(c.name for c in columns))
            for name, columns in view.sources.items()
        )

    def _source(self, name: str, columns: tuple[str, ...] = ()) -> Pinned:
        """Pin a base table, or a view at the version it has or will have."""
        parent = self.catalog.views.get(name.lower())
        if parent is None:
            pin = self.pins[name.lower()]
            if pin.problem is not None:
                raise pin.problem
            return Pinned(name, pin.table_id, pin.version, columns)
        columns = columns or tuple(c.name for c in parent.columns)
        plan = self.plans.get(name.lower())
        state = self.states.get(name.lower())
        if plan is not None and plan.step is not None:
            return Pinned(name, state.table_id if state else "", None, columns)
        if state is not None:
            return Pinned(name, state.table_id, state.version, columns)
        return Pinned(name, "", None, columns)

    def _inputs(self, view: ViewRecord, state: StoredState | None) -> VersionVector | None:
        """Return the versions the stored rows reflect.

        A published record may name newer inputs for the same table version: then the commits in
        between were found to change nothing.
        """
        if state is None:
            return None
        published: ViewState | None = self.catalog.state(view)
        if published is not None and published.version == state.version and not state.foreign:
            return published.inputs
        return state.watermark.inputs

    def _must_rebuild(
        self,
        view: ViewRecord,
        state: StoredState | None,
        inputs: VersionVector | None,
        sources: tuple[Pinned, ...],
    ) -> str:
        if state is None or inputs is None:
            return ""
        if state.foreign is not None:
            who = f" by {state.foreign.user}" if state.foreign.user else ""
            return (
                f"its table was changed by hand: commit {state.foreign.version}, "
                f"{state.foreign.operation}{who}"
            )
        if not state.has_feed:
            return "the change feed of its own table is off"
        if state.watermark.program != program_hash(view):
            return "its definition changed"
        for source in sources:
            parent = source.name.lower() in self.catalog.views
            plan = self.plans.get(source.name.lower())
            if plan is not None and isinstance(plan.step, Load) and plan.step.create:
                # Its table will be another one, whose changes do not begin where the old ones end.
                return f"view {source.name} is rebuilt"
            if source.table_id and source.table_id not in inputs:
                # A base table is only pinned if its registered id is its own: the user has said
                # that the new table is meant.
                return f"{'view' if parent else 'table'} {source.name} was replaced"
        return ""

    def _facts(
        self, view: ViewRecord, inputs: VersionVector | None, sources: tuple[Pinned, ...]
    ) -> tuple[ChangeFacts, ...]:
        assert inputs is not None
        facts: list[ChangeFacts] = []
        for source in sources:
            start = inputs[source.table_id]
            pin = self.pins.get(source.name.lower())
            if pin is not None:
                facts.append(change_facts(source.name, pin.log, start, pin.version))
            elif source.version is None:
                facts.append(ChangeFacts(source.name, start, None, True, False, 0, None))
            else:
                moved = source.version != start
                facts.append(ChangeFacts(source.name, start, source.version, moved, False, 0, None))
        return tuple(facts)

    def _program(
        self, compiled: Compiled, facts: tuple[ChangeFacts, ...]
    ) -> tuple[DeltaProgram | None, str]:
        if compiled.compilable is None:
            return None, compiled.no_rule
        changed = frozenset(f.source for f in facts if f.changed)
        if not changed:
            return None, ""
        if compiled.state is not None:
            return read_state(compiled.compilable.view, compiled.layout, compiled.state), ""
        appended = frozenset(f.source for f in facts if f.changed and f.appended)
        try:
            program = compile_program(
                compiled.compilable, Batch(changed, appended), str(self.request.epoch)
            )
        except NotIncremental as reason:
            return None, str(reason)
        return program, ""

    def _recomputed_parent(self, view: ViewRecord) -> str:
        for name in view.sources:
            plan = self.plans.get(name.lower())
            if plan is not None and isinstance(plan.step, Load):
                return name
        return ""

    def _with_step(
        self,
        base: ViewPlan,
        view: ViewRecord,
        compiled: Compiled,
        decision: Decision,
        facts: tuple[ChangeFacts, ...],
        program: DeltaProgram | None,
    ) -> ViewPlan:
        plan = replace(base, executed=decision.executed, reason=decision.reason)
        if decision.executed is Executed.NONE:
            return plan
        if decision.executed is Executed.INCREMENTAL:
            assert program is not None
            feeds = () if compiled.state is not None else self._feeds(view, facts)
            return replace(plan, feeds=feeds, step=_apply(program, facts))
        layout = compiled.layout
        load = load_query(view.query, layout, str(self.request.epoch))
        state = self.states.get(view.name.lower())
        # A table that is not ours any more, or of another shape, is replaced, not filled anew.
        create = (
            state is None
            or state.foreign is not None
            or not state.has_feed
            or state.watermark.program != program_hash(view)
        )
        sql = load if create else overwrite(view.name, layout, load)
        return replace(plan, step=Load(sql, create))

    def _feeds(self, view: ViewRecord, facts: tuple[ChangeFacts, ...]) -> tuple[Feed, ...]:
        return tuple(
            Feed(
                f.source,
                f.start,
                f.end,
                tuple(c.name for c in view.sources[f.source]),
                f.appended,
                f.rows if f.end is not None else None,
            )
            for f in facts
            if f.changed
        )


def _apply(program: DeltaProgram, facts: tuple[ChangeFacts, ...]) -> Apply:
    rows = [f.rows if f.end is not None else None for f in facts if f.changed]
    known = [r for r in rows if r is not None]
    return Apply(
        text(program.change),
        program.apply,
        program.without_deletes,
        program.method.value,
        sum(known) if len(known) == len(rows) else None,
    )


Locate = Callable[[str], str]
