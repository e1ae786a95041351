"""When a recompute is taken to be cheaper than applying a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hybridview.strategy.costs import SMALL, Applying, Loading, dearer, used_share

WHOLE = Loading(tables=3, read=2e9, joined=1e9, written=1e6)
"""A recompute of a view over two gigabytes."""
LITTLE = Loading(tables=2, read=4e7)
FEW = Applying(read=2e7, changed=100)


def test_a_small_change_of_a_large_table_is_applied() -> None:
    assert dearer(FEW, WHOLE) == ""


def test_reading_all_of_it_and_more_is_dearer() -> None:
    reason = dearer(replace(FEW, read=5e9), WHOLE)
    assert reason.startswith("applying the change would take about ")
    assert "recomputing" in reason


def test_many_changed_rows_are_dearer() -> None:
    assert dearer(replace(FEW, changed=100_000_000), WHOLE)


def test_rows_that_are_only_added_up_are_not_fetched_first() -> None:
    assert not dearer(replace(FEW, added=600_000), LITTLE)
    assert dearer(replace(FEW, large=1, fetched=600_000, changed=600_000), LITTLE)


def test_keeping_large_changes_is_dearer_than_reading_little() -> None:
    assert dearer(replace(FEW, large=2), LITTLE)
    assert not dearer(replace(FEW, large=2), WHOLE)


def test_looking_at_many_kept_rows_again_and_again_is_dearer() -> None:
    assert dearer(replace(FEW, again=60_000_000), WHOLE)
    assert not dearer(replace(FEW, again=200_000), WHOLE)


def test_looking_for_rows_near_changes_in_many_places_is_dearer_where_little_is_read() -> None:
    assert not dearer(replace(FEW, looks=2), LITTLE)
    assert dearer(replace(FEW, looks=6), LITTLE)
    assert not dearer(replace(FEW, looks=6), WHOLE)


def test_a_recompute_of_many_tables_takes_longer_and_longer_if_it_joins_them() -> None:
    six = replace(FEW, looks=6)
    assert not dearer(six, replace(LITTLE, tables=12))
    assert not dearer(six, replace(LITTLE, joined=1e8))


def test_writing_most_of_a_large_view_anew_is_dearer() -> None:
    large = replace(WHOLE, read=1e8, joined=0, written=2e9)
    assert dearer(replace(FEW, read=4e9, written=2e9), large)
    assert not dearer(replace(FEW, written=1e6), large)


def test_changes_of_small_tables_are_applied() -> None:
    assert dearer(replace(FEW, changed=10_000_000), Loading(read=SMALL - 1)) == ""


@pytest.mark.parametrize(
    ("used", "share"),
    [(("id", "note"), 1.0), (("ID",), 0.2), (("note",), 0.8), ((), 0.0)],
)
def test_columns_count_by_their_width(used: tuple[str, ...], share: float) -> None:
    assert used_share([("id", "bigint"), ("note", "string")], used) == pytest.approx(share)
