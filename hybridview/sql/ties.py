"""Window functions whose rows may tie: what else to sort by, so that they cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from hybridview.algebra.expressions import Expr, columns_of
from hybridview.sql.frames import can_close_ties, leaves_ties_open, name_of
from hybridview.sql.scope import NoRule, OpenTies

PLACE = "hybridview_place"
UNKNOWN = -1
"""The place of a window that names no column, such as `OVER (ORDER BY count(*))`."""


def mark_places(node: Expr) -> None:
    """Note on every window where it stands in the text; resolving replaces the names in it."""
    for window in node.find_all(exp.Window):
        parts = [*(window.args.get("partition_by") or ()), window.args.get("order")]
        names = [n for part in parts if part is not None for n in part.find_all(exp.Identifier)]
        starts = [name.meta["start"] for name in names if "start" in name.meta]
        if starts:
            window.meta[PLACE] = min(starts)


def check_ties(window: exp.Window, exprs: Sequence[Expr], spelled: Mapping[str, str]) -> None:
    """Raise OpenTies unless rows that tie are alike in everything the SELECT reads of them.

    Then it makes no difference which of them comes first: the rows of the answer are the same.
    """
    if not leaves_ties_open(window):
        return
    order = window.args.get("order")
    keys = [key.this for key in order.expressions] if order is not None else []
    same = {k.name for k in (*keys, *(window.args.get("partition_by") or ())) if _plain(k)}
    read = dict.fromkeys(name for expr in exprs for name in columns_of(expr))
    missing = [name for name in read if name not in same]
    if not missing:
        return
    place = window.meta.get(PLACE, UNKNOWN)
    if not can_close_ties(window) or any(name not in spelled for name in missing):
        name = name_of(window.this)
        raise NoRule(f"window function {name} in an order that leaves ties open", window)
    raise OpenTies(window, place, tuple(spelled[name] for name in missing))


def _plain(key: Expr) -> bool:
    return isinstance(key, exp.Column)
