"""hybridview.toml -> Config: which store, which folder of views, which Spark settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridview.errors import UsageError
from hybridview.operations.duration import seconds
from hybridview.operations.suggest import closest
from hybridview.schema import Strategy

FILE = "hybridview.toml"
_KEYS = ("store", "views", "strategy", "keep", "parallel", "tables", "spark")


_KINDS: dict[str, tuple[type, str]] = {
    "tables": (dict, "a table"),
    "spark": (dict, "a table"),
    "parallel": (int, "a number"),
}
"""What a value must be, where that is not a text."""


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """A base table: a location alone, or with its declared keys."""

    location: str
    key: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says; paths are relative to its folder."""

    store: Path | None = None
    views: Path = Path("views")
    strategy: str | None = None
    tables: dict[str, ConfigTable] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)
    file: Path | None = None
    keep: str | None = None
    parallel: int | None = None


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
    _check_types(path, data)
    folder = path.parent
    store = data.get("store")
    return Config(
        folder / store if store else None,
        folder / data.get("views", "views"),
        data.get("strategy"),
        {name: _table(path, name, value) for name, value in data.get("tables", {}).items()},
        dict(_flat("", data.get("spark", {}))),
        path,
        data.get("keep"),
        data.get("parallel"),
    )


def _check_types(path: Path, data: dict[str, Any]) -> None:
    """Refuse a value of another kind than its key takes."""
    for key, value in data.items():
        wanted, what = _KINDS.get(key, (str, "a text"))
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(f'"{key}" in {path} must be {what}', detail=f"It is {value!r}.")
    if data.get("parallel", 1) < 1:
        raise UsageError(f'"parallel" in {path} must be at least 1')
    keep = data.get("keep")
    if keep is not None and seconds(keep) is None:
        raise UsageError(f'"keep" in {path} is not a time', hint='Write it like: keep = "7 days"')
    strategy = data.get("strategy")
    if strategy is not None and strategy not in {s.value for s in Strategy}:
        known = ", ".join(s.value for s in Strategy)
        raise UsageError(f'unknown strategy "{strategy}" in {path}', hint=f"Use one of: {known}")


def _flat(prefix: str, settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield settings with their full names: TOML reads a dotted key as nested tables."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield f"{prefix}{name}", text


def _table(path: Path, name: str, value: Any) -> ConfigTable:
    """Read `name = "location"`, or a table with location, key and references."""
    if isinstance(value, str):
        return ConfigTable(_location(path.parent, value))
    lists = [value.get(k, []) for k in ("key", "references")] if isinstance(value, dict) else []
    texts = all(isinstance(v, list) and all(isinstance(t, str) for t in v) for v in lists)
    known = {"location", "key", "references"}
    if not lists or not texts or not isinstance(value.get("location"), str) or set(value) - known:
        raise UsageError(
            f'table "{name}" in {path} is neither a location nor a table with one',
            hint='Write it like: orders = { location = "data/orders", key = ["id"], '
            'references = ["customer_id -> customers"] }',
        )
    return ConfigTable(_location(path.parent, value["location"]), *map(tuple, lists))


def _location(folder: Path, value: Any) -> str:
    """A path in the file counts from the file's folder; a catalog name stays as it is."""
    text = str(value)
    return str(folder / text) if "/" in text else text
