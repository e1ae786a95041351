"""The warm engine of a store: start it, end it, see whether it is up."""

from __future__ import annotations

import socket
from collections.abc import Callable

from hybridview.engine.warm.use import AGAIN, EngineStatus, engine_status
from hybridview.errors import EngineError, UsageError, run
from hybridview.operations.context import Context
from hybridview.operations.duration import seconds, spoken

IDLE = "30 minutes"
"""How long an engine stays up without being used."""


def up(
    context: Context, idle: str = IDLE, tell: Callable[[str], None] | None = None
) -> tuple[EngineStatus, bool]:
    """Return the running engine, and whether it had to be started."""
    from hybridview.engine.warm.start import up as start

    length = seconds(idle)
    if not length:
        raise UsageError(f'"{idle}" is not a time', hint='Write it like: --idle "30 minutes"')
    _, started = start(context.root, context.spark_settings, length, tell or (lambda _: None))
    found = status(context)
    if found is None:
        raise EngineError("the engine ended again", hint=run("up"))
    return found, started


def down(context: Context, force: bool = False) -> int | None:
    """End the engine; return the number of its process, None if there was none."""
    from hybridview.engine.warm.end import down as end

    ended = end(context.root, force)
    return ended.pid if ended is not None else None


def status(context: Context) -> EngineStatus | None:
    """Return the running engine; None if it is down."""
    return engine_status(context.root, context.spark_settings)


def trouble(found: EngineStatus) -> tuple[str, str]:
    """Return what is wrong with a running engine and what to do about it; empty if it is fine."""
    if found.changed:
        what = f"commands do without it: started with other settings ({', '.join(found.changed)})"
        return what, f"Run: {AGAIN}"
    try:
        socket.create_connection(("127.0.0.1", found.port), 2).close()
    except OSError:
        return f"it does not answer; its log: {found.log}", run("down", "--force")
    return "", ""


def described(found: EngineStatus) -> str:
    """Return one line about a running engine."""
    since = f"{found.since[:16].replace('T', ' ')} UTC"
    end = "in use" if found.in_use else f"idle timeout {spoken(found.idle_timeout)}"
    return f"process {found.pid}, port {found.port}, since {since}, {end}"
