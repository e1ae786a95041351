"""What the bookkeeping table records, and what a list of records adds up to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
    stamps: Mapping[str, str] = field(default_factory=dict)
    """What tells the commits of these versions from others of the same numbers, by table id."""

    def view(self, name: str) -> ViewState | None:
        """Return the state of a view by the name it had then."""
        return next((v for v in self.views if v.name == name), None)

    def of(self, view_id: str) -> ViewState | None:
        """Return the state of a view, whatever its name was then."""
        return next((v for v in self.views if v.view_id == view_id), None)


@dataclass(frozen=True, slots=True)
class Unread:
    """The record of a refresh as text, of which the epoch alone was looked at."""

    epoch: int
    text: str

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found


class Refreshes:
    """All published refreshes; each is read when somebody looks at it, and then kept.

    A store that is refreshed every few minutes has thousands, and most commands want the newest.
    """

    def __init__(
        self,
        payloads: Mapping[int, Mapping[str, Any] | Unread] | None = None,
        expired: Iterable[int] = (),
    ) -> None:
        self._payloads = dict(payloads or {})
        self._expired = frozenset(expired)
        self._read: dict[int, RefreshRecord] = {}

    def __len__(self) -> int:
        return len(self._payloads)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refreshes) and tuple(self) == tuple(other)

    def __iter__(self) -> Iterator[RefreshRecord]:
        """Return all of them, in the order of their publication."""
        return (self._get(epoch) for epoch in self._payloads)

    @property
    def newest(self) -> int:
        """The newest epoch; 0 before the first."""
        return max(self._payloads, default=0)

    def of(self, epoch: int) -> RefreshRecord | None:
        """Return the record of an epoch."""
        return self._get(epoch) if epoch in self._payloads else None

    def newest_first(self) -> Iterator[RefreshRecord]:
        return (self._get(epoch) for epoch in sorted(self._payloads, reverse=True))

    def readable(self) -> tuple[RefreshRecord, ...]:
        """Return those whose files are kept, oldest first."""
        return tuple(self._get(epoch) for epoch in self.readable_epochs)

    @property
    def readable_epochs(self) -> tuple[int, ...]:
        return tuple(sorted(self._payloads.keys() - self._expired))

    def _get(self, epoch: int) -> RefreshRecord:
        if epoch not in self._read:
            payload = self._payloads[epoch]
            found = _refresh(payload.read() if isinstance(payload, Unread) else payload)
            self._read[epoch] = replace(found, expired=epoch in self._expired)
        return self._read[epoch]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything the records say, folded."""

    store_id: str
    tables: Mapping[str, TableRecord]
    views: Mapping[str, ViewRecord]
    refreshes: Refreshes
    definitions: Mapping[str, ViewRecord] = field(default_factory=dict)
    """Every definition a view ever had, by its program."""

    @property
    def epoch(self) -> int:
        """The newest published epoch; 0 before the first."""
        return self.refreshes.newest

    def published(self, epoch: int | None = None) -> RefreshRecord | None:
        """Return the newest refresh, or that of an epoch."""
        return self.refreshes.of(self.epoch if epoch is None else epoch)

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


def fold(rows: Iterable[tuple[str, dict[str, Any] | Unread]]) -> Catalog:
    """Return what a list of records, oldest first, adds up to."""
    store_id = ""
    tables: dict[str, TableRecord] = {}
    views: dict[str, ViewRecord] = {}
    refreshes: dict[int, Mapping[str, Any] | Unread] = {}
    expired: set[int] = set()
    definitions: dict[str, ViewRecord] = {}
    for kind, payload in rows:
        if isinstance(payload, Unread):
            # The first record of an epoch counts; a later one lost the race.
            refreshes.setdefault(payload.epoch, payload)
            continue
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
                refreshes.setdefault(payload["epoch"], payload)
            case "expired":
                expired.update(payload["epochs"])
    return Catalog(store_id, tables, views, Refreshes(refreshes, expired), definitions)


def _columns(items: list[Mapping[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(c["name"], c["type"], c.get("declared")) for c in items)


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
        stamps=payload.get("stamps", {}),
    )
