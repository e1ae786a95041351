"""Text of a `.test` file -> scripts: tables, views, changes, refreshes and what they must do.

Nothing here knows an engine. A runner creates the tables and views of a script, then, for each
`Refresh`: applies its changes to the base tables, refreshes all views, and compares.

A file holds scripts, separated by a line `---`. A script is read line by line; a line that starts
with a blank continues the one before it; `#` starts a comment line.

    table orders  id int, amount decimal(10,2)      Spark types; odd names stand in backticks
    view  big = SELECT id FROM orders               may read tables and the views above it
    change orders  + 1 5.50 | - 2 NULL | ~ 3 1 > 3 2
    refresh
    expect  + 1 | - 2                               or: expect big  + 1, or: expect nothing
    executed incremental add                        or: executed big none

Values stand between blanks: NULL is the word, a string with blanks or quotes (or one that looks
like a number, `NULL`, `|` or `>`) stands in single quotes, a quote inside is doubled.

`change` rows: `+` a row comes, `-` one copy of a row goes, `~ old > new` is one of each.
`expect` is the difference of a view's rows to those after the refresh before; a view starts
without rows, so the first `expect` lists its first rows. Every refresh must have an `expect` for
every view. `executed` is what an incremental refresh did (`none`, `incremental`), and with which
method (`add`, `replace`, `patch`); a script does not say it of the first refresh, which loads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

Value = int | float | Decimal | str | bool | date | datetime | None
Row = tuple[Value, ...]

CASES = Path(__file__).parent.parent / "cases"

_TOKEN = re.compile(r"'((?:[^']|'')*)'|(\S+)")


class CaseError(Exception):
    """A `.test` file that cannot be read: the place and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Table:
    """A base table; `columns` are (name, Spark type)."""

    name: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class View:
    """A view and its SQL text."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class SignedRow:
    """A row that comes (weight 1) or goes (weight -1)."""

    weight: int
    values: Row


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of one base table that come and go, in the order they are written."""

    table: str
    rows: tuple[SignedRow, ...]


@dataclass(frozen=True, slots=True)
class Expect:
    """The rows a view gains and loses by a refresh; numbers are Decimals (see `comparable`)."""

    view: str
    rows: tuple[SignedRow, ...]


@dataclass(frozen=True, slots=True)
class Executed:
    """What an incremental refresh does to a view; `method` is "" if the script leaves it open."""

    view: str
    what: str
    method: str = ""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Changes that are applied together, one refresh of all views, and its outcome."""

    line: int
    changes: tuple[Change, ...] = ()
    expects: tuple[Expect, ...] = ()
    executed: tuple[Executed, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """One case: what exists, and what happens in order. `title` is its first comment."""

    title: str
    tables: tuple[Table, ...]
    views: tuple[View, ...]
    refreshes: tuple[Refresh, ...]
    source: str = ""

    @property
    def name(self) -> str:
        """A short name for a test report: `join.test:12`."""
        return self.source or self.title


def read_cases(folder: Path = CASES) -> tuple[Script, ...]:
    """Return all scripts of all `.test` files below a folder, in the order of their names."""
    found = sorted(folder.rglob("*.test"))
    return tuple(script for path in found for script in read_file(path))


def read_file(path: Path) -> tuple[Script, ...]:
    """Return the scripts of one file."""
    return parse_cases(path.read_text(encoding="utf-8"), path.name)


def parse_cases(text: str, source: str = "case") -> tuple[Script, ...]:
    """Return the scripts of a file's text; `source` names the file in errors and scripts."""
    scripts: list[Script] = []
    reader = _Reader(source)
    for number, line in _joined_lines(text):
        if line.strip() == "---":
            scripts.append(reader.finish())
            reader = _Reader(source)
        else:
            reader.read(number, line)
    scripts.append(reader.finish())
    return tuple(scripts)


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) without empty lines; continuation lines are put to their start."""
    pending: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line[0].isspace() and pending is not None and not pending[1].startswith("#"):
            pending = (pending[0], f"{pending[1]}\n{line.rstrip()}")
            continue
        if pending is not None:
            yield pending
        pending = (number, line.rstrip())
    if pending is not None:
        yield pending


class _Reader:
    """Collects the lines of one script."""

    def __init__(self, source: str) -> None:
        self.source, self.start, self.title = source, 0, ""
        self.tables: list[Table] = []
        self.views: list[View] = []
        self.changes: list[Change] = []
        self.refreshes: list[Refresh] = []

    def read(self, number: int, line: str) -> None:
        if line.startswith("#"):
            self.title = self.title or line.lstrip("# ").rstrip()
            return
        self.start = self.start or number
        word, _, rest = line.partition(" ")
        try:
            match word:
                case "table":
                    self.tables.append(_table(rest))
                case "view":
                    self.views.append(_view(rest))
                case "change":
                    self.changes.append(self._change(rest))
                case "refresh":
                    self.refreshes.append(Refresh(number, tuple(self.changes)))
                    self.changes = []
                case "expect":
                    self._outcome(expect=self._expect(rest))
                case "executed":
                    self._outcome(executed=self._executed(rest))
                case _:
                    raise CaseError(f"unknown word {word!r}")
        except CaseError as error:
            raise CaseError(f"{self.source}:{number}: {error}") from None

    def finish(self) -> Script:
        place = f"{self.source}:{self.start}"
        if not self.views or not self.refreshes or self.changes:
            raise CaseError(f"{place}: a script has a view, and ends with a refresh")
        names = {view.name for view in self.views}
        for refresh in self.refreshes:
            if {expect.view for expect in refresh.expects} != names:
                raise CaseError(
                    f"{self.source}:{refresh.line}: a refresh needs one expect for every view"
                )
        return Script(
            self.title, tuple(self.tables), tuple(self.views), tuple(self.refreshes), place
        )

    def _change(self, rest: str) -> Change:
        name, rows = _name(rest)
        table = next((t for t in self.tables if t.name == name), None)
        if table is None:
            raise CaseError(f"there is no table {name!r}")
        types = [kind for _, kind in table.columns]
        return Change(name, tuple(_typed_rows(rows, types)))

    def _expect(self, rest: str) -> Expect:
        view, rows = self._view_name(rest)
        if rows.strip() == "nothing":
            return Expect(view, ())
        return Expect(view, tuple(_untyped_rows(rows)))

    def _executed(self, rest: str) -> Executed:
        view, words = self._view_name(rest)
        what, _, method = words.strip().partition(" ")
        if what not in ("none", "incremental"):
            raise CaseError(f"executed is none or incremental, not {what!r}")
        return Executed(view, what, method.strip())

    def _view_name(self, rest: str) -> tuple[str, str]:
        """Split `[view] rest`; the name may be left out if there is one view."""
        name, after = _name(rest)
        if any(view.name == name for view in self.views):
            return name, after
        if len(self.views) == 1:
            return self.views[0].name, rest.strip()
        raise CaseError(f"there is no view {name!r}")

    def _outcome(self, expect: Expect | None = None, executed: Executed | None = None) -> None:
        if not self.refreshes or self.changes:
            raise CaseError("an outcome stands after its refresh")
        last = self.refreshes[-1]
        self.refreshes[-1] = Refresh(
            last.line,
            last.changes,
            (*last.expects, expect) if expect else last.expects,
            (*last.executed, executed) if executed else last.executed,
        )


def _name(text: str) -> tuple[str, str]:
    """Split off the name a text starts with; backticks may stand around it."""
    text = text.strip()
    if text.startswith("`"):
        end = text.index("`", 1)
        return text[1:end], text[end + 1 :].strip()
    name, *rest = text.split(None, 1)
    return name, rest[0] if rest else ""


def _table(rest: str) -> Table:
    name, columns = _name(rest)
    return Table(name, tuple(_name(part) for part in _split_columns(columns)))


def _split_columns(text: str) -> list[str]:
    """Split at the commas that stand outside parentheses and backticks."""
    return re.findall(r"(?:`[^`]*`|\([^)]*\)|[^,(`])+", text)


def _view(rest: str) -> View:
    name, definition = _name(rest)
    if not definition.startswith("="):
        raise CaseError("a view is written: view name = SELECT ...")
    return View(name, definition[1:].strip())


def _signed_tokens(text: str) -> Iterator[tuple[int, list[tuple[str, bool]]]]:
    """Yield each row's weight and its (text, quoted) values."""
    rows: list[list[tuple[str, bool]]] = [[]]
    for found in _TOKEN.finditer(text):
        if found[2] == "|":
            rows.append([])
        elif found[2] is not None:
            rows[-1].append((found[2], False))
        else:
            rows[-1].append((found[1].replace("''", "'"), True))
    for row in rows:
        sign = row[0][0] if row else ""
        if sign == "~":
            middle = row.index((">", False))
            yield -1, row[1:middle]
            yield 1, row[middle + 1 :]
        elif sign in ("+", "-"):
            yield (1 if sign == "+" else -1), row[1:]
        else:
            raise CaseError(f"a row starts with +, - or ~, not {sign!r}")


def _typed_rows(text: str, types: list[str]) -> Iterator[SignedRow]:
    for weight, values in _signed_tokens(text):
        if len(values) != len(types):
            raise CaseError(f"a row has {len(types)} values, not {len(values)}")
        pairs = zip(values, types, strict=True)
        yield SignedRow(weight, tuple(_typed(word, quoted, t) for (word, quoted), t in pairs))


def _typed(word: str, quoted: bool, type_name: str) -> Value:
    """Return a word as a value of a Spark type."""
    if word == "NULL" and not quoted:
        return None
    kind = type_name.lower().split("(")[0]
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return int(word)
    if kind == "decimal":
        return Decimal(word)
    if kind in ("float", "double"):
        return float(word)
    if kind == "boolean":
        return word == "true"
    if kind == "date":
        return date.fromisoformat(word)
    if kind == "timestamp":
        return datetime.fromisoformat(word)
    return word


def _untyped_rows(text: str) -> Iterator[SignedRow]:
    for weight, values in _signed_tokens(text):
        yield SignedRow(weight, tuple(_guessed(word, quoted) for word, quoted in values))


def _guessed(word: str, quoted: bool) -> Value:
    """Return a word of an expected row: NULL, a number, or text."""
    if quoted:
        return word
    if word == "NULL":
        return None
    try:
        return comparable(Decimal(word))
    except InvalidOperation:
        return word


def comparable(value: Any) -> Value:
    """Return an engine's value in the form expected rows have, so that equal things are equal.

    Numbers become Decimals; floating point ones are rounded to nine digits behind the point,
    because engines add them up in different orders. Dates and truth values become text.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return Decimal(repr(round(value, 9))) + 0
    if isinstance(value, int | Decimal):
        return Decimal(value)
    return str(value)


def rows_after(expects: Iterable[Expect]) -> Counter[Row]:
    """Return the rows a view has after some refreshes, each with the number of its copies."""
    total: Counter[Row] = Counter()
    for expect in expects:
        for row in expect.rows:
            total[row.values] += row.weight
    negative = [row for row, copies in total.items() if copies < 0]
    if negative:
        raise CaseError(f"rows expected to go that never came: {negative}")
    return +total
