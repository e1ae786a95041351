"""Named points between two steps, where a test may kill the process. Silent in ordinary use."""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "HYBRIDVIEW_FAULT"
"""`point:kind:times:milliseconds`: die so long after the point was reached so often.

The last three may be left out: alone, the first time, at once.
"""

POINTS = (
    "planned",  # a plan was made and nothing was done
    "before_write",  # a view's change was computed, not sent
    "during_write",  # the statement that writes it is about to run; meant for a delay
    "before_commit",  # the files of a small change are written, and not yet in the log
    "after_write",  # it was committed, not read back
    "before_feed",  # a table was created without its change feed, which is switched on next
    "between_tables",  # one table was written, another comes next
    "before_publish",  # all tables were written
    "during_publish",  # the epoch is about to be appended; meant for a delay
    "after_publish",  # it was appended
)

BETWEEN_WORKS = "between_works"
"""The point of `maintain`: before each thing it does."""

KINDS = (
    "alone",  # this process only: a JVM it started may go on for a while, and commit
    "group",  # with all processes of its group
    "client",  # this process only; its session is on a Spark Connect server, which goes on
)

_reached: dict[str, int] = {}


def reach(point: str) -> None:
    """Die here, or a moment later, if the environment asks for it."""
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return
    name, kind, times, delay = (*wanted.split(":"), "", "", "")[:4]
    if name != point:
        return
    _reached[point] = _reached.get(point, 0) + 1
    if _reached[point] != int(times or 1):
        return
    if delay:
        threading.Timer(int(delay) / 1000, _die, (kind,)).start()
    else:
        _die(kind)


def _die(kind: str) -> None:
    if kind == "group":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
