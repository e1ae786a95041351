"""Delta rule for tables: the change of a table is what its change feed says."""

from __future__ import annotations

from hybridview.algebra.plan import Changes, Empty, Plan, Scan, output
from hybridview.compiler.batch import Batch


def scan(node: Scan, batch: Batch) -> Plan:
    """Return the change of `node`.

    d(T) = changes(T); nothing if T did not change.
    """
    if node.table not in batch.changed:
        return Empty(output(node))
    return Changes(node.table, node.alias, node.columns)
