"""Definitions that two processes change at the same time: nothing is lost or brought back. No JVM.

Spark's analysis of a view takes seconds, in which another process may rename what it is about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybridview.catalog import ViewRecord
from hybridview.errors import BusyError
from hybridview.operations import define, lock
from hybridview.operations.context import Context
from hybridview.operations.names import folder_name, free_folder
from tests.support.plain_store import PlainStore


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainStore:
    """A store whose analyst is no Spark."""
    shop = PlainStore(tmp_path / "store")
    shop.table("t")
    shop.view("v", "t")
    spark = SimpleNamespace(setting=lambda _: "", set=lambda _: None)
    monkeypatch.setattr(Context, "port", lambda _: spark)
    monkeypatch.setattr(Context, "worker", lambda _: spark)
    monkeypatch.setattr(define, "with_hidden", lambda _, record, __: (record,))
    return shop


def analysed(
    shop: PlainStore, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> None:
    """Let something happen while a new text of the view is analysed."""
    old: ViewRecord = shop.catalog.views["v"]

    def view(*_: Any, **__: Any) -> ViewRecord:
        meanwhile()
        return replace(old, program="another")

    monkeypatch.setattr(define, "Analyst", lambda *_: SimpleNamespace(view=view))


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda s: s.store.rename_view("v", "w"), id="renamed"),
        pytest.param(lambda s: s.store.drop_view("v"), id="dropped"),
        pytest.param(lambda s: s.store.rename_table("t", "u"), id="its table renamed"),
    ],
)
def test_what_changed_meanwhile_is_not_written_over(
    shop: PlainStore, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[PlainStore], object]
) -> None:
    analysed(shop, monkeypatch, lambda: meanwhile(shop))
    with pytest.raises(BusyError, match="changed by another process") as refused:
        shop.store.create_view("v", "SELECT id FROM t", replace=True)
    assert refused.value.hint == "Run the same command again."
    ids = [view.id for view in shop.catalog.views.values()]
    assert len(ids) == len(set(ids)), "no id has two names"
    assert not any(view.program == "another" for view in shop.catalog.views.values())


def test_other_views_may_change_meanwhile(
    shop: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed(shop, monkeypatch, lambda: shop.view("another", "t"))
    shop.store.create_view("v", "SELECT id FROM t", replace=True)
    assert shop.catalog.views["v"].program == "another"


def test_one_definition_is_written_at_a_time(shop: PlainStore) -> None:
    dropped = threading.Thread(target=lambda: shop.store.drop_view("v"))
    with lock.changing(shop.context) as catalog:
        dropped.start()
        dropped.join(timeout=0.5)
        assert dropped.is_alive() and "v" in catalog.views
        assert "v" in shop.catalog.views
    dropped.join(timeout=30)
    assert "v" not in shop.catalog.views


def test_a_refresh_does_not_wait_for_definitions(shop: PlainStore) -> None:
    with lock.changing(shop.context), lock.slot(shop.context, wait=0):
        pass


def test_the_folder_of_a_renamed_view_is_taken() -> None:
    assert free_folder("v", "0123456789", {"w"}) == folder_name("v") == "v"
    assert free_folder("v", "0123456789", {"v", "w"}) == "v-01234567"
    assert free_folder("Ärger", "0123456789", {folder_name("Ärger")}).endswith("-01234567")
