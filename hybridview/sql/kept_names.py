"""A query's text whose calls were edited -> the same text, with the column names it had before.

Spark makes the name of a column without an alias of its text, so an edit would change it.

The text is edited between its tokens and never rebuilt from a parsed tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.parse import DIALECT, parse_text

OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET)
ENDS = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.LIMIT)


def with_names(query: str, found: Sequence[str], wanted: Sequence[str]) -> str:
    """Give the columns `found` of a query the names `wanted`, where they differ.

    A query whose columns cannot be told apart in its text, because of a *, stays as it is.
    """
    if list(found) == list(wanted) or len(found) != len(wanted):
        return query
    try:
        (parsed, *_) = parse_text(query)
    except ParseError:
        return query
    ends = _ends(list(Dialect.get_or_raise(DIALECT).tokenize(query)))
    listed = parsed.selects if isinstance(parsed, exp.Query) else []
    if len(listed) != len(wanted) or len(ends) != len(wanted):
        return query
    changes = [i for i, name in enumerate(wanted) if name != found[i]]
    if any(isinstance(listed[i], exp.Alias) or "`" in wanted[i] for i in changes):
        return query
    for i in reversed(changes):
        at = ends[i].end + 1
        query = f"{query[:at]} AS `{wanted[i]}`{query[at:]}"
    return query


def _ends(tokens: list[Token]) -> list[Token]:
    """Return the last token of each column of the first SELECT outside parentheses."""
    depth, found = 0, list[Token]()
    before: Token | None = None
    for token in tokens:
        depth += (token.token_type in OPENS) - (token.token_type in CLOSES)
        if before is None:
            before = token if depth == 0 and token.token_type is TokenType.SELECT else None
            continue
        comparing = before.token_type is TokenType.DISTINCT
        if depth == 0 and token.token_type in (TokenType.COMMA, *ENDS) and not comparing:
            found.append(before)
            if token.token_type in ENDS:
                return found
        before = token
    return []
