"""A user's SELECT -> its rows: views and tables at one moment, and nothing else happens."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hybridview.catalog import Catalog
from hybridview.deltalog import pin
from hybridview.engine.session import Session, temp_view
from hybridview.engine.spark_errors import as_query_error, spark_errors
from hybridview.errors import HybridviewError, ReadOnlyQueryError, UnsupportedSourceError
from hybridview.operations.context import Context
from hybridview.operations.define import SETTINGS
from hybridview.operations.read import Moment, moment, newest_version, table_at_moment, view_at
from hybridview.sql.lexer import Kind, pieces
from hybridview.sql.parse import position_at
from hybridview.sql.resolve import sources
from hybridview.sql.unsafe import file_read, refuse_unsafe

QUERY_WORDS = frozenset({"select", "with", "from", "values", "table"})
"""How a query starts, after any opening parentheses."""

KEEP_PLANS = {"spark.sql.legacy.storeAnalyzedPlanForView": "true"}
"""Views are resolved when they are made, while the session may still read folders."""
NO_FILES = {"spark.sql.runSQLOnFiles": "false"}
"""The user's own text cannot: `parquet.path` and the like are no tables then."""


def run_sql(
    context: Context, statement: str, epoch: int | None = None, latest: bool = False
) -> Any:
    """Run a query in which views and tables stand for their rows at one moment.

    Only queries run. Spark decides what a query is: DESCRIBE QUERY accepts nothing else, but for a
    few words that are columns there and commands by themselves, hence the look at the first word.
    """
    text = statement.strip().rstrip(";")
    if not _starts_like_a_query(text):
        raise _not_a_query()
    refuse_unsafe(text, lambda offset: _place(text, offset))
    when = moment(context, epoch, latest)
    # A session for each statement: what another one named, or a refresh set, is not in it.
    session = context.port().writer()
    session.set({**{key: context.port().setting(key) for key in SETTINGS}, **KEEP_PLANS})
    _register(context, session, when, text)
    session.set(NO_FILES)
    try:
        session.describe(text)
    except spark_errors() as error:
        raise _refusal(text, error) from None
    return session.frame(text)


def _register(context: Context, session: Session, when: Moment, text: str) -> None:
    """Make the names that a statement uses mean tables at the moment."""
    catalog = when.catalog
    named = _named(text, catalog)
    tables = [catalog.tables[name] for name in named if name in catalog.tables]
    versions: dict[str, int] = {}
    if when.epoch is None:
        versions = pin(lambda: {t.name: newest_version(context, t) for t in tables})
    for table in tables:
        found = table_at_moment(context, when, table, versions.get(table.name, 0))
        session.run(temp_view(table.name, found.query))
    for name in named:
        if name in catalog.views:
            view = catalog.views[name]
            session.run(temp_view(view.name, view_at(context, when, view).query))


def _starts_like_a_query(text: str) -> bool:
    first = next((p for p in pieces(text) if not p.is_sign("(")), None)
    return first is not None and first.kind is Kind.WORD and first.text.lower() in QUERY_WORDS


def _refusal(text: str, error: Any) -> HybridviewError:
    if not _is_query(text):
        return _not_a_query()
    found = file_read(text)
    if found is not None:
        return UnsupportedSourceError(
            "hybridview sql reads tables and views, not files",
            where=_place(text, found.start),
            detail="Files by their path belong to no epoch.",
            hint="Register a Delta table: hybridview table add NAME PATH",
        )
    return as_query_error(error, "<sql>")


def _not_a_query() -> ReadOnlyQueryError:
    return ReadOnlyQueryError(
        "hybridview sql runs one query and changes nothing",
        detail="The statement is not a SELECT.",
        hint="Change base tables with Spark; views change by: hybridview refresh",
    )


def _place(text: str, offset: int) -> str:
    position = position_at(text, offset)
    return f"<sql>:{position.line}:{position.column}"


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
        words = {p.text.lower() for p in pieces(statement)}
        return [n for n in known if n in words]
    used = {table.name.lower() for table in sources(parsed)}
    found = list(pieces(statement))
    # TABLE name is a query too; the parser takes it for something else inside of others.
    used |= {b.text.lower() for a, b in pairwise(found) if a.text.lower() == "table"}
    return [n for n in known if n in used]
