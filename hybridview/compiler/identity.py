"""A value's type -> the expressions that tell it from every other value of that type.

Spark's own equality is coarser than that: it takes -0.0 for 0.0, and 'A' for 'a' under a collation
that ignores case; maps and variants have no equality at all. Two rows are the same row only if no
query can tell them apart: a change from one to the other is a change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

NUMBERS = ("float", "double", "real")
BINARY = "UTF8_BINARY"


class UnknownType(Exception):
    """A type's text that cannot be read."""


@dataclass(frozen=True, slots=True)
class Type:
    """A Spark type; `parts` are a list's element, a map's key and value, or a struct's fields."""

    kind: str
    parts: tuple[Type, ...] = ()
    fields: tuple[str, ...] = ()
    name: str = ""
    """The word for it, if it is plain and has no parts: int, decimal, string; its collation."""

    @property
    def plain(self) -> bool:
        """Whether Spark's equality is identity."""
        return self.kind == "plain" or (
            self.kind in ("array", "struct") and all(part.plain for part in self.parts)
        )

    @property
    def comparable(self) -> bool:
        """Whether Spark has an equality and an order for it."""
        return self.kind not in ("map", "variant") and all(p.comparable for p in self.parts)

    @property
    def groupable(self) -> bool:
        """Whether GROUP BY takes it, and `equal` can find the group of a value again."""
        return self.comparable or (self.kind == "map" and all(p.comparable for p in self.parts))

    def holds(self, kind: str) -> bool:
        """Say whether a kind of value is it, or may be inside it."""
        return self.kind == kind or any(part.holds(kind) for part in self.parts)


PLAIN = Type("plain")
UNKNOWN = Type("unknown")


@lru_cache(maxsize=4096)
def read_type(text: str) -> Type:
    """Read Spark's spelling of a type, such as `array<struct<x:double>>`."""
    try:
        found, rest = _read(text.strip())
    except UnknownType:
        found, rest = UNKNOWN, text
    if not rest.strip():
        return found
    inside = ("map", "variant", "collated")
    return Type("unknown", tuple(Type(kind) for kind in inside if kind[:7] in text.lower()))


def identity(sql: str, kind: Type) -> tuple[str, ...]:
    """Return expressions that are all equal (`<=>`) for two values only if they are the same."""
    return _identity(sql, kind, 0)


def same(left: str, right: str, kind: Type) -> str:
    """Return a condition that holds for identical values, NULLs included."""
    pairs = zip(identity(left, kind), identity(right, kind), strict=True)
    return " AND ".join(f"{a} <=> {b}" for a, b in pairs)


def equal(left: str, right: str, kind: Type) -> str:
    """Return a condition that holds for values GROUP BY takes for one."""
    return f"{_grouped(left, kind)} <=> {_grouped(right, kind)}"


def any_of(sql: str, kind: Type) -> str:
    """Return an aggregate call that gives the one value all rows of a group have.

    For a column that is not plain: as a key of GROUP BY, -0.0 would come out as 0.0.
    """
    return f"max({sql})" if kind.comparable else f"first({sql})"


def _grouped(sql: str, kind: Type) -> str:
    if kind.kind == "collated":
        return f"({sql} COLLATE {kind.name})"
    if kind.kind == "map":
        return f"array_sort(map_entries({sql}))"
    return sql


def _identity(sql: str, found: Type, depth: int) -> tuple[str, ...]:
    if found.plain:
        return (sql,)
    match found.kind:
        case "float":
            return (sql, f"CASE WHEN {sql} = 0 THEN CAST({sql} AS STRING) END")
        case "unknown":
            return (sql, f"CAST({sql} AS STRING)")
        case "collated":
            return (f"({sql} COLLATE UTF8_BINARY)",)
        case "variant":
            # As JSON, the string "1" is not the number 1, but 1.0 and DATE '2024-01-01' need more.
            return (f"to_json({sql})", f"schema_of_variant({sql})")
        case "map":
            keys, values = (Type("array", (part,)) for part in found.parts)
            return (
                *_identity(f"map_keys({sql})", keys, depth),
                *_identity(f"map_values({sql})", values, depth),
            )
        case "struct":
            inner = [f"({sql} IS NULL)"]
            for name, part in zip(found.fields, found.parts, strict=True):
                quoted = "`" + name.replace("`", "``") + "`"
                inner += _identity(f"({sql}).{quoted}", part, depth)
            return tuple(inner)
        case _:
            element = f"e{depth}"
            inner = list(_identity(element, found.parts[0], depth + 1))
            named = ", ".join(f"{e} AS i{i}" for i, e in enumerate(inner))
            return (f"transform({sql}, {element} -> struct({named}))",)


def _read(text: str) -> tuple[Type, str]:
    """Read one type at the start of a text; return it and what is left."""
    head, opened, _ = text.partition("<")
    word = head.strip().lower()
    if opened and word in ("array", "map"):
        parts: list[Type] = []
        rest = "," + text[len(head) + 1 :]
        while rest.startswith(","):
            part, rest = _read(rest[1:].lstrip())
            parts.append(part)
        if not rest.startswith(">") or len(parts) != (2 if word == "map" else 1):
            raise UnknownType(text)
        return Type(word, tuple(parts)), rest[1:]
    if opened and word == "struct":
        return _struct(text[len(head) + 1 :])
    return _atom(text)


def _struct(text: str) -> tuple[Type, str]:
    names: list[str] = []
    parts: list[Type] = []
    rest = text.lstrip()
    while not rest.startswith(">"):
        name, rest = _field_name(rest.removeprefix(",").lstrip())
        part, rest = _read(rest.lstrip())
        names.append(name)
        parts.append(part)
        if not rest.startswith((",", ">")):
            raise UnknownType(text)
    return Type("struct", tuple(parts), tuple(names)), rest[1:]


def _field_name(text: str) -> tuple[str, str]:
    """Read `name:`; the name may stand in backticks."""
    if not text.startswith("`"):
        name, colon, rest = text.partition(":")
        if not colon or "<" in name or ">" in name:
            raise UnknownType(text)
        return name.strip(), rest
    end = 1
    while True:
        end = text.find("`", end)
        if end < 0:
            raise UnknownType(text)
        if text[end : end + 2] != "``":
            break
        end += 2
    rest = text[end + 1 :].lstrip()
    if not rest.startswith(":"):
        raise UnknownType(text)
    return text[1:end].replace("``", "`"), rest[1:]


def _atom(text: str) -> tuple[Type, str]:
    """Read a type without inner types; DECIMAL(10,2) has a comma of its own."""
    depth = end = 0
    while end < len(text) and (depth or text[end] not in ",>"):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    words = text[:end].split()
    rest = text[end:]
    if not words or "<" in text[:end]:
        raise UnknownType(text)
    name = words[0].lower().partition("(")[0]
    if name in NUMBERS:
        return Type("float"), rest
    if name == "variant":
        return Type("variant"), rest
    if len(words) == 3 and words[1].lower() == "collate":
        return collated(words[2]), rest
    return Type("plain", name=name), rest


def collated(name: str) -> Type:
    """Return the type of strings under a collation."""
    upper = name.upper()
    return Type("plain", name="string") if upper == BINARY else Type("collated", name=upper)


__all__ = [
    "PLAIN",
    "UNKNOWN",
    "Type",
    "any_of",
    "collated",
    "equal",
    "identity",
    "read_type",
    "same",
]
