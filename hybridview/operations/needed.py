"""Published epochs and recorded inputs -> the versions of stored tables that must stay readable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridview.catalog import Catalog, RefreshRecord
from hybridview.operations.context import Context
from hybridview.watermark import stored_state

Needed = Mapping[int, str]
"""Versions of one table, each with who needs it."""


def needed_versions(
    context: Context, catalog: Catalog, kept: Sequence[RefreshRecord]
) -> dict[str, Needed]:
    """Return what is needed of each stored table, by the id of its view.

    An epoch needs the version it names; to be verified, and for a child's next change, also the
    versions of parents that its views were made from. What a table's own commits say counts as
    well: they may be ahead of the newest epoch.
    """
    states = {
        view.id: stored_state(context.log(catalog, view.name)) for view in catalog.views.values()
    }
    owners = {s.table_id: s.view_id for r in catalog.refreshes for s in r.views}
    owners |= {state.table_id: view_id for view_id, state in states.items() if state is not None}
    found: dict[str, dict[int, str]] = {view.id: {} for view in catalog.views.values()}

    def need(view_id: str | None, version: int | None, who: str) -> None:
        if view_id in found and version is not None:
            found[view_id].setdefault(version, who)

    for record in sorted(kept, key=lambda r: r.epoch):
        for seen in record.views:
            need(seen.view_id, seen.version, f"epoch {record.epoch}")
            for table_id, version in seen.inputs.items():
                need(owners.get(table_id), version, f"view {seen.name} in epoch {record.epoch}")
    for view in catalog.views.values():
        state = states[view.id]
        for table_id, version in (state.watermark.inputs if state else {}).items():
            need(owners.get(table_id), version, f"view {view.name}")
    return {view_id: dict(versions) for view_id, versions in found.items()}
