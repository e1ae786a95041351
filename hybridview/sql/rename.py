"""A query's text -> the same text with one of its sources under another name."""

from __future__ import annotations

from sqlglot import exp

from hybridview.sql.resolve import sources


def rename_source(text: str, parsed: exp.Query, old: str, new: str) -> str:
    """Replace a source's name wherever it is read; columns may still be qualified by the old one.

    `FROM orders` becomes `FROM sales AS orders`: so the rest of the text can stay as it is.
    """
    places: list[tuple[int, int, str]] = []
    for table in sources(parsed):
        if table.name.lower() != old.lower():
            continue
        meta = table.this.meta
        alias = "" if table.alias else f" AS {_quoted(table.name)}"
        places.append((meta["start"], meta["end"] + 1, _quoted(new) + alias))
    for start, end, replacement in sorted(places, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
