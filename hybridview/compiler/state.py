"""An aggregate without GROUP BY that cannot be added up -> a state table it can be read from.

`SELECT min(x), count(*) FROM t` has one row and no key: when the smallest x is deleted, neither
the row nor the change says which x comes next. So the different values of x are kept, with their
counts, in a table of their own; so are those of a floating point number that is added up. That
table is an ordinary grouped view, maintained as such; the view's row is then computed from it, and
no base table is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from hybridview.algebra.expressions import Expr, substitute
from hybridview.algebra.plan import Plan
from hybridview.compiler import exact
from hybridview.compiler.difference import one_row
from hybridview.compiler.identity import read_type
from hybridview.compiler.layout import Layout, shape
from hybridview.compiler.measures import Types, argument_of
from hybridview.compiler.program import DeltaProgram
from hybridview.compiler.statements import quote
from hybridview.sql.aggregates import AGGREGATES

SUFFIX = "@state"
ROWS = "rows"


@dataclass(frozen=True, slots=True)
class State:
    """The columns of a state table, in the user's own words, and the view's columns over them."""

    columns: tuple[tuple[str, str], ...]
    """Name and SQL of each column, the keys first."""
    view: tuple[tuple[str, str], ...]
    """Name and SQL over the state table of each column of the view."""
    keys: int
    """How many of the columns are keys."""


def state(plan: Plan, types: Types, spelling: Mapping[str, str] | None) -> State | None:
    """Return the state a view needs; None if it needs none, or none would help."""
    top = shape(plan)
    node = top.aggregate
    if node is None or node.keys or top.having is not None or spelling is None:
        return None
    builder = _Builder(types, spelling)
    values: dict[str, Expr] = {}
    for measure in node.measures:
        sql = builder.value(measure.expr)
        if sql is None:
            return None
        values[measure.name] = exp.maybe_parse(sql, dialect="spark")
    if not builder.keys:
        return None
    view = tuple(
        (c.name, substitute(c.expr, values).sql(dialect="spark")) for c in top.project.columns
    )
    return State((*builder.keys.items(), *builder.sums.items()), view, len(builder.keys))


class _Builder:
    """Collects the state's columns while it rewrites the view's aggregates."""

    def __init__(self, types: Types, spelling: Mapping[str, str]) -> None:
        self.types, self.spelling = types, spelling
        self.keys: dict[str, str] = {}
        self.sums: dict[str, str] = {ROWS: "count(*)"}

    def value(self, call: Expr) -> str | None:
        """Return an aggregate over the state table; None if it cannot be had from one."""
        argument = argument_of(call)
        if isinstance(call, exp.Count) and (
            argument is None or isinstance(argument, exp.Literal | exp.Boolean)
        ):
            return f"coalesce(sum({ROWS}), 0)"
        if argument is None or call.expressions or type(call) not in AGGREGATES:
            return None
        text = argument.sql(dialect="spark")
        own = self.spelling.get(text)
        if own is None:
            return None
        if isinstance(call.this, exp.Distinct):
            if len(call.this.expressions) > 1:
                return None
            return f"{call.key}(DISTINCT {self._key(own, text)})"
        if isinstance(call, exp.Min | exp.Max):
            return f"{call.key}({self._key(own, text)})"
        count = f"coalesce(sum({self._sum('count', own)}), 0)"
        if isinstance(call, exp.Count):
            return count
        kind = self.types.get(text, "")
        if exact.is_float(kind):
            return self._float_total(call, own, text, count)
        return self._total(call, own, kind, count)

    def _float_total(self, call: Expr, own: str, text: str, count: str) -> str:
        """Add up floating point numbers from their different values.

        A sum of them cannot be taken back from: what was rounded off is lost. So it is never
        stored, only the values are, and no error can build up.
        """
        total = f"sum(CAST({self._key(own, text)} AS DOUBLE) * {ROWS})"
        return total if isinstance(call, exp.Sum) else f"{total} / nullif({count}, 0)"

    def _total(self, call: Expr, own: str, kind: str, count: str) -> str | None:
        if exact.sum_type(kind) is None:
            return None
        wide = isinstance(call, exp.Avg) and exact.is_integer(kind)
        argument = f"CAST({own} AS DECIMAL(20,0))" if wide else own
        total_type = exact.sum_type("decimal(20,0)" if wide else kind)
        total = f"CAST(sum({self._sum('sum', argument)}) AS {total_type})"
        if isinstance(call, exp.Sum):
            return total
        if not exact.averageable(kind):
            return None
        return f"CASE WHEN {count} > 0 THEN {exact.average(total, f'nullif({count}, 0)', kind)} END"

    def _key(self, own: str, text: str) -> str:
        """Return a value of the state as SQL over the state table.

        A key of GROUP BY loses the sign of -0.0, and Delta Lake stores no collated strings: such
        values are kept as plain text.
        """
        name = self.types.get(text, "")
        kind = read_type(name)
        if kind.kind not in ("float", "collated"):
            return _column(self.keys, own, "value")
        kept = _column(self.keys, f"CAST({own} AS STRING)", "value")
        if kind.kind == "float":
            return f"CAST({kept} AS {name.upper()})"
        return f"({kept} COLLATE {kind.name})"

    def _sum(self, function: str, own: str) -> str:
        return _column(self.sums, f"{function}({own})", function)


def _column(columns: dict[str, str], sql: str, stem: str) -> str:
    """Return the column that holds `sql`, added if it is new."""
    for name, known in columns.items():
        if known == sql:
            return name
    name = f"{stem}_{len(columns)}"
    columns[name] = sql
    return name


def read_state(view: str, layout: Layout, found: State) -> DeltaProgram:
    """Return the program that computes a view's one row from its state table."""
    source = quote(f"{view}{SUFFIX}@new")
    fresh = ", ".join(f"{sql} AS {quote(name)}" for name, sql in found.view)
    query: exp.Query = exp.maybe_parse(f"SELECT {fresh} FROM {source}", dialect="spark")
    return one_row(
        view,
        layout,
        query,
        "computed from its state table",
        f"piecewise: {view}{SUFFIX} is maintained from changes, the view's row is computed from it",
    )
