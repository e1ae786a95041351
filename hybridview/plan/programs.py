"""A view's record + a batch -> its delta program, for an epoch; kept for the next refresh.

What changes from one refresh to the next of the same process is mostly the epoch alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hybridview.catalog import ViewRecord
from hybridview.compiler.batch import Batch
from hybridview.compiler.render import text
from hybridview.compiler.statements import Merge
from hybridview.compiler.view import CompiledView, delta_program
from hybridview.plan.remembered import Remembered
from hybridview.plan.steps import NearRead

_EPOCH = f"__hv_epoch_{uuid.uuid4().hex}"
"""Stands for the epoch in programs that are kept; nobody's text contains it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A delta program as text; the epoch is filled in."""

    change: str
    apply: str
    without_deletes: str | None
    method: str
    brief: str
    near: tuple[NearRead, ...]
    kept: tuple[tuple[str, str], ...]
    readings: Mapping[str, int]
    merge: Merge | None
    """What `apply` does, row by row; an epoch is in none of it."""

    def at(self, epoch: int) -> Program:
        number = str(epoch)
        without = self.without_deletes
        return replace(
            self,
            change=self.change.replace(_EPOCH, number),
            apply=self.apply.replace(_EPOCH, number),
            without_deletes=without.replace(_EPOCH, number) if without else without,
            kept=tuple((symbol, query.replace(_EPOCH, number)) for symbol, query in self.kept),
        )


_programs: Remembered[Program] = Remembered(1000)


def program(view: ViewRecord, compiled: CompiledView, batch: Batch, epoch: int) -> Program:
    """Return the program that brings a view from before `batch` to after it."""
    links = sorted(map(repr, batch.links))
    key = f"{view!r} {sorted(batch.changed)} {sorted(batch.appended)} {links}"
    return _programs.get(key, lambda: _make(compiled, batch)).at(epoch)


def _make(compiled: CompiledView, batch: Batch) -> Program:
    made = delta_program(compiled, batch, _EPOCH)
    near = tuple(
        NearRead(scan.symbol, scan.table, scan.near.column, scan.near.found_in, scan.near.exact)
        for scan in made.near
        if scan.near is not None
    )
    return Program(
        text(made.change),
        made.apply,
        made.without_deletes,
        made.method.value,
        made.brief,
        near,
        tuple((part.symbol, text(part.query)) for part in made.kept),
        made.readings,
        made.merge,
    )
