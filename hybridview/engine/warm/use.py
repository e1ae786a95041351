"""Every command: attach to the store's engine if it is up, and fits; else go on without."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hybridview.engine.connect import REMOTE, attach
from hybridview.engine.session import SparkPort
from hybridview.engine.spark_errors import spark_errors
from hybridview.engine.warm.place import Lock, Place, place_of, take
from hybridview.engine.warm.record import Record, find
from hybridview.errors import UsageError, command

AGAIN = f"{command('down')} && {command('up')}"


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """A running engine, as `status` shows it: nothing in it is secret."""

    pid: int
    port: int
    since: str
    idle_timeout: float
    in_use: bool
    idle: float
    """Seconds since the last command; 0 while one is attached."""
    changed: tuple[str, ...]
    """Settings that are others now than when it was started; commands do without it then."""
    log: str


def engine_status(root: Path, settings: Mapping[str, str]) -> EngineStatus | None:
    """Return the engine of a store; None if it is not up."""
    place = place_of(root)
    record = find(place)
    if record is None:
        return None
    alone = take(place.used)
    if alone is not None:
        alone.release()
    idle = max(0.0, time.time() - _last_use(place)) if alone is not None else 0.0
    return EngineStatus(
        record.pid,
        record.port,
        record.since,
        record.idle,
        alone is None,
        idle,
        record.differences(settings),
        str(place.log),
    )


def attach_if_up(
    root: Path, settings: Mapping[str, str], tell: Callable[[str], None]
) -> SparkPort | None:
    """Return a session on the store's engine; None if there is none that can be used.

    `tell` hears why an engine that is up is not used.
    """
    if REMOTE in settings:
        return None
    place = place_of(root)
    record = find(place)
    if record is None:
        return None
    others = record.differences(settings)
    if others:
        tell(
            f"the engine was started with other settings ({', '.join(others)}); "
            f"going on without it. To change it: {AGAIN}"
        )
        return None
    return _attach(place, record, tell)


def _attach(place: Place, record: Record, tell: Callable[[str], None]) -> SparkPort | None:
    # Somebody may hold the lock for a moment, to see whether the engine is in use.
    using = take(place.used, shared=True, patience=0.2)
    if using is None or find(place) != record:
        return None  # it is about to end
    try:
        # Its sessions begin with the settings it was started with: the same as ours.
        port = attach(record.url, near=True)
        port.setting("spark.app.name")  # the handshake
    except UsageError as error:
        why = error.fact
    except spark_errors():
        why = "the engine refuses this command"
    else:
        port.at_end(lambda: _leave(place, using))
        return port
    using.release()
    tell(f"{why}; going on without it. Its log: {place.log}")
    return None


def _leave(place: Place, using: Lock) -> None:
    """Note the time, from which the engine counts how long it was idle."""
    with contextlib.suppress(OSError):
        os.utime(place.used)
    using.release()


def _last_use(place: Place) -> float:
    try:
        return place.used.stat().st_mtime
    except OSError:
        return time.time()
