"""The user's text -> the query that fills a view's table: the same text, with hidden columns added.

The text is edited between its tokens and never rebuilt from a parsed tree, so what fills a view is
what its author wrote.
"""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.parse import DIALECT


def with_columns(query: str, columns: tuple[tuple[str, str], ...]) -> str:
    """Add `expression AS name` columns to the outermost SELECT."""
    place = _outer(query, TokenType.FROM)
    assert place is not None, "a query without FROM has no hidden columns"
    added = "".join(f", {sql} AS `{name}`" for name, sql in columns)
    # On a line of its own: the text before it may end with a comment.
    return f"{query[: place.start].rstrip()}\n{added}\n{query[place.start :]}"


def with_list(query: str, columns: tuple[tuple[str, str], ...], keys: int) -> str:
    """Put other columns into the outermost SELECT, grouped by the first ones.

    By position: a key may be a constant, and over no rows there is no group then either.
    """
    start, end = _outer(query, TokenType.SELECT), _outer(query, TokenType.FROM)
    assert start is not None and end is not None
    listed = ",\n  ".join(f"{sql} AS `{name}`" for name, sql in columns)
    grouped = ", ".join(str(number + 1) for number in range(keys)) or "ALL"
    return f"{query[: start.end + 1]}\n  {listed}\n{query[end.start :]}\nGROUP BY {grouped}"


def counting_copies(query: str, name: str) -> str:
    """Turn SELECT DISTINCT into all rows once, with the number of their copies."""
    place = _outer(query, TokenType.DISTINCT)
    assert place is not None, "the query is no SELECT DISTINCT"
    rest = query[: place.start] + query[place.end + 1 :]
    return f"SELECT *, count(*) AS `{name}`\nFROM (\n{rest}\n)\nGROUP BY ALL"


def with_row_ids(query: str, epoch: str, epoch_column: str, row_column: str) -> str:
    """Add the hidden id of a bag's rows."""
    return (
        f"SELECT *, CAST({epoch} AS BIGINT) AS `{epoch_column}`, "
        f"monotonically_increasing_id() AS `{row_column}`\nFROM (\n{query}\n)"
    )


def _outer(query: str, wanted: TokenType) -> Token | None:
    """Return the first token of a kind outside all parentheses, after the outermost SELECT."""
    depth, selected = 0, False
    before: Token | None = None
    for token in Dialect.get_or_raise(DIALECT).tokenize(query):
        last, before = before, token
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
        elif depth == 0 and token.token_type is TokenType.SELECT:
            selected = True
            if wanted is TokenType.SELECT:
                return token
        elif depth == 0 and selected and token.token_type is wanted:
            # `a IS DISTINCT FROM b` contains both words without being either clause.
            comparing = last is not None and last.token_type in (
                (TokenType.DISTINCT,) if wanted is TokenType.FROM else (TokenType.IS, TokenType.NOT)
            )
            if not comparing:
                return token
    return None
