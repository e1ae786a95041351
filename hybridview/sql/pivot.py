"""PIVOT -> groups with conditional aggregates; UNPIVOT -> one row for each of some columns.

Only where the answer does not depend on how Spark casts: a pivot's values have the type of their
column, and the columns of an unpivot have one type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, columns_of, conjunction
from hybridview.algebra.plan import Aggregate, Filter, Flatten, Plan, Project
from hybridview.sql.relation import Unique, refuse
from hybridview.sql.scope import NoRule, Output, Scope, Source

CALLS: tuple[type[Expr], ...] = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})

Expression = Callable[[Expr, Scope], Expr]

Value = tuple[str, bool, tuple[Expr, ...]]
"""What rows are chosen by: a name, whether it is certain, and a literal for each column."""


def pivoted(
    node: exp.Pivot, plan: Plan, scope: Scope, expression: Expression, unique: Unique
) -> tuple[Plan, Scope]:
    """Return what PIVOT or UNPIVOT makes of the rows before it."""
    fields = node.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        raise NoRule("PIVOT of several columns", node)
    if node.args.get("unpivot"):
        return _unpivot(node, fields[0], plan, scope, expression, unique)
    return _pivot(node, fields[0], plan, scope, expression, unique)


def _pivot(
    node: exp.Pivot,
    field: exp.In,
    plan: Plan,
    scope: Scope,
    expression: Expression,
    unique: Unique,
) -> tuple[Plan, Scope]:
    """Group by all columns that PIVOT does not name; each value gets its own aggregates.

    As in Spark a value without rows in a group has NULL for all its aggregates, counts too; but a
    count of 0 beside an aggregate that is no number.
    """
    naming = {"columns", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming"}
    refuse(node, {"expressions", "fields", "alias", *naming})
    written = field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this]
    if not all(isinstance(part, exp.Column) for part in written):
        raise NoRule("PIVOT of what is no column", field)
    turned = [expression(part, scope) for part in written]
    kinds = [scope.type_of(part) for part in turned]
    calls = [_call(e, scope, expression) for e in node.expressions]
    if any(isinstance(c, exp.Count) for _, c in calls) and not all(
        _is_number(c, scope) for _, c in calls
    ):
        raise NoRule("PIVOT that counts beside what may be no number", node)
    values = [_values(e, kinds) for e in field.expressions]
    if len({literals for _, _, literals in values}) != len(values):
        raise NoRule("PIVOT of equal values", field)
    read = {name for e in (*turned, *(call for _, call in calls)) for name in columns_of(e)}
    keys = tuple(
        Named(c.plan_name, column(c.plan_name))
        for s in scope.sources
        for c in s.columns
        if c.plan_name not in read
    )
    alias = node.args.get("alias")
    if scope.using or (alias is not None and alias.columns):
        raise NoRule("PIVOT under other names", node)
    measures, shown, outputs = _conditional(calls, values, turned, unique("pivot"))
    grouped = Aggregate(plan, keys, measures)
    own = tuple(Named(key.name, column(key.name)) for key in keys)
    sources = (*_without(scope, read), Source("", outputs))
    return Project(grouped, (*own, *shown)), _aliased(sources, alias)


def _conditional(
    calls: list[tuple[str, Expr]], values: list[Value], turned: list[Expr], label: str
) -> tuple[tuple[Named, ...], tuple[Named, ...], tuple[Output, ...]]:
    """Return the aggregates for each value, the columns made of them, and what those are called."""
    measures: list[Named] = []
    shown: list[Named] = []
    outputs: list[Output] = []
    for value, certain, literals in values:
        pairs = zip(turned, literals, strict=True)
        chosen = conjunction(tuple(exp.EQ(this=t.copy(), expression=v.copy()) for t, v in pairs))
        assert chosen is not None
        rows = Named(f"{label}.{len(measures)}", _only(exp.Count(this=exp.Star()), chosen))
        measures.append(rows)
        for name, call in calls:
            measures.append(Named(f"{label}.{len(measures)}", _only(call, chosen)))
            found: Expr = column(measures[-1].name)
            if isinstance(call, exp.Count):
                any_row = exp.GT(this=column(rows.name), expression=exp.Literal.number(0))
                found = exp.Case(ifs=[exp.If(this=any_row, true=found)])
            shown.append(Named(f"{label}.{value}_{len(measures)}", found))
            whole = value if len(calls) == 1 else f"{value}_{name}"
            known = certain and (len(calls) == 1 or bool(name))
            outputs.append(Output(whole, shown[-1].name, known))
    return tuple(measures), tuple(shown), tuple(outputs)


def _call(node: Expr, scope: Scope, expression: Expression) -> tuple[str, Expr]:
    """Return an aggregate of PIVOT and its alias, "" if Spark makes a name of its text."""
    call = node.this if isinstance(node, exp.Alias) else node
    if type(call) not in CALLS or isinstance(call.this, exp.Distinct) or call.expressions:
        raise NoRule("PIVOT with other calls than plain aggregates", node)
    return node.alias, expression(call, scope)


def _is_number(call: Expr, scope: Scope) -> bool:
    """Say whether an aggregate is known to give a number."""
    if isinstance(call, exp.Count):
        return True
    kind = scope.type_of(call.this)
    return kind in INTEGERS | {"float", "double"} or kind.startswith("decimal(")


def _values(node: Expr, kinds: list[str]) -> Value:
    """Return values of PIVOT by their name; each must have the type of the column it is found in.

    Of several values without an alias Spark makes a name of their text.
    """
    given = node.this if isinstance(node, exp.PivotAlias) else node
    literals = given.expressions if isinstance(given, exp.Tuple) else [given]
    if len(literals) != len(kinds) or not all(map(_fits, literals, kinds)):
        raise NoRule("PIVOT by values of another type than their column", node)
    alias = node.args["alias"].name if isinstance(node, exp.PivotAlias) else ""
    name = alias or "_".join(literal.name for literal in literals)
    return name, bool(alias) or len(literals) == 1, tuple(v.copy() for v in literals)


def _fits(literal: Expr, kind: str) -> bool:
    number = isinstance(literal, exp.Literal) and literal.is_int and kind in INTEGERS
    return number or (isinstance(literal, exp.Literal) and literal.is_string and kind == "string")


def _only(call: Expr, chosen: Expr) -> Expr:
    """Return an aggregate over the rows for which a condition holds."""
    found = call.copy()
    value = exp.Literal.number(1) if isinstance(found.this, exp.Star) else found.this.copy()
    found.set("this", exp.Case(ifs=[exp.If(this=chosen.copy(), true=value)]))
    return found


def _aliased(sources: tuple[Source, ...], alias: Expr | None) -> Scope:
    """Return what names mean above PIVOT or UNPIVOT, which may have a name of its own."""
    if alias is None:
        return Scope(sources)
    return Scope((Source(alias.name, tuple(c for s in sources for c in s.columns)),))


def _without(scope: Scope, gone: set[str]) -> tuple[Source, ...]:
    """Return the sources of a scope with some columns left out."""
    return tuple(
        replace(s, columns=tuple(c for c in s.columns if c.plan_name not in gone))
        for s in scope.sources
    )


def _unpivot(
    node: exp.Pivot,
    field: exp.In,
    plan: Plan,
    scope: Scope,
    expression: Expression,
    unique: Unique,
) -> tuple[Plan, Scope]:
    """Make one row for each of some columns, or sets of them: its name and its values.

    Rows whose values are all NULL are left out.
    """
    refuse(node, {"expressions", "fields", "unpivot", "include_nulls", "alias"})
    made = [part for e in node.expressions for part in _listed(e)]
    alias = node.args.get("alias")
    if len(node.expressions) != 1 or not all(isinstance(p, exp.Identifier) for p in made):
        raise NoRule("UNPIVOT into what is no column", node)
    if not isinstance(field.this, exp.Identifier):
        raise NoRule("UNPIVOT into what is no column", node)
    if scope.using or (alias is not None and alias.columns):
        raise NoRule("UNPIVOT under other names", node)
    read = [_unpivoted(part, len(made), scope, expression) for part in field.expressions]
    kinds = [{scope.type_of(columns[i]) for _, columns in read} for i in range(len(made))]
    if any(len(kind) != 1 or "" in kind for kind in kinds):
        raise NoRule("UNPIVOT of columns of different types", node)
    keeps = bool(node.args.get("include_nulls"))
    if not keeps and len(set.union(*kinds)) != 1:
        # Spark takes the first of the values that is not NULL, and casts them for that.
        raise NoRule("UNPIVOT into values of different types without NULLs", node)
    label = unique("unpivot")
    values = tuple(f"{label}.value{i or ''}" for i in range(len(made)))
    structs = [
        exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.to_identifier("n"), expression=exp.Literal.string(name)),
                *(
                    exp.PropertyEQ(this=exp.to_identifier(f"v{i or ''}"), expression=e.copy())
                    for i, e in enumerate(columns)
                ),
            ]
        )
        for name, columns in read
    ]
    rows = exp.Inline(this=exp.Array(expressions=structs))
    flat: Plan = Flatten(plan, rows, (f"{label}.name", *values))
    if not keeps:
        present = [exp.Not(this=exp.Is(this=column(v), expression=exp.Null())) for v in values]
        flat = Filter(flat, exp.Paren(this=exp.or_(*present)) if len(values) > 1 else present[0])
    outputs = [Output(field.this.name, f"{label}.name", type="string")]
    for part, name, (kind,) in zip(made, values, kinds, strict=True):
        outputs.append(Output(part.name, name, True, kind))
    gone = {e.name for _, columns in read for e in columns}
    sources = (*_without(scope, gone), Source("", tuple(outputs)))
    return flat, _aliased(sources, alias)


def _listed(node: Expr) -> list[Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _unpivoted(
    node: Expr, count: int, scope: Scope, expression: Expression
) -> tuple[str, list[exp.Column]]:
    """Return a set of columns of UNPIVOT and what it is called: its alias, or their own names."""
    given = _listed(node.this if isinstance(node, exp.PivotAlias) else node)
    found: list[exp.Column] = []
    for written in given:
        if not isinstance(written, exp.Column) or written.table or len(given) != count:
            raise NoRule("UNPIVOT of what are not as many columns", node)
        meant = expression(written, scope)
        known = [c.name for s in scope.sources for c in s.columns if meant == column(c.plan_name)]
        if not isinstance(meant, exp.Column) or known != [written.name]:
            # The name is a value of a row: it must be spelled as Spark would.
            raise NoRule("UNPIVOT of a column in another spelling", node)
        found.append(meant)
    alias = node.args["alias"].name if isinstance(node, exp.PivotAlias) else ""
    return alias or "_".join(written.name for written in given), found
