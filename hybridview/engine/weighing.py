"""A view's step + the logs of its tables -> the work that it is, and which way is less of it.

It is looked at three times, as more is known: before any change is fetched, by the logs; once the
changed keys are known, and the files that can be skipped; once rows near changes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from hybridview.engine import inline
from hybridview.engine.readers import is_read_once, readers
from hybridview.engine.reading import UNKNOWN, Log, size_of
from hybridview.engine.relations import Relations
from hybridview.engine.settled import Settled
from hybridview.filestats import Size
from hybridview.plan.steps import Apply, Load, Pinned, RefreshPlan
from hybridview.strategy.costs import Applying, Loading, dearer, used_share

Kept = Mapping[str, int | None]
"""What is looked for once and then kept, by symbol: the number of rows that are looked at in memory
from then on, once it is known."""


def why_load_at_once(plan: RefreshPlan, settled: Settled, step: Apply, log: Log) -> str:
    """Say why a view is better recomputed than its changes even fetched; empty if it is not."""
    return _why_load(settled, step, log, lambda: of_fetching(plan, settled, step))


def why_load(
    plan: RefreshPlan, settled: Settled, step: Apply, relations: Relations, kept: Kept, log: Log
) -> str:
    """Say why a view is better recomputed, now that its changes are fetched; empty if it is not."""
    return _why_load(
        settled, step, log, lambda: of_apply(plan, settled, step, relations, kept, log)
    )


def _why_load(settled: Settled, step: Apply, log: Log, work: Callable[[], Applying]) -> str:
    load, reason = step.otherwise, ""
    if load is None or load.create:
        return reason
    with suppress(*UNKNOWN):  # no refresh fails because a log cannot tell a size
        reason = dearer(work(), of_load(settled, load, log))
    return reason


def of_fetching(plan: RefreshPlan, settled: Settled, step: Apply) -> Applying:
    """Return the work of applying a change, as far as the rows of its feeds tell.

    Rows that went and came again are not counted: most of them cancel. And how much there is to
    look for near a small change is known as soon as that is fetched, which takes no time.
    """
    view = settled.view
    fetched = added = large = 0.0
    for feed in () if step.whole else view.feeds:
        if feed.rows is None or feed.rewritten or feed.compare:
            continue
        if is_read_once(plan, view, feed):
            added += feed.rows
        elif feed.rows > inline.MAX_ROWS:
            # The views that read a change fetch it once.
            share = 1 / len(readers(plan, feed))
            fetched, large = fetched + feed.rows * share, large + share
    return Applying(len(step.near) if large else 0, large, fetched, fetched, added)


def of_apply(
    plan: RefreshPlan, settled: Settled, step: Apply, relations: Relations, kept: Kept, log: Log
) -> Applying:
    """Return the work of computing a change from what was fetched, and of merging it."""
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
        bytes_of.get(symbol, 0.0) * _times_read(symbol, times, kept)
        for symbol, times in step.readings.items()
    )
    changed = added = fetched = 0
    for feed in () if step.whole else view.feeds:
        symbol = f"{feed.name}@changes"
        known, rows = relations.of_symbol.get(symbol.lower()), feed.rows or 0
        if known is not None and known.rows is not None:
            changed += known.rows
        elif is_read_once(plan, view, feed):
            added += rows
        else:  # it is read, and netted, wherever it is used
            fetched += rows * step.readings.get(symbol, 1)
    # A MERGE looks for the files to write anew, and then reads them once more.
    rewritten = stored.bytes * _touched_share(stored, changed + added + fetched)
    again = sum((rows or 0) * step.readings.get(symbol, 1) for symbol, rows in kept.items())
    looks = sum(kept.get(n.symbol) is None and bytes_of[n.symbol] > 0 for n in step.near)
    return Applying(
        looks=looks,
        fetched=fetched,
        changed=changed,
        added=added,
        again=again,
        read=read + stored.bytes + rewritten,
        written=rewritten,
    )


def _times_read(symbol: str, times: int, kept: Kept) -> int:
    """Return how often a relation is still to be read from its files."""
    if symbol not in kept:
        return times
    return 1 if kept[symbol] is None else 0


def of_load(settled: Settled, load: Load, log: Log) -> Loading:
    """Return the work of a recompute."""
    view = settled.view
    tables, read, joined = 0, 0.0, 0.0
    for source in view.sources:
        pinned = next(s for s in settled.sources if s.name == source.name)
        times = load.readings.get(pinned.name.lower(), 1)
        size = size_of(pinned.name, pinned.version, log).bytes * _share(pinned, log) * times
        tables, read = tables + times, read + size
        if len(view.sources) > 1 and pinned.name.lower() not in load.few_of:
            joined += size
    return Loading(tables, read, joined, size_of(view.name, view.stored_version, log).bytes)


def _share(source: Pinned, log: Log) -> float:
    """Return the share of a table's bytes that the used columns have."""
    columns = log(source.name).info(source.version).columns
    return used_share([(c.name, c.type) for c in columns], source.columns)


def _touched_share(stored: Size, changed: int) -> float:
    """Return the share of a table's files that so many scattered rows are found in."""
    return 1 - (1 - 1 / stored.files) ** changed if stored.files else 0.0
