"""A query in which common parts have names -> the parts worth keeping in memory, and the rest.

Spark does not compute a named part once: it writes the part out at each place that reads it. With
parts that read parts, the plan doubles at every level. So when the written-out query is large, its
parts that are read several times are computed first, each once:

    size(query) = tables it reads + sizes of the named parts it reads; a kept part counts as a table

Those whose rows are bounded by changes are kept gladly. The others may have as many rows as a base
table, of which each reader wants a few: they are kept only if Spark could not plan the query.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlglot import exp

from hybridview.compiler.render import FEW

LARGE = 32
"""How many tables a query may read, written out, before parts of it are kept."""
TOO_LARGE = 1_000
"""How many it may read before parts are kept that no change bounds."""
WORTH_KEEPING = 4
"""How many tables a part must read: keeping one is a job of its own."""


@dataclass(frozen=True, slots=True)
class KeptPart:
    """`symbol`: rows that are computed once, before what reads them."""

    symbol: str
    query: exp.Query


def staged(view: str, query: exp.Query) -> tuple[tuple[KeptPart, ...], exp.Query]:
    """Return the parts of a query to compute first, in order, and the query that reads them.

    The query is taken apart: nobody may use it afterwards.
    """
    if readings(query).total() <= LARGE:
        return (), query
    named = _take_names(query)
    kept, size = _chosen(view, query, named, (FEW,))
    if size > TOO_LARGE:
        kept, _ = _chosen(view, query, named, (FEW, ""))
    for part in (*named.values(), query):
        _put_symbols(part, kept)
    parts = [
        KeptPart(symbol, _with_names(named[name], named, kept)) for name, symbol in kept.items()
    ]
    return tuple(parts), _with_names(query, named, kept)


def _chosen(
    view: str, query: exp.Query, named: dict[str, exp.Query], beginnings: tuple[str, ...]
) -> tuple[dict[str, str], int]:
    """Return the symbols of the parts to keep, of those so named, and the size of what is left."""
    uses = Counter(name for part in (*named.values(), query) for name in _read(part))
    kept: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for name, part in named.items():
        sizes[name] = sum(sizes.get(read, 1) for read in _read(part))
        fits = uses[name] > 1 and name.startswith(beginnings)
        if fits and sizes[name] >= WORTH_KEEPING:
            kept[name] = f"{view}@{name}"
            sizes[name] = 1
    left = [*(named[name] for name in kept), query]
    return kept, max(sum(sizes.get(read, 1) for read in _read(part)) for part in left)


def readings(query: exp.Query) -> Counter[str]:
    """Return how often a query reads each table when named parts stand where they are read.

    Inside a part its own name is that of a table it hides; or the part is recursive: that counts 1.
    """
    named: dict[str, list[str]] = {part.alias: [] for part in query.find_all(exp.CTE)}
    top: list[str] = []
    for table in query.find_all(exp.Table):
        within = table.find_ancestor(exp.CTE)
        (named[within.alias] if within is not None else top).append(table.name)
    known: dict[str, Counter[str]] = {}
    begun: set[str] = set()

    def of(names: list[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for name in names:
            if name in named and name not in begun:
                begun.add(name)
                known[name] = of(named[name])
            found.update(known.get(name, [name]))
        return found

    return of(top)


def _take_names(query: exp.Query) -> dict[str, exp.Query]:
    """Take all named parts out of a query, inner ones too; return them, each after what it reads.

    Their names are our own, and no two of one program are the same.
    """
    found: dict[str, exp.Query] = {}
    while (clause := query.find(exp.With)) is not None:
        clause.pop()
        for part in clause.expressions:
            inner = part.this.pop()
            found |= _take_names(inner)
            assert part.alias not in found, part.alias
            found[part.alias] = inner
    return found


def _read(query: exp.Query) -> list[str]:
    return [table.name for table in query.find_all(exp.Table)]


def _put_symbols(query: exp.Query, kept: dict[str, str]) -> None:
    for table in list(query.find_all(exp.Table)):
        if table.name in kept:
            table.set("this", exp.to_identifier(kept[table.name], quoted=True))


def _with_names(query: exp.Query, named: dict[str, exp.Query], kept: dict[str, str]) -> exp.Query:
    """Return a query with the named parts in front of it that it needs and that are not kept."""
    needed: set[str] = set()
    waiting = _read(query)
    while waiting:
        name = waiting.pop()
        if name in named and name not in kept and name not in needed:
            needed.add(name)
            waiting += _read(named[name])
    for name, part in named.items():
        if name in needed:
            query = query.with_(exp.to_identifier(name), as_=part.copy(), copy=False)
    return query
