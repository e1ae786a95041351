"""One SELECT's list, GROUP BY and HAVING -> Aggregate, Filter and Project over its FROM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from hybridview.algebra.expressions import Expr, Named, column, columns_of, substitute
from hybridview.algebra.plan import Aggregate, Filter, Flatten, Plan, Project, output
from hybridview.schema import HIDDEN
from hybridview.sql.aggregates import arguments_of, is_aggregate, with_plain_calls
from hybridview.sql.fields import struct_type
from hybridview.sql.generators import column_names, generator, is_generator
from hybridview.sql.grouping import (
    ASKED,
    NUMBER,
    answer,
    has_sets,
    repeated,
    sets_of,
    without_grouping_calls,
)
from hybridview.sql.items import Item, aggregate_calls, label
from hybridview.sql.scope import PLAN, NoRule, Output, Scope, Unresolved
from hybridview.sql.windows import refuse_windows_of_keys, spelled_groups, windows


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT, what its names mean, and how its expressions become plan expressions."""

    node: exp.Select
    scope: Scope
    expression: Callable[[Expr], Expr]
    join_subqueries: Callable[[Plan, Callable[[Expr], Expr], bool], Plan]
    """Joins the subqueries that stand beside groups to them, if allowed also those tied to them."""


Spelling = dict[str, str]
"""Plan spelling of a key or an aggregate's argument -> the user's own spelling."""


def select_list(block: Block, plan: Plan) -> tuple[Plan, tuple[Output, ...], Spelling | None]:
    """Return the plan of the SELECT (before DISTINCT), its output columns, and its spelling.

    The spelling is None if the SELECT groups nothing itself: an aggregate below it belongs to
    another SELECT, to which no hidden column can be added.
    """
    group = block.node.args.get("group")
    asked: list[Expr] = []
    by_sets = group if group is not None and has_sets(group) else None
    if by_sets is not None:
        bare, asked = without_grouping_calls(block.node)
        block = replace(block, node=bare)
    plan, made = _generate(block, plan)
    items = _items(block, made)
    having_node = block.node.args.get("having")
    named = {item.name.lower(): item.expr for item in items if item.certain}
    having = _with_aliases(having_node.this, block, named) if having_node is not None else None
    calls = _calls([item.expr for item in items] + ([having] if having is not None else []))
    qualify_node = block.node.args.get("qualify")
    qualify = _with_aliases(qualify_node.this, block, named) if qualify_node is not None else None
    if group is None and not calls and having is None:
        spelled = block.scope.spelled()
        return (*_project(*windows(plan, items, qualify, spelled)), None)
    if by_sets is not None:
        refuse_windows_of_keys([i.expr for i in items] + ([qualify] if qualify else []))
        groups = _by_sets(block, items, by_sets, plan, calls, asked)
    else:
        aggregate = _aggregate(plan, _keys(block, items, group), calls)
        meanings = tuple((n.expr, column(n.name)) for n in (*aggregate.keys, *aggregate.measures))
        groups = _Groups(aggregate, meanings, _spelling(block, group.expressions if group else []))
    grouped = block.join_subqueries(groups.aggregate, groups.over, by_sets is None)
    known = output(grouped)
    if having is not None:
        grouped = Filter(grouped, groups.over(having, known))
    over = [replace(i, expr=groups.over(i.expr, known)) for i in items]
    if qualify is not None:
        qualify = groups.over(qualify, known)
    spelled = spelled_groups(groups.aggregate, block.scope.spelled())
    return (*_project(*windows(grouped, over, qualify, spelled)), groups.spelling)


@dataclass(frozen=True, slots=True)
class _Groups:
    """An aggregate, and what expressions over its input are over its own columns."""

    aggregate: Aggregate
    meanings: tuple[tuple[Expr, Expr], ...]
    spelling: Spelling

    def over(self, expr: Expr, allowed: tuple[str, ...] | None = None) -> Expr:
        """Rewrite an expression over the input into one over the aggregate's columns."""

        def replace(node: Expr) -> Expr:
            for known, meaning in self.meanings:
                if node == known:
                    return meaning.copy()
            return node

        rewritten = expr.copy().transform(replace)
        if set(columns_of(rewritten)) - set(allowed or output(self.aggregate)):
            raise NoRule("expression over a column that is not grouped", expr)
        return rewritten


def _by_sets(
    block: Block,
    items: list[Item],
    group: exp.Group,
    plan: Plan,
    calls: tuple[Expr, ...],
    asked: list[Expr],
) -> _Groups:
    """Group by every set of keys at once; the number of its set tells a group from the others."""

    def resolved(node: Expr) -> Expr:
        return _key(node, block, items)

    found = sets_of(group, resolved)
    rows, columns = repeated(plan, found)
    taken: set[str] = set()
    keys = tuple(
        Named(label(key, taken), by)
        for key, by in zip((*found.keys, columns[-1]), columns, strict=True)
    )
    aggregate = _aggregate(rows, keys, calls)
    number = {columns[-1].name: column(keys[-1].name)}
    meanings: list[tuple[Expr, Expr]] = [
        (known, column(k.name)) for known, k in zip(found.keys, keys, strict=False)
    ]
    meanings += [(m.expr, column(m.name)) for m in aggregate.measures]
    for place, call in enumerate(asked):
        value = substitute(answer(call, found, resolved), number)
        meanings.append((column(f"{ASKED}{place}"), value))
    spelling = _spelling(block, [])
    pairs = zip(found.written, found.keys, strict=True)
    words = [_word(node, key, block, items) for node, key in pairs]
    for by, word in zip(columns, words, strict=False):
        if word is not None:
            spelling[by.sql(dialect="spark")] = word
    if found.numbered:
        spelling[columns[-1].sql(dialect="spark")] = NUMBER
    return _Groups(aggregate, tuple(meanings), spelling)


def is_grouped(node: exp.Select) -> bool:
    """Say whether a SELECT makes groups: by GROUP BY, HAVING or an aggregate of its own."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(_has_call(with_plain_calls(listed)) for listed in node.expressions)


def _has_call(node: Expr) -> bool:
    return next(aggregate_calls(node), None) is not None


def _spelling(block: Block, keys: list[Expr]) -> Spelling:
    """Remember how the user wrote keys and arguments, to add hidden columns to his SELECT."""
    written = list(keys)
    for node in block.node.expressions:
        for call in node.walk():
            if is_aggregate(call):
                written += arguments_of(call)
    found: Spelling = {}
    for node in written:
        if isinstance(node, exp.Star | exp.Literal):
            continue
        if _is_stand_in(node):
            continue  # the value of a subquery, which stands there no more
        try:
            resolved = block.expression(node)
        except Unresolved:
            continue  # an alias of the select list: its column is visible anyway
        found.setdefault(resolved.sql(dialect="spark"), node.sql(dialect="spark"))
    return found


def _is_stand_in(node: Expr) -> bool:
    return any(part.table == PLAN for part in node.find_all(exp.Column))


def _generate(block: Block, plan: Plan) -> tuple[Plan, dict[int, list[Item]]]:
    """Make the rows of explode(...) in the list; return its columns by the id of its node.

    Spark takes one such call in a list, and none inside another expression.
    """
    listed = [(node, node.this if _is_alias(node) else node) for node in block.node.expressions]
    calls = [(node, call) for node, call in listed if is_generator(call)]
    if not calls:
        return plan, {}
    beside = block.node.find(exp.Window) or block.node.args.get("qualify")
    if len(calls) > 1 or beside or is_grouped(block.node):
        raise NoRule("generator beside others, windows or groups", calls[0][0])
    node, call = calls[0]
    found = generator(call, block.expression, block.scope)
    given = tuple(part.name for part in node.expressions) if isinstance(node, exp.Aliases) else ()
    names = column_names(found, given or ((node.alias,) if node.alias else ()), node)
    items = [
        Item(n, _is_alias(node), column(f"{HIDDEN}made.{n}"), type=found.type_of(i))
        for i, n in enumerate(names)
    ]
    flat = Flatten(plan, found.call, tuple(i.expr.name for i in items), found.outer)
    return flat, {id(node): items}


def _is_alias(node: Expr) -> bool:
    return isinstance(node, exp.Alias | exp.Aliases)


def _items(block: Block, made: Mapping[int, list[Item]]) -> list[Item]:
    """Return the output columns; `made` are those of a call that makes rows."""
    items: list[Item] = []
    aliases: dict[str, Expr] = {}
    for node in block.node.expressions:
        if id(node) in made:
            items += made[id(node)]
            continue
        inner = node.this if isinstance(node, exp.Alias) else node
        if isinstance(inner, exp.Star) or (
            isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
        ):
            items += _star(block, inner)
            continue
        if isinstance(node, exp.Alias) and not isinstance(node.args["alias"], exp.Identifier):
            raise NoRule("path into a column", node)  # `s:x` is no alias
        if isinstance(node, exp.Aliases):
            raise NoRule("several aliases of one expression", node)
        expr = _with_aliases(inner, block, aliases)
        if isinstance(node, exp.Alias):
            aliases.setdefault(node.alias.lower(), expr)
        certain = isinstance(node, exp.Alias) or isinstance(inner, exp.Column)
        kind = struct_type(expr) or block.scope.type_of(expr)
        name = node.alias_or_name or inner.sql()
        items.append(Item(name, certain, expr, inner, kind))
    return items


def _star(block: Block, node: Expr) -> list[Item]:
    """Return the columns that `*`, `t.*` or `* EXCEPT (...)` stands for."""
    star = node if isinstance(node, exp.Star) else node.this
    if any(value for name, value in star.args.items() if name != "except_"):
        raise NoRule("* with more than EXCEPT", node)
    alias = node.table if isinstance(node, exp.Column) else None
    found = block.scope.star(alias or None)
    left_out = {part.name.lower() for part in star.args.get("except_") or ()}
    if left_out - {c.name.lower() for c in found}:
        raise NoRule("* EXCEPT of a column that is not there", node)
    return [
        Item(c.name, c.certain, column(c.plan_name), type=c.type)
        for c in found
        if c.name.lower() not in left_out
    ]


def _with_aliases(expr: Expr, block: Block, aliases: Mapping[str, Expr]) -> Expr:
    """Resolve an expression; a name no source has may be an alias of the select list."""
    placeholders: dict[str, Expr] = {}

    def hide(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and node.parts[0].name.lower() in aliases:
            try:
                if isinstance(block.scope.meaning(node), exp.Placeholder):
                    raise NoRule("alias with the name of a column outside", node)
            except Unresolved:
                if node.table:
                    raise NoRule("field of an alias of the same SELECT", node) from None
                mark = f"\0{len(placeholders)}"
                placeholders[mark] = aliases[node.name.lower()]
                return exp.Literal.string(mark)
        return node

    def show(node: Expr) -> Expr:
        if isinstance(node, exp.Literal) and node.is_string and node.name in placeholders:
            return exp.Paren(this=placeholders[node.name].copy())
        return node

    return block.expression(expr.copy().transform(hide)).transform(show)


def _keys(block: Block, items: list[Item], group: exp.Group | None) -> tuple[Named, ...]:
    """Return the grouping keys: expressions, positions, aliases or ALL."""
    if group is None:
        return ()
    if group.args.get("all"):
        found = [i.expr for i in items if not _calls([i.expr])]
    else:
        found = [_key(node, block, items) for node in group.expressions]
    keys: list[Named] = []
    taken: set[str] = set()
    for expr in found:
        if not any(expr == key.expr for key in keys):
            keys.append(Named(label(expr, taken), expr))
    return tuple(keys)


def _key(node: Expr, block: Block, items: list[Item]) -> Expr:
    if isinstance(node, exp.Literal) and node.is_int:
        position = int(node.name)
        if not 1 <= position <= len(items):
            raise NoRule("GROUP BY position", node)
        return items[position - 1].expr
    bare = isinstance(node, exp.Column) and not node.table
    named = [i.expr for i in items if bare and i.certain and i.name.lower() == node.name.lower()]
    try:
        found = block.expression(node)
    except Unresolved:
        # A name that no source has may be an alias of the select list.
        if named:
            return named[0]
        raise
    if named and isinstance(found, exp.Placeholder) and found != named[0]:
        raise NoRule("alias with the name of a column outside", node)
    return found


def _word(node: Expr, key: Expr, block: Block, items: list[Item]) -> str | None:
    """Return a key in the user's words, if some mean the same inside his select list."""
    shown = [item.written for item in items if item.expr.unnest() == key]
    for word in (node, *shown):
        try:
            if word is None or _is_stand_in(word):
                continue
            if block.expression(word).unnest() == key:
                return word.sql(dialect="spark")
        except Unresolved:
            continue  # an alias of the select list
    return None


def _calls(exprs: list[Expr]) -> tuple[Expr, ...]:
    """Return the different aggregate calls in some expressions."""
    found: list[Expr] = []
    for expr in exprs:
        for node in aggregate_calls(expr):
            if any(is_aggregate(inner) for inner in node.walk() if inner is not node):
                raise NoRule("aggregate of an aggregate", node)
            if not any(node == other for other in found):
                found.append(node)
    return tuple(found)


def _aggregate(plan: Plan, keys: tuple[Named, ...], calls: tuple[Expr, ...]) -> Aggregate:
    taken = {key.name.lower() for key in keys}
    return Aggregate(plan, keys, tuple(Named(label(call, taken), call.copy()) for call in calls))


def _project(plan: Plan, items: list[Item]) -> tuple[Plan, tuple[Output, ...]]:
    taken: set[str] = set()
    outputs: list[Output] = []
    for item in items:
        name, number = item.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{item.name}{number}"
        taken.add(name.lower())
        outputs.append(Output(item.name, name, item.certain, item.type))
    named = tuple(Named(o.plan_name, i.expr) for o, i in zip(outputs, items, strict=True))
    return Project(plan, named), tuple(outputs)
