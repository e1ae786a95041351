"""Published epochs -> which consistency level a view kept: every state checked, none believed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hybridview.catalog import Catalog, RefreshRecord, ViewRecord
from hybridview.deltalog import LogGap
from hybridview.operations.context import Context, view_named
from hybridview.operations.levels import base_inputs, is_complete
from hybridview.operations.verify import verify

LEVELS = ("wrong", "weak", "strong", "complete")


@dataclass(frozen=True, slots=True)
class Proof:
    """What the epochs of one view amount to."""

    view: str
    wanted: str
    level: str
    """wrong: some epoch is not the query at its versions. weak: each is, but versions went back.
    strong: they never did. complete: and each commit that changed rows has an epoch."""
    epochs: int
    """How many different states were published."""
    rows: int
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return LEVELS.index(self.level) >= LEVELS.index(self.wanted)


def prove(context: Context, name: str) -> Proof:
    """Recompute a view at every state it was published in, and look at their order."""
    catalog = context.catalog()
    view = view_named(catalog, name)
    states = _states(catalog, view)
    wanted = "complete" if is_complete(view) else "strong"
    problems: list[str] = []
    rows = 0
    for record, _ in states:
        verdict = verify(context, view.name, record.epoch)
        rows += verdict.rows
        if not verdict.ok:
            problems.append(f"epoch {record.epoch} is not the query at its versions")
    if problems:
        return Proof(view.name, wanted, "wrong", len(states), rows, tuple(problems))
    back = _went_back(states)
    if back:
        return Proof(view.name, wanted, "weak", len(states), rows, back)
    skipped = _skipped(context, catalog, states)
    level = "strong" if skipped else "complete"
    return Proof(view.name, wanted, level, len(states), rows, skipped)


States = list[tuple[RefreshRecord, dict[str, int]]]


def _states(catalog: Catalog, view: ViewRecord) -> States:
    """Return the kept epochs with a new state of a view, with its base versions, in order."""
    found: States = []
    last: tuple[object, ...] = ()
    for record in catalog.refreshes.readable():
        inputs, state = base_inputs(catalog, view, record), record.of(view.id)
        if inputs is None or state is None or last == (inputs, state.version):
            continue
        last = (inputs, state.version)
        found.append((record, inputs))
    return found


def _went_back(states: States) -> tuple[str, ...]:
    problems = []
    for (_, before), (record, after) in itertools.pairwise(states):
        for table, version in after.items():
            if version < before.get(table, version):
                problems.append(f"epoch {record.epoch} reflects an older {table}")
    return tuple(problems)


def _skipped(context: Context, catalog: Catalog, states: States) -> tuple[str, ...]:
    """Return the epochs that jumped over a state of the base tables."""
    problems = []
    for (_, before), (record, after) in itertools.pairwise(states):
        commits = 0
        for table, version in after.items():
            commits += _changing(context, catalog, table, before.get(table, version), version)
        if commits > 1:
            problems.append(f"epoch {record.epoch} took {commits} commits at once")
    return tuple(problems)


def _changing(context: Context, catalog: Catalog, table: str, start: int, end: int) -> int:
    log = context.log(catalog, table)
    try:
        return sum(log.commit(v).changes_rows for v in range(start + 1, end + 1))
    except LogGap:
        # What cannot be counted any more is not proved.
        return 2
