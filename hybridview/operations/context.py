"""What every operation needs: the store's folder, its records, and Spark on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridview.catalog import FOLDER, Catalog, FolderCatalog, TableRecord, ViewRecord
from hybridview.deltalog import FolderLog, LogGap
from hybridview.engine.connect import port_of
from hybridview.engine.session import Session
from hybridview.engine.spark_errors import has_ended, is_gone
from hybridview.errors import UnknownTableError, UnknownViewError
from hybridview.inside import inside
from hybridview.operations.suggest import closest
from hybridview.redact import learn
from hybridview.schema import TableSchema

TABLES = "tables"
VIEWS = "views"
PARALLEL = 4
"""As many views at a time keep a small machine busy, and a large one does not mind."""
CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")
"""Environment variables of these families may hold credentials of a storage."""


@dataclass
class Context:
    """A store at a folder. Spark starts when an operation first asks for it."""

    root: Path
    spark: Any = None
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    parallel: int = PARALLEL
    """How many views a refresh works on at the same time."""
    warm: Callable[[str], None] | None = None
    """Use the store's engine if it is up; hears why it is not used. None: do without."""
    ledger: FolderCatalog = field(init=False)
    _port: Session | None = field(default=None, init=False)
    _workers: list[Session] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        learn(self.spark_settings)
        learn({name: value for name, value in os.environ.items() if name.startswith(CLOUDS)})
        inside(self.root, FOLDER)
        self.ledger = FolderCatalog(self.root)

    def catalog(self) -> Catalog:
        return self.ledger.read()

    def port(self) -> Session:
        """Return the user's session, one on the store's engine, or a new local one."""
        if self._port is None:
            self._port = self._attached() or self._started()
            learn(self._port.settings())
        return self._port

    def _attached(self) -> Session | None:
        """Return the user's session, or one on the store's engine."""
        if self.spark is not None:
            return port_of(self.spark)
        if self.warm is None:
            return None
        from hybridview.engine.warm.use import attach_if_up

        return attach_if_up(self.root, self.spark_settings, self.warm)

    def _started(self) -> Session:
        from hybridview.engine.local import start_local

        return start_local(self.spark_settings)

    def worker(self) -> Session:
        """Return a session of our own: our temporary views and settings stay out of the user's."""
        return self.workers(1)[0]

    def workers(self, count: int) -> list[Session]:
        """Return so many sessions of our own; they are kept for the next time."""
        try:
            while len(self._workers) < count:
                self._workers.append(self.port().writer())
        except Exception as error:
            if is_gone(error):
                raise has_ended() from None
            raise
        return self._workers[:count]

    def spark_has_ended(self) -> bool:
        """Say whether Spark was started, or attached to, and answers no more."""
        return self._port is not None and not self._port.alive()

    def close(self) -> None:
        if self._port is not None:
            self._port.stop()
        self._port = None
        self._workers.clear()

    # Where things are. Locations in records are relative to the store where they can be.

    def table_path(self, record: TableRecord) -> Path:
        location = Path(record.location)
        return location if location.is_absolute() else self.root / location

    def view_path(self, record: ViewRecord) -> Path:
        """Return the folder of a view; refuses one that leads out of the store."""
        return inside(self.root, VIEWS, record.folder)

    def path(self, catalog: Catalog, name: str) -> Path:
        table = catalog.tables.get(name.lower())
        if table is not None:
            return self.table_path(table)
        return self.view_path(catalog.views[name.lower()])

    def log(self, catalog: Catalog, name: str) -> FolderLog:
        return FolderLog(self.path(catalog, name))

    def schema(self, catalog: Catalog, name: str) -> TableSchema | None:
        """Return the columns of a view, or those a table has now; None if there is neither."""
        known = catalog.schema(name)
        table = catalog.tables.get(name.lower())
        if known is None or table is None:
            return known
        try:
            return TableSchema(table.name, FolderLog(self.table_path(table)).info().columns)
        except LogGap:
            return known

    def location_of(self, path: Path) -> str:
        """Return how to record a folder: relative to the store if it lies inside."""
        try:
            return str(path.resolve().relative_to(self.root.resolve()))
        except ValueError:
            return str(path.resolve())


def view_named(catalog: Catalog, name: str) -> ViewRecord:
    """Return a view's record, or say which names come close."""
    found = catalog.views.get(name.lower())
    if found is None or found.state_of:
        known = [v.name for v in catalog.views.values() if not v.state_of]
        raise UnknownViewError(
            f'there is no view "{name}"',
            detail=closest(name, known, "views"),
            hint="List the views with: hybridview status",
        )
    return found


def table_named(catalog: Catalog, name: str) -> TableRecord:
    """Return a base table's record, or say which names come close."""
    found = catalog.tables.get(name.lower())
    if found is None:
        raise UnknownTableError(
            f'there is no table "{name}"',
            detail=closest(name, [t.name for t in catalog.tables.values()], "tables"),
            hint="List the tables with: hybridview status",
        )
    return found
