"""Reading views: at the newest published epoch, at an older one, or by a SQL statement."""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hybridview.catalog import Catalog, ViewRecord, ViewState
from hybridview.engine.session import quote, table_at, temp_view
from hybridview.engine.spark_errors import as_query_error, spark_errors
from hybridview.errors import NotRefreshedError, ReadOnlyQueryError, UsageError
from hybridview.operations.context import Context, view_named
from hybridview.sql.resolve import sources


def read(context: Context, name: str, epoch: int | None = None) -> Any:
    """Return a view's rows as a DataFrame with exactly its own columns."""
    catalog = context.catalog()
    view = view_named(catalog, name)
    state = published(catalog, view, epoch)
    if not context.log(catalog, view.name).exists():
        raise NotRefreshedError(
            f'the table of view "{view.name}" is gone',
            hint=f"Run: hybridview refresh {view.name}",
        )
    return context.port().frame(select(context, view, state))


def published(catalog: Catalog, view: ViewRecord, epoch: int | None = None) -> ViewState:
    """Return a view's state in an epoch, or say that it has none."""
    if epoch is not None and catalog.published(epoch) is None:
        raise UsageError(
            f"there is no epoch {epoch}",
            detail=f"The newest is {catalog.epoch}.",
            hint="List them with: hybridview history",
        )
    state = catalog.state(view, epoch)
    if state is None:
        when = f" in epoch {epoch}" if epoch is not None else ""
        raise NotRefreshedError(
            f'view "{view.name}" has no rows yet{when}',
            hint=f"Run: hybridview refresh {view.name}",
        )
    return state


def select(context: Context, view: ViewRecord, state: ViewState) -> str:
    """Return the query of a view's own columns at a published version."""
    columns = ", ".join(quote(c.name) for c in view.columns)
    path = str(context.view_path(view).resolve())
    return f"SELECT {columns} FROM {table_at(path, state.version)}"


def run_sql(context: Context, statement: str, epoch: int | None = None) -> Any:
    """Run a query in which views stand for their published rows and tables for their newest.

    Only queries run. Spark decides what a query is: DESCRIBE QUERY accepts nothing else.
    """
    catalog = context.catalog()
    session = context.worker()
    for name in _named(statement, catalog):
        view = catalog.views.get(name)
        if view is not None:
            session.run(
                temp_view(view.name, select(context, view, published(catalog, view, epoch)))
            )
        else:
            table = catalog.tables[name]
            path = str(context.table_path(table).resolve())
            session.run(temp_view(table.name, f"SELECT * FROM {table_at(path)}"))
    text = statement.strip().rstrip(";")
    try:
        session.describe(text)
    except spark_errors() as error:
        if _is_query(text):
            raise as_query_error(error, "<sql>") from None
        raise ReadOnlyQueryError(
            "hybridview sql runs one query and changes nothing",
            detail="The statement is not a SELECT.",
            hint="Change base tables with Spark; views change by: hybridview refresh",
        ) from None
    return session.frame(text)


def _is_query(text: str) -> bool:
    try:
        parsed = sqlglot.parse(text, dialect="spark")
    except SqlglotError:
        return True
    return len(parsed) == 1 and isinstance(parsed[0], exp.Query)


def _named(statement: str, catalog: Catalog) -> list[str]:
    """Return the store's tables and views that a statement may read, lower case."""
    known = [*(n for n, v in catalog.views.items() if not v.state_of), *catalog.tables]
    try:
        parsed = sqlglot.parse_one(statement, dialect="spark")
    except SqlglotError:
        parsed = None
    if not isinstance(parsed, exp.Query):
        return [n for n in known if n in statement.lower()]
    used = {table.name.lower() for table in sources(parsed)}
    return [n for n in known if n in used]
