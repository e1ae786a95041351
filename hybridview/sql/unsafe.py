"""A query's text -> nothing, or a refusal: queries read tables, and run no programs.

Spark's SQL can call any static Java method, pipe rows through a shell command, and put names
together from strings. Spark counts all of them as queries; hybridview does not.
"""

from __future__ import annotations

from collections.abc import Callable

from hybridview.errors import UnsafeQueryError
from hybridview.sql.lexer import Kind, Piece, pieces

REFLECTION = frozenset({"reflect", "java_method", "try_reflect"})
FORMATS = frozenset(
    {"parquet", "csv", "json", "orc", "text", "avro", "xml", "binaryfile", "image", "libsvm"}
    | {"delta", "iceberg", "hudi", "jdbc", "socket", "kafka", "rate", "noop"}
)
"""Sources that Spark reads by `format.path`, without any table being there."""

READERS = frozenset({"table_changes", "table_changes_by_path"})
"""Table functions that read tables without naming them where tables are named."""

Place = Callable[[int], str]
"""Where a character of the text is, for a user."""


def refuse_unsafe(text: str, place: Place) -> None:
    """Raise UnsafeQueryError if a query would run anything but SQL."""
    found = list(pieces(text))
    for piece, after in zip(found, [*found[1:], None], strict=True):
        name = piece.text.lower()
        called = after is not None and after.is_sign("(")
        named = piece.kind in (Kind.WORD, Kind.QUOTED)
        if named and called and name in REFLECTION | READERS:
            raise UnsafeQueryError(
                f"a query cannot call {name}()",
                where=place(piece.start),
                detail="It runs any Java method, with effects that no table shows."
                if name in REFLECTION
                else "It reads tables, and files, that are not among those the query names.",
                hint="Write it with SQL functions, over tables and views of the store.",
            )
        if piece.kind is not Kind.WORD:
            continue
        if name == "identifier" and called:
            raise UnsafeQueryError(
                "a query cannot put names together with IDENTIFIER()",
                where=place(piece.start),
                detail="What it reads and calls must stand in its text.",
                hint="Write the name itself, in backticks if it is an unusual one.",
            )
        # USING (columns) is a join; USING 'text' hands rows to a shell.
        if name == "using" and after is not None and after.kind is Kind.STRING:
            raise UnsafeQueryError(
                "a query cannot run a script",
                where=place(piece.start),
                detail="SELECT TRANSFORM ... USING hands rows to a shell command.",
                hint="Write it with SQL functions.",
            )


def file_read(text: str) -> Piece | None:
    """Return the first piece of `format.path` in a query: files read without a table."""
    found = list(pieces(text))
    for first, dot, last in zip(found, found[1:], found[2:], strict=False):
        name = first.text.lower()
        if first.kind not in (Kind.WORD, Kind.QUOTED):
            continue
        pair = dot.is_sign(".") and last.kind in (Kind.WORD, Kind.QUOTED)
        if pair and (name in FORMATS or "/" in last.text):
            return first
    return None
