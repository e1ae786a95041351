"""Text of a view -> Definition: its name, properties, and the query as the user wrote it."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.errors import BadPropertyError, NonDeterministicError, NotASelectError, SyntaxFault
from hybridview.schema import Position
from hybridview.sql.as_written import mended, with_whole_intervals
from hybridview.sql.functions import BARE_WORDS, CLOCKS, NON_DETERMINISTIC
from hybridview.sql.lexer import Kind, pieces
from hybridview.sql.unsafe import refuse_unsafe

DIALECT = "spark"

# What sqlglot warns about concerns statements that are no views; Spark's own words follow.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class Property(NamedTuple):
    """The values a property takes: as a pattern, and in words."""

    pattern: re.Pattern[str]
    takes: str


PROPERTIES = {
    "hybridview.strategy": Property(
        re.compile("snapshot|incremental|hybrid"), "snapshot, incremental, hybrid"
    ),
    "hybridview.consistency": Property(re.compile("strong|complete"), "strong, complete"),
    "hybridview.target_lag": Property(
        re.compile(r"[1-9]\d* (second|minute|hour|day)s?"), "a time such as '5 minutes' or '1 day'"
    ),
}
"""The properties a view may set."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One view as its author wrote it; `query` is the SELECT, character for character."""

    name: str | None
    query: str
    comment: str = ""
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    source: str = "<sql>"
    text: str = ""
    offset: int = 0

    def place(self, node: exp.Expr | None) -> str:
        """Return `file:line:col` of a part of the query, as well as it is known."""
        return self.place_at(_start(node))

    def place_at(self, offset: int) -> str:
        """Return `file:line:col` of a character of the query."""
        position = position_at(self.text or self.query, self.offset + offset)
        return f"{self.source}:{position.line}:{position.column}"

    def position(self, node: exp.Expr | None) -> Position:
        return position_at(self.text or self.query, self.offset + _start(node))


def position_at(text: str, offset: int) -> Position:
    """Turn a character offset into a line and column, both from 1."""
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def parse_definition(text: str, source: str = "<sql>") -> Definition:
    """Read a bare SELECT or a CREATE MATERIALIZED VIEW statement."""
    tokens = _tokens(text, source)
    if not tokens:
        raise NotASelectError("there is no SQL text", where=source, hint="Write a SELECT.")
    if tokens[0].token_type is TokenType.CREATE:
        definition = _read_create(text, tokens, source)
    else:
        definition = Definition(None, _statement(text, 0, tokens, source), source=source, text=text)
    lead = len(definition.query) - len(definition.query.lstrip())
    definition = Definition(
        definition.name,
        definition.query.strip(),
        definition.comment,
        definition.cluster_by,
        definition.properties,
        source,
        text,
        definition.offset + lead,
    )
    parse_query(definition)
    return definition


def parse_query(definition: Definition) -> exp.Query:
    """Parse a definition's query; the tree's offsets count from the start of the query."""
    refuse_unsafe(definition.query, definition.place_at)
    _refuse_non_deterministic(definition)
    _refuse_two_readings(definition)
    try:
        parsed = parse_text(definition.query)
    except ParseError as error:
        raise _syntax_fault(definition, error) from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise NotASelectError(
            "a view is one SELECT statement",
            where=definition.source,
            detail=f"The text starts with {definition.query[:40]!r}.",
            hint="Write: CREATE MATERIALIZED VIEW name AS SELECT ...",
        )
    return parsed[0]


def parse_text(text: str) -> list[exp.Expr | None]:
    """Parse SQL text; raises sqlglot's ParseError."""
    dialect = Dialect.get_or_raise(DIALECT)
    tokens = mended(list(dialect.tokenize(text)))
    return [with_whole_intervals(tree) for tree in dialect.parser().parse(tokens, text)]


def _tokens(text: str, source: str) -> list[Token]:
    try:
        return list(Dialect.get_or_raise(DIALECT).tokenize(text))
    except TokenError as error:
        raise SyntaxFault(
            "the SQL text cannot be read", where=source, detail=str(error).splitlines()[0]
        ) from None


def _statement(text: str, start: int, tokens: list[Token], source: str) -> str:
    """Return the text from `start` to the end of its statement; there must be only one."""
    body = [t for t in tokens if t.start >= start]
    for index, token in enumerate(body):
        if token.token_type is TokenType.SEMICOLON:
            if index + 1 < len(body):
                raise NotASelectError(
                    "one file holds one view",
                    where=source,
                    detail="There is a second statement after the semicolon.",
                    hint="Put each view into a file of its own.",
                )
            return text[start : token.start]
    return text[start:]


class _Header:
    """Reads the clauses between CREATE and AS."""

    def __init__(self, text: str, tokens: list[Token], source: str) -> None:
        self.text, self.tokens, self.source, self.at = text, tokens, source, 0

    def word(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        return token.text.upper() if token else ""

    def take(self, *words: str) -> bool:
        ahead = [t.text.upper() for t in self.tokens[self.at : self.at + len(words)]]
        if ahead != list(words):
            return False
        self.at += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise self.fault(f"expected {' '.join(words)}")

    def name(self) -> str:
        if self.at >= len(self.tokens):
            raise self.fault("expected a name")
        token = self.tokens[self.at]
        self.at += 1
        return token.text

    def fault(self, detail: str) -> SyntaxFault:
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        position = position_at(self.text, token.start)
        return SyntaxFault(
            "the CREATE statement cannot be read",
            where=f"{self.source}:{position.line}:{position.column}",
            detail=f"{detail}, found {token.text!r}.",
            hint="Write: CREATE MATERIALIZED VIEW name [COMMENT '...'] [CLUSTER BY (...)] "
            "[TBLPROPERTIES (...)] AS SELECT ...",
        )


def _read_create(text: str, tokens: list[Token], source: str) -> Definition:
    header = _Header(text, tokens, source)
    header.need("CREATE")
    header.take("OR", "REPLACE")
    header.need("MATERIALIZED", "VIEW")
    header.take("IF", "NOT", "EXISTS")
    name = header.name()
    comment = ""
    cluster: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    while not header.take("AS"):
        if header.take("COMMENT"):
            comment = header.name()
        elif header.take("CLUSTER", "BY") or header.take("CLUSTER BY"):
            cluster = _names(header)
        elif header.take("TBLPROPERTIES"):
            properties = _properties(header)
        else:
            raise header.fault("expected COMMENT, CLUSTER BY, TBLPROPERTIES or AS")
    start = header.tokens[header.at - 1].end + 1
    query = _statement(text, start, tokens, source)
    return Definition(name, query, comment, cluster, properties, source, text, start)


def _names(header: _Header) -> tuple[str, ...]:
    header.need("(")
    names = [header.name()]
    while header.take(","):
        names.append(header.name())
    header.need(")")
    return tuple(names)


def _properties(header: _Header) -> dict[str, str]:
    header.need("(")
    found: dict[str, str] = {}
    while True:
        key = header.name()
        while header.take("."):
            key += "." + header.name()
        if not header.take("="):
            raise header.fault("expected =")
        found[key] = header.name()
        if not header.take(","):
            break
    header.need(")")
    for key, value in found.items():
        check_property(key, value, header.source)
    return found


def check_property(key: str, value: str, source: str) -> None:
    """Refuse a property of ours that does not exist or a value it does not take."""
    if not key.startswith("hybridview."):
        return
    found = PROPERTIES.get(key)
    if found is None:
        known = ", ".join(sorted(PROPERTIES))
        raise BadPropertyError(
            f'unknown property "{key}"', where=source, hint=f"Known properties: {known}"
        )
    if not found.pattern.fullmatch(value):
        raise BadPropertyError(
            f'property "{key}" does not take the value "{value}"',
            where=source,
            hint=f"It takes: {found.takes}",
        )


def _refuse_two_readings(definition: Definition) -> None:
    """Refuse a text in which Spark sees other comments than our own parser.

    Changes would be computed for one query and snapshots for another.
    """
    query = definition.query
    ours: list[str] = []
    end = 0
    for token in _tokens(query, definition.source):
        if token.start >= end:  # parts of a number with a suffix have the place of the number
            ours.append(query[token.start : token.end + 1])
            end = token.end + 1
    sparks = [query[piece.start : piece.end] for piece in pieces(query)]
    if "".join("".join(ours).split()) != "".join("".join(sparks).split()):
        raise SyntaxFault(
            "the query can be read in two ways",
            where=definition.source,
            detail="A comment with a backslash at its end goes on in the next line, for Spark.",
            hint="Remove the backslash.",
        )


def _refuse_non_deterministic(definition: Definition) -> None:
    """Refuse functions whose answer changes although no table did.

    Words are looked at, not the parsed tree: a call is then found wherever it hides, in backticks
    and behind the name of a catalog too.
    """
    found = list(pieces(definition.query))
    for index, piece in enumerate(found):
        name = piece.text.lower()
        if piece.kind not in (Kind.WORD, Kind.QUOTED) or name not in NON_DETERMINISTIC:
            continue
        called = index + 1 < len(found) and found[index + 1].is_sign("(")
        qualified = index > 0 and found[index - 1].is_sign(".")
        bare = piece.kind is Kind.WORD and name in BARE_WORDS and not qualified
        if not (called or bare):
            continue
        hint = "Compute the value when the base table is written."
        if name in CLOCKS:
            hint = "Keep the date in a one-row Delta table and join it."
        elif name.startswith("approx") or name.endswith("approx"):
            exactly = "count(DISTINCT ...)" if "distinct" in name else "percentile(...)"
            hint = f"Use the exact function: {exactly}"
        raise NonDeterministicError(
            f"a view cannot use {name}()",
            where=definition.place_at(piece.start),
            detail=f"In a stored view {NON_DETERMINISTIC[name]}.",
            hint=hint,
        )


def _syntax_fault(definition: Definition, error: ParseError) -> SyntaxFault:
    first = error.errors[0]
    highlight = first.get("highlight") or ""
    before = first.get("start_context") or ""
    line, column = first.get("line") or 1, first.get("col") or 1
    # sqlglot reports where the token ends, relative to the query.
    position = position_at(definition.text or definition.query, definition.offset)
    column = max(1, column - max(len(highlight) - 1, 0))
    column += position.column - 1 if line == 1 else 0
    near = (before[-30:] + highlight).strip().replace("\n", " ")
    problem = str(first.get("description"))
    if "<class" in problem:
        problem = "Something is missing"
    return SyntaxFault(
        "the query does not parse",
        where=f"{definition.source}:{position.line + line - 1}:{column}",
        detail=f"{problem}, near {near!r}.",
        hint='Check the text with: hybridview sql "SELECT ..."',
    )


def _start(node: exp.Expr | None) -> int:
    """Return the smallest known offset inside a node; 0 if none is known."""
    if node is None:
        return 0
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts, default=0)
