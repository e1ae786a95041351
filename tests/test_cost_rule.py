"""When a recompute is taken to be cheaper than applying a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hybridview.strategy.costs import SMALL, Work, dearer, used_share

WHOLE = Work(read=2e9, written=1e6)
"""A recompute of a view over two gigabytes."""
FEW = Work(read=2e7, changed=100)


def test_a_small_change_of_a_large_table_is_applied() -> None:
    assert dearer(FEW, WHOLE) == ""


def test_reading_all_of_it_and_more_is_dearer() -> None:
    reason = dearer(replace(FEW, read=2.5e9), WHOLE)
    assert reason.startswith("applying the change would take about ")
    assert "recomputing" in reason


def test_many_changed_rows_are_dearer() -> None:
    assert dearer(replace(FEW, changed=10_000_000), WHOLE)


def test_looking_at_many_kept_rows_again_and_again_is_dearer() -> None:
    assert dearer(replace(FEW, again=20_000_000), WHOLE)
    assert not dearer(replace(FEW, again=200_000), WHOLE)


def test_writing_most_of_a_large_view_anew_is_dearer() -> None:
    large = replace(WHOLE, read=1e8, written=2e9)
    assert dearer(replace(FEW, read=4e9, written=2e9), large)
    assert not dearer(replace(FEW, written=1e6), large)


def test_changes_of_small_tables_are_applied() -> None:
    assert dearer(replace(FEW, changed=10_000_000), Work(read=SMALL - 1)) == ""


@pytest.mark.parametrize(
    ("used", "share"),
    [(("id", "note"), 1.0), (("ID",), 0.2), (("note",), 0.8), ((), 0.0)],
)
def test_columns_count_by_their_width(used: tuple[str, ...], share: float) -> None:
    assert used_share([("id", "bigint"), ("note", "string")], used) == pytest.approx(share)
