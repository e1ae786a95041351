"""What a stored table's own commits say it reflects: written with the data, read from the log."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hybridview.deltalog import Commit, DeltaLog, LogGap
from hybridview.schema import VersionVector

MARK = "hybridview"


@dataclass(frozen=True, slots=True)
class Watermark:
    """The claim one commit makes about a stored table."""

    store: str
    attempt: str
    epoch: int
    inputs: VersionVector
    program: str
    base: int | None = None
    """The version the change was computed for; None if all rows were written anew."""
    layout: str = ""
    """The signature of the layout of its rows; empty if it was not noted yet."""

    def to_json(self) -> str:
        return json.dumps(
            {
                MARK: 1,
                "store": self.store,
                "attempt": self.attempt,
                "epoch": self.epoch,
                "inputs": self.inputs,
                "program": self.program,
                "base": self.base,
                "layout": self.layout,
            },
            sort_keys=True,
        )


def read_watermark(commit: Commit) -> Watermark | None:
    """Return the claim in a commit's metadata; None if the commit is not ours."""
    try:
        data = json.loads(commit.user_metadata)
    except ValueError:
        return None
    if not isinstance(data, dict) or MARK not in data:
        return None
    return Watermark(
        data["store"],
        data["attempt"],
        int(data["epoch"]),
        dict(data["inputs"]),
        data["program"],
        data.get("base"),
        data.get("layout", ""),
    )


@dataclass(frozen=True, slots=True)
class StoredState:
    """A stored table: its newest version, its newest claim, and any foreign commit since."""

    version: int
    table_id: str
    claimed_at: int
    watermark: Watermark
    foreign: Commit | None = None
    has_feed: bool = True


def _in_between(log: DeltaLog, mark: Watermark, version: int) -> Commit | None:
    """Return a commit that changed rows between a change and what it was computed for."""
    if mark.base is None:
        return None
    for between in range(mark.base + 1, version):
        commit = log.commit(between)
        if commit.changes_rows and not _is_of(commit, mark):
            return commit
    return None


def _is_of(commit: Commit, mark: Watermark) -> bool:
    """Say whether a commit is the same attempt's: Delta's auto compaction repeats its mark."""
    own = read_watermark(commit)
    return own is not None and own.attempt == mark.attempt


def _foreign(log: DeltaLog, claimed_at: int, later: list[Commit]) -> Commit | None:
    """Return a commit after ours that changed rows or columns; `later` is newest first."""
    for commit in later:
        if commit.changes_rows:
            return commit
    redefining = [c for c in reversed(later) if c.fields is not None]
    # Setting a property repeats the columns: only other ones than ours count.
    columns = log.info(claimed_at).fields if redefining else {}
    return next((c for c in redefining if c.fields != columns), None)


def stored_state(log: DeltaLog) -> StoredState | None:
    """Read a stored table's state from its log, newest commit first; None if it has none.

    A later commit by somebody else that changed rows makes the claim void: it is reported as
    foreign. Commits that only moved or described data (OPTIMIZE, comments) leave it standing. So
    is a commit that came between a change and the version that change was computed for, be it by
    hand or by another refresh: the change was then added to rows it did not know.
    """
    try:
        newest = log.latest()
        later: list[Commit] = []
        for version in range(newest, -1, -1):
            commit = log.commit(version)
            mark = read_watermark(commit)
            if mark is not None:
                foreign = _foreign(log, version, later) or _in_between(log, mark, version)
                info = log.info(newest)
                return StoredState(newest, info.id, version, mark, foreign, info.has_feed)
            later.append(commit)
    except LogGap:
        # Nothing says any more what the table reflects.
        return None
    return None
