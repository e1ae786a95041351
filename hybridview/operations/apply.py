"""A folder of .sql files + the store -> what to create, replace and drop; and doing it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from hybridview.catalog import Catalog, ViewRecord
from hybridview.errors import CycleError, NameTakenError, UsageError
from hybridview.operations.context import Context
from hybridview.operations.define import create_view
from hybridview.operations.drop import drop_view
from hybridview.plan.compiled import compile_record
from hybridview.plan.sources import changed_column
from hybridview.sql.parse import Definition, parse_definition, parse_query
from hybridview.sql.resolve import sources


@dataclass(frozen=True, slots=True)
class Action:
    """One thing `apply` will do: create, replace, drop, or nothing."""

    verb: str
    view: str
    reason: str
    definition: Definition | None = None


def plan_apply(context: Context, folder: Path) -> tuple[Action, ...]:
    """Compare a folder of views with the store; starts no Spark and changes nothing."""
    if not folder.is_dir():
        raise UsageError(
            f'there is no folder "{folder}"',
            hint="Give the folder of your .sql files: hybridview apply FOLDER",
        )
    catalog = context.catalog()
    found = _read(folder)
    actions = [_compare(context, catalog, name, found[name]) for name in _ordered(found)]
    for view in reversed(catalog.ordered()):
        if view.name.lower() not in found and not view.state_of:
            actions.append(Action("drop", view.name, "no file defines it"))
    return tuple(actions)


def run_apply(
    context: Context, actions: tuple[Action, ...], allow_drop: bool
) -> tuple[Action, ...]:
    """Carry out a plan; drops only where they are allowed. Returns what was done."""
    done: list[Action] = []
    for action in actions:
        if action.definition is not None and action.verb in ("create", "replace"):
            anew = action.verb == "replace"
            create_view(
                context, action.view, action.definition.text, anew, action.definition.source
            )
            done.append(action)
        elif action.verb == "drop" and allow_drop:
            drop_view(context, action.view)
            done.append(action)
    return tuple(done)


def read_view_file(path: Path) -> str:
    """Return the text of a view file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not a UTF-8 text file",
            detail=f"Byte {error.start} cannot be read.",
            hint=f"Convert it: iconv -f LATIN1 -t UTF-8 {shlex.quote(str(path))}",
        ) from None


def _read(folder: Path) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for path in sorted(folder.glob("**/*.sql")):
        definition = parse_definition(read_view_file(path), str(path))
        name = definition.name or path.stem
        definition = replace(definition, name=name)
        if name.lower() in found:
            raise NameTakenError(
                f'two files define view "{name}"',
                detail=f"{found[name.lower()].source} and {path}.",
                hint="Rename one of them.",
            )
        found[name.lower()] = definition
    return found


def _ordered(found: dict[str, Definition]) -> list[str]:
    """Order views so that each comes after those it reads."""
    reads = {
        name: [t.name.lower() for t in sources(parse_query(definition))]
        for name, definition in found.items()
    }
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in order or name not in reads:
            return
        if name in path:
            circle = " -> ".join((*path[path.index(name) :], name))
            raise CycleError(
                f'view "{name}" would read itself',
                detail=f"The circle is {circle}.",
                hint="Take one of these views out of the circle.",
            )
        for source in reads[name]:
            visit(source, (*path, name))
        order.append(name)

    for name in found:
        visit(name, ())
    return order


def _compare(context: Context, catalog: Catalog, name: str, definition: Definition) -> Action:
    shown = definition.name or name
    old: ViewRecord | None = catalog.views.get(name)
    if old is None:
        return Action("create", shown, "new", definition)
    changed = [
        what
        for what, before, after in (
            ("query", old.query, definition.query),
            ("comment", old.comment, definition.comment),
            ("clustering", tuple(old.cluster_by), definition.cluster_by),
            ("properties", dict(old.properties), definition.properties),
        )
        if before != after
    ]
    if changed:
        return Action("replace", old.name, f"{', '.join(changed)} changed", definition)
    for source, used in compile_record(old).uses.items():
        now = context.schema(catalog, source)
        problem = changed_column(used, now.columns if now else ())
        if problem:
            return Action("replace", old.name, f"{problem} in {source}", definition)
    return Action("keep", old.name, "unchanged", definition)
