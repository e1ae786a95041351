"""Delta rule for LATERAL VIEW and EXPLODE: flatten the change."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Flatten, Plan, output


def flatten(node: Flatten, change: Plan) -> Plan:
    """Return the change of `node`.

    d(flatten_g(R)) = flatten_g(dR)

    The rows that g makes depend on one row of R alone, so they come and go with it, and each has
    its weight. OUTER too: whether a row makes none is for that row to say.
    """
    if isinstance(change, Empty):
        return Empty(output(node))
    return Flatten(change, node.generator, node.names, node.outer)
