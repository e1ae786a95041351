"""The values that a column of a change has -> a condition by which Delta Lake skips files.

The condition holds for every row with one of the values, NULL included; it may hold for others.
A list of many values is no help to Delta Lake, which looks at its smallest and its largest alone:
so values are covered by spans, with the widest gaps between them left out. It is a help to Parquet,
which knows the smallest and the largest value of every page of a file, and reads the others not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import Any

from hybridview.compiler.statements import quote
from hybridview.engine import inline
from hybridview.filestats import FileBounds

MOST_VALUES = 400
"""How many values are listed; beyond that spans are enough, and the join does the rest.

Parquet compares each of them with each page, in every file. Of 60 million sorted rows, a list of
150 scattered values is found in 0.4 of the time of reading all, of 300 in half, of 700 in three
quarters; 1,500 take half as long again."""

RUN, NEXT_TO = 16, 4
"""So many whole numbers or more, each at most so far from the one before, are a run: they lie in
neighbouring pages, as new rows do, and need not be listed."""

LISTED_TOGETHER = 200
"""Values in one list. Spark tells Parquet the values of a list of no more than a set number, as a
chain of comparisons that Parquet follows by recursion: 2,000 of them overflow its stack."""

PAGE_ROWS = 20_000
"""Rows in a page of a Parquet file, unless its writer was told otherwise."""

MOST_SPANS = 16
"""How many spans cover the values: each is compared with every row of the files that are read."""

USEFUL_SHARE = 0.7
"""A condition that leaves more than this share of a table's rows to be read is left out."""

INTEGERS = ("tinyint", "smallint", "int", "bigint")

Span = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one column: whether NULL is among them, spans that cover the others, or a list."""

    type: str
    null: bool
    spans: tuple[Span, ...]
    """Disjoint and in order; texts of the first and the last value."""
    listed: tuple[str, ...] | None
    """All of them but NULL and those in runs, if they are few."""
    runs: tuple[Span, ...] = ()
    """First and last value of each run, if the others are listed."""


def orderable(type_name: str) -> bool:
    """Say whether values of a type can be put in the order Spark puts them in."""
    return _order(type_name) is not None


def of_texts(type_name: str, texts: Iterable[str | None]) -> Values | None:
    """Return the values given as texts; None if their order is not known."""
    order = _order(type_name)
    found = set(texts)
    null = None in found
    if order is None:
        return None
    try:
        known = sorted((text for text in found if text is not None), key=order)
    except (ValueError, ArithmeticError):  # a year of five digits, for one
        return None
    return _of_known(type_name, known, (), null)


def _of_known(type_name: str, known: Sequence[str], runs: Sequence[Span], null: bool) -> Values:
    """Return some values in order, and those of some runs."""
    single, more = _without_runs(type_name, known)
    all_runs = (*runs, *more)
    every = [*((text, text) for text in single), *all_runs]
    covered = _covered(type_name, every)
    if len(single) > MOST_VALUES or len(all_runs) > MOST_SPANS:
        return Values(type_name, null, covered, None)
    return Values(type_name, null, covered, tuple(single), all_runs)


def _without_runs(type_name: str, known: Sequence[str]) -> tuple[list[str], list[Span]]:
    """Part whole numbers, in order, into single ones and runs."""
    if type_name not in INTEGERS:
        return list(known), []
    single: list[str] = []
    runs: list[Span] = []
    start = 0
    for end in range(1, len(known) + 1):
        if end < len(known) and int(known[end]) - int(known[end - 1]) <= NEXT_TO:
            continue
        if end - start >= RUN:
            runs.append((known[start], known[end - 1]))
        else:
            single += known[start:end]
        start = end
    return single, runs


def of_runs(type_name: str, runs: Sequence[Span], null: bool) -> Values | None:
    """Return values given as runs that cover them: first and last value of each, as texts."""
    if not orderable(type_name):
        return None
    try:
        return Values(type_name, null, _covered(type_name, runs), None)
    except (ValueError, ArithmeticError):
        return None


def together(found: Sequence[Values]) -> Values | None:
    """Return the values of all: a table may be read near several changes."""
    kinds = {values.type for values in found}
    if len(kinds) != 1:
        return None
    null = any(values.null for values in found)
    if all(values.listed is not None for values in found):
        order = _ordering(found[0])
        texts = sorted({t for values in found for t in values.listed or ()}, key=order)
        known_runs = [run for values in found for run in values.runs]
        return _of_known(found[0].type, texts, known_runs, null)
    runs = [span for values in found for span in values.spans]
    return of_runs(found[0].type, runs, null)


def condition(column: str, values: Values, alias: str = "") -> str:
    """Return SQL that holds for all rows whose column has one of the values.

    The column stands alone and the literals have its type: only then are files skipped.
    """
    name = f"{alias}.{quote(column)}" if alias else quote(column)
    alternatives = [f"{name} IS NULL"] if values.null else []
    if values.listed:
        lists = _among(name, values.type, values.listed, values.runs)
        spans = _within(name, values.type, values.spans) if len(values.spans) > 1 else ""
        # The lists first: each is one look-up for a row, and few rows get to the spans.
        alternatives.append(f"({lists} AND ({spans}))" if spans else lists)
    elif values.spans:
        alternatives.append(_within(name, values.type, values.spans))
    return " OR ".join(alternatives) or "FALSE"


def _among(name: str, type_name: str, texts: Sequence[str], runs: Sequence[Span]) -> str:
    typed = [_literal(text, type_name) for text in texts]
    step = LISTED_TOGETHER
    lists = [", ".join(typed[start : start + step]) for start in range(0, len(typed), step)]
    among = [f"{name} IN ({listed})" for listed in lists]
    among += [_within(name, type_name, runs)] if runs else []
    return f"({' OR '.join(among)})"


def _within(name: str, type_name: str, spans: Sequence[Span]) -> str:
    return " OR ".join(
        f"{name} BETWEEN {_literal(low, type_name)} AND {_literal(high, type_name)}"
        for low, high in spans
    )


def _literal(text: str, type_name: str) -> str:
    # Plain digits are quickly read by the thousand; beside a BIGINT an INT becomes one.
    return text if type_name in ("int", "bigint") else inline.typed(text, type_name)


def share_of_files(values: Values, files: Sequence[FileBounds]) -> float:
    """Return the share of a table's rows that lie in files the condition does not skip."""
    rows = sum(file.rows for file in files)
    return sum(file.rows for file in unskipped(values, files)) / rows if rows else 0.0


def share(values: Values, files: Sequence[FileBounds]) -> float:
    """Return about which share of a table's rows the condition leaves to be read.

    Of a file that is not skipped, as many pages are read as it may have listed values in it, and
    as much as runs cover of it: so it is if its rows are sorted. If they are not, the condition
    does little, but no harm.
    """
    rows = sum(file.rows for file in files)
    if not rows:
        return 0.0
    order = _ordering(values)
    listed = [order(text) for text in values.listed] if values.listed is not None else None
    left = 0
    for file in unskipped(values, files):
        pages = None if listed is None or values.null else _listed_in(file, listed)
        in_runs = sum(_rows_between(file, int(low), int(high)) for low, high in values.runs)
        left += file.rows if pages is None else min(file.rows, pages * PAGE_ROWS + in_runs)
    return left / rows


def _rows_between(file: FileBounds, low: int, high: int) -> int:
    """Return about how many rows of a file, evenly filled and sorted, pages with a run have."""
    if not isinstance(file.low, int) or not isinstance(file.high, int):
        return file.rows
    common = min(high, file.high) - max(low, file.low) + 1
    return 0 if common <= 0 else PAGE_ROWS + file.rows * common // (file.high - file.low + 1)


def _listed_in(file: FileBounds, ordered: list[Any]) -> int | None:
    """Return how many of some values, in order, a file may hold; None if that is not known."""
    if file.low is None or file.high is None:
        return None
    try:
        return bisect_right(ordered, file.high) - bisect_left(ordered, file.low)
    except TypeError:
        return None


def unskipped(values: Values, files: Sequence[FileBounds]) -> list[FileBounds]:
    """Return the files that the condition does not skip."""
    order = _ordering(values)
    spans = [(order(low), order(high)) for low, high in values.spans]
    return [file for file in files if _touched(file, spans, values.null)]


def _ordering(values: Values) -> Callable[[str], Any]:
    order = _order(values.type)
    assert order is not None
    return order


def _touched(file: FileBounds, spans: list[tuple[Any, Any]], null: bool) -> bool:
    if file.low is None or file.high is None:
        # No statistics, or nothing but NULLs.
        return file.nulls is None or file.nulls < file.rows or null
    if null and file.nulls:
        return True
    try:
        return any(low <= file.high and high >= file.low for low, high in spans)
    except TypeError:
        return True


def _covered(type_name: str, runs: Sequence[Span]) -> tuple[Span, ...]:
    """Join neighbouring runs until they are few; the widest gaps stay gaps."""
    apart = _apart(type_name, runs)
    if len(apart) <= MOST_SPANS:
        return apart
    width = _width(type_name)
    gaps = range(1, len(apart))
    if width is None:
        # How far apart two texts are has no number: equally many runs go into each span.
        step = len(apart) / MOST_SPANS
        cuts = sorted({round(step * i) for i in range(1, MOST_SPANS)})
    else:
        widest = sorted(gaps, key=lambda i: width(apart[i - 1][1], apart[i][0]), reverse=True)
        cuts = sorted(widest[: MOST_SPANS - 1])
    bounds = zip([0, *cuts], [*cuts, len(apart)], strict=True)
    return tuple((apart[a][0], apart[b - 1][1]) for a, b in bounds if a < b)


def _apart(type_name: str, runs: Sequence[Span]) -> tuple[Span, ...]:
    """Return the same values as runs in order that do not overlap.

    Runs of several changes may: then the one that starts last need not be the one that ends last.
    """
    order = _order(type_name)
    assert order is not None
    keyed = sorted(((order(low), order(high), low, high) for low, high in runs), key=itemgetter(0))
    found: list[tuple[Any, str, str]] = []
    for first, last, low, high in keyed:
        if not found or first > found[-1][0]:
            found.append((last, low, high))
        elif last > found[-1][0]:
            found[-1] = (last, found[-1][1], high)
    return tuple((low, high) for _, low, high in found)


def _order(type_name: str) -> Callable[[str], Any] | None:
    """Return what puts texts of a type in Spark's order; None if nothing is known to."""
    if type_name in INTEGERS:
        return int
    if type_name == "date":
        return date.fromisoformat
    if type_name.startswith("decimal("):
        return Decimal
    if type_name == "string":
        return _utf8
    return None


def _utf8(text: str) -> bytes:
    """Spark compares texts byte by byte."""
    return text.encode("utf-8", "surrogatepass")


def _width(type_name: str) -> Callable[[str, str], Any] | None:
    """Return what measures the gap between two values."""
    if type_name == "string":
        return None
    order = _order(type_name)
    assert order is not None
    return lambda low, high: order(high) - order(low)


__all__ = ["Values", "condition", "of_runs", "of_texts", "share", "together", "unskipped"]
