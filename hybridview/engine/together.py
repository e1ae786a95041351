"""Changes of several views -> the rows of each, fetched by one statement.

Planning a statement and sending it costs more than adding up a few rows. So views whose change
follows from the same small changes of their sources, and from nothing else, are computed together,
by whoever asks first; those to whom no changed row matters are left out. And so is what becomes of
the stored rows they meet.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hybridview.engine import inline
from hybridview.engine.session import Session, quote
from hybridview.engine.spark_errors import is_too_much, spark_errors
from hybridview.plan.steps import Apply, ViewPlan

if TYPE_CHECKING:
    from hybridview.engine.direct import Question  # it imports much

MOST = 16
"""How many views one statement is for: more save little, and if it fails all is repeated."""
FEW = 8
"""How often a view's change may read its sources: a larger one has a statement of its own."""

NUMBER = f"(monotonically_increasing_id() & {2**33 - 1})"
"""The number of a row in its partition, of which there are few."""

Rows = list[tuple[Any, ...]]
Columns = Sequence[tuple[str, str]]
Answered = tuple["Question", Rows]
Asking = Callable[[ViewPlan, Rows], "Question | None"]


@dataclass
class _Group:
    views: list[ViewPlan] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    rows: dict[str, Rows] | None = None
    """The change of each view, by name; None before somebody asked."""
    answers: dict[str, Answered | None] | None = None
    """What becomes of the rows that each change meets; None before somebody asked."""


@dataclass
class _Kin:
    """Views whose changes follow from the same changes; some of them may not be concerned."""

    views: list[ViewPlan] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    groups: dict[str, _Group] | None = None
    """The group of each view that is concerned, by name; None before somebody asked."""


class Together:
    """The groups of one refresh; safe for several threads."""

    def __init__(self, views: Iterable[ViewPlan]) -> None:
        self.kin: dict[str, _Kin] = {}
        alike: dict[str, _Kin] = defaultdict(_Kin)
        for view in views:
            if follows_from_changes(view):
                # What a view reads of a change, or wants of it, does not make it another change.
                feeds = [replace(feed, wanted="", own=()) for feed in view.feeds]
                self.kin[view.name] = alike[repr((feeds, sorted((view.settings or {}).items())))]
                self.kin[view.name].views.append(view)

    def fetch(
        self,
        session: Session,
        view: ViewPlan,
        columns: Callable[[ViewPlan], Columns],
        concerned: Callable[[ViewPlan], bool],
    ) -> Rows | None:
        """Return the rows of a view's change, as texts; None if they are to be fetched alone.

        The session has the settings of the view and can read the changes of its sources.
        """
        kin = self.kin.get(view.name)
        if kin is None:
            return None
        with kin.lock:
            if kin.groups is None:
                kin.groups = groups([v for v in kin.views if v is view or concerned(v)])
        group = kin.groups.get(view.name)
        if group is None:
            return None
        with group.lock:
            if group.rows is None:
                group.rows = _fetch(session, group.views, columns)
            return group.rows.get(view.name)

    def _group(self, view: ViewPlan) -> _Group | None:
        kin = self.kin.get(view.name)
        return kin.groups.get(view.name) if kin is not None and kin.groups is not None else None

    def ask(
        self, session: Session, view: ViewPlan, rows: Rows, question: Asking
    ) -> Answered | None:
        """Return a question about a view's change, and its answer; None if there is none."""
        group = self._group(view)
        if group is not None and group.rows is not None and view.name in group.rows:
            with group.lock:
                if group.answers is None:
                    changed = [v for v in group.views if group.rows.get(v.name)]
                    asked = {v.name: question(v, group.rows[v.name]) for v in changed}
                    group.answers = _answers(session, asked)
                if view.name in group.answers:
                    return group.answers[view.name]
        return _answers(session, {view.name: question(view, rows)}).get(view.name)


def groups(views: Sequence[ViewPlan]) -> dict[str, _Group]:
    """Return the group of each view: no more in one than a statement is for.

    Threads take views in their order: neighbours are in different groups, if there are several, so
    that nobody waits.
    """
    made = [_Group() for _ in range(math.ceil(len(views) / MOST))]
    for number, view in enumerate(views):
        made[number % len(made)].views.append(view)
    return {view.name: made[number % len(made)] for number, view in enumerate(views)}


def _answers(session: Session, asked: Mapping[str, Question | None]) -> dict[str, Answered | None]:
    """Return what Spark answers to some questions, by one statement; nothing if it fails.

    Then each view is written by a statement of its own, which says what is wrong.
    """
    known = [(name, found) for name, found in asked.items() if found is not None]
    result: dict[str, Answered | None] = dict.fromkeys(asked)
    if not known:
        return result
    texts: list[Rows] = [[] for _ in known]
    queries = [
        f"SELECT {number}, answer FROM ({found.query})" for number, (_, found) in enumerate(known)
    ]
    try:
        for number, answer in session.run("\nUNION ALL\n".join(queries)):
            texts[number].append(tuple(answer))
    except spark_errors():
        return {}
    return result | {name: (found, texts[n]) for n, (name, found) in enumerate(known)}


def follows_from_changes(view: ViewPlan) -> bool:
    """Say whether a change is computed from small changes of sources alone."""
    step = view.step
    if not isinstance(step, Apply) or step.whole or step.kept or step.near or not view.feeds:
        return False
    if sum(step.readings.values()) > FEW:
        return False
    if any(f.end is None or f.rows is None or f.rows > inline.MAX_ROWS for f in view.feeds):
        return False
    state = (view.state,) if view.state is not None else ()
    read = [f"{source.name}@new" for source in (*view.sources, *view.parts, *state)]
    return not any(step.reads(quote(symbol)) for symbol in (*read, f"{view.name}@target"))


def _fetch(
    session: Session, views: Sequence[ViewPlan], columns: Callable[[ViewPlan], Columns]
) -> dict[str, Rows]:
    try:
        queries = [_query(n, view, columns(view)) for n, view in enumerate(views)]
        wanted = [query for query in queries if query]
        if not wanted:
            return {}
        rows = session.run("\nUNION ALL\n".join(wanted))
    except spark_errors() as error:
        if len(views) == 1 and not is_too_much(error):
            raise
        # One of them cannot be computed; each alone will tell which, and why.
        return {}
    found: dict[str, Rows] = {v.name: [] for v, q in zip(views, queries, strict=True) if q}
    for number, row in rows:
        found[views[number].name].append(tuple(row))
    return {name: fetched for name, fetched in found.items() if inline.can_stand(fetched)}


def _query(number: int, view: ViewPlan, columns: Columns) -> str:
    """Return the query of a view's change as numbered rows of texts; empty if text cannot do."""
    assert isinstance(view.step, Apply)
    if not all(inline.encodable(kind) for _, kind in columns):
        return ""
    encoded = ", ".join(inline.encode(quote(name), kind.lower()) for name, kind in columns)
    # One row more than can stand as literals. LIMIT would do, but the code that Spark makes for it
    # is never the same twice, so it is compiled anew each time.
    not_too_many = f"{NUMBER} <= {inline.MAX_ROWS}"
    return f"SELECT {number}, array({encoded}) FROM ({view.step.change}) WHERE {not_too_many}"
