"""Store: the public face."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hybridview.catalog import RefreshRecord, TableRecord, ViewRecord
from hybridview.engine.runner import Listener
from hybridview.engine.session import Session
from hybridview.engine.warm.use import EngineStatus
from hybridview.errors import ReadOnlyStoreError, StoreMissingError, UsageError, command
from hybridview.operations import apply as apply_operation
from hybridview.operations import define, tables
from hybridview.operations import doctor as doctor_operation
from hybridview.operations import drop as drop_operation
from hybridview.operations import engine as engine_operation
from hybridview.operations import explain as explain_operation
from hybridview.operations import maintain as maintain_operation
from hybridview.operations import prove as prove_operation
from hybridview.operations import query as query_operation
from hybridview.operations import read as read_operation
from hybridview.operations import refresh as refresh_operation
from hybridview.operations import rename as rename_operation
from hybridview.operations import status as status_operation
from hybridview.operations import verify as verify_operation
from hybridview.operations.context import PARALLEL, TABLES, VIEWS, Context, view_named
from hybridview.operations.lock import WAIT
from hybridview.operations.names import check_path
from hybridview.plan.steps import RefreshPlan
from hybridview.schema import Strategy


class Store:
    """A folder of base tables and the views kept over them.

    >>> store = Store.open("warehouse")                           # doctest: +SKIP
    >>> store.create_view("totals", "SELECT k, sum(x) AS s FROM t GROUP BY k")  # doctest: +SKIP
    >>> store.refresh()                                           # doctest: +SKIP
    """

    def __init__(self, context: Context, default_strategy: Strategy = Strategy.HYBRID) -> None:
        self._context = context
        self.default_strategy = default_strategy

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        spark: Any = None,
        create: bool = True,
        settings: Mapping[str, str] | None = None,
        default_strategy: Strategy | str = Strategy.HYBRID,
        parallel: int = PARALLEL,
        warm: Callable[[str], None] | None = None,
    ) -> Store:
        """Open the store in a folder; a new one is made unless `create` is False.

        A refresh works on up to `parallel` views at the same time. With `warm` Spark is the engine
        that `up` started, if there is one; else a local session is started. `warm` is told why an
        engine that is up cannot be used.
        """
        check_path(Path(path), written=True)
        context = Context(Path(path), spark, dict(settings or {}), max(parallel, 1), warm)
        if not context.ledger.exists():
            if not create:
                raise StoreMissingError(
                    f'there is no store in "{path}"',
                    hint=f"Create one with: {command('init', str(path))}",
                )
            _initialise(context)
        context.catalog()  # refuses a store of a newer format now, not in the middle of something
        return cls(context, _strategy(default_strategy) or Strategy.HYBRID)

    @property
    def root(self) -> Path:
        return self._context.root

    @property
    def epoch(self) -> int:
        """The newest published epoch; 0 before the first refresh."""
        return self._context.catalog().epoch

    def location(self, name: str) -> str:
        """Return the folder of a base table or a view, absolute as Delta's SQL wants it."""
        catalog = self._context.catalog()
        if name.lower() not in catalog.tables:
            name = view_named(catalog, name).name
        return str(self._context.path(catalog, name).resolve())

    def close(self) -> None:
        """Stop Spark, if this store started it."""
        self._context.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self) -> Session:
        """Return the Spark session behind this store, as a port that takes SQL text."""
        return self._context.port()

    def spark_has_ended(self) -> bool:
        """Say whether the session this store uses is gone: killed, or out of memory."""
        return self._context.spark_has_ended()

    def up(
        self, idle: str = engine_operation.IDLE, tell: Callable[[str], None] | None = None
    ) -> tuple[EngineStatus, bool]:
        """Start the store's engine; return it, and whether it was down before.

        It ends when no command used it for `idle`. `tell` hears what is being done.
        """
        return engine_operation.up(self._context, idle, tell)

    def down(self, force: bool = False) -> int | None:
        """End the store's engine; return the number of its process, None if it was down."""
        return engine_operation.down(self._context, force)

    # Base tables

    def add_table(
        self,
        name: str,
        location: str | os.PathLike[str] | None = None,
        key: Sequence[str] = (),
        enable_change_feed: bool = False,
        replace: bool = False,
        without_change_feed: bool = False,
        references: Sequence[str] = (),
    ) -> TableRecord:
        """Register a Delta table, by folder or catalog name, under a name for views to use.

        `references` are its foreign keys, such as "customer_id -> customers". They and the key
        are believed: refreshes leave out what they say is empty, and `verify` checks them.
        """
        where = None if location is None else str(location)
        return tables.add_table(
            self._context,
            name,
            where,
            tuple(key),
            enable_change_feed,
            replace,
            without_change_feed,
            tuple(references),
        )

    def remove_table(self, name: str) -> None:
        """Forget a base table; its data stay."""
        tables.remove_table(self._context, name)

    def rename_table(self, old: str, new: str) -> tuple[str, ...]:
        """Register a base table under another name; return the views that read it."""
        return rename_operation.rename_table(self._context, old, new)

    # Views

    def create_view(
        self, name: str | None, sql: str, replace: bool = False, source: str = "<sql>"
    ) -> ViewRecord:
        """Check and record a view: a bare SELECT or a CREATE MATERIALIZED VIEW statement."""
        return define.create_view(self._context, name, sql, replace, source)

    def drop_view(self, name: str, cascade: bool = False) -> tuple[str, ...]:
        """Drop a view and its table; with `cascade` also the views that read it."""
        return drop_operation.drop_view(self._context, name, cascade)

    def rename_view(self, old: str, new: str) -> tuple[str, ...]:
        """Rename a view, with its rows and its history; return the views that read it."""
        return rename_operation.rename_view(self._context, old, new)

    def plan_apply(self, folder: str | os.PathLike[str]) -> tuple[apply_operation.Action, ...]:
        """Compare a folder of .sql files with the store."""
        return apply_operation.plan_apply(self._context, Path(folder))

    def apply(
        self, actions: tuple[apply_operation.Action, ...], allow_drop: bool = False
    ) -> tuple[apply_operation.Action, ...]:
        """Make the store match a folder of views."""
        return apply_operation.run_apply(self._context, actions, allow_drop)

    # Refreshing

    def plan(
        self, views: Sequence[str] = (), strategy: Strategy | str | None = None
    ) -> RefreshPlan:
        """Return exactly what `refresh` would execute now; starts no Spark."""
        return refresh_operation.plan_refresh(
            self._context, tuple(views), _strategy(strategy), self.default_strategy
        )

    def refresh(
        self,
        views: Sequence[str] = (),
        strategy: Strategy | str | None = None,
        listener: Listener | None = None,
        wait: float = WAIT,
        waiting: Callable[[str], None] | None = None,
    ) -> refresh_operation.RefreshResult:
        """Bring views (all if none are named) up to date, and publish one epoch.

        If another process is refreshing the store, wait for it, for `wait` seconds at most.
        """
        return refresh_operation.refresh(
            self._context,
            tuple(views),
            _strategy(strategy),
            self.default_strategy,
            listener,
            wait,
            waiting,
        )

    def maintain(
        self,
        dry_run: bool = False,
        keep: str = maintain_operation.KEEP,
        listener: Callable[[maintain_operation.Work], None] | None = None,
        wait: float = WAIT,
        waiting: Callable[[str], None] | None = None,
    ) -> maintain_operation.MaintainResult:
        """Expire epochs replaced longer ago than `keep`; compact and vacuum the store's own tables.

        With `dry_run` only say what would be done; that starts no Spark.
        """
        time = maintain_operation.keep_time(keep)
        if not dry_run:
            return maintain_operation.maintain(self._context, time, listener, wait, waiting)
        works = maintain_operation.plan_maintain(self._context, time)
        if listener is not None:
            for work in works:
                listener(work)
        return maintain_operation.MaintainResult(works)

    # Reading

    def read(self, view: str, epoch: int | None = None, latest: bool = False) -> Any:
        """Return a view as a DataFrame with exactly its query's columns.

        At the newest published epoch; at an older one; or, with `latest`, as its newest commit
        left it, published or not.
        """
        return read_operation.read(self._context, view, epoch, latest)

    def sql(self, statement: str, epoch: int | None = None, latest: bool = False) -> Any:
        """Run a query: all its views at one published epoch, its base tables at their newest.

        With `epoch` views and tables are those of an older epoch; with `latest` each is read as
        its newest commit left it.
        """
        return query_operation.run_sql(self._context, statement, epoch, latest)

    def verify(self, view: str, epoch: int | None = None) -> verify_operation.Verdict:
        """Recompute a view at the recorded versions and compare both ways."""
        return verify_operation.verify(self._context, view, epoch)

    def prove(self, view: str) -> prove_operation.Proof:
        """Verify every epoch of a view, and say which consistency level they amount to."""
        return prove_operation.prove(self._context, view)

    def explain(self, view: str) -> explain_operation.Explanation:
        """Say how a view is maintained, and why; starts no Spark."""
        return explain_operation.explain(self._context, view)

    def status(self) -> status_operation.StoreStatus:
        """Compare views with their tables; starts no Spark."""
        return status_operation.status(self._context)

    def history(self, limit: int | None = None) -> tuple[RefreshRecord, ...]:
        """Return published refreshes, newest first; starts no Spark."""
        return status_operation.history(self._context, limit)

    def doctor(self) -> tuple[doctor_operation.Finding, ...]:
        """Look for trouble; starts no Spark."""
        return doctor_operation.doctor(self._context)

    def views(self) -> tuple[ViewRecord, ...]:
        """Return the views' records, parents first."""
        return tuple(v for v in self._context.catalog().ordered() if not v.state_of)

    def tables(self) -> tuple[TableRecord, ...]:
        """Return the base tables' records."""
        return tuple(self._context.catalog().tables.values())


def _strategy(value: Strategy | str | None) -> Strategy | None:
    if value is None:
        return None
    try:
        return Strategy(value)
    except ValueError:
        known = ", ".join(s.value for s in Strategy)
        raise UsageError(f'unknown strategy "{value}"', hint=f"Use one of: {known}") from None


def _initialise(context: Context) -> None:
    """Make the folders of a store and its first record."""
    try:
        for folder in (context.root, context.root / TABLES, context.root / VIEWS):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReadOnlyStoreError(
            f'cannot create a store in "{context.root}"',
            detail=f"{error.strerror}.",
            hint="Choose a folder you may write to.",
        ) from None
    created = datetime.now(UTC).isoformat(timespec="seconds")
    context.ledger.append("store", {"id": str(uuid.uuid4()), "created_at": created})
