"""Delta rule for semi-joins and anti-joins: [NOT] EXISTS, [NOT] IN, one part of outer joins."""

from __future__ import annotations

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, columns_of
from hybridview.algebra.plan import Domain, Empty, Negate, Plan, Semi, Union, output
from hybridview.compiler.rules.aggregate import plain

ANY = "__hv_any"


def semi(
    node: Semi,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    judged_by: Plan | None = None,
) -> Plan:
    """Return the change of `node`; for `L with R`, rows of L that have a partner in R:

    d(L with R) = dL with R_new + A with R_new - A with R_old,   A = L_old with dR

    Rows of L that come or go are judged by the new R. A row that stays is judged anew only if a
    changed row of R is a partner of it: else it has the same partners as before. It is the whole
    condition that makes a partner, not its equalities alone. For anti-joins read "without" but in
    A, where the partners in the change still count. R_old is looked at only where A has partners.

    The other way round, dL with R_old + A with R_new - A with R_old and A = L_new with dR, is as
    right: then `left_before` is L_new, and `judged_by` what dL finds in R_old.
    """
    terms: list[Plan] = []
    if not isinstance(left_change, Empty):
        terms.append(Semi(left_change, judged_by or node.right, node.condition, node.anti))
    if not isinstance(right_change, Empty):
        partners = read_by(node.condition, right_change)
        judged_anew = Semi(left_before, partners, node.condition)
        looked_at = Semi(right_before, read_by(node.condition, judged_anew), node.condition)
        terms.append(Semi(judged_anew, node.right, node.condition, node.anti))
        terms.append(Negate(Semi(judged_anew, plain(looked_at), node.condition, node.anti)))
    if not terms:
        return Empty(output(node))
    return terms[0] if len(terms) == 1 else Union(tuple(terms), output(node))


def read_by(condition: Expr | None, rows: Plan) -> Domain:
    """Return the different values that a condition reads of some rows, whatever their sign."""
    used = set(columns_of(condition)) if condition is not None else set()
    keys = tuple(Named(name, column(name)) for name in output(rows) if name in used)
    return Domain(rows, keys or (Named(ANY, exp.true()),))
