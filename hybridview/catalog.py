"""The store's bookkeeping table: records appended, folded into what the store knows now.

One append-only Delta table. Paths in it are relative to the store, so that a store can be moved.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from arro3.core import Array, DataType, Table
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from hybridview.errors import (
    RaceLostError,
    ReadOnlyStoreError,
    StoreFormatError,
    StoreMissingError,
    command,
    run,
)
from hybridview.opened import named
from hybridview.records import (
    Catalog,
    ForeignKey,
    RefreshRecord,
    TableRecord,
    Unread,
    ViewRecord,
    ViewState,
    as_payload,
    fold,
)
from hybridview.redact import redact_all

FORMAT = 1
FOLDER = "_hybridview"
COMPACT_EVERY = 64
_REFRESH = re.compile(r'\{"seq": (\d+), "nth": (\d+), "epoch": (\d+), ')
"""How the text of a refresh begins: its place, and its epoch."""


class CatalogReader(Protocol):
    """Reads the records."""

    def read(self) -> Catalog: ...


class CatalogWriter(Protocol):
    """Appends records."""

    def append(self, kind: str, payload: Mapping[str, Any]) -> None: ...

    def publish(self, record: RefreshRecord, store_id: str) -> None: ...


class FolderCatalog:
    """The bookkeeping table of a store in a local folder, read and written without a JVM."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / FOLDER
        self._known: tuple[tuple[str, int], Catalog] | None = None
        """What was read last, and of which version of which table."""

    def exists(self) -> bool:
        return (self.path / "_delta_log").is_dir()

    def read(self) -> Catalog:
        """Fold all records."""
        if not self.exists():
            raise StoreMissingError(
                f'there is no store in "{self.root}"',
                hint=f"Create one with: {command('init', str(self.root))}",
            )
        records = DeltaTable(named(self.path))
        version = str(records.metadata().id), records.version()
        if self._known is None or self._known[0] != version:
            self._known = version, fold(rows_of(records))
        return self._known[1]

    def append(self, kind: str, payload: Mapping[str, Any], transaction: Any = None) -> None:
        """Append one record; `transaction` makes a second append of the same id fail."""
        self.append_all([(kind, payload)], transaction)

    def append_all(
        self, records: Sequence[tuple[str, Mapping[str, Any]]], transaction: Any = None
    ) -> None:
        """Append several records in one commit: all of them count, or none."""
        version = DeltaTable(named(self.path)).version() + 1 if self.exists() else 0
        texts = [
            json.dumps({"seq": version, "nth": number, **payload})
            for number, (_, payload) in enumerate(records)
        ]
        data = Table.from_pydict(
            {
                "kind": Array([kind for kind, _ in records], DataType.utf8()),
                "payload": Array(texts, DataType.utf8()),
                "format": Array([FORMAT for _ in records], DataType.int32()),
            }
        )
        properties = CommitProperties(app_transactions=[transaction]) if transaction else None
        try:
            write_deltalake(named(self.path), data, mode="append", commit_properties=properties)
        except CommitFailedError:
            raise
        except (OSError, DeltaError) as error:
            raise ReadOnlyStoreError(
                f'cannot write to the store in "{self.root}"',
                detail=str(error).splitlines()[0],
                hint=f"Check who owns it: {shlex.join(('ls', '-ld', str(self.root)))}",
            ) from None
        if version and version % COMPACT_EVERY == 0:
            self._compact()

    def _compact(self) -> None:
        """Put the records into one file, if that works.

        What was appended counts in any case: another process at the same moment must not make
        this look like an append that failed. The next time comes.
        """
        with suppress(DeltaError, OSError):
            DeltaTable(named(self.path)).optimize.compact()

    def publish(self, record: RefreshRecord, store_id: str) -> None:
        """Append an epoch's record, and make sure that it is ours that counts.

        Two appends never conflict by themselves. The transaction id makes the later of two
        concurrent ones fail; the read-back catches one that came before ours was even planned.
        """
        try:
            payload = redact_all(as_payload(record), exact=("name",))
            self.append("refresh", payload, Transaction(store_id, record.epoch))
        except CommitFailedError as error:
            raise _race_lost(record.epoch) from error
        counts = self.read().published(record.epoch)
        if counts is None or counts.attempt != record.attempt:
            raise _race_lost(record.epoch)


def rows_of(records: DeltaTable) -> list[tuple[str, dict[str, Any] | Unread]]:
    """Return all records of a bookkeeping table, oldest first: what each is, and what it says."""
    # Not to_pyarrow_table: it imports pandas, which takes longer than all the rest.
    query = QueryBuilder().register("records", records)
    table = query.execute("SELECT kind, payload, format FROM records").read_all()
    newest = max((f for f in table.column("format").to_pylist()), default=FORMAT)
    if newest > FORMAT:
        raise StoreFormatError(
            f"the store was written by a newer hybridview: format {newest}, this is {FORMAT}",
            hint="Run: pip install --upgrade hybridview",
        )
    kinds, texts = (table.column(name).to_pylist() for name in ("kind", "payload"))
    # A query promises no order, neither of files nor within one.
    rows = sorted(map(_row, kinds, texts), key=lambda row: row[0])
    return [(kind, payload) for _, kind, payload in rows]


def _row(kind: str, text: str) -> tuple[tuple[int, int, str], str, dict[str, Any] | Unread]:
    """Return a record after its place; the text decides between two that were appended at once.

    Those of refreshes are by far the most, and large: they are read when somebody wants them.
    """
    head = _REFRESH.match(text) if kind == "refresh" else None
    if head is not None:
        seq, nth, epoch = map(int, head.groups())
        return (seq, nth, text), kind, Unread(epoch, text)
    payload = json.loads(text)
    return (payload.get("seq", 0), payload.get("nth", -1), text), kind, payload


def _race_lost(epoch: int) -> RaceLostError:
    return RaceLostError(
        f"another process published epoch {epoch} first",
        detail="What this process wrote is not published; the next refresh takes it from there.",
        hint=run("refresh"),
    )


__all__ = [
    "Catalog",
    "FolderCatalog",
    "ForeignKey",
    "RefreshRecord",
    "TableRecord",
    "ViewRecord",
    "ViewState",
    "as_payload",
    "fold",
]
