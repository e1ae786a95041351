"""What a running server says of itself: written by it, read by every command."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from hybridview.engine.local import SETTINGS
from hybridview.engine.warm.place import Place, take
from hybridview.redact import learn

_PACKAGES = ("hybridview", "pyspark", "delta-spark")


@dataclass(frozen=True, slots=True)
class Record:
    """One server: the process, how to reach it, and what it was started with."""

    pid: int
    born: str
    """When the process started, as the system says: a number may be given to another process."""
    port: int
    token: str = field(repr=False)
    since: str
    idle: float
    """Seconds without an attached command after which it ends."""
    store: str
    started_with: dict[str, str]
    """Names of settings and packages, each with a digest: a value may be a credential."""

    @property
    def url(self) -> str:
        # Only to this name does the client send a token without TLS.
        return f"sc://localhost:{self.port}/;token={self.token}"

    def differences(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """Return the settings and packages that are others now than when it was started."""
        now = fingerprint(settings, self.token)
        names = sorted({*now, *self.started_with})
        return tuple(n for n in names if now.get(n) != self.started_with.get(n))


def fingerprint(settings: Mapping[str, str], salt: str) -> dict[str, str]:
    """Return what makes a session, each value as a digest."""
    parts = {**SETTINGS, **settings, **{name: metadata.version(name) for name in _PACKAGES}}
    return {
        name: hashlib.sha256(f"{salt}\n{value}".encode()).hexdigest()[:16]
        for name, value in parts.items()
    }


def write(place: Place, record: Record) -> None:
    """Put the record in its place, at once and readable for its user alone."""
    draft = place.record.with_suffix(f".{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(record), file)
    draft.replace(place.record)


def read(place: Place) -> Record | None:
    """Return the record; None if there is none that was written by this user."""
    try:
        with os.fdopen(os.open(place.record, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            record = Record(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None
    learn({"token": record.token})
    return record


def find(place: Place) -> Record | None:
    """Return the server that is up; the record of one that died is removed.

    A server holds its lock while it lives. Whoever gets the lock knows that there is none, and
    keeps a new one from starting until the old record is gone.
    """
    record = read(place)
    if record is None:
        return None
    free = take(place.serving, shared=True)
    if free is None:
        return record
    place.record.unlink(missing_ok=True)
    free.release()
    return None


def birth(pid: int) -> str:
    """Return when a process started, as text to compare; empty if there is no such process."""
    if Path("/proc/self/stat").exists():
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        # The name in parentheses may hold anything; the 20th word after it is the start.
        return text.rpartition(")")[2].split()[19]
    words = ["ps", "-o", "lstart=", "-p", str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
