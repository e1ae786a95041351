"""A view's record and what is stored -> why its table must be built anew, if it must."""

from __future__ import annotations

from collections.abc import Mapping

from hybridview.catalog import Catalog, ViewRecord
from hybridview.plan.steps import Load, Pinned, ViewPlan
from hybridview.schema import VersionVector
from hybridview.watermark import StoredState

REDEFINED = "its definition changed"


def why_rebuild(
    view: ViewRecord,
    state: StoredState,
    inputs: VersionVector,
    sources: tuple[Pinned, ...],
    catalog: Catalog,
    plans: Mapping[str, ViewPlan],
) -> str:
    """Return why changes cannot be applied to what is stored; empty if they can.

    `plans` are those of the views before it, by name in lower case.
    """
    if state.foreign is not None:
        who = f" by {state.foreign.user}" if state.foreign.user else ""
        return (
            f"its table was changed by hand: commit {state.foreign.version}, "
            f"{state.foreign.operation}{who}"
        )
    if not state.has_feed:
        return "the change feed of its own table is off"
    if state.watermark.program != view.program:
        return REDEFINED
    for source in sources:
        parent = source.name.lower() in catalog.views
        plan = plans.get(source.name.lower())
        if plan is not None and isinstance(plan.step, Load) and plan.step.create:
            # Its table will be another one, whose changes do not begin where the old ones end.
            return f"view {source.name} is rebuilt"
        if source.table_id and source.table_id not in inputs:
            # A base table is only pinned if its registered id is its own: the user has said
            # that the new table is meant.
            return f"{'view' if parent else 'table'} {source.name} was replaced"
    return ""
