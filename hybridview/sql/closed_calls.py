"""Aggregate calls whose answer depends on the order of rows -> calls that give one such answer.

A list may have any order: it is sorted, and so are the values that listagg joins, after the keys it
has of its own. Any value will do: it is the smallest. Of several rows with the largest key the one
with the largest value is taken. Each is an answer that the author's own call may give.
"""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.brackets import closing, commas_of
from hybridview.sql.parse import DIALECT

LISTS = frozenset({"collect_list", "collect_set", "array_agg"})
ANY = frozenset({"any_value", "first", "first_value", "last", "last_value"})
BY = frozenset({"max_by", "min_by"})
TEXTS = frozenset({"listagg", "string_agg"})


def with_closed_calls(query: str) -> str:
    """Return a query's text in which no aggregate depends on the order of rows."""
    tokens = list(Dialect.get_or_raise(DIALECT).tokenize(query))
    edits: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens[:-1]):
        opened = tokens[index + 1].token_type is TokenType.L_PAREN
        qualified = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        if not opened or qualified or token.token_type is TokenType.IDENTIFIER:
            continue
        end = closing(tokens, index + 1)
        if end is None or _follows(tokens, end, TokenType.OVER):
            continue
        edits += _closed(query, tokens, index, end)
    for start, stop, text in sorted(edits, reverse=True):
        query = query[:start] + text + query[stop:]
    return query


Edits = list[tuple[int, int, str]]
"""Stretches of the text, and what to put in their place."""


def _closed(query: str, tokens: list[Token], index: int, end: int) -> Edits:
    token = tokens[index]
    name = token.text.lower()
    commas = commas_of(tokens, index + 1, end)
    if name in LISTS:
        if index > 1 and tokens[index - 2].text.lower() == "sort_array":
            return []
        last = tokens[_after_filter(tokens, end)]
        return [
            (token.start, token.start, "sort_array("),
            (last.end + 1, last.end + 1, ")"),
        ]
    if name in ANY:
        return _smallest(query, tokens, index, end, commas)
    if name == "mode" and not commas and end > index + 2:
        return [(tokens[end].start, tokens[end].start, ", true")]
    if name in TEXTS and end > index + 2:
        return _sorted_text(query, tokens, index + 1, end, commas)
    if name in BY and len(commas) == 1:
        comma, close = tokens[commas[0]], tokens[end]
        value = query[tokens[index + 1].end + 1 : comma.start].strip()
        key = query[comma.end + 1 : close.start].strip()
        if value.lower().startswith("distinct"):
            return []
        # Rows without a key do not count: a struct that holds a NULL would.
        both = f" CASE WHEN ({key}) IS NOT NULL THEN named_struct('k', {key}, 'v', {value}) END"
        return [(comma.end + 1, close.start, both)]
    return []


def _sorted_text(
    query: str, tokens: list[Token], opening: int, end: int, commas: list[int]
) -> Edits:
    """Sort the values of listagg by themselves, after the keys of WITHIN GROUP if it has some.

    Different values alone can be sorted by nothing else, as Spark demands.
    """
    last = (commas[0] if commas else end) - 1
    distinct = tokens[opening + 1].token_type is TokenType.DISTINCT
    value = query[tokens[opening + 1 + distinct].start : tokens[last].end + 1]
    words = [t.text.lower() for t in tokens[end + 1 : end + 3]]
    if words != ["within", "group"]:
        return [(tokens[end].end + 1, tokens[end].end + 1, f" WITHIN GROUP (ORDER BY {value})")]
    close = closing(tokens, end + 3)
    if distinct or close is None:
        return []
    return [(tokens[close].start, tokens[close].start, f", {value}")]


def _after_filter(tokens: list[Token], end: int) -> int:
    """Return the last token of a call, its FILTER clause included."""
    if _follows(tokens, end, TokenType.FILTER) and end + 2 < len(tokens):
        return closing(tokens, end + 2) or end
    return end


def _follows(tokens: list[Token], end: int, kind: TokenType) -> bool:
    """Say whether a clause follows a call, after its FILTER clause and its treatment of NULLs."""
    after = end + 1
    while after < len(tokens) and tokens[after].text.lower() in ("ignore", "respect", "nulls"):
        after += 1
    if after < len(tokens) and tokens[after].token_type is kind:
        return True
    if after + 1 < len(tokens) and tokens[after].token_type is TokenType.FILTER:
        last = closing(tokens, after + 1)
        return last is not None and _follows(tokens, last, kind)
    return False


def _smallest(query: str, tokens: list[Token], index: int, end: int, commas: list[int]) -> Edits:
    """Take the smallest for any value, or for any that is not NULL: first(x, true) is one of both.

    Whether NULLs are ignored makes no difference to the smallest value.
    """
    last, after = end - 1, end
    if commas:
        told = query[tokens[commas[0]].end + 1 : tokens[end].start].strip().lower()
        if len(commas) > 1 or told not in ("true", "false"):
            return []
        last = commas[0] - 1
    if _are_nulls(tokens, last - 1):
        last -= 2
    if _are_nulls(tokens, end + 1):
        after += 2
    if last < index + 2 or (after > end and _follows(tokens, after, TokenType.FILTER)):
        return []
    value = query[tokens[index + 2].start : tokens[last].end + 1]
    return [(tokens[index].start, tokens[after].end + 1, f"min({value})")]


def _are_nulls(tokens: list[Token], place: int) -> bool:
    """Say whether IGNORE NULLS or RESPECT NULLS stands at a place."""
    words = [token.text.lower() for token in tokens[place : place + 2]]
    return words in (["ignore", "nulls"], ["respect", "nulls"])
