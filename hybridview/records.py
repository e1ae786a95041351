"""What the bookkeeping table records, and what a list of records adds up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hybridview.inside import plain_folder
from hybridview.schema import Column, TableSchema, VersionVector


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that refer to the key of another table; by its id, so that it may be renamed."""

    columns: tuple[str, ...]
    table_id: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A base table: where it is, and what it looked like when it was registered."""

    name: str
    location: str
    table_id: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    catalog_name: str = ""
    references: tuple[ForeignKey, ...] = ()

    @property
    def schema(self) -> TableSchema:
        return TableSchema(self.name, self.columns)


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """A view: its author's text, what Spark's analysis said about it, and where its rows are."""

    id: str
    name: str
    folder: str
    query: str
    comment: str
    cluster_by: tuple[str, ...]
    properties: Mapping[str, str]
    columns: tuple[Column, ...]
    sources: Mapping[str, tuple[Column, ...]]
    """The tables and views it reads, with the columns they had at creation."""
    types: Mapping[str, str]
    """Spark's type of every aggregate argument."""
    settings: Mapping[str, str]
    """Session settings that change answers."""
    source: str = "<sql>"
    created_at: str = ""
    line: int = 1
    column: int = 1
    """Where its query starts in its source."""
    state: str = ""
    """The name of its state table, if it needs one."""
    state_of: str = ""
    """The name of the view this is the state or a part of; empty for a view of the user's."""
    program: str = ""
    """What its stored rows are computed by: another program needs another load."""
    canonical: str = ""
    """Its text with all ties closed, if its author left some open."""
    parts: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    """The tables that parts of it are kept in, with their columns."""
    over: tuple[str, ...] = ()
    """The sources that are views themselves."""
    needed: int = 0
    """For a part that keeps the first rows of its query: how many must be there; else 0."""

    @property
    def text(self) -> str:
        """The query that is run: its author's, with ties closed."""
        return self.canonical or self.query

    @property
    def schema(self) -> TableSchema:
        return TableSchema(self.name, self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        """What must be refreshed before it: its sources, its parts, and its state table."""
        return (*self.sources, *self.parts, *((self.state,) if self.state else ()))


@dataclass(frozen=True, slots=True)
class ViewState:
    """Where a view stands in a published epoch."""

    name: str
    view_id: str
    version: int | None
    table_id: str
    inputs: VersionVector
    executed: str
    reason: str = ""
    seconds: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    method: str = ""
    epoch: int = 0
    """The refresh this state was found in; older than the record's if it was not asked about."""
    program: str = ""
    """The program its rows were computed by: a view may have been redefined since."""
    read: Mapping[str, int] = field(default_factory=dict)
    """How many files and bytes had to be read for it, by the logs of the tables."""


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """One refresh that was published: its epoch, and every view's state in it."""

    epoch: int
    attempt: str
    strategy: str
    started_at: str
    seconds: float
    views: tuple[ViewState, ...]
    pins: VersionVector = field(default_factory=dict)
    """The version of every base table that this refresh saw."""
    expired: bool = False
    """Whether its files may be gone: then it is history, and cannot be read."""

    def view(self, name: str) -> ViewState | None:
        """Return the state of a view by the name it had then."""
        return next((v for v in self.views if v.name == name), None)

    def of(self, view_id: str) -> ViewState | None:
        """Return the state of a view, whatever its name was then."""
        return next((v for v in self.views if v.view_id == view_id), None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything the records say, folded."""

    store_id: str
    tables: Mapping[str, TableRecord]
    views: Mapping[str, ViewRecord]
    refreshes: tuple[RefreshRecord, ...]
    definitions: Mapping[str, ViewRecord] = field(default_factory=dict)
    """Every definition a view ever had, by its program."""

    @property
    def epoch(self) -> int:
        """The newest published epoch; 0 before the first."""
        return max((r.epoch for r in self.refreshes), default=0)

    def published(self, epoch: int | None = None) -> RefreshRecord | None:
        """Return the newest refresh, or that of an epoch."""
        if epoch is None:
            return max(self.refreshes, key=lambda r: r.epoch, default=None)
        return next((r for r in self.refreshes if r.epoch == epoch), None)

    def state(self, view: ViewRecord, epoch: int | None = None) -> ViewState | None:
        """Return a view's state in an epoch; None if this view was never loaded."""
        record = self.published(epoch)
        found = record.of(view.id) if record else None
        return found if found is not None and found.version is not None else None

    def schema(self, name: str) -> TableSchema | None:
        """Return the columns of a table or view; names compare without case."""
        for group in (self.tables, self.views):
            record = group.get(name.lower())
            if record is not None and not getattr(record, "state_of", ""):
                return record.schema
        return None

    def schemas(self) -> dict[str, TableSchema]:
        found = {r.name: r.schema for r in self.tables.values()}
        return {**found, **{r.name: r.schema for r in self.views.values() if not r.state_of}}

    def dependents(self, name: str) -> tuple[str, ...]:
        """Return the views that read a table or view directly."""
        wanted = name.lower()
        return tuple(
            v.name
            for v in self.views.values()
            if not v.state_of and wanted in {s.lower() for s in v.sources}
        )

    def hidden(self, view: ViewRecord) -> tuple[ViewRecord, ...]:
        """Return the records of a view's state and parts."""
        wanted = view.name.lower()
        return tuple(v for v in self.views.values() if v.state_of.lower() == wanted)

    def ordered(self) -> tuple[ViewRecord, ...]:
        """Return all views, parents before children."""
        done: dict[str, ViewRecord] = {}

        def visit(view: ViewRecord) -> None:
            if view.name.lower() in done:
                return
            for source in view.reads:
                parent = self.views.get(source.lower())
                if parent is not None:
                    visit(parent)
            done[view.name.lower()] = view

        for view in self.views.values():
            visit(view)
        return tuple(done.values())


def as_payload(record: Any) -> dict[str, Any]:
    return asdict(record)


def fold(rows: list[tuple[str, dict[str, Any]]]) -> Catalog:
    """Return what a list of records, oldest first, adds up to."""
    store_id = ""
    tables: dict[str, TableRecord] = {}
    views: dict[str, ViewRecord] = {}
    refreshes: dict[int, RefreshRecord] = {}
    definitions: dict[str, ViewRecord] = {}
    for kind, payload in rows:
        match kind:
            case "store":
                store_id = payload["id"]
            case "table":
                table = _table(payload)
                tables[table.name.lower()] = table
            case "table_removed":
                tables.pop(payload["name"].lower(), None)
            case "view":
                view = _view(payload)
                views[view.name.lower()] = view
                definitions[view.program] = view
            case "view_dropped":
                views.pop(payload["name"].lower(), None)
            case "refresh":
                refresh = _refresh(payload)
                # The first record of an epoch counts; a later one lost the race.
                refreshes.setdefault(refresh.epoch, refresh)
            case "expired":
                for epoch in payload["epochs"]:
                    refreshes[epoch] = replace(refreshes[epoch], expired=True)
    return Catalog(store_id, tables, views, tuple(refreshes.values()), definitions)


def _columns(items: list[Mapping[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(c["name"], c["type"]) for c in items)


def _table(payload: Mapping[str, Any]) -> TableRecord:
    return TableRecord(
        payload["name"],
        payload["location"],
        payload["table_id"],
        _columns(payload["columns"]),
        tuple(payload["key"]),
        payload["catalog_name"],
        tuple(
            ForeignKey(tuple(r["columns"]), r["table_id"], tuple(r["key"]))
            for r in payload.get("references", ())
        ),
    )


def _view(payload: Mapping[str, Any]) -> ViewRecord:
    return ViewRecord(
        payload["id"],
        payload["name"],
        plain_folder(payload["folder"]),
        payload["query"],
        payload["comment"],
        tuple(payload["cluster_by"]),
        payload["properties"],
        _columns(payload["columns"]),
        {name: _columns(columns) for name, columns in payload["sources"].items()},
        payload["types"],
        payload["settings"],
        payload["source"],
        payload["created_at"],
        payload["line"],
        payload["column"],
        payload.get("state", ""),
        payload.get("state_of", ""),
        payload["program"],
        payload.get("canonical", ""),
        {name: _columns(columns) for name, columns in payload.get("parts", {}).items()},
        tuple(payload.get("over", ())),
        payload.get("needed", 0),
    )


def _refresh(payload: Mapping[str, Any]) -> RefreshRecord:
    views = tuple(ViewState(**view) for view in payload["views"])
    return RefreshRecord(
        payload["epoch"],
        payload["attempt"],
        payload["strategy"],
        payload["started_at"],
        payload["seconds"],
        views,
        payload["pins"],
    )
