"""Named points between two steps, where a test may kill the process. Silent in ordinary use."""

from __future__ import annotations

import os
import signal

VARIABLE = "HYBRIDVIEW_FAULT"
"""`point`, `point:group` or `point:group:n`: die at the n-th time the point is reached."""

POINTS = ("before_write", "between_tables", "before_publish")

_reached: dict[str, int] = {}


def reach(point: str) -> None:
    """Die here if the environment asks for it: alone, or with the whole process group."""
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return
    name, _, rest = wanted.partition(":")
    how, _, times = rest.partition(":")
    if name != point:
        return
    _reached[point] = _reached.get(point, 0) + 1
    if _reached[point] < int(times or 1):
        return
    if how == "group":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
