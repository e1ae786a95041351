"""Which views of a plan read a change, and how: once, or in parts by what became of its keys."""

from __future__ import annotations

from hybridview.algebra.plan import GONE, KEPT
from hybridview.compiler.program import Method
from hybridview.engine.session import quote
from hybridview.plan.steps import Apply, Feed, RefreshPlan, ViewPlan


def readers(plan: RefreshPlan, feed: Feed) -> list[ViewPlan]:
    """Return the views that read the change of a source."""
    return [view for view in plan.views if any(f.name == feed.name for f in view.feeds)]


def is_read_once(plan: RefreshPlan, view: ViewPlan, feed: Feed) -> bool:
    """Say whether a change has one reader, who adds it up: then it need not be netted."""
    step = view.step
    if not isinstance(step, Apply) or step.method != Method.ADD or step.near or step.kept:
        return False
    if any(of is feed for of, _ in parts(view)):
        return False
    return len(readers(plan, feed)) == 1 and step.readings.get(f"{feed.name}@changes", 2) == 1


def parts(view: ViewPlan) -> list[tuple[Feed, str]]:
    """Return the parts of changes, by what became of keys, that a view's change is made from."""
    step = view.step
    if not isinstance(step, Apply) or step.whole:
        return []
    found = [(feed, part) for feed in view.feeds for part in (KEPT, GONE)]
    return [(feed, part) for feed, part in found if step.reads(quote(f"{feed.name}@{part}"))]
