"""Delta rule for inner joins: changes of both inputs -> change of the join."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Join, Plan, Union, output


def join(node: Join, left_change: Plan, right_change: Plan, left_before: Plan) -> Plan:
    """Return the change of `node`.

    d(L * R) = dL * R_new + L_old * dR

    One side is read new and the other old, so a pair of two fresh rows counts once. In a chain of
    N joins `L_old` is itself a join of old tables, so there are N terms, not 2^N - 1.
    """
    terms: list[Plan] = []
    if not isinstance(left_change, Empty):
        terms.append(Join(left_change, node.right, node.condition))
    if not isinstance(right_change, Empty):
        terms.append(Join(left_before, right_change, node.condition))
    if not terms:
        return Empty(output(node))
    return terms[0] if len(terms) == 1 else Union(tuple(terms), output(node))
