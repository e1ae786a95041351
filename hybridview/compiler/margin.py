"""The first rows of an input, kept with some to spare -> the program that maintains them.

`SELECT * FROM big ORDER BY x LIMIT 10` needs few rows of `big`. So not all of them are kept as a
part, but a *margin* P of the input I: its first rows in the order of the LIMIT, more than the view
needs. The order leaves nothing open, up to rows that ORDER BY takes for equal: these are *peers*.
With n = limit + offset, but not less than LEAST, two things hold of every version of P:

    (1)  P is a prefix: a row of I that sorts before a row of P, or is a peer of one, is in P,
         as often as in I.
    (2)  |P| < n  =>  P = I.

So the view's rows are among P's. Both can be seen from P alone; nothing else is stored. A change dI
of the input is applied as

    kept(r)  =  |P| < n  or  r sorts before, or is a peer of, the last row of P
    dP       =  the rows of dI that are kept

Then P + dP is a prefix of I + dI: what was left out sorts after all of P. If P was a part of I
only, it may now have fewer than n rows, and which ones come next is not known: it is *used up*, and
is computed anew from the tables, SIZE rows of it. This is a full read, and is reported as one.

Rows that come in front would make P grow for ever. So when it has more than twice its size, rows of
rank > size go: what stays is a prefix, and size > n.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, substitute
from hybridview.algebra.plan import Consolidate, Filter, Plan, Project, Top, Window, output
from hybridview.compiler import statements
from hybridview.compiler.batch import Batch
from hybridview.compiler.derive import derive
from hybridview.compiler.identity import any_of, identity
from hybridview.compiler.layout import Layout
from hybridview.compiler.narrow import narrow
from hybridview.compiler.program import Compilable, DeltaProgram, Method, near_scans
from hybridview.compiler.render import render
from hybridview.compiler.statements import literal, quote
from hybridview.schema import HIDDEN, WEIGHT

LEAST = 50
"""A smaller input is kept as a whole: it costs nothing, and is never used up."""

USED_UP = "hybridview: the margin is used up"
RANK = f"{HIDDEN}rank"


@dataclass(frozen=True, slots=True)
class Margin:
    """The first rows of an input in an order: how many must be there, how many after a load."""

    needed: int
    size: int
    order: tuple[Expr, ...]
    """Keys with their directions, over the columns of the part."""


def size_of(needed: int) -> int:
    """Return how many rows to keep: enough that most changes do not use them up.

    Another number for each number of rows needed: a part for more rows is another query, and
    is never mistaken for the one that is stored.
    """
    return 4 * needed + 100


def margin_of(top: Top, columns: dict[str, str]) -> Margin | None:
    """Return the margin to keep for a LIMIT; `columns` are the part's, by the plan's names."""
    if top.limit is None or any(not isinstance(key.this, exp.Column) for key in top.order):
        return None
    if not top.limit + top.offset:
        return None
    needed = max(top.limit + top.offset, LEAST)
    names: dict[str, Expr] = {name: column(own) for name, own in columns.items()}
    return Margin(needed, size_of(needed), tuple(substitute(k, names) for k in top.order))


def first_rows(plan: Plan, margin: Margin) -> Plan:
    """Return the plan of a margin after a load: the first rows, and all peers of the last one."""
    order = exp.Order(expressions=[key.copy() for key in margin.order])
    rank = exp.Window(this=exp.Anonymous(this="rank"), order=order)
    ranked = Window(plan, (), (Named(RANK, rank),))
    few = exp.LTE(this=column(RANK), expression=exp.Literal.number(margin.size))
    return Project(Filter(ranked, few), tuple(Named(c, column(c)) for c in output(plan)))


def read_margin(plan: Plan, needed: int) -> tuple[Plan, Margin] | None:
    """Return the input and the margin of a plan that `first_rows` made, after its text was read."""
    if not (isinstance(plan, Project) and isinstance(plan.input, Filter)):
        return None
    few, ranked = plan.input.condition, plan.input.input
    if not (isinstance(ranked, Window) and isinstance(few, exp.LTE) and len(ranked.functions) == 1):
        return None
    shown = {c.expr.sql(dialect="spark"): c.name for c in plan.columns}
    order: list[Expr] = []
    for key in ranked.functions[0].expr.args["order"].expressions:
        name = shown.get(key.this.sql(dialect="spark"))
        if name is None:
            return None
        order.append(_by(key, column(name)))
    size = int(few.expression.name)
    return Project(ranked.input, plan.columns), Margin(needed, size, tuple(order))


def _by(key: Expr, value: Expr) -> Expr:
    return exp.Ordered(
        this=value, desc=key.args.get("desc"), nulls_first=key.args.get("nulls_first")
    )


def maintain(view: Compilable, margin: Margin, batch: Batch, epoch: str) -> DeltaProgram:
    """Return the program that applies a change of the input to its margin."""
    change = narrow(Consolidate(derive(view.plan, batch)), view.recorded)
    kinds = {name: view.layout.type_of(name) for name in view.layout.visible}
    arrived = render(change, view.recorded, kinds)
    query: exp.Query = exp.maybe_parse(_change(view, margin), dialect="spark")
    return DeltaProgram(
        view.view,
        Method.PATCH,
        query.with_("arrived", as_=arrived),
        statements.patch(view.view, view.layout, epoch),
        statements.append(view.view, view.layout, epoch),
        "applied to the margin",
        f"margin: the first rows are kept, {margin.size} after a load; a change behind them is "
        f"left out, and when fewer than {margin.needed} are left they are computed anew",
        near_scans(change),
    )


def _change(view: Compilable, margin: Margin) -> str:
    """Return the query of dP, and of the rows that are too many, over `arrived` = dI."""
    columns = ", ".join(quote(name) for name in view.layout.visible)
    order = ", ".join(key.sql(dialect="spark") for key in margin.order)
    peers = ", ".join(key.this.sql(dialect="spark") for key in margin.order)
    n, size = margin.needed, margin.size
    both = (
        f"SELECT {columns}, 1 AS `__hv_old`, 0 AS `__hv_new` FROM {statements.target(view.view)} "
        f"UNION ALL SELECT {columns}, 0, {quote(WEIGHT)} FROM arrived"
    )
    rows = (
        f"SELECT {_same_rows(view.layout)}, sum(`__hv_old`) AS `__hv_old`, "
        f"sum(`__hv_new`) AS `__hv_new` FROM ({both}) AS b GROUP BY {_identities(view.layout)}"
    )
    placed = (
        f"SELECT *, sum(`__hv_old`) OVER () AS `__hv_had`, sum(`__hv_old`) OVER (ORDER BY {order} "
        f"RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS `__hv_behind` FROM ({rows}) AS r"
    )
    kept = (
        f"SELECT {columns}, `__hv_old`, `__hv_had`, CASE WHEN `__hv_had` < {n} "
        f"OR `__hv_behind` > 0 THEN `__hv_new` ELSE 0 END AS `__hv_new` FROM ({placed}) AS p"
    )
    now = "sum(`__hv_old` + `__hv_new`)"
    ranked = (
        f"SELECT *, {now} OVER () AS `__hv_has`, {now} OVER (ORDER BY {order} RANGE BETWEEN "
        f"UNBOUNDED PRECEDING AND CURRENT ROW) - {now} OVER (PARTITION BY {peers}) "
        f"AS `__hv_before` FROM ({kept}) AS k"
    )
    trimmed = (
        f"SELECT *, CASE WHEN `__hv_has` <= {2 * size} OR `__hv_before` < {size} THEN `__hv_new` "
        f"ELSE -`__hv_old` END AS `__hv_moved` FROM ({ranked}) AS m"
    )
    alarm = f"CAST(raise_error({literal(USED_UP)}) AS BIGINT)"
    return (
        f"SELECT {columns}, CASE WHEN `__hv_had` >= {n} AND `__hv_has` < {n} THEN {alarm} "
        f"ELSE CAST(`__hv_moved` AS BIGINT) END AS {quote(WEIGHT)} FROM ({trimmed}) AS t "
        f"WHERE `__hv_moved` <> 0"
    )


def _same_rows(layout: Layout) -> str:
    """Return the columns of rows that are grouped by identity."""
    found = []
    for name in layout.visible:
        kind = layout.type_of(name)
        sql = quote(name)
        found.append(sql if kind.plain else f"{any_of(sql, kind)} AS {sql}")
    return ", ".join(found)


def _identities(layout: Layout) -> str:
    return ", ".join(
        key for name in layout.visible for key in identity(f"b.{quote(name)}", layout.type_of(name))
    )


__all__ = ["USED_UP", "Margin", "first_rows", "maintain", "margin_of", "read_margin"]
