"""The session port: SQL text in, rows out; and its implementation for a session in process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from hybridview.compiler.statements import literal, quote
from hybridview.deltalog import field_type
from hybridview.engine.spark_errors import broken_rule, spark_errors

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"

LITERALS = {
    # Values stand in our statements as literals; a "${...}" in one is no variable.
    "spark.sql.variable.substitute": "false",
    # And what `literal` and `quote` write must mean the same in every session.
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
"""Settings under which names and values cannot break out of their quotes."""

OWN_SETTINGS = {
    **LITERALS,
    # All of a result is fetched, or it is seen to be too large: in one job, not partition after
    # partition.
    "spark.sql.limit.initialNumPartitions": "1000",
    # Literal rows are part of a plan, and nobody reads them in its description.
    "spark.sql.maxPlanStringLength": "10000",
    # Parquet skips pages by the values of lists that are no longer than this; see engine/values.py.
    "spark.sql.parquet.pushdown.inFilterThreshold": "200",
    # It would rewrite what was just written, while others wait; a refresh compacts in its own time.
    "spark.databricks.delta.autoCompact.enabled": "false",
    # Delta refuses versions and changes older than a table's file retention even where VACUUM
    # never ran. Whether their files are still there is looked up before a refresh is planned.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}
"""Settings of the sessions the engine makes for itself."""


class Session(Protocol):
    """What the engine needs of Spark."""

    def run(self, sql: str) -> list[tuple[Any, ...]]: ...

    def describe(self, query: str) -> list[tuple[str, str]]: ...

    def frame(self, query: str) -> Any: ...

    def register(self, name: str, query: str) -> None: ...

    def set(self, settings: Mapping[str, str]) -> None: ...

    def unset(self, names: tuple[str, ...]) -> None: ...

    def setting(self, name: str) -> str: ...

    def given(self, name: str) -> str: ...

    def settings(self) -> dict[str, str]: ...

    def register_feed(
        self, name: str, path: str, start: int, end: int, shared: bool = False
    ) -> None: ...

    def writer(self) -> Session: ...

    def cancel(self) -> None: ...

    def job_count(self) -> int: ...

    def alive(self) -> bool: ...

    def stop(self) -> None: ...


class SparkPort:
    """A SparkSession behind the port."""

    def __init__(self, spark: Any, owned: bool = False) -> None:
        self.spark = spark
        self.owned = owned

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows.

        If a rule of Spark's optimiser breaks its plan, nothing has run yet: it goes without.
        """
        try:
            return self._run(sql)
        except spark_errors() as error:
            rule = broken_rule(error)
            if not rule:
                raise
        before = self.spark.conf.get(EXCLUDED_RULES, "")
        self.spark.conf.set(EXCLUDED_RULES, ",".join(filter(None, (before, rule))))
        try:
            return self._run(sql)
        finally:
            if before:
                self.spark.conf.set(EXCLUDED_RULES, before)
            else:
                self.spark.conf.unset(EXCLUDED_RULES)

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def describe(self, query: str) -> list[tuple[str, str]]:
        """Return a query's column names and types by Spark's own analysis; runs no job."""
        rows = self.spark.sql(f"DESCRIBE QUERY {query}").collect()
        if not any("struct<" in row[1] for row in rows):
            return [(row[0], row[1]) for row in rows]
        # Spark shows the fields of a struct without quotes, and the first 25 only.
        fields = json.loads(self.spark.sql(query).schema.json())["fields"]
        return [
            (row[0], field_type(field) if "struct<" in row[1] else row[1])
            for row, field in zip(rows, fields, strict=True)
        ]

    def frame(self, query: str) -> Any:
        """Return a query as a DataFrame, for the user."""
        return self.spark.sql(query)

    def register(self, name: str, query: str) -> None:
        """Make a query readable under a name, in this session.

        Its plan is kept: a view made by a statement is parsed and resolved anew wherever it is
        read.
        """
        self.spark.sql(query).createOrReplaceTempView(quote(name))

    def set(self, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            self.spark.conf.set(name, value)

    def unset(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.spark.conf.unset(name)

    def setting(self, name: str) -> str:
        return str(self.spark.conf.get(name))

    def given(self, name: str) -> str:
        """Return what a setting was set to; empty if it has its default."""
        return str(self.spark.conf.get(name, None) or "")

    def settings(self) -> dict[str, str]:
        """Return all settings of the session."""
        return dict(self.spark.conf.getAll)

    def register_feed(
        self, name: str, path: str, start: int, end: int, shared: bool = False
    ) -> None:
        """Make a table's change feed readable under a name; in `global_temp` if it is shared.

        The one relation that is not made by SQL text: the function table_changes does not resolve
        its own columns when it is joined (Spark 4.2, Delta 4.4).
        """
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", start).option("endingVersion", end)
        feed = reader.load(path)
        register = feed.createOrReplaceGlobalTempView if shared else feed.createOrReplaceTempView
        register(quote(name))

    def writer(self) -> Session:
        """Return a session of its own: settings that carry transaction ids must not leak."""
        session = SparkPort(self.spark.newSession())
        session.set(OWN_SETTINGS)
        return session

    def cancel(self) -> None:
        """Cancel what Spark is running."""
        self.spark.sparkContext.cancelAllJobs()

    def job_count(self) -> int:
        """Return how many jobs Spark has started so far, for measurements."""
        return len(self.spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    def alive(self) -> bool:
        """Say whether Spark still answers."""
        try:
            return bool(self.spark.version)
        except spark_errors():
            return False

    def stop(self) -> None:
        if self.owned:
            with suppress(*spark_errors()):  # it may have ended by itself
                self.spark.stop()


def table_at(path: str, version: int | None = None) -> str:
    """Return a Delta table in a folder, at a version, as a relation in SQL."""
    base = f"delta.{quote(path)}"
    return base if version is None else f"{base} VERSION AS OF {version}"


def temp_view(name: str, query: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY VIEW {quote(name)} AS {query}"


__all__ = ["Session", "SparkPort", "literal", "quote", "table_at", "temp_view"]
