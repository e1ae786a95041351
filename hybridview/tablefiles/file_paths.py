"""A file of a Delta log -> where it lies on this disk, and where its deletion vector does."""

from __future__ import annotations

import base64
import re
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def file_paths(table: Path, file: dict[str, Any]) -> list[Path]:
    """Return where a file of the log lies, and its deletion vector; nothing if not on this disk."""
    names = [file["path"]]
    vector = file.get("deletionVector") or {}
    match vector.get("storageType"):
        case "p":
            names.append(vector["pathOrInlineDv"])
        case "u":
            # A random prefix, then a uuid in base 85.
            text = str(vector["pathOrInlineDv"])
            packed = base64.b85decode(text[-20:].translate(str.maketrans(_Z85, _B85)))
            folder = f"{text[:-20]}/" if text[:-20] else ""
            names.append(f"{folder}deletion_vector_{uuid.UUID(bytes=packed)}.bin")
    found: list[Path] = []
    for name in names:
        scheme = _SCHEME.match(name)
        if scheme is None:
            found.append(table / unquote(name))
        elif scheme[1] == "file":
            found.append(Path("/", unquote(name.removeprefix("file:")).lstrip("/")))
    return found
