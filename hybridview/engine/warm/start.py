"""`up`: start the server of a store, and return when it answers."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hybridview.engine.connect import REMOTE
from hybridview.engine.local import check_java
from hybridview.engine.warm.place import Place, is_held, make_private, place_of, take
from hybridview.engine.warm.record import Record, find
from hybridview.errors import BusyError, EngineError, UsageError, command
from hybridview.redact import learn

PATIENCE = 600.0
"""Seconds for a start: the first one downloads JARs."""
PACKAGES = ("grpc", "grpc_status", "pandas", "pyarrow", "google.rpc")
"""What a client of Spark Connect imports."""
TAKEN = 75
"""Exit code of a server that finds another one at work."""
SERVER = ("-P", "-m", "hybridview.engine.warm.server")
"""How Python runs the server; -P: a file in the working folder must not pass for a module."""
_PAUSE = 0.1


def up(
    root: Path, settings: Mapping[str, str], idle: float, tell: Callable[[str], None]
) -> tuple[Record, bool]:
    """Return the server of a store, and whether it had to be started.

    `tell` hears what is being waited for.
    """
    _check(settings)
    place = place_of(root)
    make_private(place)
    lock = take(place.starting)
    if lock is None:
        tell("waiting for another command that starts or ends the engine")
        lock = take(place.starting, patience=PATIENCE)
    if lock is None:
        raise BusyError("another command has been starting the engine for ten minutes")
    try:
        return _up(place, root, settings, idle, tell)
    finally:
        lock.release()


def _up(
    place: Place,
    root: Path,
    settings: Mapping[str, str],
    idle: float,
    tell: Callable[[str], None],
) -> tuple[Record, bool]:
    found = find(place)
    if found is not None:
        others = found.differences(settings)
        if not others:
            return found, False
        raise EngineError(
            "the engine is up, with other settings",
            detail=f"Changed since: {', '.join(others)}.",
            hint=f"Run: {command('down')} && {command('up')}",
        )
    tell("starting Spark")
    token = secrets.token_urlsafe(32)
    learn({"token": token})
    order = {
        "token": token,
        "settings": dict(settings),
        "idle": idle,
        "store": str(root.resolve()),
    }
    server = _spawn(place, json.dumps(order))
    try:
        record = _await(place, server)
        return record, record.pid == server.pid
    except BaseException:
        _kill(server)
        raise


def _spawn(place: Place, order: str) -> subprocess.Popen[str]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    log = os.open(place.log, flags, 0o600)
    try:
        server = subprocess.Popen(
            [sys.executable, *SERVER, str(place.folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C in this terminal is not meant for it
        )
    finally:
        os.close(log)
    assert server.stdin is not None
    try:
        server.stdin.write(order)
        server.stdin.close()
    except BrokenPipeError:
        pass  # it died at once; its log says why
    return server


def _await(place: Place, server: subprocess.Popen[str]) -> Record:
    """Return the server's record once it is there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ended = server.poll()
        record = find(place)
        if record is not None:
            return record
        # One whose `up` was killed may be starting; then that one is waited for.
        if ended is not None and not (ended == TAKEN and is_held(place.serving)):
            raise EngineError(
                "the engine did not start",
                detail=_last_line(place),
                hint=f"Read its log: {place.log}",
            )
        time.sleep(_PAUSE)
    raise EngineError(
        f"the engine did not start within {PATIENCE:.0f} seconds",
        hint=f"Read its log: {place.log}",
    )


def _last_line(place: Place) -> str:
    """Return what the server complained of last."""
    lines = place.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _kill(server: subprocess.Popen[str]) -> None:
    """End a server that is being started, with its JVM; it is our child, so its number is its."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _check(settings: Mapping[str, str]) -> None:
    if REMOTE in settings:
        raise UsageError(
            f"hybridview.toml names a Spark Connect server already: {REMOTE}",
            hint="Commands use that one; remove the setting to have an engine of your own.",
        )
    missing = [name for name in PACKAGES if not _is_there(name)]
    if missing:
        raise UsageError(
            "the engine needs packages that are not installed",
            detail=f"Missing: {', '.join(missing)}.",
            hint="Run: pip install 'pyspark[connect]'",
        )
    check_java()


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
