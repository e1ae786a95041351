"""A view's record and what is stored -> why its table must be built anew, if it must."""

from __future__ import annotations

from collections.abc import Mapping

from hybridview.catalog import Catalog, ViewRecord
from hybridview.plan.sources import BasePin
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
    layout: str = "",
) -> str:
    """Return why changes cannot be applied to what is stored; empty if they can.

    `plans` are those of the views before it, by name in lower case; `layout` is how this program
    lays its rows out.
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
    if is_laid_out_otherwise(state, layout):
        return "its rows are stored in another way now"
    for source in sources:
        parent = source.name.lower() in catalog.views
        plan = plans.get(source.name.lower())
        if plan is not None and isinstance(plan.step, Load) and plan.step.create:
            # Its table will be another one, whose changes do not begin where the old ones end.
            return f"view {source.name} is rebuilt"
        if plan is not None and plan.stored_version is not None:
            seen = inputs.get(source.table_id)
            if seen is not None and seen > plan.stored_version:
                return f"view {source.name} was put back from a copy"
        if source.table_id and source.table_id not in inputs:
            # A base table is only pinned if its registered id is its own: the user has said
            # that the new table is meant.
            return f"{'view' if parent else 'table'} {source.name} was replaced"
    return ""


def is_laid_out_otherwise(state: StoredState, layout: str) -> bool:
    """Say whether stored rows have another layout; those of old stores do not tell theirs."""
    return bool(state.watermark.layout and layout) and state.watermark.layout != layout


def rewritten_source(
    view: ViewRecord,
    inputs: VersionVector,
    sources: tuple[Pinned, ...],
    catalog: Catalog,
    pins: Mapping[str, BasePin],
) -> str:
    """Say which base table has another history now than the one its version stood for.

    It may have been put back from a copy, and written to since: then its id is the same.
    """
    published = catalog.state(view)
    record = catalog.published(published.epoch) if published is not None else None
    for source in sources:
        pin, version = pins.get(source.name.lower()), inputs.get(source.table_id)
        if pin is None or record is None or version is None or version > pin.version:
            continue
        if record.pins.get(source.table_id) != version:
            continue
        then, now = record.stamps.get(source.table_id, ""), pin.log.stamp(version)
        if then and now and then != now:
            return f"the history of table {source.name} was replaced"
    return ""
