"""Delta rule for window functions: re-evaluate the touched partitions."""

from __future__ import annotations

from hybridview.algebra.expressions import Named
from hybridview.algebra.plan import Domain, Empty, Negate, Plan, Restrict, Union, Window, output
from hybridview.compiler.rules.aggregate import KEY, plain


def window(node: Window, change: Plan, before: Plan) -> Plan:
    """Return the change of `node`.

    d(W(R)) = W(R_new where partition in K) - W(R_old where partition in K),  K = partitions of dR

    A function sees the rows of its own partition only. A row that moves to another partition is in
    the change twice, so both partitions are in K. The rows are not netted here: equal rows stay
    apart, each with a weight of one.
    """
    if isinstance(change, Empty):
        return Empty(output(node))
    keys = tuple(Named(f"{KEY}{i}", expr) for i, expr in enumerate(node.partition))
    domain = Domain(change, keys)
    new, old = (
        Window(plain(Restrict(rows, domain, node.partition)), node.partition, node.functions)
        for rows in (node.input, before)
    )
    return Union((new, Negate(old)), output(node))
