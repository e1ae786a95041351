"""Tokens of a query -> where a bracket closes, and where a call's arguments are parted."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType


def closing(tokens: list[Token], opening: int) -> int | None:
    """Return the place of the parenthesis that closes another."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += tokens[index].token_type is TokenType.L_PAREN
        depth -= tokens[index].token_type is TokenType.R_PAREN
        if depth == 0:
            return index
    return None


def commas_of(tokens: list[Token], opening: int, end: int) -> list[int]:
    """Return the commas between a call's own arguments."""
    depth = 0
    found: list[int] = []
    opens = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
    closes = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
    for index in range(opening + 1, end):
        depth += tokens[index].token_type in opens
        depth -= tokens[index].token_type in closes
        if depth == 0 and tokens[index].token_type is TokenType.COMMA:
            found.append(index)
    return found
