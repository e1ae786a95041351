"""A view's step -> what its change is computed from, made readable: tables, and rows near changes.

Rows near a change that other views want too are looked for once, for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hybridview.engine.neighbours import Group, Neighbours, own_rows
from hybridview.engine.readers import parts
from hybridview.engine.relations import Near, Relations, Shown
from hybridview.engine.session import quote
from hybridview.engine.settled import Places, Settled
from hybridview.filestats import Size
from hybridview.plan.steps import Apply, NearRead


@dataclass(frozen=True, slots=True)
class Look:
    """A read near changes that several views want, and how rows are found for all of them."""

    read: NearRead
    group: Group
    near: Near


class Surroundings:
    """Shows the tables of one view after the other, in one session."""

    def __init__(self, relations: Relations, places: Places, neighbours: Neighbours) -> None:
        self.relations, self.places, self.neighbours = relations, places, neighbours

    def common(self, settled: Settled, step: Apply) -> list[Look]:
        """Return the reads near changes that other views want too, and how to look for all.

        Each bears its share of the cost.
        """
        view, relations = settled.view, self.relations
        pinned = {source.name.lower(): source for source in settled.sources}
        found: list[Look] = []
        for read in step.near:
            group = self.neighbours.group(view, read)
            if group is None:
                continue
            wanted_by = group.wanted_by(relations.matters)
            source = replace(pinned[read.name.lower()], columns=group.columns)
            near = relations.near_whole(read, source, self.places.log(read.name))
            if wanted_by > 1 and near is not None:
                found.append(Look(read, group, near))
                relations.near_sizes[read.symbol] = Size()
                relations.near_bytes[read.symbol] = near.bytes / wanted_by
        return found

    def look(
        self, settled: Settled, step: Apply, common: Sequence[Look]
    ) -> tuple[list[Shown], list[str]]:
        """Show rows that several views want, looked for once; those too many are each view's own.

        Return what is to be kept of the latter, and the symbols of those that are not.
        """
        pinned = {source.name.lower(): source for source in settled.sources}
        alone: list[Shown] = []
        unkept: list[str] = []
        for look in common:
            read, source = look.read, pinned[look.read.name.lower()]
            rows, ran = look.group.find(self.relations.session, look.near.query)
            if rows:
                size = look.near.size if ran else Size()
                self.relations.show_found(read, own_rows(rows, source.columns), size)
                continue
            few = self.relations.near(read, source, self.places.log(read.name))
            if few and step.readings.get(read.symbol, 0) > 1:
                alone.append((read.symbol, few))
            else:
                unkept.append(read.symbol)
        return alone, unkept

    def show(
        self, settled: Settled, step: Apply, common: Sequence[NearRead]
    ) -> tuple[list[Shown], list[Shown]]:
        """Make what a change is computed from readable: stored rows, and rows near the changes.

        But for rows that are looked for in common with other views. Return what is to be kept of
        these, and what is then to be shown of what was kept.
        """
        view, relations = settled.view, self.relations
        sources = (*settled.sources, *((settled.state,) if settled.state is not None else ()))
        relations.pin([s for s in sources if step.reads(quote(f"{s.name}@new"))])
        if step.reads(quote(f"{view.name}@target")):
            relations.target(view.name)
        pinned = {source.name.lower(): source for source in settled.sources}
        for feed, part in parts(view):
            relations.part(feed, part, pinned[feed.name.lower()].columns)
        kept: list[Shown] = []
        over_kept: list[Shown] = []
        alike: dict[tuple[str, str], list[NearRead]] = defaultdict(list)
        for near in (near for near in step.near if near not in common):
            alike[near.name.lower(), near.column.lower()].append(near)
        for (name, _), reads in alike.items():
            source, log = pinned[name], self.places.log(name)
            if len(reads) > 1 and (found := relations.near_any(reads, source, log)):
                kept.append(found[0])
                over_kept += found[1:]
                continue
            for near in reads:
                few = relations.near(near, source, log)
                if few and step.readings.get(near.symbol, 0) > 1:
                    # Else Spark looks for them wherever they are used.
                    kept.append((near.symbol, few))
        return kept, over_kept
