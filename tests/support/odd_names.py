"""Names that would break out of SQL text, of a path or of a shell, were they not quoted."""

from __future__ import annotations

ODD = (
    "it's",
    'say "x"',
    "a.b",
    "ünï 数 😀",
    "../../outside",
    "a;b",
    "a -- b",
    "a /* b",
    "*/ b",
    "${env:HOME}",
    "{x} %s %(y)s",
    "\\1 \\g<0> \\",
    "a=b, c",
    "select",
    " blanks ",
    "x'; DROP TABLE t; --",
    "x) AS y, (SELECT 1",
    "$(touch x)",
    "1",
    "t.*",
)
"""For tables and views."""

ODD_COLUMNS = (*ODD, "back`tick", "two\nlines", "`", "tab\there", "at@new")
"""For columns, whose names nobody asks us about."""


def quoted(name: str) -> str:
    """Return a name as a user writes it in SQL."""
    return "`" + name.replace("`", "``") + "`"
