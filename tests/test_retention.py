"""How long changes stay readable, who needs them, and what status and doctor say. No JVM."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import hybridview
from hybridview.cli import render
from hybridview.deltalog import CommitKind, FolderLog
from hybridview.operations.duration import seconds, spoken
from hybridview.operations.retention import retention
from hybridview.operations.status import TableStatus, ViewStatus
from hybridview.strategy.facts import change_facts
from tests.support.plain_store import DAY, HOUR, PlainStore, write

FILES, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("interval 7 days", 7 * DAY),
        ("interval 168 hours", 7 * DAY),
        ("interval 1 week", 7 * DAY),
        ("INTERVAL 1 WEEKS  2 days 3 hours", 9 * DAY + 3 * HOUR),
        ("30 minutes", 1800),
        ("interval '2' days", 2 * DAY),
        ("interval 1500 milliseconds", 1.5),
        ("0 days", 0),
        ("a week", None),
        ("7", None),
        ("7 days and more", None),
        ("1 month", None),
        ("-1 days", None),
        ("", None),
    ],
)
def test_intervals(text: str, wanted: float | None) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "under a minute"),
        (59, "under a minute"),
        (60, "1 minute"),
        (3599, "59 minutes"),
        (3 * HOUR + 1799, "3 hours"),
        (DAY, "1 day"),
        (2 * DAY + 5 * HOUR, "2 days 5 hours"),
        (30 * DAY + HOUR, "30 days"),
    ],
)
def test_spoken(length: float, text: str) -> None:
    assert spoken(length) == text


def test_properties_and_defaults() -> None:
    assert dataclasses.astuple(retention({})) == (7 * DAY, 30 * DAY)
    found = retention({FILES: "interval 2 weeks", LOG: "interval 10 days"})
    assert (found.files, found.log, found.changes) == (14 * DAY, 10 * DAY, 10 * DAY)
    assert retention({FILES: "for ever"}).files == 7 * DAY


@pytest.fixture
def shop(tmp_path: Path) -> PlainStore:
    """A view over a table, refreshed just now."""
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.view("totals", "orders")
    shop.insert("orders", 2, 3)
    shop.refresh("totals")
    return shop


def view_status(shop: PlainStore, name: str = "totals") -> ViewStatus:
    return next(v for v in shop.store.status().views if v.name == name)


def table_status(shop: PlainStore, name: str = "orders") -> TableStatus:
    return next(t for t in shop.store.status().tables if t.name == name)


def finding(shop: PlainStore, what: str) -> tuple[bool, str, str]:
    return next((f.ok, f.detail, f.hint) for f in shop.store.doctor() if f.what == what)


def test_a_fresh_view_needs_nothing(shop: PlainStore) -> None:
    view = view_status(shop)
    assert (view.state, view.readable, view.warning) == ("fresh", None, "")
    assert (table_status(shop).kept, table_status(shop).needed_by) == (7 * DAY, ())
    assert finding(shop, "table orders") == (True, "version 1, changes kept 7 days", "")


def test_time_is_left(shop: PlainStore) -> None:
    shop.delete("orders", 2, ago=2 * DAY)
    view = view_status(shop)
    assert (view.state, view.behind, spoken(view.lag)) == ("behind", 1, "2 days")
    assert view.readable == pytest.approx(5 * DAY, abs=60) and view.warning == ""
    detail = "version 2, changes kept 7 days, needed by totals"
    assert finding(shop, "table orders") == (True, detail, "")
    assert finding(shop, "view totals") == (True, "behind", "")


def test_a_warning_before_they_go(shop: PlainStore) -> None:
    shop.delete("orders", 2, ago=6 * DAY)
    warning = 'VACUUM may remove changes of "orders" it has not seen in 23 hours'
    assert view_status(shop).warning == warning
    assert finding(shop, "view totals") == (False, warning, "Run: hybridview refresh totals")
    shop.insert("orders", 4)
    assert view_status(shop).behind == 2
    assert view_status(shop).warning == warning, "the oldest change counts"


def test_vacuum_may_have_come_already(shop: PlainStore) -> None:
    shop.delete("orders", 2, ago=8 * DAY)
    view = view_status(shop)
    assert view.readable == 0
    assert view.warning == 'VACUUM may remove changes of "orders" it has not seen any time'


def test_the_view_with_the_least_time_is_named_first(shop: PlainStore) -> None:
    shop.view("names", "orders")
    shop.delete("orders", 2, ago=3 * DAY)
    shop.refresh("names")
    shop.delete("orders", 3, ago=DAY)
    assert table_status(shop).needed_by == ("totals", "names")
    assert view_status(shop, "names").readable == pytest.approx(6 * DAY, abs=60)
    shop.refresh("totals")
    assert table_status(shop).needed_by == ("names",)


def test_appended_rows_are_there_until_a_commit_takes_their_files(shop: PlainStore) -> None:
    """An append-only table may be read late: its files are the table's own."""
    shop.insert("orders", 4, ago=20 * DAY)
    shop.insert("orders", 5, ago=15 * DAY)
    assert view_status(shop).readable == pytest.approx(10 * DAY, abs=60), "the log counts"
    DeltaTable(str(shop.path("orders"))).optimize.compact()
    log = FolderLog(shop.path("orders"))
    assert log.commit(log.latest()).kind is CommitKind.DATA_FREE
    assert view_status(shop).readable == pytest.approx(7 * DAY, abs=60), "their files went now"


def test_the_tables_own_retention_counts(tmp_path: Path) -> None:
    shop = PlainStore(tmp_path / "store")
    shop.table("orders", {FILES: "interval 48 hours", LOG: "interval 1 week"})
    shop.view("totals", "orders")
    shop.refresh("totals")
    shop.insert("orders", 2)
    shop.delete("orders", 1, ago=HOUR)
    assert table_status(shop).kept == 2 * DAY
    assert view_status(shop).readable == pytest.approx(47 * HOUR, abs=60)


def remove(paths: tuple[str, ...] | list[Path]) -> None:
    assert paths
    for path in paths:
        Path(path).unlink()


def test_change_files_that_vacuum_removed_are_noticed(shop: PlainStore) -> None:
    write(shop.path("orders"), [7, 8])
    shop.delete("orders", 7)
    shop.insert("orders", 9)
    log = FolderLog(shop.path("orders"))
    assert log.commit(3).kind is CommitKind.ROWS
    assert [log.missing_files(version) for version in (2, 3, 4)] == [(), (), ()]
    remove(list((log.path / "_change_data").iterdir()))
    missing = log.missing_files(3)
    assert [Path(path).parent.name for path in missing] == ["_change_data"]
    assert [log.missing_files(version) for version in (2, 4)] == [(), ()]

    gone = 'VACUUM removed the change files of "orders" at commit 3'
    facts = change_facts("orders", log, 1, log.info())
    assert (facts.changed, facts.compare, facts.unreadable) == (True, gone, "")
    view = view_status(shop)
    assert (view.state, view.warning) == (
        "behind",
        f"{gone}; the next refresh compares two versions",
    )
    assert not finding(shop, "view totals")[0]

    remove(list(log.path.glob("*.parquet")))
    facts = change_facts("orders", log, 1, log.info())
    assert facts.unreadable == (
        'VACUUM removed the change files of "orders" at commit 2, '
        "and version 1 cannot be read any more"
    )
    warning = 'VACUUM removed the change files of "orders" at commit 2; '
    assert view_status(shop).warning == f"{warning}the next refresh recomputes the view"


def test_a_removed_file_is_a_change_file_where_there_are_no_others(shop: PlainStore) -> None:
    """A commit that takes whole files away writes no change files: the feed reads what it took."""
    log = FolderLog(shop.path("orders"))
    file = next(Path(p) for p in DeltaTable(str(log.path)).file_uris())
    write(log.path, [5], "overwrite")
    assert log.missing_files(log.latest()) == ()
    file.unlink()
    assert log.missing_files(log.latest()) == (str(file),)


def test_a_log_with_gaps_is_behind_not_blocked(shop: PlainStore) -> None:
    shop.insert("orders", 4)
    shop.insert("orders", 5)
    log = FolderLog(shop.path("orders"))
    DeltaTable(str(log.path)).create_checkpoint()
    for version in (0, 1, 2):
        (log.folder / f"{version:020d}.json").unlink()
    view = view_status(shop)
    warning = 'the log of "orders" no longer has commit 2; the next refresh recomputes the view'
    assert (view.state, view.detail, view.warning) == ("behind", "", warning)


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ({"path": "part-0.parquet"}, ["/t/part-0.parquet"]),
        ({"path": "day=1%2520x/p%20q.parquet"}, ["/t/day=1%20x/p q.parquet"]),
        ({"path": "file:/other/p%20q.parquet"}, ["/other/p q.parquet"]),
        ({"path": "file:///other/p.parquet"}, ["/other/p.parquet"]),
        ({"path": "/other/p.parquet"}, ["/other/p.parquet"]),
        ({"path": "s3://bucket/p.parquet"}, []),
        (
            {
                "path": "p.parquet",
                "deletionVector": {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"},
            },
            ["/t/p.parquet", "/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"],
        ),
        (
            {
                "path": "p.parquet",
                "deletionVector": {"storageType": "p", "pathOrInlineDv": "file:/v.bin"},
            },
            ["/t/p.parquet", "/v.bin"],
        ),
        (
            {"path": "p.parquet", "deletionVector": {"storageType": "i", "pathOrInlineDv": "wi5b"}},
            ["/t/p.parquet"],
        ),
    ],
)
def test_where_a_file_of_the_log_lies(file: dict[str, Any], wanted: list[str]) -> None:
    """The deletion vector is the example of the Delta protocol."""
    from hybridview.deltalog import file_paths

    assert [str(path) for path in file_paths(Path("/t"), file)] == wanted


def test_status_shows_kept_and_left(shop: PlainStore) -> None:
    shop.delete("orders", 2, ago=6 * DAY + HOUR)
    lines = render.status(shop.store.status(), 100)
    shown = [" ".join(line.split()) for line in lines if line]
    assert shown[1:3] == [
        "table version changes kept location",
        "orders 2 7 days tables/orders",
    ]
    assert shown[3] == "view state last rows behind lag changes left detail"
    assert shown[4].startswith("totals behind incremental 1 1 6 days 1 hour 22 hours VACUUM may")


def test_no_setting_hides_missing_files() -> None:
    """With such a setting a change that VACUUM took would be missing from views, unnoticed."""
    package = Path(inspect.getfile(hybridview)).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8").lower()
        assert "ignoremissingfiles" not in text and "ignorecorruptfiles" not in text, path
