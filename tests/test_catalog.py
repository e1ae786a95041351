"""The bookkeeping table: what a long history costs those who want the newest of it; no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybridview import Store, records
from hybridview.catalog import FolderCatalog, RefreshRecord, ViewState, as_payload
from hybridview.errors import RaceLostError
from hybridview.operations import levels
from tests.support.plain_store import PlainStore

EPOCHS = 300


def refresh(epoch: int, attempt: str = "", seconds: float = 0.1) -> RefreshRecord:
    state = ViewState("v", "id of v", epoch, "table of v", {"t": epoch}, "incremental", epoch=epoch)
    started = "2026-01-01T00:00:00+00:00"
    return RefreshRecord(epoch, attempt or f"attempt {epoch}", "hybrid", started, seconds, (state,))


@pytest.fixture
def old(tmp_path: Path) -> PlainStore:
    """A store with a view and a long history."""
    shop = PlainStore(tmp_path / "store")
    shop.table("t")
    shop.view("v", "t")
    for first in range(1, EPOCHS, 100):
        epochs = range(first, first + 100)
        shop.context.ledger.append_all([("refresh", as_payload(refresh(e))) for e in epochs])
    return shop


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs whose records were read, one by one."""
    found: list[int] = []
    one = records._refresh

    def noted(payload: Any) -> RefreshRecord:
        found.append(payload["epoch"])
        return one(payload)

    monkeypatch.setattr(records, "_refresh", noted)
    return found


def test_a_long_history_is_not_read(old: PlainStore, read: list[int]) -> None:
    """Opening a store, its status and a plan need the newest refresh alone."""
    store = Store.open(old.root)
    assert store.epoch == EPOCHS
    assert read == []
    store.status()
    store.plan()
    assert set(read) == {EPOCHS}
    read.clear()
    assert [r.epoch for r in store.history(3)] == [300, 299, 298]
    assert set(read) <= {300, 299, 298}


def test_an_older_epoch_is_read_when_it_is_wanted(old: PlainStore, read: list[int]) -> None:
    catalog = FolderCatalog(old.root).read()
    found = catalog.published(17)
    assert found == refresh(17)
    assert catalog.published(17) is found and read == [17]
    assert catalog.published(EPOCHS + 1) is None
    assert levels._state_at(catalog, "table of v", 299) == refresh(299).views[0]
    assert read == [17, 300, 299], "the newest first, and no further than needed"


def test_what_did_not_change_is_not_read_again(
    old: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = FolderCatalog(old.root)
    first = ledger.read()
    assert ledger.read() is first
    FolderCatalog(old.root).append("refresh", as_payload(refresh(EPOCHS + 1)))
    assert ledger.read().epoch == EPOCHS + 1, "what another process appends is seen"


def test_epochs_that_expired(old: PlainStore, read: list[int]) -> None:
    old.context.ledger.append("expired", {"epochs": list(range(1, EPOCHS - 1))})
    catalog = old.catalog
    assert catalog.refreshes.readable_epochs == (299, 300)
    assert read == []
    assert [r.epoch for r in catalog.refreshes.readable()] == [299, 300]
    found = catalog.published(5)
    assert found is not None and found.expired
    assert len(list(catalog.refreshes)) == len(catalog.refreshes) == EPOCHS


def test_the_first_record_of_an_epoch_counts(old: PlainStore) -> None:
    ledger = FolderCatalog(old.root)
    ledger.append("refresh", as_payload(refresh(EPOCHS + 1, "mine")))
    ledger.append("refresh", as_payload(refresh(EPOCHS + 1, "another")))
    found = ledger.read().published()
    assert found is not None and found.attempt == "mine"
    with pytest.raises(RaceLostError):
        ledger.publish(refresh(EPOCHS + 1, "a third"), "store")


def test_records_without_a_place(old: PlainStore, read: list[int]) -> None:
    """A text that does not begin as ours do is read whole."""
    spelled = {"attempt": "first", **as_payload(refresh(EPOCHS + 1))}
    old.context.ledger.append("refresh", spelled)
    assert old.catalog.epoch == EPOCHS + 1
    assert read == []
