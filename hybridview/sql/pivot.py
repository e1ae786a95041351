"""PIVOT -> groups with conditional aggregates; UNPIVOT -> one row for each of some columns.

Only where the answer does not depend on how Spark casts: a pivot's values have the type of their
column, and the columns of an unpivot have one type.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, columns_of
from hybridview.algebra.plan import Aggregate, Filter, Flatten, Plan, Project
from hybridview.sql.relation import Unique, refuse
from hybridview.sql.scope import NoRule, Output, Scope, Source

CALLS: tuple[type[Expr], ...] = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})

Expression = Callable[[Expr, Scope], Expr]


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
    refuse(node, {"expressions", "fields", *naming})
    if not isinstance(field.this, exp.Column):
        raise NoRule("PIVOT of several columns", field)
    turned = expression(field.this, scope)
    kind = scope.type_of(turned)
    calls = [_call(e, scope, expression) for e in node.expressions]
    if any(isinstance(c, exp.Count) for _, c in calls) and not all(
        _is_number(c, scope) for _, c in calls
    ):
        raise NoRule("PIVOT that counts beside what may be no number", node)
    values = [_value(e, kind) for e in field.expressions]
    if len({literal for _, literal in values}) != len(values):
        raise NoRule("PIVOT of equal values", field)
    read = {name for _, call in calls for name in columns_of(call)} | set(columns_of(turned))
    keys = tuple(
        Named(c.plan_name, column(c.plan_name))
        for s in scope.sources
        for c in s.columns
        if c.plan_name not in read
    )
    if not keys or scope.using:
        raise NoRule("PIVOT without other columns", node)
    measures, shown, outputs = _conditional(calls, values, turned, unique("pivot"))
    grouped = Aggregate(plan, keys, measures)
    own = tuple(Named(key.name, column(key.name)) for key in keys)
    made = Source("", outputs)
    return Project(grouped, (*own, *shown)), Scope((*_without(scope, read), made))


def _conditional(
    calls: list[tuple[str, Expr]], values: list[tuple[str, Expr]], turned: Expr, label: str
) -> tuple[tuple[Named, ...], tuple[Named, ...], tuple[Output, ...]]:
    """Return the aggregates for each value, the columns made of them, and what those are called."""
    measures: list[Named] = []
    shown: list[Named] = []
    outputs: list[Output] = []
    for value, literal in values:
        chosen = exp.EQ(this=turned.copy(), expression=literal)
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
            outputs.append(Output(whole, shown[-1].name, len(calls) == 1 or bool(name)))
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


def _value(node: Expr, kind: str) -> tuple[str, Expr]:
    """Return a value of PIVOT by its name; it must have the type of the column it is found in."""
    literal = node.this if isinstance(node, exp.PivotAlias) else node
    number = isinstance(literal, exp.Literal) and literal.is_int and kind in INTEGERS
    text = isinstance(literal, exp.Literal) and literal.is_string and kind == "string"
    if not (number or text):
        raise NoRule("PIVOT by values of another type than their column", node)
    name = node.args["alias"].name if isinstance(node, exp.PivotAlias) else literal.name
    return name, literal.copy()


def _only(call: Expr, chosen: Expr) -> Expr:
    """Return an aggregate over the rows for which a condition holds."""
    found = call.copy()
    value = exp.Literal.number(1) if isinstance(found.this, exp.Star) else found.this.copy()
    found.set("this", exp.Case(ifs=[exp.If(this=chosen.copy(), true=value)]))
    return found


def _without(scope: Scope, gone: set[str]) -> tuple[Source, ...]:
    """Return the sources of a scope with some columns left out."""
    return tuple(
        Source(s.alias, tuple(c for c in s.columns if c.plan_name not in gone), s.merged)
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
    """Make one row for each of some columns: its name and its value, NULLs left out."""
    refuse(node, {"expressions", "fields", "unpivot", "include_nulls", "alias"})
    (value,) = node.expressions if len(node.expressions) == 1 else (node,)
    alias = node.args.get("alias")
    if not isinstance(value, exp.Identifier) or not isinstance(field.this, exp.Identifier):
        raise NoRule("UNPIVOT of several columns at once", node)
    if scope.using or (alias is not None and alias.columns):
        raise NoRule("UNPIVOT under other names", node)
    read = [_unpivoted(part, scope, expression) for part in field.expressions]
    if len({scope.type_of(e) for _, e in read} - {""}) != 1 or any(
        not scope.type_of(e) for _, e in read
    ):
        raise NoRule("UNPIVOT of columns of different types", node)
    label = unique("unpivot")
    names = (field.this.name, value.name)
    plan_names = (f"{label}.name", f"{label}.value")
    structs = [
        exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.to_identifier("n"), expression=exp.Literal.string(name)),
                exp.PropertyEQ(this=exp.to_identifier("v"), expression=e.copy()),
            ]
        )
        for name, e in read
    ]
    flat: Plan = Flatten(plan, exp.Inline(this=exp.Array(expressions=structs)), plan_names)
    if not node.args.get("include_nulls"):
        null = exp.Is(this=column(plan_names[1]), expression=exp.Null())
        flat = Filter(flat, exp.Not(this=null))
    kind = scope.type_of(read[0][1])
    made = (
        Output(names[0], plan_names[0], type="string"),
        Output(names[1], plan_names[1], True, kind),
    )
    sources = (*_without(scope, {e.name for _, e in read}), Source("", made))
    if alias is not None:
        sources = (Source(alias.name, tuple(c for s in sources for c in s.columns)),)
    return flat, Scope(sources)


def _unpivoted(node: Expr, scope: Scope, expression: Expression) -> tuple[str, exp.Column]:
    """Return a column of UNPIVOT and what it is called there: its alias, or its own name."""
    written = node.this if isinstance(node, exp.PivotAlias) else node
    if not isinstance(written, exp.Column) or written.table:
        raise NoRule("UNPIVOT of several columns at once", node)
    found = expression(written, scope)
    known = [c.name for s in scope.sources for c in s.columns if found == column(c.plan_name)]
    if not isinstance(found, exp.Column) or known != [written.name]:
        # The name is a value of a row: it must be spelled as Spark would.
        raise NoRule("UNPIVOT of a column in another spelling", node)
    return node.args["alias"].name if isinstance(node, exp.PivotAlias) else written.name, found
