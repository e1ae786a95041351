"""One view's step -> what becomes of its rows, in one session: one commit at most."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridview.compiler.statements import bounded
from hybridview.deltalog import FEED_PROPERTY
from hybridview.engine import inline, reading
from hybridview.engine.commits import Commits
from hybridview.engine.creating import create, needs_mapping
from hybridview.engine.faults import reach
from hybridview.engine.neighbours import Neighbours
from hybridview.engine.readers import is_read_once
from hybridview.engine.reading import size_of
from hybridview.engine.relations import Relations
from hybridview.engine.session import Session, quote, table_at
from hybridview.engine.settled import Places, Settled
from hybridview.engine.spark_errors import refuses_feed, spark_errors
from hybridview.engine.surroundings import Surroundings
from hybridview.engine.together import Together, follows_from_changes
from hybridview.engine.touched import touched
from hybridview.engine.tuning import LITTLE, running_with, write_settings
from hybridview.engine.values import condition
from hybridview.engine.weighing import Kept, why_load, why_load_at_once
from hybridview.filestats import Size
from hybridview.plan.remembered import Remembered
from hybridview.plan.steps import Apply, Feed, Load, RefreshPlan, ViewPlan
from hybridview.schema import WEIGHT

if TYPE_CHECKING:
    from hybridview.engine.direct import Outcome, Question

ANSI = "spark.sql.ansi.enabled"
MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True, slots=True)
class Done:
    """What writing a view did to its rows, and how much it had to read."""

    rows: dict[str, int]
    read: Size


FEEDS_AT_ONCE = 4
NO_ROWS = {"inserted": 0, "updated": 0, "deleted": 0}

_columns: Remembered[list[tuple[str, str]]] = Remembered(1000)


class Writer:
    """Writes views in a session of its own, one after the other."""

    def __init__(
        self,
        plan: RefreshPlan,
        places: Places,
        relations: Relations,
        together: Together,
        neighbours: Neighbours,
    ) -> None:
        self.plan, self.places, self.relations = plan, places, relations
        self.together = together
        self.around = Surroundings(relations, places, neighbours)
        self.session: Session = relations.session
        self.commits = Commits(plan, places, self.session)
        self.in_memory: set[str] = set()
        """What the change of a view keeps there."""

    def load(self, settled: Settled, step: Load) -> Done:
        """Run the author's text over the pinned sources and replace all rows."""
        view = settled.view
        self.relations.under(view.settings or {})
        names = {source.name for source in view.sources}
        self.relations.pin_for_text([s for s in settled.sources if s.name in names])
        if step.from_stored:
            self.relations.target(view.name)
        sql = step.sql
        target = table_at(self.places.path(view.name))
        log = self.places.log(view.name)
        # Delta refuses CREATE ... AS SELECT with both column mapping and a change feed.
        feed_later = step.create and needs_mapping(view)
        if step.create:
            sql = f"{create(view, target, not feed_later)}\nAS {step.sql}"
        self.commits.of_statement(settled, sql)
        if feed_later:
            reach("before_feed")
            self.session.run(f"ALTER TABLE {target} SET TBLPROPERTIES ('{FEED_PROPERTY}' = 'true')")
        read = reading.of_tables((s for s in settled.sources if s.name in names), self.places.log)
        return Done({"rows": log.row_count(log.latest()) or 0}, read)

    def apply(self, settled: Settled, step: Apply) -> Done:
        """Compute the change; write it in one commit unless it is empty."""
        try:
            return self._apply(settled, step)
        except spark_errors() as error:
            if not refuses_feed(error):
                raise
            # Nothing is written before all of the change was read.
            if not self.relations.shared.refuse(settled.view, settled.ends):
                raise
        return self._apply(settled, step)

    def _apply(self, settled: Settled, step: Apply) -> Done:
        view, relations = settled.view, self.relations
        self.relations.under(view.settings or {})
        shared = follows_from_changes(view)
        _stop(why_load_at_once(self.plan, settled, step, self.places.log))
        self._show_changes(settled, step, every=shared)
        if not step.whole and not relations.shared.matter(self.session, view, settled.ends):
            return Done(dict(NO_ROWS), reading.of_feeds(view.feeds, settled.ends, self.places.log))
        common = self.around.common(settled, step)
        kept, over_kept = self.around.show(settled, step, [look.read for look in common])
        symbols = [symbol for symbol, _ in (*kept, *over_kept)]
        symbols += [look.read.symbol for look in common]
        self._check_cost(settled, step, dict.fromkeys(symbols))
        counts = None
        try:
            alone, unkept = self.around.look(settled, step, common)
            if alone or unkept:
                # They were too many to be shared: now all of the look is this view's.
                kept += alone
                symbols = [symbol for symbol in symbols if symbol not in unkept]
                self._check_cost(settled, step, dict.fromkeys(symbols))
            read = self._read(settled, step)
            for symbol, query in kept:
                self._keep_looked_for(symbol, query)
            self._check_cost_of_kept(settled, step, symbols)
            for symbol, query in over_kept:
                self.session.register(symbol, query)
            for symbol, query in step.kept:
                self._keep(symbol, query)
                symbols.append(symbol)
            with running_with(self.session, LITTLE if shared else {}):
                counts = self._compute_change(view, step.change)
            if not counts.rows:
                return Done(dict(NO_ROWS), read)
            insert_only = step.without_deletes is not None and not counts.negative
            direct = self._outcome(view, counts, insert_only)
            if direct is not None and self.commits.of_files(settled, direct):
                return Done(direct.change.counts, read + direct.read)
            if counts.fetched is not None:
                relation = inline.as_relation(counts.fetched, counts.columns)
                self.session.register(f"{view.name}@change", relation)
            sql = step.without_deletes if insert_only and step.without_deletes else step.sql
            # The table that a statement writes to is named by its folder.
            if sql.count(quote(f"{view.name}@target")) > 1:
                relations.target(view.name)
            if not insert_only:
                sql, merged = self._bounded(view, sql, counts)
                read += merged
            # Literal rows are the same however often MERGE reads them.
            self.session.set({MATERIALIZE: "none" if counts.inlined else "auto"})
            size = size_of(view.name, view.stored_version, self.places.log)
            with running_with(self.session, write_settings(counts.inlined, size)):
                result = self.commits.of_statement(settled, sql)
        finally:
            self._forget(view, symbols, counts)
        if insert_only:
            return Done({"inserted": counts.total, "updated": 0, "deleted": 0}, read)
        _, updated, deleted, inserted = result[0]
        rows = {"inserted": int(inserted), "updated": int(updated), "deleted": int(deleted)}
        return Done(rows, read)

    def _show_changes(self, settled: Settled, step: Apply, every: bool) -> None:
        """Make the changes of a view's sources readable; stop where one is found to be too large.

        A statement that serves several views reads what matters to any of them: `every` row.
        """
        view = settled.view
        feeds = () if step.whole else view.feeds
        if len(feeds) > 1:
            self._fetch_at_once(settled, feeds)
        for feed in feeds:
            once, end = is_read_once(self.plan, view, feed), settled.ends[feed.name]
            changed = self.relations.changes(view, feed, end, once, every)
            if step.at_most is not None and feed.rewritten and changed is not None:
                self._check_share(feed.name, changed, step.at_most)

    def _fetch_at_once(self, settled: Settled, feeds: Sequence[Feed]) -> None:
        """Fetch several changes at the same time: most of it is planning and waiting."""

        def fetch(feed: Feed) -> None:
            once = is_read_once(self.plan, settled.view, feed)
            self.relations.shared.of(
                self.session, settled.view, feed, settled.ends[feed.name], once
            )

        with ThreadPoolExecutor(min(FEEDS_AT_ONCE, len(feeds)), "hybridview-feed") as pool:
            # The first error is raised once all of them have ended.
            list(pool.map(fetch, feeds))

    def _keep(self, symbol: str, query: str) -> None:
        """Compute a part of a change, for those who read it: as literals if it is small.

        What is kept in memory is only found by its whole plan, which has to be written out again.
        """
        columns = self.session.describe(query)
        rows = inline.fetch(self.session, query, columns)
        if rows is not None:
            self.session.register(symbol, inline.as_relation(rows, columns))
        else:
            self._cache(symbol, query)

    def _keep_looked_for(self, symbol: str, query: str) -> None:
        """Keep few rows of many, which are not looked for twice: in memory, then as literals."""
        columns = self.session.describe(query)
        self._cache(symbol, query)
        rows = inline.fetch(self.session, f"SELECT * FROM {quote(symbol)}", columns)
        if rows is not None:
            self._release(symbol)
            self.session.register(symbol, inline.as_relation(rows, columns))

    def _cache(self, symbol: str, query: str) -> None:
        # An earlier refresh in this session may have left a view of literals.
        self.session.run(f"DROP VIEW IF EXISTS {quote(symbol)}")
        self.in_memory.add(symbol)
        self.session.run(f"CACHE TABLE {quote(symbol)} AS {query}")

    def _forget(self, view: ViewPlan, kept: list[str], change: _Change | None) -> None:
        """Release what was kept in memory for a change."""
        for symbol in kept:
            self.relations.forget(symbol)
        if change is None or not change.inlined:
            kept.append(f"{view.name}@change")
        # What became of the view counts, even if Spark is gone by now.
        with suppress(*spark_errors()):
            # A view cannot be named any more once what it reads is gone.
            for symbol in reversed(kept):
                self._release(symbol)
            self.in_memory.clear()

    def _release(self, symbol: str) -> None:
        if symbol in self.in_memory:
            self.session.run(f"UNCACHE TABLE IF EXISTS {quote(symbol)}")
            self.in_memory.remove(symbol)
        self.session.run(f"DROP VIEW IF EXISTS {quote(symbol)}")

    def _read(self, settled: Settled, step: Apply) -> Size:
        """Return how much computing a change has to read."""
        view, log = settled.view, self.places.log
        sources = (*settled.sources, *((settled.state,) if settled.state is not None else ()))
        near = self.relations.near_sizes
        found = reading.of_change(view.name, step, sources, near, view.stored_version, log)
        return found + reading.of_feeds(() if step.whole else view.feeds, settled.ends, log)

    def _bounded(self, view: ViewPlan, merge: str, change: _Change) -> tuple[str, Size]:
        """Let a MERGE read the files alone that a small change can touch; return how much."""
        log = self.places.log(view.name)
        if view.layout is None or view.stored_version is None:
            return merge, Size()
        if change.fetched is None:
            return merge, log.size(view.stored_version)
        found = touched(view.layout, change.columns, change.fetched, log, view.stored_version)
        if found is None:
            return merge, log.size(view.stored_version)
        if merge.count(quote(f"{view.name}@target")) > 1:
            self.relations.target(view.name, condition(found.column, found.values))
        return bounded(merge, condition(found.column, found.values, alias="t")), found.size

    def _outcome(self, view: ViewPlan, change: _Change, only_grows: bool) -> Outcome | None:
        """Return what a small change makes of the stored rows; None if a statement is to do it."""
        if change.fetched is None:
            return None
        from hybridview.engine import direct  # it imports much

        folder, epoch = Path(self.places.path(view.name)), self.plan.epoch
        found = direct.outcome(view, folder, change.columns, change.fetched, epoch, only_grows)
        if found is not None or self.session.setting(ANSI) != "true":
            return found  # without ANSI, a value that does not fit its column would be none
        answer = self.together.ask(self.session, view, change.fetched, self._question)
        return direct.answered(*answer) if answer is not None else None

    def _question(self, view: ViewPlan, rows: Sequence[tuple[Any, ...]]) -> Question | None:
        from hybridview.engine import direct

        folder = Path(self.places.path(view.name))
        return direct.question(view, folder, self._change_columns(view), rows)

    def _check_cost_of_kept(self, settled: Settled, step: Apply, kept: Sequence[str]) -> None:
        """Stop where a recompute looks cheaper, now that it is known how many rows are kept.

        How many rows there are near a change, no log tells.
        """
        if step.otherwise is None or self.in_memory.isdisjoint(kept):
            return
        rows: dict[str, int | None] = dict.fromkeys(kept, 0)
        for symbol in self.in_memory.intersection(kept):
            rows[symbol] = int(self.session.run(f"SELECT count(*) FROM {quote(symbol)}")[0][0])
        self._check_cost(settled, step, rows)

    def _check_cost(self, settled: Settled, step: Apply, kept: Kept) -> None:
        """Stop where a recompute looks cheaper, now that it is known what can be skipped."""
        _stop(why_load(self.plan, settled, step, self.relations, kept, self.places.log))

    def _check_share(self, name: str, changed: int, at_most: float) -> None:
        """Stop where so much of a recomputed view changed that adding it up would cost more."""
        log = self.places.log(name)
        total = log.row_count(log.latest())
        if total is not None and changed > at_most * total:
            share = changed / max(total, 1)
            raise TooLarge(
                f"{share:.0%} of {name} changed; merging would cost more than recomputing"
            )

    def _columns(self, view: ViewPlan, query: str) -> list[tuple[str, str]]:
        """Return the columns of a change; Spark is asked once, for they follow from its text.

        What its sources look like cannot change without another program for the view.
        """
        key = f"{view.view_id} {view.program} {sorted((view.settings or {}).items())} {query}"
        return _columns.get(key, lambda: self.session.describe(query))

    def _change_columns(self, view: ViewPlan) -> list[tuple[str, str]]:
        assert isinstance(view.step, Apply)
        return self._columns(view, view.step.change)

    def _matters(self, view: ViewPlan) -> bool:
        """Say whether some changed rows can matter to a view whose sources are base tables."""
        ends = {feed.name: feed.end for feed in view.feeds if feed.end is not None}
        return self.relations.shared.matter(self.session, view, ends)

    def _compute_change(self, view: ViewPlan, query: str) -> _Change:
        """Make `v@change` readable: as literals if it is small, else kept in memory."""
        symbol = f"{view.name}@change"
        columns = self._columns(view, query)
        weight = next((i for i, c in enumerate(columns) if c[0] == WEIGHT), None)
        rows = self.together.fetch(self.session, view, self._change_columns, self._matters)
        if rows is None:
            rows = inline.fetch(self.session, query, columns)
        if rows is not None:
            weights = [int(row[weight]) for row in rows] if weight is not None else []
            total = sum(w for w in weights if w > 0)
            return _Change(len(rows), any(w < 0 for w in weights), total, columns, rows)
        self._cache(symbol, query)
        sums = "false, 0"
        if weight is not None:
            w = quote(WEIGHT)
            sums = f"coalesce(min({w}), 0) < 0, coalesce(sum(CASE WHEN {w} > 0 THEN {w} END), 0)"
        count, negative, total = self.session.run(f"SELECT count(*), {sums} FROM {quote(symbol)}")[
            0
        ]
        return _Change(int(count), bool(negative), int(total))


class TooLarge(Exception):
    """A change is so large that the view is better recomputed; the text says how large."""


def _stop(why: str) -> None:
    if why:
        raise TooLarge(why)


@dataclass(frozen=True, slots=True)
class _Change:
    """What is known of a computed change: rows, whether some go, copies that come."""

    rows: int
    negative: bool
    total: int
    columns: Sequence[tuple[str, str]] = ()
    fetched: list[tuple[Any, ...]] | None = None
    """Its rows as texts, if it is small: then it stands as literals in what writes it."""

    @property
    def inlined(self) -> bool:
        return self.fetched is not None
