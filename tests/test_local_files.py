"""The files in the shared temporary folder that a start of Spark uses: anybody may be there first.

Without a JVM.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hybridview.engine import local


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hybridview-spark.log"
    monkeypatch.setattr(local, "noise_file", lambda: path)
    return path


def start() -> None:
    """Do what a start does, but for Spark; its noise goes to the file."""
    with local._quiet(), local._one_start_at_a_time():
        os.write(1, b"noise\n")


def test_noise_goes_to_the_file(place: Path) -> None:
    start()
    start()
    assert place.read_text() == "noise\nnoise\n"
    assert place.stat().st_mode & 0o777 == 0o600


def test_pipes_in_its_place_stop_nothing(place: Path) -> None:
    """A pipe would wait for a reader for ever."""
    os.mkfifo(place)
    os.mkfifo(place.with_suffix(".lock"))
    start()


def test_links_in_its_place_are_not_followed(place: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    place.symlink_to(mine)
    place.with_suffix(".lock").symlink_to(mine)
    start()
    assert mine.read_text() == "precious"


def test_files_of_others_are_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_text("")
    place.with_suffix(".lock").write_text("")
    somebody = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: somebody)
    start()
    assert place.read_text() == ""
