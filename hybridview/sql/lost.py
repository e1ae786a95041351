"""A query's text -> what its parsed tree has lost of it, if anything: such a tree is not believed.

percentile(x, p, frequency) is read as percentile(x, p), date_trunc(unit, t) as
date_trunc('unit', t), and array_size as size, which is -1 for NULL if ANSI mode is off.
"""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

from hybridview.sql.brackets import closing, commas_of
from hybridview.sql.parse import DIALECT

MOST_ARGUMENTS = {"percentile": 2}
"""How many arguments of a function the parser keeps."""

UNITS = {"date_trunc": 0, "trunc": 1}
"""Which argument is a unit: the parser takes the name of a column for it."""
OTHERS = {"array_size": "size"}
"""Functions that the parser takes for others, which are not quite the same."""


def lost_argument(text: str) -> str | None:
    """Return a sentence about the first call with arguments the parser drops; None without one."""
    tokens = list(Dialect.get_or_raise(DIALECT).tokenize(text))
    for place, token in enumerate(tokens[:-1]):
        if tokens[place + 1].token_type is not TokenType.L_PAREN:
            continue
        end = closing(tokens, place + 1)
        name = token.text.lower()
        if end is None:
            continue
        commas = commas_of(tokens, place + 1, end)
        if name in MOST_ARGUMENTS and len(commas) >= MOST_ARGUMENTS[name]:
            return f"{name} with more than {MOST_ARGUMENTS[name]} arguments has no delta rule"
        if name in UNITS and len(commas) == 1:
            first, last = (place + 2, commas[0]), (commas[0] + 1, end)
            start, stop = first if UNITS[name] == 0 else last
            if stop - start != 1 or tokens[start].token_type is not TokenType.STRING:
                return f"{name} with a unit that is computed has no delta rule"
        if name in OTHERS:
            return f"{name} has no delta rule; {OTHERS[name]} has"
    return None
