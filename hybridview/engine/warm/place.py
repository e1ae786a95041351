"""A store's folder -> the files of its engine, and the locks by which processes know each other.

They lie in the user's own state folder, not in the store: the token is the user's, and a process
is known on its own machine only. A lock is a file whose lock the kernel releases when its holder
dies, so nothing has to be cleaned up after a crash, and no number of a process is mistaken.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hybridview.errors import UsageError

_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Place:
    """Where the engine of one store keeps its files."""

    folder: Path

    @property
    def record(self) -> Path:
        """What clients need to know of a running server: its address and its token."""
        return self.folder / "engine.json"

    @property
    def log(self) -> Path:
        """What Spark prints."""
        return self.folder / "server.log"

    @property
    def serving(self) -> Path:
        """Locked by the server for as long as it lives."""
        return self.folder / "serving.lock"

    @property
    def starting(self) -> Path:
        """Locked by the command that starts or ends the server."""
        return self.folder / "starting.lock"

    @property
    def used(self) -> Path:
        """Locked, together, by the commands that are attached; its time is the last use."""
        return self.folder / "used.lock"


def place_of(root: Path) -> Place:
    """Return the place of a store's engine; one per store, user and machine."""
    name = f"{socket.gethostname()}\n{root.resolve()}"
    key = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]
    return Place(_state_folder() / "hybridview" / "engines" / key)


def _state_folder() -> Path:
    """Return where programs keep what they need between two runs, but not for ever."""
    named = os.environ.get("XDG_STATE_HOME")
    if named:
        return Path(named)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / f"hybridview-{os.getuid()}"


def make_private(place: Place) -> None:
    """Make the folder, for its user alone; refuse one that others could have prepared."""
    try:
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            place.folder.chmod(0o700)
            return
        why = "It is a link, or somebody else's."
    except OSError as error:
        why = f"{error.strerror}."
    raise UsageError(
        f'the engine cannot keep its files in "{place.folder}"',
        detail=why,
        hint="Name a folder of your own in the environment variable XDG_STATE_HOME.",
    )


class Lock:
    """A lock that is held until `release`, or until its process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the lock back; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def take(path: Path, shared: bool = False, patience: float = 0.0) -> Lock | None:
    """Return the lock of a file, alone or shared with others; None if it cannot be had in time."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return Lock(descriptor)
        except OSError:
            if time.monotonic() >= end:
                os.close(descriptor)
                return None
        time.sleep(_PAUSE)


def is_held(path: Path) -> bool:
    """Say whether somebody holds the lock of a file for himself."""
    free = take(path, shared=True)
    if free is None:
        return True
    free.release()
    return False
