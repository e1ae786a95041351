"""A script -> the text of a `.test` file; the opposite of `cases.parse_cases`."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal

from tests.support.cases import Script, SignedRow, Value


def format_script(script: Script) -> str:
    """Return a script as the text of a `.test` file; `parse_cases` reads it back."""
    lines = [f"# {script.title}"] if script.title else []
    for table in script.tables:
        columns = ", ".join(f"{_quoted_name(n)} {t}" for n, t in table.columns)
        lines.append(f"table {_quoted_name(table.name)}  {columns}")
    lines += [f"view {_quoted_name(view.name)} = {view.sql}" for view in script.views]
    for refresh in script.refreshes:
        lines.append("")
        for change in refresh.changes:
            lines.append(f"change {_quoted_name(change.table)}  {_format_rows(change.rows)}")
        lines.append("refresh")
        for expect in refresh.expects:
            lines.append(f"expect {_quoted_name(expect.view)}  {_format_rows(expect.rows)}")
        for done in refresh.executed:
            lines.append(f"executed {_quoted_name(done.view)} {done.what} {done.method}".rstrip())
    return "\n".join(lines) + "\n"


def _quoted_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name, re.ASCII) else f"`{name}`"


def _format_rows(rows: tuple[SignedRow, ...]) -> str:
    if not rows:
        return "nothing"
    return " | ".join(
        " ".join(["+" if r.weight > 0 else "-", *map(format_value, r.values)]) for r in rows
    )


def format_value(value: Value) -> str:
    """Return a value as a word of a `.test` file."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return f"'{value}'"
    if isinstance(value, str) and not re.fullmatch(r"[^\W\d]\w*", value.replace("NULL", "")):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
