"""How much of a table is read for one key, by the bounds of its files."""

from __future__ import annotations

import random

import pytest

from hybridview.filestats import FileBounds
from hybridview.operations.compaction import read_for_one


def files(*spans: tuple[int, int, int]) -> list[FileBounds]:
    return [FileBounds(rows, low, high, 0) for low, high, rows in spans]


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        (((0, 9, 5), (10, 19, 5), (20, 29, 5), (30, 39, 5)), 0.25),
        (((0, 39, 5), (0, 39, 5), (0, 39, 5)), 1.0),
        (((0, 9, 5),), 1.0),
        ((), 0.0),
    ],
    ids=["in order", "anywhere", "one file", "no file"],
)
def test_share(spans: tuple[tuple[int, int, int], ...], share: float) -> None:
    assert read_for_one(files(*spans)) == share


def test_files_without_bounds_say_nothing() -> None:
    known = files((0, 9, 5), (10, 19, 5))
    assert read_for_one([*known, FileBounds(100, None, None, None)]) == read_for_one(known)


@pytest.mark.parametrize("seed", range(20))
def test_as_if_every_file_were_compared_with_every_other(seed: int) -> None:
    chance = random.Random(seed)
    spans = [
        (low := chance.randrange(30), low + chance.randrange(9), chance.randrange(1, 9))
        for _ in range(chance.randrange(1, 12))
    ]
    rows = sum(n for _, _, n in spans)
    found = sum(n * m for a, _, n in spans for b, e, m in spans if b <= a <= e)
    assert read_for_one(files(*spans)) == pytest.approx(found / rows**2)
