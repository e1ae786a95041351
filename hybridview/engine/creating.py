"""A view -> the head of the statement that makes its table."""

from __future__ import annotations

from hybridview.deltalog import FEED_PROPERTY, FILE_RETENTION, LOG_RETENTION
from hybridview.engine.session import literal, quote
from hybridview.plan.steps import ViewPlan

# A plain VACUUM must not take the files of a published epoch; `maintain` does, once it expired.
KEPT = dict.fromkeys((FILE_RETENTION, LOG_RETENTION), "interval 365 days")
ODD_CHARACTERS = set(" ,;{}()\n\t=")


def needs_mapping(view: ViewPlan) -> bool:
    """Say whether a column's name has characters that Parquet refuses."""
    assert view.layout is not None
    return any(ODD_CHARACTERS & set(name) for name in view.layout.stored)


def create(view: ViewPlan, target: str, feed: bool) -> str:
    """Return the head of the statement that makes a view's table.

    A plain CREATE is refused where a killed process left files, even if it never committed them.
    """
    properties = {FEED_PROPERTY: str(feed).lower(), "hybridview.view": view.name, **KEPT}
    if needs_mapping(view):
        properties["delta.columnMapping.mode"] = "name"
    parts = [f"CREATE OR REPLACE TABLE {target} USING delta"]
    if view.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(quote(c) for c in view.cluster_by)})")
    if view.comment:
        parts.append(f"COMMENT {literal(view.comment)}")
    pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
    parts.append(f"TBLPROPERTIES ({pairs})")
    return " ".join(parts)
