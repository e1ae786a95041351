"""A query's tokens and its tree -> the same, so that sqlglot writes again what its author wrote.

Delta programs are made of parts of the tree. What sqlglot would put in another way must not get
another meaning on the way.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.brackets import closing, commas_of

_DIALECT = "spark"

FORMATTED = frozenset(
    {
        "date_format",
        "from_unixtime",
        "to_date",
        "to_timestamp",
        "to_unix_timestamp",
        "try_to_date",
        "try_to_timestamp",
        "unix_timestamp",
    }
)
"""Functions whose second argument is a pattern of dates: sqlglot leaves out what it takes for the
default, and writes others in its own way, quoted words in them too."""


def mended(tokens: list[Token]) -> list[Token]:
    """Return tokens from which sqlglot makes a tree that means what they say."""
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.WINDOW:
            # Unlike sqlglot, Spark knows a function window: the word starts a clause only where a
            # window's name and AS follow it.
            after = [t.token_type for t in tokens[place + 2 : place + 4]]
            if after != [TokenType.ALIAS, TokenType.L_PAREN]:
                token.token_type = TokenType.VAR
    patterns = _patterns(tokens)
    if not patterns:
        return tokens
    found: list[Token] = []
    for place, token in enumerate(tokens):
        # In parentheses of its own a pattern is left alone.
        if place in patterns:
            found += [_bracket("(", token), token, _bracket(")", token)]
        else:
            found.append(token)
    return found


def _patterns(tokens: list[Token]) -> frozenset[int]:
    """Return the places of literal patterns that sqlglot would write in another way."""
    found: set[int] = set()
    for place, token in enumerate(tokens[:-1]):
        if token.text.lower() not in FORMATTED:
            continue
        if tokens[place + 1].token_type is not TokenType.L_PAREN:
            continue
        end = closing(tokens, place + 1)
        commas = commas_of(tokens, place + 1, end) if end is not None else []
        if end is None or len(commas) != 1 or end - commas[0] != 2:
            continue
        pattern = tokens[commas[0] + 1]
        if pattern.token_type is TokenType.STRING and not _survives(token.text, pattern.text):
            found.add(commas[0] + 1)
    return frozenset(found)


@lru_cache(maxsize=1024)
def _survives(function: str, pattern: str) -> bool:
    """Say whether sqlglot writes a pattern as it read it."""
    call = f"{function}(x, {exp.Literal.string(pattern).sql(dialect=_DIALECT)})"
    again = parse_one(call, dialect=_DIALECT).sql(dialect=_DIALECT)
    words = Dialect.get_or_raise(_DIALECT).tokenize(again)
    return [t.text for t in words if t.token_type is TokenType.STRING] == [pattern]


def _bracket(text: str, beside: Token) -> Token:
    kind = TokenType.L_PAREN if text == "(" else TokenType.R_PAREN
    return Token(kind, text, beside.line, beside.col, beside.start, beside.end)


def with_whole_intervals(tree: exp.Expr | None) -> exp.Expr | None:
    """Put intervals of several units in parentheses: sqlglot reads such a one as a sum.

    x - INTERVAL 1 YEAR 6 MONTHS is not x - INTERVAL 1 YEAR + INTERVAL 6 MONTHS.
    """
    sums = [] if tree is None else [node for node in tree.find_all(exp.Add) if _is_sum(node)]
    for node in sums:
        if isinstance(node.parent, exp.Paren) or (node.parent and _is_sum(node.parent)):
            continue
        whole = exp.Paren(this=node.copy())
        if node is tree:
            return whole
        node.replace(whole)
    return tree


def _is_sum(node: exp.Expr) -> bool:
    return isinstance(node, exp.Add) and all(
        isinstance(side, exp.Interval) or _is_sum(side) for side in (node.this, node.expression)
    )


__all__ = ["mended", "with_whole_intervals"]
