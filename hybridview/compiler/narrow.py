"""The plan of a change -> the same plan, its tables read only near the rows that changed.

A changed order is joined to its customer: of all customers those are needed whose key is that of a
changed order. The join says so already, but only after the table was read. Here the condition is
carried down to the table, where the values of a small change become literals, and files that hold
none of them are not opened. Rows that are left out could not have mattered; reading more of them
than needed is never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, conjuncts
from hybridview.algebra.plan import (
    Aggregate,
    Changes,
    Consolidate,
    Distinct,
    Domain,
    Empty,
    Expand,
    Filter,
    Flatten,
    Join,
    Near,
    Negate,
    Outer,
    Partial,
    Plan,
    Project,
    Reference,
    Repeat,
    Restrict,
    Scan,
    Semi,
    Union,
    Window,
    output,
)
from hybridview.compiler.column_types import ColumnTypes
from hybridview.compiler.kinds import Recorded

Places = frozenset[tuple[str, str]]
"""Symbols of changes and columns of theirs."""

Found = Mapping[str, Places]
"""Columns of a plan whose values all occur in some columns of changes, NULLs included."""

PLAIN = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date", "boolean"})
"""Types whose equality is that of their literals; and decimals."""


def narrow(plan: Plan, recorded: Recorded | None, known: Mapping[str, Found] | None = None) -> Plan:
    """Return a plan whose scans name the changes that their rows must be near to.

    `known` says the same of relations that were computed before, by their names.
    """
    if recorded is None:
        return plan
    looking = _Narrower(recorded, known or {})
    looking.visit(plan, {})
    # All that is read near the same values is read the same way: so what is common stays common.
    return _Narrower(recorded, known or {}, frozenset(looking.exact)).visit(plan, {})


def found_in(plan: Plan, recorded: Recorded | None) -> Found:
    """Return which columns of a plan only have values that changes have."""
    return {} if recorded is None else _Offers({}, _types(recorded, {})).of(plan)


def _types(recorded: Recorded, known: Mapping[str, Found]) -> ColumnTypes:
    """Return the types of columns; what is found in a change has the type that it has there."""
    types = ColumnTypes(recorded.sources)
    types.known = {
        relation: {
            name: types.column(symbol.rpartition("@")[0], c)
            for name, places in found.items()
            for symbol, c in sorted(places)[:1]
        }
        for relation, found in known.items()
    }
    return types


def _listable(kind: str | None) -> bool:
    """Say whether values of a type are equal where their literals are."""
    return kind is not None and (kind in PLAIN or kind.startswith("decimal("))


@dataclass
class _Offers:
    """What plans say about their own columns; looked at once for every part.

    A column has the very type of the columns of changes that its values are found in.
    """

    known: Mapping[str, Found]
    types: ColumnTypes
    done: dict[int, tuple[Plan, Found]] = field(default_factory=dict)

    def of(self, plan: Plan) -> Found:
        if id(plan) not in self.done:
            self.done[id(plan)] = (plan, self._of(plan))
        return self.done[id(plan)][1]

    def _of(self, plan: Plan) -> Found:
        match plan:
            case Changes(_, alias, columns):
                own = {f"{alias}.{c}": frozenset({(plan.symbol, c)}) for c in columns}
                return {n: places for n, places in own.items() if self._is_listable(plan, n)}
            case Empty(names):
                return dict.fromkeys(names, frozenset())
            case Filter(_, exp.Boolean(this=False)):
                return dict.fromkeys(output(plan), frozenset())
            case Filter(child) | Negate(child) | Consolidate(child) | Expand(child):
                return self.of(child)
            case Repeat(child) | Distinct(child) | Flatten(child):
                return self.of(child)
            case Semi(left, right, condition, anti):
                return self.of(left) if anti else self._joined(condition, left, right, left)
            case Restrict(child, domain, keys):
                return {**self.by_domain(child, domain, keys), **self.of(child)}
            case Project(child, columns) | Domain(child, columns):
                return _passed(columns, self.of(child))
            case Aggregate(child, keys, _) | Partial(child, keys, _):
                return _passed(keys, self.of(child))
            case Join(left, right, condition):
                return self._joined(condition, left, right, plan)
            case Outer(left, _):
                return self.of(left)
            case Union(inputs, names):
                arms = [(self.of(arm), output(arm)) for arm in inputs]
                common = _common(names, arms)
                return {n: places for n, places in common.items() if self._is_listable(plan, n)}
            case Reference(name, _):
                return self.known.get(name, {})
            case _:
                return {}

    def _is_listable(self, plan: Plan, name: str) -> bool:
        return _listable(self.types.of(plan).get(name))

    def by_domain(self, child: Plan, domain: Plan, keys: tuple[Expr, ...]) -> Found:
        """Return what a domain says about the columns of what it restricts."""
        given = self.of(domain)
        pairs = zip(keys, output(domain), strict=True)
        return {
            e.name: given[n]
            for e, n in pairs
            if _plain(e) and n in given and self.alike((child, e.name), (domain, n))
        }

    def alike(self, one: tuple[Plan, str], other: tuple[Plan, str]) -> bool:
        """Say whether two columns have the same type, so that one may stand for the other."""
        kinds = {self.types.of(plan).get(name) for plan, name in (one, other)}
        return len(kinds) == 1 and _listable(kinds.pop())

    def equal_columns(
        self, condition: Expr | None, left: Plan, right: Plan
    ) -> list[tuple[str, str]]:
        """Return the columns of both sides that a join makes equal, values and types."""
        pairs = _equal_columns(condition, left, right)
        return [(a, b) for a, b in pairs if self.alike((left, a), (right, b))]

    def _joined(self, condition: Expr | None, left: Plan, right: Plan, plan: Plan) -> Found:
        """Return what holds for pairs of rows: equal columns have equal values."""
        found = {**self.of(left), **self.of(right)}
        for a, b in self.equal_columns(condition, left, right):
            for one, other in ((a, b), (b, a)):
                if one in found:
                    found.setdefault(other, found[one])
        own = set(output(plan))
        return {name: places for name, places in found.items() if name in own}


def _passed(columns: tuple[Named, ...], below: Found) -> Found:
    return {c.name: below[c.expr.name] for c in columns if _plain(c.expr) and c.expr.name in below}


def _common(names: tuple[str, ...], arms: list[tuple[Found, tuple[str, ...]]]) -> Found:
    """Return what holds for the rows of every arm of a union."""
    found: dict[str, Places] = {}
    for place, name in enumerate(names):
        given = [offers.get(own[place]) for offers, own in arms]
        if all(places is not None for places in given):
            found[name] = frozenset().union(*(places for places in given if places))
    return found


class _Narrower:
    """Carries down which values matter."""

    def __init__(
        self,
        recorded: Recorded,
        known: Mapping[str, Found],
        exact: frozenset[tuple[str, Near]] | None = None,
    ) -> None:
        self.types = _types(recorded, known)
        self.offers = _Offers(known, self.types)
        self.known_exact = exact
        self.exact: set[tuple[str, Near]] = set()
        """The tables, and values they are read near to, where other rows cost more than that."""
        self.done: dict[tuple[int, frozenset[tuple[str, Places]], bool], Plan] = {}

    def visit(self, plan: Plan, wanted: Found, exact: bool = False) -> Plan:
        """Return a plan for which only rows with `wanted` values matter.

        `exact` says that other rows cost more than reading them.
        """
        own = {name: places for name, places in wanted.items() if name in output(plan)}
        exact = exact and self.known_exact is None
        key = (id(plan), frozenset(own.items()), exact)
        if key not in self.done:
            self.done[key] = self._visit(plan, own, exact)
        return self.done[key]

    def _visit(self, plan: Plan, wanted: Found, exact: bool) -> Plan:
        match plan:
            case Scan():
                return self._scan(plan, wanted, exact)
            case Filter(child) | Negate(child):
                return replace(plan, input=self.visit(child, wanted, exact))
            case Repeat(child) | Flatten(child):
                return replace(plan, input=self.visit(child, wanted, exact))
            case Distinct(child):
                return Distinct(self.visit(child, wanted, True))
            case Consolidate(child):
                return Consolidate(self.visit(child, wanted, True))
            case Expand(child):
                netted = self.visit(child, wanted, True)
                assert isinstance(netted, Consolidate)
                return Expand(netted)
            case Project(child, columns):
                return Project(self.visit(child, _meant(columns, wanted), exact), columns)
            case Aggregate(child, keys, measures):
                return Aggregate(self.visit(child, _meant(keys, wanted), True), keys, measures)
            case Domain(child, keys):
                return Domain(self.visit(child, _meant(keys, wanted), True), keys)
            case Partial(child, keys, partials):
                return Partial(self.visit(child, _meant(keys, wanted), True), keys, partials)
            case Window(child, partition, functions):
                parts = {e.name for e in partition if _plain(e)}
                inner = {n: p for n, p in wanted.items() if n in parts}
                return Window(self.visit(child, inner, True), partition, functions)
            case Union(inputs, names):
                arms = tuple(
                    self.visit(a, _by_place(names, output(a), wanted), exact) for a in inputs
                )
                return Union(arms, names)
            case Restrict(child, domain, keys):
                near = self.offers.by_domain(child, domain, keys)
                # The others are left out here.
                below = self.visit(child, {**wanted, **near}, exact and not near)
                return Restrict(below, self.visit(domain, {}), keys)
            case Join() | Semi() | Outer():
                return self._join(plan, wanted, exact)
            case _:
                return plan

    def _join(self, plan: Join | Semi | Outer, wanted: Found, exact: bool) -> Plan:
        """Carry values over the equalities of a join.

        From the left side to the right always: rows of the right side without a partner give
        nothing. The other way only where rows of the left side without a partner give nothing.
        """
        both_ways = isinstance(plan, Join) or (isinstance(plan, Semi) and not plan.anti)
        left = dict(wanted)
        # A partner that is left out would turn a row of a left join into one without a partner.
        right = {} if isinstance(plan, Outer) else dict(wanted)
        of_left = {**wanted, **self.offers.of(plan.left)}
        of_right = {**right, **self.offers.of(plan.right)}
        for a, b in self.offers.equal_columns(plan.condition, plan.left, plan.right):
            if a in of_left:
                right.setdefault(b, of_left[a])
            if both_ways and b in of_right:
                left.setdefault(a, of_right[b])
        # A side that the other one restricts loses its other rows in this join; but only an inner
        # join can send its small side to the rows of the large one.
        inner = isinstance(plan, Join)
        return replace(
            plan,
            left=self.visit(plan.left, left, exact and left.keys() <= wanted.keys()),
            right=self.visit(
                plan.right, right, not inner or (exact and right.keys() <= wanted.keys())
            ),
        )

    def _scan(self, scan: Scan, wanted: Found, exact: bool) -> Scan:
        """Note the values of one column: the one found in the fewest places."""
        found: list[Near] = []
        for name, places in sorted(wanted.items()):
            column = name.removeprefix(f"{scan.alias}.")
            changes = [(symbol.rpartition("@")[0], c) for symbol, c in places]
            own = self.types.column(scan.table, column)
            if places and _listable(own) and all(self.types.column(*c) == own for c in changes):
                found.append(Near(column, tuple(sorted(places))))
        if not found:
            return scan
        near = min(found, key=lambda n: (len(n.found_in), n.column))
        if exact:
            self.exact.add((scan.table, near))
        return replace(
            scan, near=replace(near, exact=(scan.table, near) in (self.known_exact or ()))
        )


def _plain(expr: Expr) -> bool:
    return isinstance(expr, exp.Column)


def _meant(columns: tuple[Named, ...], wanted: Found) -> Found:
    return {c.expr.name: wanted[c.name] for c in columns if c.name in wanted and _plain(c.expr)}


def _by_place(names: tuple[str, ...], own: tuple[str, ...], wanted: Found) -> Found:
    return {o: wanted[n] for n, o in zip(names, own, strict=True) if n in wanted}


def _equal_columns(condition: Expr | None, left: Plan, right: Plan) -> list[tuple[str, str]]:
    """Return the pairs of columns, one of each side, that a join condition makes equal."""
    if condition is None:
        return []
    sides = (set(output(left)), set(output(right)))
    found: list[tuple[str, str]] = []
    for part in conjuncts(condition):
        bare = part.unnest()
        if not isinstance(bare, exp.EQ | exp.NullSafeEQ):
            continue
        a, b = bare.left, bare.right
        if not (_plain(a) and _plain(b)):
            continue
        if a.name in sides[0] and b.name in sides[1]:
            found.append((a.name, b.name))
        elif b.name in sides[0] and a.name in sides[1]:
            found.append((b.name, a.name))
    return found


__all__ = ["found_in", "narrow"]
