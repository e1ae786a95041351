"""Delta rule for WHERE: filter the change."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Filter, Plan


def filter(node: Filter, change: Plan) -> Plan:
    """Return the change of `node`.

    d(where_p(R)) = where_p(dR)

    The condition reads one row, so it decides about a row alike whether it comes or goes.
    """
    return change if isinstance(change, Empty) else Filter(change, node.condition)
