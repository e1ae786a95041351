"""Names users give: which are refused, and which folder a view gets."""

from __future__ import annotations

import hashlib
import re

from hybridview.errors import ReservedNameError
from hybridview.schema import HIDDEN, RESERVED_COLUMNS

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def check_name(name: str, what: str) -> None:
    """Refuse names hybridview needs for itself, and empty ones."""
    problem = ""
    if not name.strip():
        problem = "It is empty."
    elif name.lower().startswith(HIDDEN) or name.lower() in RESERVED_COLUMNS:
        problem = f"Names starting with {HIDDEN} and the change feed's own columns are reserved."
    elif "@" in name or "`" in name:
        problem = "The characters @ and ` mark relations inside a refresh."
    if problem:
        raise ReservedNameError(
            f'"{name}" cannot be the name of a {what}', detail=problem, hint="Choose another name."
        )


def folder_name(name: str) -> str:
    """Return a folder for a view: its name if that is plain, else a plain form of it and a hash.

    The hash keeps apart names that look alike as folders, and no name can lead out of the store.
    """
    if _PLAIN.fullmatch(name):
        return name.lower() if name == name.lower() else f"{name.lower()}-{_hash(name)}"
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").lower()[:60] or "view"
    return f"{plain}-{_hash(name)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]
