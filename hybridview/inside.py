"""Names of folders -> a path in the store that cannot lead out of it."""

from __future__ import annotations

import shlex
from pathlib import Path

from hybridview.errors import OutsideStoreError

LOG = "_delta_log"


def inside(root: Path, *parts: str) -> Path:
    """Return root/parts; refuse parts that climb, and links, through which others' files change.

    The root itself may be a link: where a store is, its owner says.
    """
    path = root
    for part in parts:
        path = path / plain_folder(part)
        _refuse_link(root, path)
    _refuse_link(root, path / LOG)
    return path


def plain_folder(name: str) -> str:
    """Return the name of a folder; refuse one that is a way to another place."""
    if not is_folder(name):
        raise OutsideStoreError(
            f"{name!r} cannot be a folder of the store",
            detail="No hybridview writes such a record: somebody changed the bookkeeping table.",
            hint="Restore the store's folder _hybridview from a backup.",
        )
    return name


def is_folder(name: str) -> bool:
    """Say whether a name stands for a folder right here, and for no way to another place."""
    small = len(name.encode(errors="replace")) <= 255
    return small and name not in ("", ".", "..") and not any(sign in name for sign in "/\\\0")


def _refuse_link(root: Path, path: Path) -> None:
    if path.is_symlink():
        raise OutsideStoreError(
            f'"{path}" is a link',
            detail=f'It leads to {path.readlink()}; a store writes inside "{root}" only.',
            hint=f"Remove the link, and refresh again: rm {shlex.quote(str(path))}",
        )
