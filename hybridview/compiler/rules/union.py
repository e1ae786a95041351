"""Delta rule for UNION ALL: the changes of all arms together."""

from __future__ import annotations

from sqlglot import exp

from hybridview.algebra.plan import Empty, Filter, Plan, Union


def union(node: Union, changes: tuple[Plan, ...]) -> Plan:
    """Return the change of `node`.

    d(A + B) = dA + dB

    An arm that did not change stays as a query of no rows: it is not read, but its types decide
    with those of the others which types the union's columns have.
    """
    if all(isinstance(change, Empty) for change in changes):
        return Empty(node.names)
    arms = tuple(
        Filter(arm, exp.false()) if isinstance(change, Empty) else change
        for arm, change in zip(node.inputs, changes, strict=True)
    )
    return Union(arms, node.names)
