"""The schema in a Delta log -> columns with their types, in Spark's spelling, and their ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COLUMN_ID = "delta.columnMapping.id"
DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark notes the type that a string, or what holds one, was declared with."""

FieldPath = tuple[str, ...]
"""A column and the fields inside it that lead to one, in lower case."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column as the log knows it; `ids` tell a column from another one of the same name."""

    type: str
    ids: Mapping[FieldPath, int]
    """Of the column and of every field inside it; of none, if the table's columns have no ids."""


def read_fields(schema: dict[str, Any]) -> dict[str, Field]:
    """Return the columns of a Delta schema by lower-case name."""
    return {f["name"].lower(): Field(field_type(f), dict(_ids(f))) for f in schema["fields"]}


def _ids(field: Mapping[str, Any], outer: FieldPath = ()) -> Iterator[tuple[FieldPath, int]]:
    """Give the ids of a field and of those inside it.

    A field of a struct can be dropped and added again, as a column can: its type stays the same.
    """
    path = (*outer, field["name"].lower())
    number = (field.get("metadata") or {}).get(COLUMN_ID)
    if number is not None:
        yield path, number
    yield from _ids_inside(field["type"], path)


def _ids_inside(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    if isinstance(node, str):
        return
    for part in ("elementType", "keyType", "valueType"):
        if part in node:
            yield from _ids_inside(node[part], (*path, part))
    for inner in node.get("fields", ()):
        yield from _ids(inner, path)


def field_type(field: Mapping[str, Any]) -> str:
    """Return a field's type; the log keeps the collations of its strings beside it."""
    collations = (field.get("metadata") or {}).get("__COLLATIONS") or {}
    return spark_type(field["type"], collations, field["name"])


def declared(field: Mapping[str, Any]) -> str:
    """Return what a table says of its string, such as `varchar(20)`; empty if it says no more."""
    return str((field.get("metadata") or {}).get(DECLARED, "")).lower()


def spark_type(node: Any, collations: Mapping[str, str] | None = None, path: str = "") -> str:
    """Return a type of a Delta schema in Spark's own spelling."""
    names = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
    known = collations or {}
    if isinstance(node, str):
        # Such as spark.UTF8_LCASE: who provides it, and its name.
        provided = known.get(path, "").split(".")
        return f"string collate {provided[1]}" if len(provided) > 1 else names.get(node, node)
    match node["type"]:
        case "array":
            return f"array<{spark_type(node['elementType'], known, f'{path}.element')}>"
        case "map":
            key = spark_type(node["keyType"], known, f"{path}.key")
            return f"map<{key},{spark_type(node['valueType'], known, f'{path}.value')}>"
        case _:
            fields = ",".join(f"{_field(f['name'])}:{field_type(f)}" for f in node["fields"])
            return f"struct<{fields}>"


def _field(name: str) -> str:
    """Return a struct field's name as a type spells it."""
    return (
        name
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        else "`" + name.replace("`", "``") + "`"
    )
