"""Names users give: which are refused, and which folder a view gets."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path

from hybridview.errors import ReservedNameError, UsageError
from hybridview.schema import HIDDEN, RESERVED_COLUMNS

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, marks that turn text around, halves of characters, line separators."""

_UNREADABLE = re.compile(r"[%\\\x00-\x1f\x7f]")
"""Delta logs are read by a library that takes these in a path for something else."""
_UNWRITABLE = re.compile(r"[%\\\x00-\x1f\x7f|^\[\]]")


def check_name(name: str, what: str) -> None:
    """Refuse names hybridview needs for itself, and empty ones."""
    problem = ""
    if not name.strip():
        problem = "It is empty."
    elif name.lower().startswith(HIDDEN) or name.lower() in RESERVED_COLUMNS:
        problem = f"Names starting with {HIDDEN} and the change feed's own columns are reserved."
    elif "@" in name or "`" in name:
        problem = "The characters @ and ` mark relations inside a refresh."
    elif any(unicodedata.category(c) in _UNSEEN for c in name):
        problem = "It has line breaks or other characters that cannot be seen."
    if problem:
        raise ReservedNameError(
            f"{_shown(name)} cannot be the name of a {what}",
            detail=problem,
            hint="Choose another name.",
        )


def check_path(path: Path, written: bool = False) -> None:
    """Refuse a folder whose log would be looked for in another place, or not be found."""
    full = str(path) if "\0" in str(path) else str(path.resolve())
    found = (_UNWRITABLE if written else _UNREADABLE).search(full)
    if found:
        raise UsageError(
            f"{_shown(full)} cannot be used",
            detail=f"The character {found[0]!r} in a path is not read as it stands.",
            hint="Rename the folder, or choose another one.",
        )


def _shown(text: str) -> str:
    """Return a text in quotes, with what cannot be seen made visible."""
    return f'"{text}"' if text.isprintable() else repr(text)


def folder_name(name: str) -> str:
    """Return a folder for a view: its name if that is plain, else a plain form of it and a hash.

    The hash keeps apart names that look alike as folders, and no name can lead out of the store.
    """
    if _PLAIN.fullmatch(name):
        return name.lower() if name == name.lower() else f"{name.lower()}-{_hash(name)}"
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").lower()[:60] or "view"
    return f"{plain}-{_hash(name)}"


def free_folder(name: str, view_id: str, taken: Collection[str]) -> str:
    """Return a folder for a new view that no other view has.

    A view that was renamed keeps its folder; its old name is free for another view, the folder not.
    """
    folder = folder_name(name)
    return f"{folder}-{view_id[:8]}" if folder in taken else folder


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]
