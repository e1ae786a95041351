"""LEFT JOIN LATERAL f(x) e -> the same with ON TRUE: Spark 4.2 loses rows without it.

Where a generator gives nothing for a row, LEFT JOIN keeps the row. Without a condition Spark takes
the join for an inner one, and the row is gone; with ON TRUE it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.brackets import closing
from hybridview.sql.parse import DIALECT

_CONDITIONS = (TokenType.ON, TokenType.USING)
_AFTER = {
    *_CONDITIONS,
    *(TokenType.COMMA, TokenType.R_PAREN, TokenType.SEMICOLON, TokenType.LATERAL),
    *(TokenType.JOIN, TokenType.INNER, TokenType.CROSS, TokenType.NATURAL, TokenType.LEFT),
    *(TokenType.RIGHT, TokenType.FULL, TokenType.SEMI, TokenType.ANTI),
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.WINDOW),
    *(TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY),
    *(TokenType.LIMIT, TokenType.OFFSET, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
    *(TokenType.PIVOT, TokenType.UNPIVOT),
}
"""What may follow a joined function; any other word is its alias, be it a keyword elsewhere."""


def with_lateral_conditions(query: str) -> str:
    """Return a query's text where each LEFT JOIN LATERAL of a function has a condition."""
    try:
        tokens = Dialect.get_or_raise(DIALECT).tokenize(query)
    except TokenError:
        return query
    kinds = [token.token_type for token in tokens]
    places = [place for i in range(len(tokens)) if (place := _end_of_function(tokens, kinds, i))]
    for place in reversed(places):
        query = f"{query[:place]} ON TRUE{query[place:]}"
    return query


def _end_of_function(tokens: list[Token], kinds: Sequence[TokenType], at: int) -> int:
    """Return where a join without a condition ends that begins at a token; 0 if there is none."""
    if kinds[at] is not TokenType.LEFT:
        return 0
    at += 2 if kinds[at + 1 : at + 2] == [TokenType.OUTER] else 1
    if kinds[at : at + 2] != [TokenType.JOIN, TokenType.LATERAL]:
        return 0
    at += 2
    if kinds[at : at + 1] == [TokenType.L_PAREN]:
        return 0  # a subquery is joined rightly
    while at < len(kinds) and kinds[at] is not TokenType.L_PAREN:
        at += 1
    at = _behind(tokens, at)
    if kinds[at : at + 1] == [TokenType.ALIAS]:
        at += 2
    elif at < len(kinds) and kinds[at] not in _AFTER:
        at += 1
    if kinds[at : at + 1] == [TokenType.L_PAREN]:
        at = _behind(tokens, at)
    if at < len(kinds) and kinds[at] in _CONDITIONS:
        return 0
    return tokens[at - 1].end + 1 if at <= len(tokens) else 0


def _behind(tokens: list[Token], opening: int) -> int:
    """Return the place behind a pair of parentheses; the end if it does not close."""
    end = closing(tokens, opening)
    return len(tokens) if end is None else end + 1
