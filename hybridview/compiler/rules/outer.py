"""Delta rule for left outer joins; the other outer joins are made of them."""

from __future__ import annotations

from hybridview.algebra.plan import Empty, Negate, Outer, Plan, Semi, Union, output
from hybridview.compiler.rules.aggregate import plain
from hybridview.compiler.rules.semi import read_by


def outer(
    node: Outer,
    left_change: Plan,
    right_change: Plan,
    left_before: Plan,
    right_before: Plan,
    judged_by: Plan | None = None,
) -> Plan:
    """Return the change of `node`.

    d(L =* R) = dL =* R_new + A =* R_new - A =* R_old,   A = L_old with a partner in dR

    A left join gives rows for each row of L by itself, so a change of L is simply joined. A row
    that stays gets other rows only if a changed row of R is a partner of it; NULLs beside it come
    and go with its last and first partner, because it is joined anew as a whole.

    The other way round, dL =* R_old + A =* R_new - A =* R_old with A = L_new with a partner in dR,
    is as right: then `left_before` is L_new, and `judged_by` what dL finds in R_old.
    """
    terms: list[Plan] = []
    if not isinstance(left_change, Empty):
        terms.append(_joined(node, left_change, judged_by or node.right))
    if not isinstance(right_change, Empty):
        joined_anew = Semi(left_before, read_by(node.condition, right_change), node.condition)
        looked_at = Semi(right_before, read_by(node.condition, joined_anew), node.condition)
        terms.append(_joined(node, joined_anew, node.right))
        terms.append(Negate(_joined(node, joined_anew, plain(looked_at))))
    if not terms:
        return Empty(output(node))
    return terms[0] if len(terms) == 1 else Union(tuple(terms), output(node))


def _joined(node: Outer, left: Plan, right: Plan) -> Outer:
    return Outer(left, right, node.condition, node.keeps_left, node.keeps_right)
