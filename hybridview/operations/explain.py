"""Explaining: a view's plan, delta program, SQL and reasons. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hybridview.algebra.show import show
from hybridview.catalog import ViewRecord
from hybridview.compiler.advice import advice
from hybridview.compiler.batch import Batch
from hybridview.compiler.links import Link
from hybridview.compiler.program import DeltaProgram, NotIncremental
from hybridview.compiler.render import text
from hybridview.compiler.view import CompiledView, delta_program, is_unaffected, load_query
from hybridview.operations.context import Context, view_named
from hybridview.operations.folded import SPACE, folded
from hybridview.plan.compiled import Compiled, compile_record, known_types
from hybridview.plan.links import links


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything `hybridview explain` prints; str() prints it."""

    view: str
    incremental: bool
    reasons: tuple[str, ...]
    plan: str
    program: DeltaProgram | None
    layout: str
    load: str
    parts: tuple[Explanation, ...] = ()
    """The same of what is kept for it beside its rows: its state, its parts."""
    advice: tuple[str, ...] = ()
    """How the query could be written to be cheaper."""
    relevant: Mapping[str, str] = field(default_factory=dict)
    """The condition that changed rows of a source must meet to matter, where there is one."""

    def __str__(self) -> str:
        return "\n".join([*self._lines("view"), *self._of_parts()])

    def _of_parts(self) -> list[str]:
        return [line for part in self.parts for line in ("", *part._lines("part"))]

    def _lines(self, kind: str) -> list[str]:
        lines = [f"{kind} {self.view}: {'incremental' if self.incremental else 'snapshot'}"]
        said = [*self.reasons]
        said += [f"{part.view}: {reason}" for part in self.parts for reason in part.reasons]
        said += [f"cheaper: {sentence}" for sentence in self.advice]
        lines += [line for sentence in said for line in folded(f"  {sentence}", at=SPACE)]
        lines += ["", "stored as", *folded(f"  {self.layout}", at=SPACE)]
        if self.plan:
            lines += ["", "logical plan", _indent(self.plan)]
        if self.relevant:
            lines += ["", "changed rows that matter"]
            said = [f"  {source}: {condition}" for source, condition in self.relevant.items()]
            lines += [line for sentence in said for line in folded(sentence, at=SPACE)]
        if self.program is not None:
            lines += ["", "delta program, if all its tables change"]
            for part in self.program.kept:
                head = f"  {part.symbol}, computed once because it is read several times :="
                lines += [*folded(head, at=SPACE), _indent(text(part.query), 4)]
            lines += [f"  {self.view}@change :=", _indent(text(self.program.change), 4)]
            lines += [
                f"  {self.program.method.value} {self.view}@target",
                _indent(self.program.apply, 4),
            ]
            if self.program.without_deletes:
                lines += ["  if no row goes away", _indent(self.program.without_deletes, 4)]
        # The author's text stays as it is: a comment must not be broken.
        own = [f"  {line}" for line in self.load.splitlines()]
        return [*lines, "", "rows" if kind == "part" else "snapshot", *own]

    def as_dict(self) -> dict[str, object]:
        return {
            "view": self.view,
            "incremental": self.incremental,
            "reasons": list(self.reasons),
            "plan": self.plan,
            "layout": self.layout,
            "method": self.program.method.value if self.program else None,
            "kept": {p.symbol: text(p.query) for p in self.program.kept} if self.program else {},
            "change": text(self.program.change) if self.program else None,
            "apply": self.program.apply if self.program else None,
            "snapshot": self.load,
            "advice": list(self.advice),
            "relevant": dict(self.relevant),
            "parts": [part.as_dict() for part in self.parts],
        }


def explain(context: Context, name: str) -> Explanation:
    """Explain how a view is maintained."""
    catalog = context.catalog()
    view = view_named(catalog, name)
    hidden = {record.name for record in catalog.hidden(view)}
    kept = tuple(record for record in catalog.ordered() if record.name in hidden)
    return explain_record(view, kept, lambda record: links(catalog, tuple(record.sources)))


def explain_record(
    view: ViewRecord,
    hidden: tuple[ViewRecord, ...] = (),
    links_of: Callable[[ViewRecord], frozenset[Link]] = lambda _: frozenset(),
) -> Explanation:
    """Explain a view by its record, and what is kept for it by theirs."""
    own = _explain(view, links_of(view))
    return replace(own, parts=tuple(_explain(record, links_of(record)) for record in hidden))


def _explain(view: ViewRecord, declared: frozenset[Link]) -> Explanation:
    compiled = compile_record(view)
    layout = _describe_layout(compiled)
    load = load_query(view.text, compiled.layout, "{epoch}")
    if compiled.compilable is None:
        reason = compiled.no_rule + (f", at {compiled.place}" if compiled.place else "")
        return Explanation(view.name, False, (reason,), "", None, layout, load)
    assert compiled.view is not None
    changed = frozenset((*view.sources, *view.parts))
    plan = show(compiled.compilable.plan)
    program: DeltaProgram | None = None
    reasons: list[str] = []
    try:
        program = delta_program(compiled.view, Batch(changed), "{epoch}")
        reasons.append(program.reason)
    except NotIncremental as reason:
        reasons.append(f"snapshot when rows go away: {reason}")
    try:
        grown = delta_program(compiled.view, Batch(changed, changed), "{epoch}")
        if program is None or grown.method is not program.method:
            reasons.append(f"while tables only gain rows: {grown.reason}")
            program = program or grown
    except NotIncremental as reason:
        reasons.append(f"snapshot also when rows only come: {reason}")
    if view.parts and not compiled.view.whole:
        reasons.append(f"piecewise: {_listed(tuple(view.parts))} kept beside it, and maintained")
    reasons += [_pruned(link) for link in _useful(compiled.view, declared)]
    found = advice(compiled.compilable.plan, known_types(view), compiled.view.parts)
    return Explanation(
        view.name,
        program is not None,
        tuple(reasons),
        plan,
        program,
        layout,
        load,
        advice=() if view.state_of else found,
        relevant={} if compiled.view.whole else compiled.relevant,
    )


def _useful(view: CompiledView, declared: frozenset[Link]) -> list[Link]:
    """Return the foreign keys that make some change cheaper."""
    found = []
    for link in sorted(declared, key=str):
        grown = Batch(frozenset({link.target}), frozenset({link.target}))
        try:
            known = replace(grown, links=frozenset({link}))
            if is_unaffected(view, known) or _texts(view, known) != _texts(view, grown):
                found.append(link)
        except NotIncremental:
            continue
    return found


def _texts(view: CompiledView, batch: Batch) -> list[str]:
    program = delta_program(view, batch)
    return [text(query) for query in (*(part.query for part in program.kept), program.change)]


def _pruned(link: Link) -> str:
    return f"new rows of {link.target} are not joined with old rows of {link.table}: {link}"


def _describe_layout(compiled: Compiled) -> str:
    layout = compiled.layout
    hidden = [name for name in layout.stored if name not in layout.visible]
    parts = [layout.kind.value]
    if layout.keys:
        parts.append(f"one row per ({', '.join(layout.keys)})")
    elif layout.kind.value == "keyed":
        parts.append("one row")
    else:
        parts.append("rows may repeat")
    parts.append(f"hidden columns: {', '.join(hidden) if hidden else 'none'}")
    return "; ".join(parts)


def _listed(names: tuple[str, ...]) -> str:
    last = names[-1]
    return f"{', '.join(names[:-1])} and {last} are" if names[:-1] else f"{last} is"


def _indent(block: str, by: int = 2) -> str:
    return "\n".join(part for line in block.splitlines() for part in folded(" " * by + line))
