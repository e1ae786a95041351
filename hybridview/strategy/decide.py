"""What was asked, what changed, what is possible -> Decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hybridview.schema import Executed, Strategy
from hybridview.strategy.facts import ChangeFacts

SNAPSHOT_SHARE = 0.30
"""Above this share of changed rows a recompute is taken to be cheaper than a MERGE."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What will be done to a view, and why."""

    executed: Executed
    reason: str


@dataclass(frozen=True, slots=True)
class Options:
    """What can be done to a view now."""

    loaded: bool
    must_rebuild: str
    """Why its stored rows cannot be used; empty if they can."""
    not_incremental: str
    """Why its change cannot be applied; empty if it can."""
    method: str
    """How its change would be applied."""
    forced: bool = False
    """Whether a recompute was asked for on this very command: then it is done, needed or not."""


class IncrementalImpossible(Exception):
    """`incremental` was asked for and cannot be done; the text says why."""


def decide(requested: Strategy, facts: Sequence[ChangeFacts], options: Options) -> Decision:
    """Choose what to do to one view."""
    if not options.loaded:
        return Decision(Executed.INITIAL, "first load")
    if options.must_rebuild:
        return Decision(Executed.SNAPSHOT, options.must_rebuild)
    if options.forced:
        return Decision(Executed.SNAPSHOT, "asked for")
    changed = [fact for fact in facts if fact.changed]
    if not changed:
        return Decision(Executed.NONE, "nothing changed")
    obstacle = next((f.unreadable for f in changed if f.unreadable), "") or options.not_incremental
    if requested is Strategy.SNAPSHOT:
        return Decision(Executed.SNAPSHOT, "asked for")
    if obstacle:
        if requested is Strategy.INCREMENTAL:
            raise IncrementalImpossible(obstacle)
        return Decision(Executed.SNAPSHOT, obstacle)
    if requested is Strategy.INCREMENTAL:
        compared = [f"two versions compared, because {f.compare}" for f in changed if f.compare]
        return Decision(Executed.INCREMENTAL, "; ".join(["asked for", *compared, options.method]))
    return _by_share(changed, options)


def _by_share(changed: Sequence[ChangeFacts], options: Options) -> Decision:
    """Recompute when a large share of some source changed: merging it would cost more."""
    for fact in changed:
        if fact.total is None or not fact.total:
            continue
        share = fact.rows / fact.total
        if share > SNAPSHOT_SHARE:
            return Decision(
                Executed.SNAPSHOT,
                f"{share:.0%} of {fact.source} changed; merging would cost more than recomputing",
            )
    return Decision(Executed.INCREMENTAL, f"{_summary(changed)}; {options.method}")


def _summary(changed: Sequence[ChangeFacts]) -> str:
    parts = []
    for fact in changed:
        if fact.end is None:
            parts.append(f"{fact.source} changes in this refresh")
        elif fact.total:
            parts.append(f"{fact.rows:,} of {fact.total:,} rows of {fact.source} changed")
        else:
            parts.append(f"{fact.source} changed")
        if fact.compare:
            parts.append(f"found by comparing two versions, because {fact.compare}")
    return ", ".join(parts)
