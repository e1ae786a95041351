"""Delta rule for rows that are repeated, as INTERSECT ALL and EXCEPT ALL do: repeat the change."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Plan, Repeat


def repeat(node: Repeat, change: Plan) -> Plan:
    """Return the change of `node`.

    d(repeat_n(R)) = repeat_n(dR)

    How often a row is repeated is read from the row itself, so it is the same when it goes.
    """
    return change if isinstance(change, Empty) else Repeat(change, node.times)
