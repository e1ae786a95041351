"""`down`: end the server of a store, gently and then firmly."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from hybridview.engine.warm.place import Place, place_of, take
from hybridview.engine.warm.record import Record, birth, find
from hybridview.errors import BusyError, EngineError

GENTLE = 20.0
"""Seconds to end by itself before it is killed."""
_PAUSE = 0.1


def down(root: Path, force: bool = False) -> Record | None:
    """End the server and return what it was; None if there was none.

    While a command is attached it is left alone, unless `force` says otherwise.
    """
    place = place_of(root)
    if find(place) is None:
        return None
    lock = take(place.starting, patience=GENTLE)
    if lock is None:
        raise BusyError("another command is starting or ending the engine", hint="Try again.")
    try:
        record = find(place)
        if record is not None:
            _end(place, record, force)
        return record
    finally:
        lock.release()


def _end(place: Place, record: Record, force: bool) -> None:
    # With this lock nobody attaches any more.
    alone = take(place.used, patience=0.2)
    if alone is None and not force:
        raise BusyError(
            "the engine is in use by another command",
            hint="Wait for it, or end the engine all the same: hybridview down --force",
        )
    try:
        if not _is_it(record):
            raise EngineError(
                f"process {record.pid} is not the engine",
                detail="The engine runs, but its record names another process.",
                hint=f"Find it with: ps -fu $USER; its files are in {place.folder}",
            )
        os.kill(record.pid, signal.SIGTERM)
        if not _gone(place, GENTLE) and _is_it(record):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(record.pid, signal.SIGKILL)
            _gone(place, GENTLE)
        find(place)  # removes the record of one that was killed
    finally:
        if alone is not None:
            alone.release()


def _is_it(record: Record) -> bool:
    """Say whether the process is the one that wrote the record, not a later one of that number."""
    return bool(record.born) and birth(record.pid) == record.born


def _gone(place: Place, patience: float) -> bool:
    """Wait until the server's lock is free: then its process has ended."""
    free = take(place.serving, shared=True, patience=patience)
    if free is None:
        return False
    free.release()
    return True
