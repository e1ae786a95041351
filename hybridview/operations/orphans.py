"""Folders under views/ that hold the rows of no view: leftovers of views that were dropped."""

from __future__ import annotations

from pathlib import Path

from hybridview.deltalog import FolderLog, LogGap
from hybridview.operations.context import VIEWS, Context


def unknown(context: Context) -> tuple[Path, ...]:
    """Return the folders under views/ that no record names."""
    folder = context.root / VIEWS
    known = {view.folder for view in context.catalog().views.values()}
    if not folder.is_dir():
        return ()
    return tuple(
        path
        for path in sorted(folder.iterdir())
        if path.is_dir() and not path.is_symlink() and path.name not in known
    )


def orphans(context: Context) -> tuple[str, ...]:
    """Return those that are certainly ours: a former record named them, or their table says so.

    Others may be somebody's files that only happen to lie there.
    """
    former = {view.folder for view in context.catalog().definitions.values()}
    return tuple(path.name for path in unknown(context) if path.name in former or _is_marked(path))


def _is_marked(path: Path) -> bool:
    log = FolderLog(path)
    try:
        return log.exists() and "hybridview.view" in log.info().properties
    except LogGap:
        return False
