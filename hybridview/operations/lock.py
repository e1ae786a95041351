"""One refresh at a time: a lock file whose lock the kernel releases when its holder dies.

It only saves work: two processes that refresh at once would both compute, and one of them would
lose at its first commit. That no commit is applied twice rests on the commits themselves.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from hybridview.catalog import Catalog
from hybridview.errors import BusyError, ReadOnlyStoreError
from hybridview.inside import inside
from hybridview.operations.context import Context

FILE = "hybridview.lock"
DEFINITIONS = "hybridview.definitions.lock"
WAIT = 600.0
"""Seconds to wait for another refresh by default: an overlapping schedule is no mistake."""
PATIENCE = 60.0
"""Seconds to wait for another definition: writing one takes a moment."""
_PAUSE = 0.1

_Busy = tuple[str, str]
"""What another process does, and what to do then."""
_REFRESHED = (
    "the store is being refreshed by another process",
    "Wait for it, or add: --wait SECONDS",
)
_DEFINED = (
    "another process is writing a definition to the store",
    "Run the same command again.",
)


@contextlib.contextmanager
def slot(
    context: Context, wait: float = WAIT, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the store's refresh slot; `waiting` is told once who has it, if it is taken."""
    with _held(context, FILE, wait, waiting, _REFRESHED):
        yield


@contextlib.contextmanager
def changing(context: Context) -> Iterator[Catalog]:
    """Return what the store knows, and let nobody else change its definitions meanwhile.

    For the moment between looking and writing; a refresh may go on.
    """
    with _held(context, DEFINITIONS, PATIENCE, None, _DEFINED):
        yield context.catalog()


def check_unchanged(then: Catalog, now: Catalog, names: tuple[str, ...]) -> None:
    """Refuse a definition that was analysed while what it is about was changed by others."""
    for name in map(str.lower, names):
        before = (then.tables.get(name), then.views.get(name))
        if before != (now.tables.get(name), now.views.get(name)):
            raise BusyError(
                f'"{name}" was changed by another process at the same time',
                hint="Run the same command again.",
            )


@contextlib.contextmanager
def _held(
    context: Context,
    file: str,
    wait: float,
    waiting: Callable[[str], None] | None,
    busy: _Busy,
) -> Iterator[None]:
    path = inside(context.root, file)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise ReadOnlyStoreError(
            f'cannot write to the store in "{context.root}"',
            detail=f"{error.strerror}.",
            hint=f"Check who owns it: {shlex.join(('ls', '-ld', str(context.root)))}",
        ) from None
    try:
        _take(descriptor, path, wait, waiting, busy)
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)  # which also gives the lock back


def _take(
    descriptor: int,
    path: Path,
    wait: float,
    waiting: Callable[[str], None] | None,
    busy: _Busy,
) -> None:
    end = time.monotonic() + wait
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        holder = _holder(path)
        if time.monotonic() >= end:
            raise BusyError(busy[0], detail=f"It is {holder}." if holder else "", hint=busy[1])
        if waiting is not None and not told:
            waiting(f"waiting for {holder or 'another process'}")
            told = True
        time.sleep(_PAUSE)


def _sign(descriptor: int) -> None:
    """Write down who holds the lock, for those who wait."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _holder(path: Path) -> str:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return f"process {data['pid']} on {data['host']}, since {data['since']}"
    except (OSError, ValueError, KeyError):
        return ""
