"""Copies of Delta tables that share their files: the same change, again and again, from one state.

A table's data files are never changed, so a copy is a folder of links to them with a log of its
own. A copy can stop at an older version; showing it the later commits then is a change of the
table, the very same one each time, at no cost.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

LOG = "_delta_log"
_OF_VERSION = re.compile(r"(\d{20})\.(json|crc)")


def copy_table(source: Path, target: Path, until: int | None = None) -> None:
    """Copy a Delta table, with the commits up to a version (all if None)."""
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_dir():
            (target / inside).mkdir(parents=True, exist_ok=True)
        elif inside.parts[0] != LOG:
            _link(path, target / inside)
    show_commits(source, target, -1, until)


def show_commits(source: Path, target: Path, after: int, until: int | None = None) -> None:
    """Give a copy the commits of its source that come after a version, oldest first."""
    (target / LOG).mkdir(parents=True, exist_ok=True)
    for path in sorted((source / LOG).iterdir()):
        found = _OF_VERSION.fullmatch(path.name)
        if found is None:
            continue
        version = int(found[1])
        if version <= after or (until is not None and version > until):
            continue
        # Files of a log are copied, not linked: some are written again in place. The checksum
        # file sorts before its commit, so no reader sees a commit without it.
        shutil.copyfile(path, target / LOG / path.name)


def copy_store(source: Path, target: Path) -> None:
    """Copy a folder of Delta tables: data files are shared, everything else is copied."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.suffix in (".parquet", ".bin") and LOG not in path.parts:
            _link(path, place)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
