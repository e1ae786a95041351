"""A struct's type in Spark's spelling + a field's name -> the field's own name and type."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hybridview.algebra.expressions import Expr

START = "struct<"


def field(kind: str, name: str) -> tuple[str, str] | None:
    """Return a field as the type spells it, and its type; None if the type is no such struct.

    Names compare without case, as in Spark; a name that two fields have means neither.
    """
    text = kind.strip()
    if not (text.lower().startswith(START) and text.endswith(">")):
        return None
    found = [part for part in _fields(text[len(START) : -1]) if part[0].lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def struct_type(expr: Expr) -> str:
    """Return the type of a struct that a query makes itself, its fields' types left open."""
    if not isinstance(expr, exp.Struct):
        return ""
    names = (part.this.name.replace("`", "``") for part in expr.expressions)
    return START + ",".join(f"`{name}`:" for name in names) + ">"


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and type of each of `a:int,b:array<int>`."""
    for part in _split(text, ","):
        name, *kind = _split(part, ":", 1)
        bare = name.strip()
        if bare.startswith("`") and bare.endswith("`"):
            bare = bare[1:-1].replace("``", "`")
        yield bare, "".join(kind).strip()


def _split(text: str, sign: str, most: int = -1) -> list[str]:
    """Split at a sign outside of brackets and backticks, at most some times."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == "`"
        if not quoted:
            depth += (letter in "<(") - (letter in ">)")
        if letter == sign and depth == 0 and not quoted and most != 0:
            parts.append("")
            most -= 1
        else:
            parts[-1] += letter
    return parts
