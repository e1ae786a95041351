"""Lambdas in an expression -> the same lambdas with variables whose names nothing else has.

A plan's expressions move to other SELECTs, where columns are written `alias.column`. Inside a
lambda Spark takes the first word of a name for a variable if there is one of that name, so an alias
must never be called like a variable.
"""

from __future__ import annotations

from sqlglot import exp

from hybridview.algebra.expressions import Expr
from hybridview.schema import HIDDEN
from hybridview.sql.scope import NoRule


def with_own_variables(expr: Expr) -> Expr:
    """Return a copy of an expression whose lambda variables are called `__hv_v0`, `__hv_v1`, ..."""
    found = expr.copy()
    # Inner lambdas first: their variables hide outer ones of the same name.
    for number, function in enumerate(reversed(list(found.find_all(exp.Lambda)))):
        names = {
            parameter.name.lower(): f"{HIDDEN}v{number}_{place}"
            for place, parameter in enumerate(function.expressions)
        }
        _rename(function, names)
        function.set("expressions", [exp.to_identifier(name) for name in names.values()])
    return found


def _rename(function: exp.Lambda, names: dict[str, str]) -> None:
    """Rename the variables in the body of one lambda."""
    if len(names) != len(function.expressions):
        raise NoRule("lambda with two variables of one name", function)
    for node in list(function.this.walk()):
        if isinstance(node, exp.Column) and node.parts[0].name.lower() in names:
            # Written in another case than where it is introduced, it was taken for a column.
            raise NoRule("lambda variable in another case", node)
        if isinstance(node, exp.Identifier) and _is_variable(node):
            new = names.get(node.name.lower())
            if new is not None:
                node.set("this", new)
                node.set("quoted", False)


def _is_variable(node: exp.Identifier) -> bool:
    """Say whether an identifier stands for a value: it names no column, field or alias."""
    if isinstance(node.parent, exp.Column):
        return False
    if isinstance(node.parent, exp.Lambda | exp.Alias | exp.Dot):
        return node.arg_key == "this"
    if isinstance(node.parent, exp.PropertyEQ):
        return node.arg_key == "expression"
    return True
