"""A view's step + the logs of its tables -> the work that it is, and which way is less of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hybridview.engine.reading import UNKNOWN, Log, size_of
from hybridview.engine.relations import Relations
from hybridview.engine.settled import Settled
from hybridview.filestats import Size
from hybridview.plan.steps import Apply, Load, Pinned
from hybridview.strategy.costs import JOINED, Work, dearer, used_share


def why_load(
    settled: Settled, step: Apply, relations: Relations, kept: Mapping[str, int], log: Log
) -> str:
    """Say why a view is better recomputed than brought up to date; empty if it is not.

    What is `kept` in memory is given with its rows, as far as they are known.
    """
    load, reason = step.otherwise, ""
    if load is None or load.create:
        return reason
    with suppress(*UNKNOWN):  # no refresh fails because a log cannot tell a size
        applying = of_apply(settled, step, relations, kept, log)
        reason = dearer(applying, of_load(settled, load, log))
    return reason


def of_apply(
    settled: Settled, step: Apply, relations: Relations, kept: Mapping[str, int], log: Log
) -> Work:
    """Return the work of computing a change and of merging it.

    What is `kept` is read once, and then looked at in memory; it has so many rows, as far as known.
    """
    view = settled.view
    stored = size_of(view.name, view.stored_version, log)
    state = (settled.state,) if settled.state is not None else ()
    bytes_of = {f"{view.name}@target": float(stored.bytes)}
    shares: dict[str, float] = {}
    for source in (*settled.sources, *state):
        shares[source.name.lower()] = _share(source, log)
        size = size_of(source.name, source.version, log)
        bytes_of[f"{source.name}@new"] = size.bytes * shares[source.name.lower()]
    for near in step.near:
        bytes_of[near.symbol] = relations.near_bytes[near.symbol] * shares[near.name.lower()]
    read = sum(
        bytes_of.get(symbol, 0.0) * (1 if symbol in kept else times)
        for symbol, times in step.readings.items()
    )
    changed = 0
    for feed in () if step.whole else view.feeds:
        known = relations.of_symbol.get(f"{feed.name}@changes".lower())
        rows = known.rows if known is not None else None
        changed += rows if rows is not None else feed.rows or 0
    # A MERGE looks for the files to write anew, and then reads them once more.
    rewritten = stored.bytes * _touched_share(stored, changed)
    again = sum(rows * step.readings.get(symbol, 1) for symbol, rows in kept.items())
    return Work(read + stored.bytes + rewritten, changed, rewritten, again)


def of_load(settled: Settled, load: Load, log: Log) -> Work:
    """Return the work of a recompute."""
    view = settled.view
    read = 0.0
    for source in view.sources:
        pinned = next(s for s in settled.sources if s.name == source.name)
        size = size_of(pinned.name, pinned.version, log)
        times = load.readings.get(pinned.name.lower(), 1)
        whole = len(view.sources) > 1 and pinned.name.lower() not in load.few_of
        read += size.bytes * _share(pinned, log) * times * (JOINED if whole else 1.0)
    return Work(read, written=size_of(view.name, view.stored_version, log).bytes)


def _share(source: Pinned, log: Log) -> float:
    """Return the share of a table's bytes that the used columns have."""
    columns = log(source.name).info(source.version).columns
    return used_share([(c.name, c.type) for c in columns], source.columns)


def _touched_share(stored: Size, changed: int) -> float:
    """Return the share of a table's files that so many scattered rows are found in."""
    return 1 - (1 - 1 / stored.files) ** changed if stored.files else 0.0
