"""Delta rule for GROUP BY and DISTINCT below another operator: re-evaluate the touched groups."""

from __future__ import annotations

from hybridview.algebra.expressions import Named
from hybridview.algebra.plan import (
    Aggregate,
    Consolidate,
    Domain,
    Empty,
    Expand,
    Negate,
    Plan,
    Restrict,
    Union,
    output,
    signed,
)

KEY = "__hv_key_"


def domain_of(node: Aggregate, change: Plan) -> Domain:
    """Return the keys of the groups a change touches: both signs, so vanished groups too."""
    keys = tuple(Named(f"{KEY}{i}", key.expr) for i, key in enumerate(node.keys))
    return Domain(change, keys)


def plain(plan: Plan) -> Plan:
    """Turn signed rows into the bag they stand for; plain rows stay as they are.

    MIN, MAX and DISTINCT are not linear: a row and its negation must cancel before they look.
    """
    return Expand(Consolidate(plan)) if signed(plan) else plan


def restricted(node: Aggregate, input: Plan, domain: Plan) -> Aggregate:
    """Return the aggregate over the rows of `input` that belong to the groups of `domain`."""
    rows = Restrict(input, domain, tuple(key.expr for key in node.keys))
    return Aggregate(plain(rows), node.keys, node.measures)


def aggregate(node: Aggregate, change: Plan, before: Plan) -> Plan:
    """Return the change of `node`.

    d(G(R)) = G(R_new where key in K) - G(R_old where key in K),  K = keys of dR

    Groups outside K have the same rows before and after, hence the same result row, and cancel.
    K must come from the change of the aggregate's own input (after joins and filters), not from
    the base table's: a join may move a row to a group that no base row names.
    """
    if isinstance(change, Empty):
        return Empty(output(node))
    domain = domain_of(node, change)
    new = restricted(node, node.input, domain)
    old = restricted(node, before, domain)
    return Consolidate(Union((new, Negate(old)), output(node)))
