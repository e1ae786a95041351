"""Spark's exceptions -> errors a user can act on."""

from __future__ import annotations

import re
from typing import Any

from hybridview.compiler.exact import TOO_LARGE
from hybridview.compiler.statements import CORRUPT
from hybridview.errors import (
    CorruptionError,
    HybridviewError,
    RefreshFailedError,
    RejectedQueryError,
)


def spark_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions Spark may raise; imported late, to keep metadata commands light."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def first_line(error: BaseException) -> str:
    """Return the telling line of a Spark error, without stack traces."""
    text = str(getattr(error, "desc", "") or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [found[0] for line in lines if (found := re.search(r"\[[A-Z][A-Z0-9_.]+\] .*", line))]
    # The deepest cause comes last. Positions count words that are not the user's, so they go.
    line = telling[-1] if telling else (lines or [type(error).__name__])[0]
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", line)


def as_refresh_error(view: str, error: BaseException) -> HybridviewError:
    """Explain why a view could not be refreshed; its old rows stay."""
    text = str(error)
    if CORRUPT in text:
        return CorruptionError(
            f'view "{view}" does not hold the rows this change takes away',
            detail="Its table was changed in a way its record does not know.",
            hint=f"Run: hybridview refresh {view} --strategy snapshot, then: hybridview doctor",
        )
    if TOO_LARGE in text:
        return RefreshFailedError(
            f'view "{view}" has a sum of more than 37 digits, which cannot be added to exactly',
            hint=f"Run: hybridview refresh {view} --strategy snapshot",
        )
    return RefreshFailedError(
        f'view "{view}" could not be refreshed',
        detail=first_line(error),
        hint=f"See its plan with: hybridview explain {view}",
    )


def as_query_error(error: Any, where: str) -> RejectedQueryError:
    """Explain why Spark refuses a view's query."""
    return RejectedQueryError(
        "Spark refuses the query",
        where=where,
        detail=first_line(error),
        hint='Try the SELECT alone with: hybridview sql "SELECT ..."',
    )
