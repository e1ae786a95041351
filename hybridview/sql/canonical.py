"""A query's text -> the same text where SQL leaves its answer open, closed in one way.

`LIMIT 10` keeps any ten of the rows that tie; this text says which. Whatever runs a view (its load,
its changes, its verification) runs this text, so that all of them mean the same rows. It is one of
the answers that the author's own text allows.

The text is edited between its tokens and never rebuilt from a parsed tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.parse import DIALECT

Edit = tuple[int, str]
"""Text to insert, and before which character."""


def canonical(query: str, width: int) -> str:
    """Return a query's text without open ties; `width` is the number of its columns."""
    edits = [edit for region in _regions(query) for edit in _close_limit(query, region, width)]
    for at, added in sorted(edits, reverse=True):
        query = query[:at] + added + query[at:]
    return query


@dataclass
class _Region:
    """The inside of a pair of parentheses, or the whole text, with the tokens right in it."""

    start: int
    end: int
    outermost: bool
    tokens: list[Token] = field(default_factory=list)


def _regions(query: str) -> list[_Region]:
    whole = _Region(0, len(query), True)
    found, stack = [whole], [whole]
    for token in Dialect.get_or_raise(DIALECT).tokenize(query):
        if token.token_type is TokenType.L_PAREN:
            region = _Region(token.end + 1, len(query), False)
            found.append(region)
            stack.append(region)
        elif token.token_type is TokenType.R_PAREN and len(stack) > 1:
            stack.pop().end = token.start
        else:
            stack[-1].tokens.append(token)
    return found


def _close_limit(query: str, region: _Region, width: int) -> list[Edit]:
    """Sort by all columns, after the author's own keys, where only the first rows are kept."""
    pairs = zip(region.tokens, region.tokens[1:], strict=False)
    limits = (TokenType.LIMIT, TokenType.OFFSET)
    place = next(
        (t for t, n in pairs if t.token_type in limits and n.token_type is TokenType.NUMBER), None
    )
    if place is None:
        return []
    count = width if region.outermost else _width(query[region.start : region.end])
    if not count:
        return []
    columns = ", ".join(str(i + 1) for i in range(count))
    ordered = any(t.token_type is TokenType.ORDER_BY for t in region.tokens)
    # On a line of its own: the text before it may end with a comment.
    return [(place.start, f"\n{', ' if ordered else 'ORDER BY '}{columns}\n")]


def _width(query: str) -> int | None:
    """Return the number of columns of a query by its text; None if only its tables tell."""
    try:
        parsed = sqlglot.parse_one(query, dialect=DIALECT)
    except ParseError:
        return None
    if not isinstance(parsed, exp.Query):
        return None
    listed = parsed.selects
    stars = [e for e in listed if e.is_star]
    return None if stars or not listed else len(listed)
