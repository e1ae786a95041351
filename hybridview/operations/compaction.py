"""Stored tables of many small files: when compacting one pays, and doing it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybridview.catalog import Catalog
from hybridview.engine.session import table_at
from hybridview.engine.spark_errors import spark_errors
from hybridview.operations.context import Context
from hybridview.operations.duration import spoken_size

MANY = 8
SMALL = 32 * 2**20
"""A table of more files than MANY that are smaller than SMALL on average is compacted."""

TOO_MANY = 64
"""With more files, a refresh compacts it by itself: a second or so, after as many refreshes."""


def compaction(path: Path, many: int | None = None) -> str:
    """Say why compacting a table pays; empty if it does not."""
    sizes = DeltaTable(str(path)).get_add_actions(flatten=True).column("size_bytes")
    files = [int(size.as_py()) for size in sizes]  # type: ignore[attr-defined]
    if len(files) <= (MANY if many is None else many) or sum(files) / len(files) >= SMALL:
        return ""
    return f"{len(files):,} files of {spoken_size(sum(files) / len(files))} on average"


def compact_one(context: Context, catalog: Catalog, written: Sequence[str]) -> str:
    """Compact one of the tables that a refresh wrote, if it has too many files; return its name.

    One at a time, so that no refresh pays for many. A refresh is no worse if it does not work.
    """
    if not written:
        return ""  # and Spark need not even be imported
    with suppress(*spark_errors(), DeltaError, OSError):
        for name in written:
            path = context.path(catalog, name)
            if compaction(path, TOO_MANY):
                context.worker().run(f"OPTIMIZE {table_at(str(path.resolve()))}")
                return name
    return ""
