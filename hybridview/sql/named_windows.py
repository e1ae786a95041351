"""A query's text -> the same text with `OVER w` written out, and without its WINDOW clauses.

Each function then has an order of its own, to which what closes its ties can be added: RANK and
ROW_NUMBER over one named window need different ones.

The text is edited between its tokens and never rebuilt from a parsed tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.parse import DIALECT

Cut = tuple[int, int, str]
"""Where a piece of text starts and ends, and what stands there instead."""


@dataclass(frozen=True, slots=True)
class _Clause:
    """A WINDOW clause: the places of its first and last token, and its windows by name."""

    first: int
    last: int
    windows: dict[str, str]


def with_written_windows(query: str) -> str:
    """Write out named windows; a query in which a name occurs twice stays as it is."""
    tokens = list(Dialect.get_or_raise(DIALECT).tokenize(query))
    clauses = [c for i in range(len(tokens)) if (c := _clause(query, tokens, i)) is not None]
    names = [name for clause in clauses for name in clause.windows]
    if not names or len(set(names)) < len(names):
        return query
    known = {name: text for clause in clauses for name, text in clause.windows.items()}
    cuts: list[Cut] = [(tokens[c.first].start, tokens[c.last].end + 1, "") for c in clauses]
    for place in [i for i, t in enumerate(tokens[:-2]) if t.token_type is TokenType.OVER]:
        name = tokens[place + 1]
        if name.token_type is TokenType.L_PAREN and tokens[place + 2].text.lower() not in known:
            continue
        if name.text.lower() not in known:
            return query
        cuts.append((name.start, name.end + 1, known[name.text.lower()]))
    for start, end, text in sorted(cuts, reverse=True):
        query = query[:start] + text + query[end:]
    return query


def _clause(query: str, tokens: list[Token], first: int) -> _Clause | None:
    """Read `WINDOW w AS (...), v AS (...)` at a place; None if there is none."""
    if tokens[first].token_type is not TokenType.WINDOW:
        return None
    windows: dict[str, str] = {}
    place = first + 1
    while True:
        end = _definition(tokens, place)
        if end is None:
            return None
        text = query[tokens[place + 2].start : tokens[end].end + 1]
        if windows.setdefault(tokens[place].text.lower(), text) is not text:
            return None
        if end + 1 >= len(tokens) or tokens[end + 1].token_type is not TokenType.COMMA:
            return _Clause(first, end, windows)
        place = end + 2


def _definition(tokens: list[Token], place: int) -> int | None:
    """Return the place of the last token of `w AS (...)`; None if something else is there."""
    kinds = [token.token_type for token in tokens[place + 1 : place + 3]]
    if kinds != [TokenType.ALIAS, TokenType.L_PAREN]:
        return None
    depth = 0
    for index in range(place + 2, len(tokens)):
        depth += tokens[index].token_type is TokenType.L_PAREN
        depth -= tokens[index].token_type is TokenType.R_PAREN
        if depth == 0:
            return index
    return None
