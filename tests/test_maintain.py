"""What `maintain` plans, and what of it needs no JVM: epochs, leftovers, the bookkeeping table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableOptimizer

from hybridview import Store
from hybridview.cli import render
from hybridview.deltalog import FILE_RETENTION, LOG_RETENTION, FolderLog
from hybridview.errors import BusyError, EpochGoneError, UsageError
from hybridview.operations.lock import slot
from hybridview.operations.maintain import _attempt, plan_maintain
from hybridview.operations.needed import needed_versions
from tests.cli.terminal import invoke_in_folder, without_spark
from tests.support.plain_store import DAY, HOUR, PlainStore, made_ago, write


@pytest.fixture(autouse=True)
def no_spark() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture
def shop(tmp_path: Path) -> PlainStore:
    """A view, and one that reads it; five epochs of one day each, the newest a day ago."""
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.view("totals", "orders")
    shop.view("large", "totals")
    for days in (5, 4, 3, 2, 1):
        shop.insert("orders", days, ago=days * DAY)
        shop.refresh("totals", "large", ago=days * DAY)
    return shop


def files_of(shop: PlainStore, view: str) -> set[Path]:
    return set(shop.path(view).rglob("*.parquet"))


def vacuumed(shop: PlainStore, keep: str, view: str = "totals") -> str:
    """Return why a view's table would be vacuumed; empty if it would not."""
    found = [why for verb, target, why in shop.works(keep) if (verb, target) == ("vacuum", view)]
    return found[0] if found else ""


def test_young_epochs_stay(shop: PlainStore) -> None:
    assert shop.works("7 days") == []
    default = shop.store.maintain(dry_run=True)
    assert {work.target for work in default.works} <= {"_hybridview"}, "7 days are the default"


@pytest.mark.parametrize(
    ("keep", "target", "reason"),
    [
        ("4 days", "epoch 1", "replaced by newer ones more than 4 days ago; 2-5 can be read"),
        ("60 hours", "epochs 1-2", "more than 2 days 12 hours ago; 3-5 can be read"),
        ("0 days", "epochs 1-4", "replaced by newer ones; 5 can be read"),
    ],
)
def test_epochs_expire_some_time_after_the_next_one(
    shop: PlainStore, keep: str, target: str, reason: str
) -> None:
    """Epoch 1 is five days old, but it was read until epoch 2 came: four days ago."""
    verb, found, why = shop.works(keep)[0]
    assert (verb, found) == ("expire", target) and why.endswith(reason)


def test_an_expired_epoch_is_refused_and_stays_in_history(shop: PlainStore) -> None:
    shop.publish()
    before = shop.store.history()
    works = plan_maintain(shop.context, 60 * HOUR)
    assert works[0].epochs == (1, 2)
    assert shop.store.history() == before, "planning writes nothing"
    assert _attempt(shop.context, works[0]) == ""
    with pytest.raises(EpochGoneError) as raised:
        shop.store.read("totals", epoch=2)
    error = raised.value
    assert error.fact == "epoch 2 has expired"
    assert error.detail == "Its files are no longer kept; those of epoch 3 and later are."
    assert error.hint == "List them with: hybridview history"
    with pytest.raises(EpochGoneError):
        shop.store.verify("totals", epoch=1)
    after = shop.store.history()
    assert [(r.epoch, r.views) for r in after] == [(r.epoch, r.views) for r in before]
    assert [r.epoch for r in after if r.expired] == [2, 1]
    shown = [line for line in render.history(after, 100) if line.endswith("expired")]
    assert [line.split()[1] for line in shown] == ["2", "1"]
    # What has expired is not expired again.
    assert [w[0] for w in shop.works("60 hours")] == ["vacuum", "vacuum"]


def test_vacuum_keeps_what_the_oldest_kept_epoch_reads(shop: PlainStore) -> None:
    """Versions 0 to 4 of the view are the epochs 1 to 5."""
    assert vacuumed(shop, "7 days") == ""
    why = vacuumed(shop, "60 hours")
    assert why.endswith("unused for 74 hours; version 2 stays for epoch 3")
    # The files of version 1 went when version 2 was made: they stay with it.
    assert why.startswith("1 file, ")


def removable(shop: PlainStore, view: str, keep: float) -> set[str]:
    """Return the files VACUUM would take with the bound that is planned."""
    work = next(
        w for w in plan_maintain(shop.context, keep) if (w.verb, w.target) == ("vacuum", view)
    )
    found = re.search(r"unused for ([\d,]+) hours", work.reason)
    hours = int(found[1].replace(",", "")) if found else 1
    table = DeltaTable(str(shop.path(view)))
    return set(table.vacuum(hours, True, False, full=True))


@pytest.mark.parametrize(("keep", "first"), [(60 * HOUR, 2), (36 * HOUR, 3), (0, 4)])
def test_no_file_of_a_kept_epoch_goes(shop: PlainStore, keep: float, first: int) -> None:
    going = removable(shop, "totals", keep)
    assert len(going) >= first - 1, "files of older epochs go"
    path = str(shop.path("totals"))
    for version in range(first, 5):
        kept = {Path(p).name for p in DeltaTable(path, version=version).file_uris()}
        assert not going & kept


def test_with_the_newest_epoch_alone_an_hour_is_kept(shop: PlainStore) -> None:
    why = vacuumed(shop, "0 days")
    assert why.startswith("4 files, ") and why.endswith("unused for an hour")


def test_commits_without_files_make_no_version_older(shop: PlainStore) -> None:
    """VACUUM writes down when it starts and ends; what was read before is what is read now."""
    before = vacuumed(shop, "0 days")
    DeltaTable(str(shop.path("totals"))).alter.set_table_properties({"delta.appendOnly": "false"})
    assert vacuumed(shop, "0 days") == before
    shop.write("totals")
    assert vacuumed(shop, "0 days").endswith("version 4 stays for epoch 5")


def test_a_parent_keeps_what_its_child_was_made_from(shop: PlainStore) -> None:
    """The child was left behind at epoch 3: it will ask for the changes of its parent since."""
    shop = PlainStore(shop.root.parent / "other")
    shop.table("orders")
    shop.view("totals", "orders")
    shop.view("large", "totals")
    for days in (6, 5, 4):
        shop.refresh("totals", "large", ago=days * DAY)
    for days in (3, 2, 1):
        shop.refresh("totals", ago=days * DAY)
    why = vacuumed(shop, "0 days")
    assert why.endswith("unused for 98 hours; version 2 stays for view large in epoch 6")
    assert why.startswith("1 file, ")


def test_a_child_ahead_of_its_epoch_counts_too(shop: PlainStore) -> None:
    """A refresh died before it published: what its tables name is needed, and the epoch before."""
    totals = shop.catalog.views["totals"].id
    newest = [r for r in shop.catalog.refreshes if r.epoch == 5]
    assert needed_versions(shop.context, shop.catalog, newest)[totals] == {4: "epoch 5"}
    shop.write("totals", "large")
    needed = needed_versions(shop.context, shop.catalog, newest)[totals]
    assert needed == {4: "epoch 5", 5: "view large"}


def test_a_table_that_forgets_too_early_is_told_to_retain(shop: PlainStore) -> None:
    """With a retention shorter than an epoch is kept, VACUUM would take files of kept epochs."""
    path = shop.path("totals")
    short = {FILE_RETENTION: "interval 2 days", LOG_RETENTION: "interval 2 days"}
    DeltaTable(str(path)).alter.set_table_properties(short)
    works = shop.works("60 hours")
    why = "VACUUM may remove what epochs need after 2 days; 365 days are safe"
    assert ("retain", "totals", why) in works
    assert ("vacuum", "totals") not in [w[:2] for w in works], "not before it retains"
    assert ("retain", "large", why) not in works


def test_epochs_kept_for_years_need_files_for_longer(shop: PlainStore) -> None:
    works = shop.works("400 days")
    why = "VACUUM may remove what epochs need after 365 days; 800 days are safe"
    assert works == [("retain", "totals", why), ("retain", "large", why)]


def test_many_small_files_are_compacted(shop: PlainStore) -> None:
    shop.refresh("totals", files=8)
    assert "compact" not in [w[0] for w in shop.works()], "eight files are not many"
    shop.refresh("totals", files=9)
    why = next(why for verb, target, why in shop.works() if (verb, target) == ("compact", "totals"))
    assert re.fullmatch(r"9 files of \d+ bytes on average", why)


def test_large_files_are_left_alone(shop: PlainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.refresh("totals", files=9)
    monkeypatch.setattr("hybridview.operations.compaction.SMALL", 10)
    assert "totals" not in [w[1] for w in shop.works() if w[0] == "compact"]


def test_the_bookkeeping_table_is_compacted_and_vacuumed(shop: PlainStore) -> None:
    for _ in range(3):
        shop.publish()
    before = shop.catalog
    (work,) = shop.store.maintain().works
    assert (work.verb, work.target, work.error) == ("compact", "_hybridview", "")
    assert re.fullmatch(r"12 files of \d kB on average", work.reason)
    assert shop.store.maintain().works == ()
    ledger = shop.context.ledger.path
    for version in range(FolderLog(ledger).latest() + 1):
        made_ago(ledger, 3 * HOUR, version)
    (work,) = shop.store.maintain().works
    assert (work.verb, work.target, work.error) == ("vacuum", "_hybridview", "")
    assert work.reason.startswith("12 files, ") and work.reason.endswith("unused for an hour")
    assert len(list(ledger.glob("*.parquet"))) == 1
    assert shop.catalog == before


def test_a_compaction_that_fails_is_no_lost_race(
    shop: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch is published by then; what others do to the table at that moment is theirs."""

    def conflict(_: TableOptimizer) -> None:
        asked.append(True)
        raise CommitFailedError("a concurrent transaction deleted data this operation read")

    asked: list[bool] = []
    monkeypatch.setattr("hybridview.catalog.COMPACT_EVERY", 1)
    monkeypatch.setattr(TableOptimizer, "compact", conflict)
    epoch = shop.catalog.epoch
    shop.publish()
    assert asked and shop.catalog.epoch == epoch + 1


def test_leftovers_of_views_go_and_nothing_else(shop: PlainStore) -> None:
    """A folder some record once named, or whose table says that it is ours."""
    shop.view("old", "orders")
    shop.refresh("old", "totals", "large", ago=DAY)
    record = shop.catalog.views["old"]
    shop.context.ledger.append("view_dropped", {"name": "old", "id": record.id})
    views = shop.root / "views"
    write(views / "lost", [1])
    log = FolderLog(views / "lost")
    text = (log.folder / f"{0:020d}.json").read_text(encoding="utf-8")
    marked = text.replace('"configuration":{}', '"configuration":{"hybridview.view":"lost"}')
    assert marked != text
    (log.folder / f"{0:020d}.json").write_text(marked, encoding="utf-8")
    write(views / "somebodys", [1])
    (views / "notes").mkdir()
    (views / "notes" / "todo.txt").write_text("keep me", encoding="utf-8")
    (views / "link").symlink_to(shop.root / "tables")

    works = [w for w in shop.works() if w[0] == "remove"]
    reason = "no view uses it"
    assert works == [("remove", "views/lost", reason), ("remove", "views/old", reason)]
    hints = {f.what: f.hint for f in shop.store.doctor() if f.what.startswith("folder ")}
    assert hints["folder views/old"] == hints["folder views/lost"] == "Run: hybridview maintain"
    assert hints["folder views/notes"].startswith("Remove: rm -r ")

    assert shop.store.maintain().ok
    left = {path.name for path in views.iterdir()}
    assert left == {"totals", "large", "somebodys", "notes", "link"}
    assert (shop.root / "tables" / "orders").is_dir()


def test_a_dry_run_changes_nothing(shop: PlainStore) -> None:
    shop.refresh("totals", files=9)
    write(shop.root / "views" / "lost", [1])
    before = sorted(shop.root.rglob("*"))
    assert {w[0] for w in shop.works("0 days")} >= {"expire", "compact", "vacuum"}
    assert sorted(shop.root.rglob("*")) == before


def test_base_tables_are_never_touched(shop: PlainStore) -> None:
    for number in range(20):
        shop.insert("orders", number, ago=100 * DAY)
    targets = {target for _, target, _ in shop.works("0 days")}
    assert targets <= {"epochs 1-4", "totals", "large", "_hybridview"}
    assert "totals" in targets


def test_maintenance_waits_for_the_refresh_slot(shop: PlainStore) -> None:
    write(shop.root / "views" / "lost", [1])
    with slot(shop.context), pytest.raises(BusyError):
        shop.store.maintain(wait=0.0)


def test_what_fails_does_not_stop_the_rest(
    shop: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.view("old", "orders")
    shop.refresh("old")
    record = shop.catalog.views["old"]
    shop.context.ledger.append("view_dropped", {"name": "old", "id": record.id})

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hybridview.operations.maintain.shutil.rmtree", refuse)
    result = shop.store.maintain()
    assert not result.ok
    assert [w.error for w in result.works if w.verb == "remove"] == ["[Errno 13] Permission denied"]


def test_keep_must_be_a_time(shop: PlainStore) -> None:
    with pytest.raises(UsageError) as raised:
        shop.store.maintain(dry_run=True, keep="a while")
    assert raised.value.hint == 'Write it like: --keep "7 days"'


def test_the_flag_wins_over_the_file(shop: PlainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.root.parent)
    file = Path("hybridview.toml")

    def expired(flag: str = "") -> list[int]:
        result = invoke_in_folder(f"maintain --dry-run --json {flag}")
        assert result.exit_code == 0, result.output
        works = json.loads(result.stdout)["works"]
        return [epoch for work in works for epoch in work["epochs"]]

    file.write_text('store = "store"\n', encoding="utf-8")
    assert expired() == []
    file.write_text('store = "store"\nkeep = "60 hours"\n', encoding="utf-8")
    assert expired() == [1, 2]
    assert expired('--keep "36 hours"') == [1, 2, 3]
    file.write_text('store = "store"\nkeep = "soon"\n', encoding="utf-8")
    result = invoke_in_folder("maintain --dry-run")
    assert result.exit_code == 2 and 'hint: Write it like: keep = "7 days"' in result.stderr


def test_a_store_without_views_has_nothing_to_do(tmp_path: Path) -> None:
    assert Store.open(tmp_path / "empty").maintain().works == ()
