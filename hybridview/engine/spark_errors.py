"""Spark's exceptions -> errors a user can act on."""

from __future__ import annotations

import re
from typing import Any

from hybridview.compiler.exact import TOO_LARGE
from hybridview.compiler.margin import USED_UP
from hybridview.compiler.statements import CORRUPT
from hybridview.errors import (
    CorruptionError,
    HybridviewError,
    RefreshFailedError,
    RejectedQueryError,
    run,
)


def spark_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions Spark may raise; imported late, to keep metadata commands light."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect does without
        return (PySparkException,)
    # A session whose JVM has ended refuses the connection.
    return (PySparkException, Py4JError, ConnectionError)


def is_gone(error: BaseException) -> bool:
    """Say whether Spark itself has ended."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"


def is_too_much(error: BaseException) -> bool:
    """Say whether a result was larger than Spark's driver takes."""
    return "spark.driver.maxResultSize" in str(error)


_BROKEN_RULE = re.compile(r"PLAN_VALIDATION_FAILED_RULE_IN_BATCH\] Rule (\S+) in batch")


def broken_rule(error: BaseException) -> str:
    """Return the rule of Spark's optimiser that made a right plan a wrong one; empty if none did.

    Spark 4.2 does so with a window over a UNION ALL whose result is filtered.
    """
    found = _BROKEN_RULE.search(str(error))
    return found[1] if found else ""


def why_recompute(error: BaseException) -> str:
    """Say why a change that failed is no reason for the view itself to fail; empty if it is.

    A change may pass a limit that the view's own sums keep: the sum of a large batch, say, of which
    most cancels. And a change may be gone while the rows are there.
    """
    text = str(error)
    if any(sign in text for sign in OVERFLOW):
        return "a sum in the change does not fit its type"
    if USED_UP in text:
        return "more of the first rows went than were kept to spare"
    if any(sign in text for sign in GONE):
        return f"files of the change are gone ({first_line(error)})"
    return ""


OVERFLOW = (TOO_LARGE, "[ARITHMETIC_OVERFLOW", "[NUMERIC_VALUE_OUT_OF_RANGE")
GONE = ("FILE_NOT_EXIST", "DELTA_CHANGE_DATA_FILE_NOT_FOUND", "DELTA_FILE_NOT_FOUND")
REFUSED_FEED = ("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE", "DELTA_MISSING_CHANGE_DATA")
CONFLICTS = (
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
    "MetadataChangedException",
    "ProtocolChangedException",
)


def refuses_feed(error: BaseException) -> bool:
    """Say whether Delta cannot give a range of the change feed, though the versions are there."""
    return any(sign in str(error) for sign in REFUSED_FEED)


def is_conflict(error: BaseException) -> bool:
    """Say whether a commit lost against another one that came at the same time."""
    return any(sign in f"{type(error).__name__} {error}" for sign in CONFLICTS)


def first_line(error: BaseException) -> str:
    """Return the telling line of a Spark error, without stack traces."""
    text = str(getattr(error, "desc", "") or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [found[0] for line in lines if (found := re.search(r"\[[A-Z][A-Z0-9_.]+\] .*", line))]
    # The deepest cause comes last. Positions count words that are not the user's, so they go.
    line = telling[-1] if telling else (lines or [type(error).__name__])[0]
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", line)


def has_ended(what: str = "") -> HybridviewError:
    """Say that Spark is gone, and what could not be done for it."""
    return RefreshFailedError(
        f"{what}Spark has ended",
        detail="Its process was killed, or ran out of memory (spark.driver.memory).",
        hint=run("refresh"),
    )


def as_refresh_error(view: str, error: BaseException) -> HybridviewError:
    """Explain why a view could not be refreshed; its old rows stay."""
    text = str(error)
    if is_gone(error):
        return has_ended(f'view "{view}" could not be refreshed: ')
    if CORRUPT in text:
        return CorruptionError(
            f'view "{view}" does not hold the rows this change takes away',
            detail="Its table was changed in a way its record does not know.",
            hint=run("refresh", view, "--strategy", "snapshot"),
        )
    if USED_UP in text:
        return RefreshFailedError(
            f'"{view}" has lost more of its first rows than were kept to spare',
            detail="Which rows come next is not in the change: the tables must be read in full.",
            hint=run("refresh", "--strategy", "hybrid"),
        )
    if TOO_LARGE in text:
        return RefreshFailedError(
            f'view "{view}" has a sum of more than 37 digits, which cannot be added to exactly',
            hint=run("refresh", view, "--strategy", "snapshot"),
        )
    return RefreshFailedError(
        f'view "{view}" could not be refreshed',
        detail=first_line(error),
        hint=run("explain", view),
    )


def as_query_error(error: Any, where: str) -> RejectedQueryError:
    """Explain why Spark refuses a view's query."""
    return RejectedQueryError(
        "Spark refuses the query",
        where=where,
        detail=first_line(error),
        hint='Try the SELECT alone with: hybridview sql "SELECT ..."',
    )
