"""Explaining: a view's plan, delta program, SQL and reasons. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass

from hybridview.algebra.show import show
from hybridview.catalog import ViewRecord
from hybridview.compiler.batch import Batch
from hybridview.compiler.program import DeltaProgram, NotIncremental
from hybridview.compiler.render import text
from hybridview.compiler.view import delta_program, load_query
from hybridview.operations.context import Context, view_named
from hybridview.plan.compiled import Compiled, compile_record


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

    def __str__(self) -> str:
        lines = [f"view {self.view}: {'incremental' if self.incremental else 'snapshot'}"]
        lines += [f"  {reason}" for reason in self.reasons]
        lines += ["", "stored as", f"  {self.layout}"]
        if self.plan:
            lines += ["", "logical plan", _indent(self.plan)]
        if self.program is not None:
            lines += ["", "delta program, if all its tables change"]
            lines += [f"  {self.view}@change :=", _indent(text(self.program.change), 4)]
            lines += [
                f"  {self.program.method.value} {self.view}@target",
                _indent(self.program.apply, 4),
            ]
            if self.program.without_deletes:
                lines += ["  if no row goes away", _indent(self.program.without_deletes, 4)]
        lines += ["", "snapshot", _indent(self.load)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        return {
            "view": self.view,
            "incremental": self.incremental,
            "reasons": list(self.reasons),
            "plan": self.plan,
            "layout": self.layout,
            "method": self.program.method.value if self.program else None,
            "change": text(self.program.change) if self.program else None,
            "apply": self.program.apply if self.program else None,
            "snapshot": self.load,
        }


def explain(context: Context, name: str) -> Explanation:
    """Explain how a view is maintained."""
    return explain_record(view_named(context.catalog(), name))


def explain_record(view: ViewRecord) -> Explanation:
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
    return Explanation(view.name, program is not None, tuple(reasons), plan, program, layout, load)


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


def _indent(block: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in block.splitlines())
