"""A store whose tables, commits and epochs are written by hand: no JVM, and any age one likes."""

from __future__ import annotations

import json
import os
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from hybridview import Store
from hybridview.catalog import FOLDER, RefreshRecord, ViewRecord, ViewState, as_payload
from hybridview.deltalog import FolderLog
from hybridview.engine.creating import KEPT
from hybridview.schema import Column
from hybridview.watermark import Watermark, stored_state

HOUR, DAY = 3600.0, 86400.0
FEED = {"delta.enableChangeDataFeed": "true"}
COLUMNS = (Column("id", "bigint"),)


class PlainStore:
    """Base tables and views of one column, `id`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store.open(root)
        self.context = self.store._context

    @property
    def catalog(self) -> Any:
        return self.context.catalog()

    def path(self, name: str) -> Path:
        return self.context.path(self.catalog, name)

    # Base tables

    def table(self, name: str, properties: dict[str, str] | None = None) -> None:
        write(self.root / "tables" / name, [1], configuration={**FEED, **(properties or {})})
        self.store.add_table(name)

    def insert(self, name: str, *ids: int, ago: float = 0.0) -> None:
        write(self.path(name), list(ids))
        made_ago(self.path(name), ago)

    def delete(self, name: str, number: int, ago: float = 0.0) -> None:
        DeltaTable(str(self.path(name))).delete(f"id = {number}")
        made_ago(self.path(name), ago)

    # Views

    def view(self, name: str, *sources: str, target_lag: str = "") -> None:
        """Define a view without rows."""
        record = ViewRecord(
            str(uuid.uuid4()),
            name,
            name,
            f"SELECT id FROM {sources[0]}",
            "",
            (),
            {"hybridview.target_lag": target_lag} if target_lag else {},
            COLUMNS,
            dict.fromkeys(sources, COLUMNS),
            {},
            {},
            program=f"program of {name}",
        )
        self.context.ledger.append("view", as_payload(record))

    def refresh(self, *views: str, ago: float = 0.0, files: int = 1) -> None:
        """Write new rows to views, and publish an epoch."""
        self.write(*views, ago=ago, files=files)
        self.publish(ago)

    def write(self, *views: str, ago: float = 0.0, files: int = 1) -> None:
        """Write new rows to views, in as many commits as files."""
        catalog = self.catalog
        epoch = catalog.epoch + 1
        for name in views:
            program = catalog.views[name].program
            mark = Watermark(catalog.store_id, "attempt", epoch, self.inputs(name), program)
            metadata = {"userMetadata": mark.to_json()}
            path = self.path(name)
            new = not FolderLog(path).exists()
            for number in range(files):
                write(
                    path,
                    [10 * epoch + number],
                    "overwrite" if number == 0 else "append",
                    CommitProperties(custom_metadata=metadata),
                    {**FEED, **KEPT} if new and number == 0 else None,
                )
                made_ago(path, ago)

    def inputs(self, view: str) -> dict[str, int]:
        """Return the newest versions of what a view reads."""
        found = {}
        for source in self.catalog.views[view].sources:
            info = FolderLog(self.path(source)).info()
            found[info.id] = info.version
        return found

    def publish(self, ago: float = 0.0) -> None:
        """Publish an epoch with every view as its table says."""
        catalog = self.catalog
        states = []
        for view in catalog.views.values():
            stored = stored_state(FolderLog(self.path(view.name)))
            if stored is not None:
                inputs, version = stored.watermark.inputs, stored.claimed_at
                states.append(
                    ViewState(view.name, view.id, version, stored.table_id, inputs, "incremental")
                )
        started = datetime.fromtimestamp(time.time() - ago, UTC).isoformat(timespec="seconds")
        number = catalog.epoch + 1
        record = RefreshRecord(number, f"attempt {number}", "hybrid", started, 0.0, tuple(states))
        self.context.ledger.publish(record, catalog.store_id)

    def works(self, keep: str = "7 days") -> list[tuple[str, str, str]]:
        """Return what `maintain` would do, but for the bookkeeping table."""
        plan = self.store.maintain(dry_run=True, keep=keep)
        listed = [(work.verb, work.target, work.reason) for work in plan.works]
        return [work for work in listed if work[1] != FOLDER]


def write(
    path: Path,
    ids: list[int],
    mode: Any = "append",
    properties: CommitProperties | None = None,
    configuration: Any = None,
) -> None:
    write_deltalake(
        str(path),
        pa.table({"id": ids}),
        mode=mode,
        commit_properties=properties,
        configuration=configuration,
    )


def made_ago(table: Path, ago: float, version: int | None = None) -> None:
    """Let a commit (the newest if None) and its files look as if they were made some time ago."""
    version = FolderLog(table).latest() if version is None else version
    when = time.time() - ago
    path = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        for kind, body in action.items():
            if kind == "commitInfo":
                body["timestamp"] = int(1000 * when)
            elif kind == "remove":
                body["deletionTimestamp"] = int(1000 * when)
            elif kind in ("add", "cdc"):
                os.utime(table / unquote(body["path"]), (when, when))
    path.write_text("\n".join(json.dumps(action) for action in actions), encoding="utf-8")
    # Spark's own checksum of the file would not fit any more.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    os.utime(path, (when, when))
