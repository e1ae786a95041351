"""Delta rule for UNION ALL: the changes of all arms together."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Plan, Union


def union(node: Union, changes: tuple[Plan, ...]) -> Plan:
    """Return the change of `node`.

    d(A + B) = dA + dB

    Arms that did not change are left out, so they are not read.
    """
    present = tuple(change for change in changes if not isinstance(change, Empty))
    return Union(present, node.names) if present else Empty(node.names)
