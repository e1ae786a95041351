"""A length of time as people and Delta Lake write it <-> seconds."""

from __future__ import annotations

import re

_UNITS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 7 * 86400.0,
}
_PART = re.compile(rf"(\d+)\s+({'|'.join(_UNITS)})s?")


def seconds(text: str) -> float | None:
    """Return a time such as `7 days` or `interval 1 week 12 hours`; None if it is not one."""
    words = " ".join(text.lower().split()).removeprefix("interval ").replace("'", "")
    parts = list(_PART.finditer(words))
    if not parts or " ".join(part[0] for part in parts) != words:
        return None
    return sum(int(part[1]) * _UNITS[part[2]] for part in parts)


def spoken(length: float) -> str:
    """Return a time as text, rounded down: `6 days 20 hours`, `3 hours`, `5 minutes`."""
    days, rest = divmod(int(length), 86400)
    hours, rest = divmod(rest, 3600)
    minutes = rest // 60
    if days:
        # After a week nobody counts hours.
        return _number(days, "day") + (f" {_number(hours, 'hour')}" if hours and days < 7 else "")
    if hours:
        return _number(hours, "hour")
    return _number(minutes, "minute") if minutes else "under a minute"


def _number(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count:,} {unit}s"


def spoken_size(count: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
