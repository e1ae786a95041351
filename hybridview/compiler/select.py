"""Small parts of a SELECT as sqlglot trees: names, weights, conditions, FROM and WHERE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, qualified, same
from hybridview.compiler.identity import Type, equal

COPY = "__hv_copy"


@dataclass(frozen=True, slots=True)
class Open:
    """A SELECT still under construction: `sources` are inner-joined, `conditions` all hold."""

    columns: dict[str, Expr]
    sources: tuple[Expr, ...]
    conditions: tuple[Expr, ...] = ()
    weight: Expr | None = None


def from_table(symbol: str, alias: str, columns: tuple[str, ...]) -> Open:
    """Return the columns of a table, named `alias.column`."""
    source = exp.alias_(table_named(symbol), alias, quoted=True, table=True)
    return Open({f"{alias}.{c}": qualified(c, alias) for c in columns}, (source,))


def table_named(symbol: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(symbol, quoted=True))


def from_values(names: tuple[str, ...], rows: tuple[tuple[Expr, ...], ...], alias: str) -> Open:
    """Return constant rows. As VALUES, not as a union: so their types are the user's."""
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    source = exp.Values(
        expressions=[exp.Tuple(expressions=[e.copy() for e in row]) for row in rows],
        alias=exp.TableAlias(this=exp.to_identifier(alias), columns=columns),
    )
    return Open({n: qualified(n, alias) for n in names}, (source,))


def named(expr: Expr, name: str) -> Expr:
    return exp.Alias(this=expr.copy(), alias=exp.to_identifier(name, quoted=True))


def number(value: int) -> Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def product(left: Expr | None, right: Expr | None) -> Expr | None:
    if left is None or right is None:
        return left or right
    return exp.Mul(this=atom(left), expression=atom(right))


def atom(expr: Expr) -> Expr:
    return expr.copy() if isinstance(expr, exp.Column) else exp.Paren(this=expr.copy())


def parsed(sql: str) -> Expr:
    return exp.maybe_parse(sql, dialect="spark")


def same_group(left: Expr, right: Expr, kind: Type | None) -> Expr:
    """Return a condition that holds for values GROUP BY takes for one."""
    if kind is None or kind.comparable:
        return same(left, right)
    old, new = (atom(side).sql(dialect="spark") for side in (left, right))
    return parsed(equal(old, new, kind))


def grouped(query: exp.Select, keys: list[Expr]) -> exp.Select:
    return query.group_by(*(exp.Literal.number(i + 1) for i in range(len(keys))), copy=False)


def assemble(query: exp.Select, opened: Open) -> exp.Select:
    """Add FROM, JOIN ... ON and WHERE; each condition stands where its last source appears."""
    aliases = [source.alias_or_name for source in opened.sources]
    placed: list[list[Expr]] = [[] for _ in aliases]
    for condition in opened.conditions:
        if condition.find(exp.Exists):
            placed[0].append(condition)  # Spark takes subqueries in WHERE, not in every ON
            continue
        used = {c.table for c in condition.find_all(exp.Column)}
        last = max((i for i, alias in enumerate(aliases) if alias in used), default=0)
        placed[last].append(condition)
    query = query.from_(opened.sources[0], copy=False)
    for source, conditions in zip(opened.sources[1:], placed[1:], strict=True):
        if conditions:
            query = query.join(source, on=exp.and_(*conditions, copy=False), copy=False)
        else:
            query = query.join(source, join_type="cross", copy=False)
    if placed[0]:
        query = query.where(*placed[0], copy=False)
    return query


def repeated(query: exp.Select, times: Expr) -> exp.Select:
    """Write out every row of a SELECT as many times as it says; not at all for 0 or less."""
    copies = exp.Explode(this=exp.GenerateSeries(start=number(1), end=times.copy(), step=None))
    query = query.select(named(copies, COPY), copy=False)
    return query.where(exp.GT(this=times.copy(), expression=number(0)), copy=False)


def with_lateral_view(
    query: exp.Select, call: Expr, alias: str, names: Iterable[exp.Identifier], outer: bool
) -> exp.Select:
    """Add LATERAL VIEW; its columns are in reach of the whole SELECT."""
    columns = [name.copy() for name in names]
    view = exp.TableAlias(this=exp.to_identifier(alias), columns=columns)
    query.append("laterals", exp.Lateral(this=call, view=True, outer=outer, alias=view))
    return query
