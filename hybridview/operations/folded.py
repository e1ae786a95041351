"""A long line of SQL or prose -> lines that fit a terminal; nothing inside quotes is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 100
STEP = 4
"""How much further the lines after the first are indented."""

# A quoted name or string is one piece, whatever is in it.
QUOTED = r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'"
WORDS = r" (?=AND |OR |WHEN |THEN |ELSE |VALUES |FROM |LEFT JOIN |ON |by )"
CLAUSE = re.compile(rf"(?:{QUOTED}|[^`'])*?(?:, |{WORDS}|$)")
"""The rest of a line of SQL, or of a plan, up to where it may be broken."""
SPACE = re.compile(r"\S+(?: |$)")
"""The next word of a sentence."""


def folded(line: str, at: re.Pattern[str] = CLAUSE, width: int = WIDTH) -> list[str]:
    """Return a line in pieces of at most `width` characters, if it can be broken there."""
    body = line.lstrip()
    indent = " " * (len(line) - len(body))
    found: list[str] = []
    for piece in _pieces(body, at):
        if found and len(found[-1]) + len(piece.rstrip()) <= width:
            found[-1] += piece
        else:
            found.append((indent + " " * STEP if found else indent) + piece)
    return [part.rstrip() for part in found] or [line]


def _pieces(body: str, at: re.Pattern[str]) -> Iterator[str]:
    place = 0
    while place < len(body):
        match = at.match(body, place)
        end = match.end() if match is not None and match.end() > place else len(body)
        yield body[place:end]
        place = end


__all__ = ["SPACE", "folded"]
