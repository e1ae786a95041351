"""A version of a table is read from its log once, and is never mistaken for another one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybridview import opened as opening
from hybridview.deltalog import FolderLog
from hybridview.errors import UsageError
from hybridview.opened import opened


def table(folder: Path, *numbers: int, **more: Any) -> Path:
    write_deltalake(str(folder), pa.table({"k": list(numbers)}), **{"mode": "append", **more})
    return folder


def rows(path: Path, version: int) -> int | None:
    return FolderLog(path).row_count(version)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read from logs."""
    found: list[str] = []

    def read(uri: str, version: int | None = None) -> DeltaTable:
        found.append(f"{uri.rsplit('/', 1)[-1]} {version}")
        return DeltaTable(uri, version=version)

    monkeypatch.setattr(opening, "DeltaTable", read)
    return found


def test_a_version_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    one = table(tmp_path / "one", 1)
    assert opened(one, 0) is opened(one, 0)
    FolderLog(one).info(0)
    assert rows(one, 0) == 1
    assert reads == ["one 0"]
    table(one, 2)
    assert (rows(one, 1), FolderLog(one).info(1).version) == (2, 1)
    assert reads == ["one 0", "one 1"]
    assert rows(one, 0) == 1, "the one that was asked for last is kept"
    assert reads == ["one 0", "one 1", "one 0"]


def test_the_newest_version_is_looked_for(tmp_path: Path) -> None:
    one = table(tmp_path / "one", 1)
    assert opened(one).version() == 0
    table(one, 2)
    assert opened(one).version() == 1


def test_another_table_in_its_place_is_another_one(tmp_path: Path) -> None:
    one = table(tmp_path / "one", 1)
    before = FolderLog(one).info(0).id
    assert rows(one, 0) == 1
    shutil.rmtree(one)
    table(one, 1, 2, 3)
    assert rows(one, 0) == 3
    assert FolderLog(one).info(0).id != before


def test_few_tables_are_kept(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MOST", 2)
    monkeypatch.setattr(opening, "_kept", type(opening._kept)())
    for name in ("a", "b", "c", "c", "b", "a"):
        path = tmp_path / name
        opened(path if path.exists() else table(path, 1), 0)
    assert reads == ["a 0", "b 0", "c 0", "a 0"]


def test_folders_whose_names_would_be_taken_for_others_are_refused(tmp_path: Path) -> None:
    """delta-rs takes %20 for a blank, however it is told."""
    table(tmp_path / "a b", 1)
    shutil.copytree(table(tmp_path / "plain", 1, 2), tmp_path / "a%20b")
    assert rows(tmp_path / "a b", 0) == 1
    with pytest.raises(UsageError, match="without the percent sign"):
        rows(tmp_path / "a%20b", 0)
    with pytest.raises(UsageError, match="cannot be read"):
        FolderLog(tmp_path / "a%20b").info()
    shutil.copytree(tmp_path / "plain", tmp_path / "100% new")
    assert rows(tmp_path / "100% new", 0) == 2, "not every percent sign is one too many"
