"""A Delta table's folder and a version -> the table as it was then; its log is read once.

Reading a log takes milliseconds, and one refresh asks for the same version of a table several
times: to plan, to write, and to see what landed, which is what the next one plans with. So the
version that was asked for last is kept of each table. It cannot change: while the log has the same
file for it, it is that version.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable

from hybridview.errors import UsageError

MOST = 256
"""Of so many tables a version is kept."""

_Stamp = tuple[int, int, int]


class _Kept(NamedTuple):
    version: int
    stamp: _Stamp
    table: DeltaTable


_kept: OrderedDict[Path, _Kept] = OrderedDict()
_lock = threading.Lock()


def named(path: Path) -> str:
    """Return a folder as delta-rs is told of it, which takes `%20` in a name for a blank."""
    text = str(path)
    if unquote(text) != text:
        raise UsageError(
            f'Delta tables in the folder "{text}" cannot be read',
            detail=f'The library that reads them would look in "{unquote(text)}".',
            hint="Rename the folder, without the percent sign.",
        )
    return text


def opened(path: Path, version: int | None = None) -> DeltaTable:
    """Return a table at a version (the newest if None), for reading: others may be given it too.

    Raises DeltaError if it cannot be read.
    """
    stamp = _stamp(path, version)
    if version is None or stamp is None:
        return DeltaTable(named(path), version=version)
    with _lock:
        kept = _kept.get(path)
        if kept is not None and (kept.version, kept.stamp) == (version, stamp):
            _kept.move_to_end(path)
            return kept.table
    table = DeltaTable(named(path), version=version)
    with _lock:
        _kept[path] = _Kept(version, stamp, table)
        _kept.move_to_end(path)
        if len(_kept) > MOST:
            _kept.popitem(last=False)
    return table


def _stamp(path: Path, version: int | None) -> _Stamp | None:
    """Return what tells the file of a commit from another one; None if it is not there."""
    if version is None:
        return None
    try:
        found = (path / "_delta_log" / f"{version:020d}.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
