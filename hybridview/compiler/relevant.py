"""A view's plan -> which rows of its tables can matter to it, by the conditions on them alone.

    V(T) = V(T where c)   if every scan of T stands below a filter, or a join, that c comes from

So of a change of T only the rows for which c is true are looked at: the others change nothing,
whatever stands above, and no row has to be looked for near them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from hybridview.algebra.expressions import (
    Expr,
    column,
    columns_of,
    conjunction,
    conjuncts,
    substitute,
)
from hybridview.algebra.plan import (
    Distinct,
    Filter,
    Flatten,
    Join,
    Outer,
    Plan,
    Project,
    Repeat,
    Scan,
    Semi,
    Union,
    children,
    output,
)
from hybridview.compiler.column_types import ColumnTypes, same_in_all_arms
from hybridview.compiler.kinds import Recorded

Conditions = tuple[Expr, ...]


def relevant(plan: Plan, recorded: Recorded | None) -> dict[str, str]:
    """Return SQL over a table's own columns that is true for every row that can matter.

    A table of which any row may matter is left out. One that is scanned several times needs a row
    that matters to one of the scans.
    """
    types = ColumnTypes(recorded.sources if recorded is not None else {})
    found: dict[str, dict[str, None] | None] = {}
    for scan, conditions in _scans(plan, (), types):
        own = _own(scan, conditions)
        known = found.setdefault(scan.table, {})
        if own is None or known is None:
            found[scan.table] = None
        else:
            known[own] = None
    return {
        table: texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)
        for table, texts in ((t, list(known)) for t, known in found.items() if known)
    }


def selective(plan: Plan) -> frozenset[str]:
    """Return the tables of which few rows matter, by the look of the conditions on them.

    Each scan of such a table has a condition that compares a column with something constant. That
    is a guess, good enough to weigh work by.
    """
    found: dict[str, bool] = {}
    for scan, conditions in _scans(plan, (), ColumnTypes({})):
        few = any(map(_lets_few_through, conditions))
        found[scan.table] = few and found.get(scan.table, True)
    return frozenset(table for table, few in found.items() if few)


def _lets_few_through(condition: Expr) -> bool:
    bare = condition.unnest()
    match bare:
        case exp.And():
            return _lets_few_through(bare.left) or _lets_few_through(bare.right)
        case exp.Or():
            return _lets_few_through(bare.left) and _lets_few_through(bare.right)
        case exp.EQ() | exp.NullSafeEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return not (columns_of(bare.left) and columns_of(bare.right))
        case exp.In() | exp.Between():
            return not any(columns_of(e) for e in bare.iter_expressions() if e is not bare.this)
        case exp.Like():
            pattern = bare.expression
            likes = isinstance(pattern, exp.Literal) and not bare.args.get("negate")
            return likes and not pattern.this.startswith("%")
        case _:
            return False


def _own(scan: Scan, conditions: Conditions) -> str | None:
    """Return the conditions on a scan's rows by the names that its table gives its columns."""
    names: Mapping[str, Expr] = {f"{scan.alias}.{name}": column(name) for name in scan.columns}
    both = conjunction(tuple(substitute(condition, names) for condition in conditions))
    return None if both is None else both.sql(dialect="spark")


def _scans(plan: Plan, above: Conditions, types: ColumnTypes) -> Iterator[tuple[Scan, Conditions]]:
    """Yield all scans, each with the conditions that its rows must meet to matter."""
    own = _about(plan, above)
    match plan:
        case Scan():
            yield plan, own
        case Filter(child, condition):
            # In the order of the text: x <> 0 comes before 1 / x > 2.
            yield from _scans(child, (*conjuncts(condition), *own), types)
        case Distinct(child) | Repeat(child, _) | Flatten(child):
            yield from _scans(child, own, types)
        case Project(child, columns):
            yield from _scans(child, _renamed(own, {c.name: c.expr for c in columns}), types)
        case Union(inputs, names):
            alike = same_in_all_arms(plan, types)
            meant = tuple(c for c in own if alike.issuperset(columns_of(c)))
            for arm in inputs:
                pairs = zip(names, output(arm), strict=True)
                yield from _scans(arm, _renamed(meant, {n: column(o) for n, o in pairs}), types)
        case Join(left, right, condition):
            both = (*_parts(condition), *own)
            yield from _scans(left, both, types)
            yield from _scans(right, both, types)
        case Semi(left, right, condition, anti):
            # A row without a partner stays, in an anti-join.
            yield from _scans(left, own if anti else (*_parts(condition), *own), types)
            yield from _scans(right, _parts(condition), types)
        case Outer(left, right, condition, keeps_left, keeps_right):
            # What is above judges pairs. A row that is no partner any more leaves NULLs beside
            # the other one, and these may be judged otherwise.
            joined = _parts(condition)
            yield from _scans(left, _of_side(own, joined, keeps_left, keeps_right), types)
            yield from _scans(right, _of_side(own, joined, keeps_right, keeps_left), types)
        case _:
            for child in children(plan):
                yield from _scans(child, (), types)


def _of_side(above: Conditions, joined: Conditions, kept: bool, other_kept: bool) -> Conditions:
    """Return what holds for the rows of one side of an outer join that matter."""
    return (*(() if kept else joined), *(() if other_kept else above))


def _about(plan: Plan, conditions: Conditions) -> Conditions:
    """Return the conditions that a plan's own columns decide, subqueries apart."""
    known = set(output(plan))
    return tuple(
        condition
        for condition in conditions
        if (read := columns_of(condition)) and known.issuperset(read) and _is_plain(condition)
    )


def _is_plain(condition: Expr) -> bool:
    return condition.find(exp.Query, exp.Window, exp.AggFunc) is None


def _parts(condition: Expr | None) -> Conditions:
    return () if condition is None else conjuncts(condition)


def _renamed(conditions: Sequence[Expr], meant: Mapping[str, Expr]) -> Conditions:
    return tuple(substitute(condition, meant) for condition in conditions)


__all__ = ["relevant", "selective"]
