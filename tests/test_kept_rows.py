"""What an epoch says of a view that could not be refreshed. No JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview.deltalog import FolderLog
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
