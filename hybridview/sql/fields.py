"""A type in Spark's spelling -> what is inside: a struct's fields, the elements of others."""

from __future__ import annotations

from sqlglot import exp

from hybridview.algebra.expressions import Expr

START = "struct<"


def field(kind: str, name: str) -> tuple[str, str] | None:
    """Return a field as the type spells it, and its type; None if the type is no such struct.

    Names compare without case, as in Spark; a name that two fields have means neither.
    """
    found = [part for part in fields(kind) if part[0].lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def fields(kind: str) -> tuple[tuple[str, str], ...]:
    """Return the names and types of a struct's fields; () if the type is no struct."""
    inside = _inside(kind, START)
    return tuple(_named(part) for part in _split(inside, ",")) if inside else ()


def elements(kind: str) -> tuple[str, ...]:
    """Return the type of an array's elements, or of a map's keys and values; () for others."""
    if _inside(kind, "array<"):
        return (_inside(kind, "array<"),)
    return tuple(part.strip() for part in _split(_inside(kind, "map<"), ",") if part)


def struct_type(expr: Expr) -> str:
    """Return the type of a struct that a query makes itself, its fields' types left open."""
    if not isinstance(expr, exp.Struct):
        return ""
    names = (part.this.name.replace("`", "``") for part in expr.expressions)
    return START + ",".join(f"`{name}`:" for name in names) + ">"


def _inside(kind: str, start: str) -> str:
    """Return what stands between a word with `<` and its `>`; "" for another word."""
    text = kind.strip()
    return text[len(start) : -1] if text.lower().startswith(start) and text.endswith(">") else ""


def _named(text: str) -> tuple[str, str]:
    """Read `a:int`; the name may stand in backticks."""
    name, *kind = _split(text, ":", 1)
    bare = name.strip()
    if bare.startswith("`") and bare.endswith("`"):
        bare = bare[1:-1].replace("``", "`")
    return bare, "".join(kind).strip()


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
