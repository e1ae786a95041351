"""Catalog + pinned versions + stored states -> RefreshPlan. Reads logs, writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hybridview.algebra.walk import tables
from hybridview.catalog import Catalog, ViewRecord, ViewState
from hybridview.compiler.backfill import backfill
from hybridview.compiler.batch import Batch
from hybridview.compiler.program import NotIncremental
from hybridview.compiler.statements import overwrite
from hybridview.compiler.view import is_unaffected, load_query
from hybridview.errors import BlockedError, HybridviewError, NotIncrementalError, run
from hybridview.plan.compiled import Compiled, compile_record
from hybridview.plan.links import keys_of, links, used_key
from hybridview.plan.programs import Program, program
from hybridview.plan.rebuild import (
    REDEFINED,
    is_laid_out_otherwise,
    rewritten_source,
    why_rebuild,
)
from hybridview.plan.sources import BasePin, check_columns
from hybridview.plan.steps import Apply, Feed, Kept, Load, Pinned, RefreshPlan, ViewPlan
from hybridview.plan.used import used_by_any, used_columns
from hybridview.schema import Column, Executed, Strategy, VersionVector
from hybridview.strategy.decide import (
    SNAPSHOT_SHARE,
    Decision,
    IncrementalImpossible,
    Options,
    decide,
)
from hybridview.strategy.facts import ChangeFacts, change_facts
from hybridview.watermark import StoredState


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
    wanted = {name.lower() for name in request.views}
    views = [view for view in catalog.ordered() if view.name.lower() in wanted]
    compiled = {view.name.lower(): compile_record(view) for view in views}
    builder = _Builder(catalog, pins, states, request, compiled)
    for view in views:
        try:
            builder.plans[view.name.lower()] = builder.build(view)
        except HybridviewError as error:
            builder.plans[view.name.lower()] = builder.failed(view, error)
    strategy = (request.strategy or request.default).value
    return RefreshPlan(
        catalog.store_id, request.epoch, request.attempt, strategy, tuple(builder.plans.values())
    )


class _Builder:
    """Plans one view after the other; `plans` holds those of the views before it."""

    def __init__(
        self,
        catalog: Catalog,
        pins: Mapping[str, BasePin],
        states: Mapping[str, StoredState | None],
        request: Request,
        compiled: Mapping[str, Compiled],
    ) -> None:
        self.catalog, self.pins, self.states = catalog, pins, states
        self.request, self.compiled = request, compiled
        self.plans: dict[str, ViewPlan] = {}
        self.known_facts: dict[tuple[str, int], ChangeFacts] = {}
        self.used_by = used_columns(catalog, pins, compiled)
        self.used = used_by_any(self.used_by)

    def build(self, view: ViewRecord) -> ViewPlan:
        compiled = self.compiled[view.name.lower()]
        sources = tuple(self._source(name, used) for name, used in compiled.uses.items())
        parts = tuple(self._source(name, used) for name, used in view.parts.items())
        state = self.states.get(view.name.lower())
        kept = self._kept(view, state)
        inputs = kept.inputs if state is not None else None
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
            program=view.program,
            stored_version=state.version if state else None,
            kept=kept,
            layout=compiled.layout,
            state_of=view.state_of,
            state=self._source(view.state) if view.state else None,
            parts=parts,
        )
        rebuild = ""
        if state is not None and inputs is not None:
            read = (*sources, *parts)
            layout = compiled.layout.signature
            rebuild = why_rebuild(view, state, inputs, read, self.catalog, self.plans, layout)
        if inputs is not None and not rebuild:
            rebuild = rewritten_source(view, inputs, sources, self.catalog, self.pins)
        usable = state is not None and not rebuild
        if usable and (lost := [s.name for s in (*sources, *parts) if not s.table_id]):
            # That table is gone and gets no new rows: with new ones this view would be rebuilt.
            reason = f'view "{lost[0]}" it reads was not refreshed'
            return replace(base, executed=Executed.STALE, reason=reason)
        read = _read(compiled, (*sources, *parts))
        facts = self._facts(view, inputs, read) if usable else ()
        batch = self._batch(read, facts)
        if compiled.view is not None and is_unaffected(compiled.view, batch):
            facts = tuple(replace(fact, changed=False) for fact in facts)
            batch = Batch(frozenset())
        found, obstacle = self._program(view, compiled, batch) if usable else (None, "")
        options = Options(
            state is not None and inputs is not None,
            rebuild,
            obstacle,
            found.brief if found else "",
            self.request.strategy is Strategy.SNAPSHOT and view.name in self.request.named,
        )
        if rebuild == REDEFINED and state is not None and not options.forced:
            made = self._backfill(view, state, inputs, compiled, sources)
            if made is not None:
                return replace(base, executed=made[0], reason=made[1], step=made[2])
        decision = self._decide(view, compiled, facts, options)
        return self._with_step(base, view, compiled, decision, facts, found)

    def failed(self, view: ViewRecord, error: HybridviewError) -> ViewPlan:
        """Plan nothing for a view that cannot be refreshed; the others go on."""
        state = self.states.get(view.name.lower())
        return ViewPlan(
            view.name,
            view.id,
            view.folder,
            Executed.BLOCKED if isinstance(error, BlockedError) else Executed.FAILED,
            error.fact,
            (),
            stored_version=state.version if state else None,
            kept=self._kept(view, state),
            error=str(error),
        )

    def _decide(
        self,
        view: ViewRecord,
        compiled: Compiled,
        facts: tuple[ChangeFacts, ...],
        options: Options,
    ) -> Decision:
        try:
            return decide(self._requested(view), facts, options)
        except IncrementalImpossible as reason:
            raise NotIncrementalError(
                f'cannot refresh view "{view.state_of or view.name}" incrementally',
                where=compiled.place,
                detail=f"{str(reason)[:1].upper()}{str(reason)[1:]}.",
                hint=run("refresh", view.state_of or view.name, "--strategy", "hybrid"),
            ) from None

    def _requested(self, view: ViewRecord) -> Strategy:
        own = view.properties.get("hybridview.strategy")
        return self.request.strategy or (Strategy(own) if own else self.request.default)

    def _source(self, name: str, used: tuple[Column, ...] = ()) -> Pinned:
        """Pin a base table, or a view at the version it has or will have."""
        columns = tuple(c.name for c in used)
        parent = self.catalog.views.get(name.lower())
        if parent is None:
            pin = self.pins[name.lower()]
            if pin.problem is not None:
                raise pin.problem
            assert pin.info is not None
            check_columns(f'table "{name}"', used, pin.info.columns)
            return Pinned(name, pin.table_id, pin.version, columns)
        check_columns(f'view "{name}"', used, parent.columns)
        columns = columns or tuple(c.name for c in parent.columns)
        plan = self.plans.get(name.lower())
        state = self.states.get(name.lower())
        if plan is not None and plan.step is not None:
            return Pinned(name, state.table_id if state else "", None, columns)
        if state is not None:
            # Later commits of its table moved files and no rows.
            return Pinned(name, state.table_id, state.claimed_at, columns)
        return Pinned(name, "", None, columns)

    def _kept(self, view: ViewRecord, state: StoredState | None) -> Kept:
        """Return the state a view shows if its rows stay, and from which changes are applied.

        A published record may name newer inputs for the same rows: then the commits in between
        were found to change nothing. Rows written by hand are never shown.
        """
        published: ViewState | None = self.catalog.state(view)
        if state is None:
            return Kept()
        ours = Kept(state.version, state.table_id, state.watermark.inputs, state.watermark.program)
        if published is None or published.version is None:
            return ours if not state.foreign else Kept()
        # A table that was put back from a copy is older than what was published of it.
        same = (
            published.table_id == state.table_id
            and state.claimed_at <= published.version <= state.version
        )
        if not same and not state.foreign:
            return ours
        return Kept(published.version, published.table_id, published.inputs, published.program)

    def _facts(
        self, view: ViewRecord, inputs: VersionVector | None, sources: tuple[Pinned, ...]
    ) -> tuple[ChangeFacts, ...]:
        assert inputs is not None
        facts: list[ChangeFacts] = []
        for source in sources:
            start = inputs[source.table_id]
            pin = self.pins.get(source.name.lower())
            if pin is not None:
                facts.append(self._base_facts(source.name, pin, start))
            elif source.version is None:
                facts.append(ChangeFacts(source.name, start, None, True, False, 0, None))
            else:
                moved = source.version > start
                facts.append(ChangeFacts(source.name, start, source.version, moved, False, 0, None))
        return tuple(facts)

    def _base_facts(self, name: str, pin: BasePin, start: int) -> ChangeFacts:
        """Read the log of a base table once for all views that start at the same version."""
        assert pin.info is not None
        key = (name.lower(), start)
        if key not in self.known_facts:
            self.known_facts[key] = change_facts(name, pin.log, start, pin.info)
        return self.known_facts[key]

    def _batch(self, read: tuple[Pinned, ...], facts: tuple[ChangeFacts, ...]) -> Batch:
        """Return which sources changed, and what declared keys say about them."""
        changed = frozenset(f.source for f in facts if f.changed)
        appended = frozenset(f.source for f in facts if f.changed and f.appended)
        return Batch(changed, appended, links(self.catalog, [source.name for source in read]))

    def _program(
        self, view: ViewRecord, compiled: Compiled, batch: Batch
    ) -> tuple[Program | None, str]:
        if compiled.view is None:
            return None, compiled.no_rule
        if not batch.changed:
            return None, ""
        try:
            return program(view, compiled.view, batch, self.request.epoch), ""
        except NotIncremental as reason:
            return None, str(reason)

    def _recomputed_parent(self, view: ViewRecord) -> str:
        for name in (*view.sources, *view.parts):
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
        found: Program | None,
    ) -> ViewPlan:
        plan = replace(base, executed=decision.executed, reason=decision.reason)
        if decision.executed is Executed.NONE:
            return plan
        if decision.executed is Executed.INCREMENTAL:
            assert found is not None
            feeds = () if compiled.state is not None else self._feeds(view, compiled, facts)
            step = self._apply(compiled, found, facts)
            if compiled.view is not None and compiled.view.whole:
                step = replace(step, whole=True)
            if self._requested(view) is Strategy.HYBRID:
                share = SNAPSHOT_SHARE if self._recomputed_parent(view) else None
                step = replace(step, otherwise=self._load(view, compiled), at_most=share)
            return replace(plan, feeds=feeds, step=step)
        return replace(plan, step=self._load(view, compiled))

    def _apply(self, compiled: Compiled, found: Program, facts: tuple[ChangeFacts, ...]) -> Apply:
        rows = [f.rows if f.end is not None else None for f in facts if f.changed]
        known = [r for r in rows if r is not None]
        return Apply(
            found.change,
            found.apply,
            found.without_deletes,
            found.method,
            sum(known) if len(known) == len(rows) else None,
            near=tuple(
                replace(
                    near,
                    keys_of=keys_of(self.catalog, near.name, near.column),
                    wanted=compiled.relevant.get(near.name, ""),
                )
                for near in found.near
            ),
            kept=found.kept,
            readings=found.readings,
            merge=found.merge,
        )

    def _backfill(
        self,
        view: ViewRecord,
        state: StoredState,
        inputs: VersionVector | None,
        compiled: Compiled,
        sources: tuple[Pinned, ...],
    ) -> tuple[Executed, str, Load] | None:
        """Make the rows of a new definition from the stored ones, if nothing else changed."""
        old = self.catalog.definitions.get(state.watermark.program)
        if old is None or old.state or view.state or old.parts or view.parts or inputs is None:
            return None
        if dict(old.settings) != dict(view.settings):
            return None  # the same text means something else: a day begins at another hour
        if any(s.version is None or s.table_id not in inputs for s in sources):
            return None
        if any(f.changed for f in self._facts(view, inputs, sources)):
            return None
        before = compile_record(replace(old, name=view.name))
        if before.compilable is None or compiled.compilable is None:
            return None
        load = load_query(view.text, compiled.layout)
        found = backfill(before.compilable, compiled.compilable, load)
        if found is None:
            return None
        if not found.added:
            reason = f"{REDEFINED}; its columns are computed from what is stored"
            return Executed.INCREMENTAL, reason, Load(found.sql, True, from_stored=True)
        reason = f"{REDEFINED}; only {', '.join(found.added)} is computed anew, the rest is kept"
        return Executed.HYBRID, reason, Load(found.sql, True, from_stored=True)

    def _load(self, view: ViewRecord, compiled: Compiled) -> Load:
        layout = compiled.layout
        load = load_query(view.text, layout, str(self.request.epoch))
        state = self.states.get(view.name.lower())
        # A table that is not ours any more, or of another shape, is replaced, not filled anew.
        create = (
            state is None
            or state.foreign is not None
            or not state.has_feed
            or state.watermark.program != view.program
            or is_laid_out_otherwise(state, layout.signature)
        )
        text = load if create else overwrite(view.name, layout, load)
        few = tuple(sorted(map(str.lower, compiled.selective)))
        return Load(text, create, compiled.readings, few)

    def _feeds(
        self, view: ViewRecord, compiled: Compiled, facts: tuple[ChangeFacts, ...]
    ) -> tuple[Feed, ...]:
        recomputed = {n.lower() for n, p in self.plans.items() if isinstance(p.step, Load)}
        own = self.used_by[view.name.lower()]
        feeds: list[Feed] = []
        for f in facts:
            if not f.changed:
                continue
            # Those that any view uses: then all views share one reading of the feed.
            columns = (own if f.compare else self.used)[f.source.lower()]
            feeds.append(
                Feed(
                    f.source,
                    f.start,
                    f.end,
                    columns,
                    f.appended,
                    f.rows if f.end is not None else None,
                    f.compare,
                    f.files,
                    f.rewritten or f.source.lower() in recomputed,
                    used_key(self.catalog, f.source, columns),
                    compiled.relevant.get(f.source, ""),
                    own[f.source.lower()],
                )
            )
        return tuple(feeds)


def _read(compiled: Compiled, sources: tuple[Pinned, ...]) -> tuple[Pinned, ...]:
    """Return the sources whose changes matter: what a view's plan reads, and its parts."""
    if compiled.compilable is None:
        return sources
    names = {name.lower() for name in tables(compiled.compilable.plan)}
    return tuple(source for source in sources if source.name.lower() in names)
