"""The logical plan: immutable nodes over named columns.

A plan's rows form a bag. Some nodes are *signed*: each row carries a weight, positive for a row
that appears, negative for one that disappears. Operators that are linear (filter, project, join,
union) take signed and plain inputs alike; the others refuse a signed input when they are built,
so a plan that would count deleted rows cannot exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from hybridview.algebra.expressions import Expr, Named, columns_of
from hybridview.algebra.leaves import GONE as GONE
from hybridview.algebra.leaves import KEPT as KEPT
from hybridview.algebra.leaves import Changes as Changes
from hybridview.algebra.leaves import Near as Near
from hybridview.algebra.leaves import Scan as Scan


class PlanError(Exception):
    """A plan that cannot exist: a bug in the compiler, never a user's mistake."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No rows."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """Rows that a query lists itself, as VALUES does: they never change."""

    names: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.names) or any(columns_of(value) for value in row):
                raise PlanError(f"a constant row of {list(self.names)} reads columns, or others")


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which `condition` is true."""

    input: Plan
    condition: Expr

    def __post_init__(self) -> None:
        _check(self.condition, self.input)


@dataclass(frozen=True, slots=True)
class Project:
    """One output row per input row; duplicates stay."""

    input: Plan
    columns: tuple[Named, ...]

    def __post_init__(self) -> None:
        for named in self.columns:
            _check(named.expr, self.input)


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows for which `condition` is true (all pairs if None); weights multiply."""

    left: Plan
    right: Plan
    condition: Expr | None

    def __post_init__(self) -> None:
        _check_join(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Outer:
    """A join that keeps rows without a partner, NULLs in place of the other side's columns.

    One that keeps its left side alone takes signed rows there: each row is joined by itself.
    """

    left: Plan
    right: Plan
    condition: Expr | None
    keeps_left: bool
    keeps_right: bool

    def __post_init__(self) -> None:
        _check_join(self.left, self.right)
        if signed(self.right) or (self.keeps_right and signed(self.left)):
            raise PlanError("an outer join of signed rows: consolidate and expand them first")


@dataclass(frozen=True, slots=True)
class Semi:
    """The rows of `left` with a partner in `right`; with none, if `anti`.

    A partner is a row for which `condition` is true; any row is, if there is no condition. The rows
    of `right` are only looked at, so they must be plain; those of `left` keep their weights.
    """

    left: Plan
    right: Plan
    condition: Expr | None
    anti: bool = False

    def __post_init__(self) -> None:
        _check_join(self.left, self.right)
        if signed(self.right):
            raise PlanError("a semi-join looks at signed rows: consolidate and expand them first")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every row of `input` as many times as `times` says; not at all if that is 0 or less."""

    input: Plan
    times: Expr

    def __post_init__(self) -> None:
        _check(self.times, self.input)


@dataclass(frozen=True, slots=True)
class Flatten:
    """Every row of `input` beside each row that `generator` makes of it, in columns `names`.

    A row that it makes nothing of is dropped; with `outer` it is kept, NULLs beside it.
    """

    input: Plan
    generator: Expr
    names: tuple[str, ...]
    outer: bool = False

    def __post_init__(self) -> None:
        _check(self.generator, self.input)
        if set(self.names) & set(output(self.input)) or len(set(self.names)) < len(self.names):
            raise PlanError(f"{list(self.names)} are not new columns")


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of `input`, and `functions` of the rows that share their `partition`.

    A function is a whole call with its OVER clause.
    """

    input: Plan
    partition: tuple[Expr, ...]
    functions: tuple[Named, ...]

    def __post_init__(self) -> None:
        if signed(self.input):
            raise PlanError("a window over signed rows: consolidate and expand them first")


@dataclass(frozen=True, slots=True)
class Top:
    """The first `limit` rows of `input` in an order, after `offset` rows are skipped.

    The order leaves nothing open: rows that are equal in all of it are equal. A key of it is an
    expression with its direction.
    """

    input: Plan
    order: tuple[Expr, ...]
    limit: int | None
    offset: int = 0

    def __post_init__(self) -> None:
        for key in self.order:
            _check(key, self.input)
        if signed(self.input):
            raise PlanError("the first of signed rows: consolidate and expand them first")


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of all inputs, columns matched by position; duplicates stay."""

    inputs: tuple[Plan, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per distinct combination of `keys`; without keys, exactly one row.

    A key or measure is an expression over the input's columns; a measure is one aggregate call.
    """

    input: Plan
    keys: tuple[Named, ...]
    measures: tuple[Named, ...]

    def __post_init__(self) -> None:
        if signed(self.input):
            raise PlanError("an aggregate over signed rows: consolidate and expand them first")


@dataclass(frozen=True, slots=True)
class Distinct:
    """Every different row once."""

    input: Plan

    def __post_init__(self) -> None:
        if signed(self.input):
            raise PlanError("DISTINCT over signed rows: consolidate and expand them first")


@dataclass(frozen=True, slots=True)
class Negate:
    """The same rows with opposite weights."""

    input: Plan


@dataclass(frozen=True, slots=True)
class Consolidate:
    """Signed rows netted: each different row once, with its total weight, zeros dropped."""

    input: Plan


@dataclass(frozen=True, slots=True)
class Expand:
    """Consolidated rows written out as many times as they weigh; negative ones must not occur."""

    input: Consolidate


@dataclass(frozen=True, slots=True)
class Domain:
    """The different values of `keys` among the rows of a change, whatever their sign."""

    input: Plan
    keys: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Restrict:
    """The rows whose `keys` occur in `domain`; NULL matches NULL."""

    input: Plan
    domain: Plan
    keys: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """Weighted partial aggregates of a change: one plain row per key, `rows` = sum of weights."""

    input: Plan
    keys: tuple[Named, ...]
    partials: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A relation computed before, under a name."""

    name: str
    names: tuple[str, ...]


Plan = (
    Scan
    | Changes
    | Empty
    | Constant
    | Filter
    | Project
    | Join
    | Outer
    | Semi
    | Repeat
    | Flatten
    | Window
    | Top
    | Union
    | Aggregate
    | Distinct
    | Negate
    | Consolidate
    | Expand
    | Domain
    | Restrict
    | Partial
    | Reference
)


def output(plan: Plan) -> tuple[str, ...]:
    """Return the names of a plan's columns, in order."""
    match plan:
        case Scan(_, alias, columns) | Changes(_, alias, columns):
            return tuple(f"{alias}.{name}" for name in columns)
        case Empty(names) | Constant(names) | Union(_, names) | Reference(_, names):
            return names
        case Filter(child, _) | Distinct(child) | Negate(child) | Restrict(child, _, _):
            return output(child)
        case Consolidate(child) | Expand(child) | Repeat(child, _) | Semi(child) | Top(child):
            return output(child)
        case Window(child, _, functions):
            return (*output(child), *(named.name for named in functions))
        case Flatten(child, _, names):
            return (*output(child), *names)
        case Project(_, columns):
            return tuple(named.name for named in columns)
        case Join(left, right, _) | Outer(left, right, _):
            return (*output(left), *output(right))
        case Aggregate(_, keys, measures):
            return tuple(named.name for named in (*keys, *measures))
        case Domain(_, keys):
            return tuple(named.name for named in keys)
        case Partial(_, keys, partials):
            return tuple(named.name for named in (*keys, *partials))
        case _:
            assert_never(plan)


def signed(plan: Plan) -> bool:
    """Say whether a plan's rows carry weights."""
    match plan:
        case Changes() | Negate() | Consolidate():
            return True
        case Filter(child, _) | Project(child, _) | Restrict(child, _, _):
            return signed(child)
        case Semi(child) | Repeat(child, _) | Flatten(child) | Outer(child):
            return signed(child)
        case Join(left, right, _):
            return signed(left) or signed(right)
        case Union(inputs, _):
            return any(signed(child) for child in inputs)
        case Scan() | Empty() | Aggregate() | Distinct() | Expand() | Domain() | Partial():
            return False
        case Reference() | Window() | Top() | Constant():
            return False
        case _:
            assert_never(plan)


def children(plan: Plan) -> tuple[Plan, ...]:
    """Return the inputs of a node, left to right."""
    match plan:
        case Scan() | Changes() | Empty() | Reference() | Constant():
            return ()
        case Join(left, right, _) | Outer(left, right, _) | Semi(left, right, _):
            return (left, right)
        case Union(inputs, _):
            return inputs
        case Restrict(child, domain, _):
            return (child, domain)
        case Filter(child) | Project(child) | Aggregate(child) | Distinct(child) | Window(child):
            return (child,)
        case Consolidate(child) | Expand(child) | Domain(child) | Partial(child) | Negate(child):
            return (child,)
        case Repeat(child) | Flatten(child) | Top(child):
            return (child,)
        case _:
            assert_never(plan)


def _check_join(left: Plan, right: Plan) -> None:
    both = set(output(left)) & set(output(right))
    if both:
        raise PlanError(f"both sides of a join have {sorted(both)}")


def _check(expr: Expr, plan: Plan) -> None:
    """Refuse an expression that reads a column its input does not have."""
    missing = set(columns_of(expr)) - set(output(plan))
    if missing:
        raise PlanError(f"columns {sorted(missing)} are not in {list(output(plan))}")
