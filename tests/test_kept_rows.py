"""What an epoch says of a view that could not be refreshed. No JVM."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from hybridview.deltalog import FolderLog
from hybridview.plan.compiled import compile_record
from hybridview.plan.steps import Load
from hybridview.watermark import Watermark, stored_state
from tests.support.plain_store import PlainStore, write


@pytest.fixture
def shop(tmp_path: Path) -> PlainStore:
    """A view at epoch 1, whose table then loses the column it uses: the view is blocked."""
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.view("ids", "orders")
    shop.refresh("ids")
    other = pa.table({"number": [1]})
    write_deltalake(str(shop.path("orders")), other, mode="overwrite", schema_mode="overwrite")
    return shop


def kept(shop: PlainStore) -> tuple[str, int | None, dict[str, int]]:
    assert not shop.store.refresh().ok
    state = shop.catalog.published().views[0]
    return state.executed, state.version, state.inputs


def test_a_blocked_view_keeps_its_published_rows(shop: PlainStore) -> None:
    before = shop.catalog.published().views[0]
    assert kept(shop) == ("blocked", before.version, before.inputs)


def test_rows_changed_by_hand_are_not_published(shop: PlainStore) -> None:
    """The view cannot be rebuilt now; nobody reads what was written into its table."""
    before = shop.catalog.published().views[0]
    write(shop.path("ids"), [666])
    assert FolderLog(shop.path("ids")).latest() > before.version
    assert kept(shop) == ("blocked", before.version, before.inputs)


def test_rows_of_a_refresh_that_was_not_published_are_right_rows(shop: PlainStore) -> None:
    """A killed refresh left a newer state: the query at newer versions, so it may be shown."""
    shop.write("ids")
    newest = FolderLog(shop.path("ids")).latest()
    executed, version, inputs = kept(shop)
    assert (executed, version, inputs) == ("blocked", newest, shop.inputs("ids"))


def test_a_view_put_back_from_a_copy_is_as_old_as_its_rows(tmp_path: Path) -> None:
    """What was published of it later is true of other rows: commits would be left out."""
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.view("ids", "orders")
    shop.refresh("ids")
    then, folder = shop.inputs("ids"), shop.path("ids")
    shutil.copytree(folder, tmp_path / "copy")
    shop.insert("orders", 2)
    shop.refresh("ids")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    shop.insert("orders", 3)
    (view,) = shop.store.plan().views
    assert (view.kept.version, view.kept.inputs) == (0, then)


def test_compaction_that_repeats_a_mark_is_not_foreign(tmp_path: Path) -> None:
    """Delta's auto compaction commits with the metadata of the commit it follows."""
    path = tmp_path / "v"

    def marked(attempt: str, base: int | None) -> CommitProperties:
        mark = Watermark("store", attempt, 1, {"t": 1}, "program", base)
        return CommitProperties(custom_metadata={"userMetadata": mark.to_json()})

    write(path, [1], properties=marked("first", None))
    write(path, [2], properties=marked("second", 0))
    DeltaTable(str(path)).optimize.compact(commit_properties=marked("second", 0))
    state = stored_state(FolderLog(path))
    assert state is not None and state.foreign is None
    assert (state.version, state.watermark.attempt) == (2, "second")
    write(path, [3], properties=marked("third", 1))
    state = stored_state(FolderLog(path))
    assert state is not None and state.foreign is None, "only files were moved in between"
    write(path, [4], properties=marked("fourth", 1))
    state = stored_state(FolderLog(path))
    assert state is not None and state.foreign is not None, "rows came in between"


@pytest.mark.parametrize("noted", [True, False])
def test_rows_of_another_layout_are_not_added_to(tmp_path: Path, noted: bool) -> None:
    """A newer program may lay out the same view in another way; old marks do not say how."""
    shop = PlainStore(tmp_path / "store")
    shop.table("orders")
    shop.view("ids", "orders")
    shop.refresh("ids")
    record, catalog = shop.catalog.views["ids"], shop.catalog
    layout = compile_record(record).layout.signature
    for there in (layout, "another" if noted else ""):
        mark = Watermark(catalog.store_id, "a", 2, shop.inputs("ids"), record.program, None, there)
        marked = CommitProperties(custom_metadata={"userMetadata": mark.to_json()})
        write(shop.path("ids"), [1], "overwrite", marked)
        (view,) = shop.store.plan().views
        if there == "another":
            assert view.reason == "its rows are stored in another way now"
            assert isinstance(view.step, Load) and view.step.create
        else:
            assert view.step is None
