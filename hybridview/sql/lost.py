"""A query's text -> what its parsed tree has lost of it, if anything: such a tree is not believed.

percentile(x, p, frequency) is read as percentile(x, p).
"""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

from hybridview.sql.parse import DIALECT

MOST_ARGUMENTS = {"percentile": 2}
"""How many arguments of a function the parser keeps."""

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def lost_argument(text: str) -> str | None:
    """Return a sentence about the first call with arguments the parser drops; None without one."""
    tokens = Dialect.get_or_raise(DIALECT).tokenize(text)
    for place, token in enumerate(tokens[:-1]):
        most = MOST_ARGUMENTS.get(token.text.lower())
        if most is None or tokens[place + 1].token_type is not TokenType.L_PAREN:
            continue
        depth, commas = 0, 0
        for inner in tokens[place + 1 :]:
            depth += (inner.token_type in _OPENING) - (inner.token_type in _CLOSING)
            commas += depth == 1 and inner.token_type is TokenType.COMMA
            if depth == 0:
                break
        if commas >= most:
            return f"{token.text.lower()} with more than {most} arguments has no delta rule"
    return None
