"""A query's text -> the same text where SQL leaves its answer open, closed in one way.

`LIMIT 10` keeps any ten of the rows that tie; this text says which. Whatever runs a view (its load,
its changes, its verification) runs this text, so that all of them mean the same rows. It is one of
the answers that the author's own text allows.

The text is edited between its tokens and never rebuilt from a parsed tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.schema import TableSchema
from hybridview.sql.closed_calls import with_closed_calls
from hybridview.sql.closed_windows import ALL_ROWS, with_closed_frames
from hybridview.sql.frames import needs_frame
from hybridview.sql.lateral_on import with_lateral_conditions
from hybridview.sql.named_windows import with_written_windows
from hybridview.sql.parse import DIALECT, parse_text
from hybridview.sql.resolve import UnknownTable, resolve
from hybridview.sql.scope import NoRule, OpenLimit, OpenTies, Unresolved
from hybridview.sql.ties import UNKNOWN

Edit = tuple[int, str]
"""Text to insert, and before which character."""


MOST_WINDOWS = 100
"""How many windows and LIMITs of one query are closed, at most."""


def canonical(query: str, width: int, schemas: Mapping[str, TableSchema]) -> str:
    """Return a query's text without open ties, as far as they can be closed.

    `width` is the number of its columns, `schemas` are those of the tables it reads.
    """
    query = with_lateral_conditions(query)
    query = with_closed_frames(with_written_windows(with_closed_calls(query)))
    edits = [edit for region in _regions(query) for edit in _close_limit(query, region, width)]
    query = _edited(query, edits)
    for _ in range(MOST_WINDOWS):
        try:
            (parsed, *_) = parse_text(query)
            if isinstance(parsed, exp.Query):
                resolve(parsed, schemas)
        except (OpenTies, OpenLimit) as ties:
            edits = _close(query, ties)
            if not edits:
                break
            query = _edited(query, edits)
        except (NoRule, Unresolved, UnknownTable, ParseError):
            break
        else:
            break
    return query


def _close(query: str, ties: OpenTies | OpenLimit) -> list[Edit]:
    if isinstance(ties, OpenTies):
        return _close_window(query, ties)
    return _close_nested(query, ties)


def _edited(query: str, edits: list[Edit]) -> str:
    for at, added in sorted(edits, reverse=True):
        query = query[:at] + added + query[at:]
    return query


def _close_window(query: str, ties: OpenTies) -> list[Edit]:
    """Sort the rows of a window also by what it names; in front of its frame, if it has one."""
    windows = [r for r in _regions(query) if r.after_over]
    around = [r for r in windows if r.start <= ties.at < r.end]
    if ties.at == UNKNOWN and len(windows) == 1:
        around = windows
    if not around:
        return []
    region = max(around, key=lambda r: r.start)
    frames = (t for t in region.tokens if t.token_type in (TokenType.ROWS, TokenType.RANGE))
    place = next((t.start for t in frames), region.end)
    ordered = any(t.token_type is TokenType.ORDER_BY for t in region.tokens)
    framed = isinstance(ties.node, exp.Window) and needs_frame(ties.node)
    frame = f"{ALL_ROWS} " if framed and not ordered else ""
    return [(place, f"{', ' if ordered else ' ORDER BY '}{', '.join(ties.by)} {frame}")]


@dataclass
class _Region:
    """The inside of a pair of parentheses, or the whole text, with the tokens right in it."""

    start: int
    end: int
    outermost: bool
    after_over: bool = False
    """Whether it is what stands after OVER."""
    tokens: list[Token] = field(default_factory=list)


def _regions(query: str) -> list[_Region]:
    whole = _Region(0, len(query), True)
    found, stack = [whole], [whole]
    before: Token | None = None
    for token in Dialect.get_or_raise(DIALECT).tokenize(query):
        if token.token_type is TokenType.L_PAREN:
            over = before is not None and before.token_type is TokenType.OVER
            region = _Region(token.end + 1, len(query), False, over)
            found.append(region)
            stack.append(region)
        elif token.token_type is TokenType.R_PAREN and len(stack) > 1:
            stack.pop().end = token.start
        else:
            stack[-1].tokens.append(token)
        before = token
    return found


def _close_limit(query: str, region: _Region, width: int) -> list[Edit]:
    """Sort by all columns, after the author's own keys, where only the first rows are kept."""
    place = _limit(region)
    if place is None:
        return []
    count = width if region.outermost else _width(query[region.start : region.end])
    if not count:
        return []
    return [_by_all(region, place, count)]


def _by_all(region: _Region, limit: Token, count: int) -> Edit:
    columns = ", ".join(str(i + 1) for i in range(count))
    ordered = any(t.token_type is TokenType.ORDER_BY for t in region.tokens)
    # On a line of its own: the text before it may end with a comment.
    return limit.start, f"\n{', ' if ordered else 'ORDER BY '}{columns}\n"


def _limit(region: _Region) -> Token | None:
    """Return the LIMIT or OFFSET right in a region."""
    pairs = zip(region.tokens, region.tokens[1:], strict=False)
    limits = (TokenType.LIMIT, TokenType.OFFSET)
    return next(
        (t for t, n in pairs if t.token_type in limits and n.token_type is TokenType.NUMBER), None
    )


def _close_nested(query: str, ties: OpenLimit) -> list[Edit]:
    """Sort by all columns of a SELECT * whose number only its tables tell."""
    around = [r for r in _regions(query) if r.start <= ties.at < r.end and not r.outermost]
    for region in sorted(around, key=lambda r: r.start, reverse=True):
        place = _limit(region)
        if place is not None and not _is_closed(region, place):
            return [_by_all(region, place, ties.width)]
    return []


def _is_closed(region: _Region, limit: Token) -> bool:
    """Say whether the sort keys before a LIMIT end with 1, 2, ..., as this module adds them."""
    words = [t.text for t in region.tokens if t.end < limit.start and t.text != ","]
    last = int(words[-1]) if words and words[-1].isdigit() else 0
    return last > 0 and words[-last:] == [str(i + 1) for i in range(last)]


def _width(query: str) -> int | None:
    """Return the number of columns of a query by its text; None if only its tables tell."""
    try:
        (parsed, *_) = parse_text(query)
    except ParseError:
        return None
    if not isinstance(parsed, exp.Query):
        return None
    listed = parsed.selects
    stars = [e for e in listed if e.is_star]
    return None if stars or not listed else len(listed)
