"""Commits of a table -> whether the files that its change feed would read are still there."""

from __future__ import annotations

from collections.abc import Sequence

from hybridview.deltalog import Commit, DeltaLog


def vacuumed(source: str, log: DeltaLog, commits: Sequence[Commit]) -> str:
    """Say at which commit change files are gone; empty if all are there.

    VACUUM removes files that the log goes on to list, and the feed would fail in the middle of a
    refresh.
    """
    for commit in commits:
        if commit.changes_rows and log.missing_files(commit.version):
            return f'VACUUM removed the change files of "{source}" at commit {commit.version}'
    return ""
