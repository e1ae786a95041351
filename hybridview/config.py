"""hybridview.toml -> Config: which store, which folder of views, which Spark settings."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridview.errors import UsageError
from hybridview.operations.suggest import closest

FILE = "hybridview.toml"
_KEYS = ("store", "views", "strategy", "tables", "spark")


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says; paths are relative to its folder."""

    store: Path | None = None
    views: Path = Path("views")
    strategy: str | None = None
    tables: dict[str, str] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)
    file: Path | None = None


def find_config(start: Path) -> Config:
    """Read hybridview.toml in a folder or the nearest one above; defaults if there is none."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / FILE).is_file():
            return read_config(folder / FILE)
    return Config()


def read_config(path: Path) -> Config:
    """Read one file; an unknown key is a mistake, not a comment."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} cannot be read", detail=f"{error}.") from None
    for key in data:
        if key not in _KEYS:
            raise UsageError(
                f'unknown key "{key}" in {path}', detail=closest(key, list(_KEYS), "keys")
            )
    folder = path.parent
    store = data.get("store")
    return Config(
        folder / store if store else None,
        folder / data.get("views", "views"),
        data.get("strategy"),
        {name: _location(folder, value) for name, value in data.get("tables", {}).items()},
        {name: str(value) for name, value in data.get("spark", {}).items()},
        path,
    )


def _location(folder: Path, value: Any) -> str:
    """A path in the file counts from the file's folder; a catalog name stays as it is."""
    text = str(value)
    return str(folder / text) if "/" in text else text
