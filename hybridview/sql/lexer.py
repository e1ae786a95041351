"""SQL text -> words, quoted names, strings and signs, cut exactly where Spark cuts them.

For refusing what must not run, and for finding a place in a statement of ours. Another tokenizer
may differ from Spark's in a corner, such as a comment that a backslash carries on to the next line,
and what it takes for a string would run.
The patterns follow the lexer of Spark 4.2 (SqlBaseLexer.g4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a piece of SQL text is."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of SQL text: `text` without its quotes, and where it starts and ends."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_sign(self, text: str) -> bool:
        return self.kind is Kind.SIGN and self.text == text


_BLANK = r"[ \t\n\f\r\u000B\u00A0\u1680\u2000-\u200A\u2028\u202F\u205F\u3000]+"
_LETTER = r"[^\W\d_]"
_TOKEN = re.compile(
    rf"(?P<blank>{_BLANK}|--(?:\\\n|[^\r\n])*\r?\n?)"
    r"|(?P<comment>/\*(?!\+))"
    r"|(?P<raw>[rR](?:'[^']*'|\"[^\"]*\"))"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    rf"|(?P<address>{_LETTER}+://(?:{_LETTER}|[0-9_/.?=&#%-])+)"
    rf"|(?P<word>(?:{_LETTER}|[0-9_])+)"
    r"|(?P<sign>.)",
    re.DOTALL,
)


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text; blanks and comments are left out."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None, "the last pattern takes any character"
        kind, value, start = str(found.lastgroup), found[0], at
        at = found.end()
        match kind:
            case "comment":
                at = _end_of_comment(text, start)
            case "raw":
                yield Piece(Kind.STRING, value[2:-1], start, at)
            case "string":
                yield Piece(Kind.STRING, value[1:-1], start, at)
            case "quoted":
                yield Piece(Kind.QUOTED, value[1:-1].replace("``", "`"), start, at)
            case "word" | "address":
                yield Piece(Kind.WORD, value, start, at)
            case "sign":
                yield Piece(Kind.SIGN, value, start, at)


def _end_of_comment(text: str, start: int) -> int:
    """Return where a comment ends; comments nest. One without an end takes the rest."""
    depth = 0
    for found in re.finditer(r"/\*(?!\+)|\*/", text[start:]):
        depth += 1 if found[0].startswith("/*") else -1
        if depth == 0:
            return start + found.end()
    return len(text)
