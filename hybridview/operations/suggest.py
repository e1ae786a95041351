"""A name that is not there + the names that are -> a sentence with the closest ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def closest(name: str, known: Sequence[str], what: str) -> str:
    """Return `Did you mean ...?`, or the known names, or that there are none."""
    if not known:
        return f"There are no {what} yet."
    lowered = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.6)
    if found:
        return "Did you mean " + " or ".join(f'"{lowered[f]}"' for f in found) + "?"
    shown = ", ".join(sorted(known)[:8]) + (", ..." if len(known) > 8 else "")
    return f"Known {what}: {shown}."
