"""The parts of a refresh plan. What `--dry-run` prints is what `refresh` executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hybridview.compiler.layout import Layout
from hybridview.compiler.statements import Merge
from hybridview.schema import Executed, VersionVector


@dataclass(frozen=True, slots=True)
class Pinned:
    """`name@new`: a source at the version every read of this refresh uses.

    `version` is None for a view that is refreshed in the same plan: the version it will have.
    """

    name: str
    table_id: str
    version: int | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Feed:
    """`name@changes`: the rows a source gained and lost after `start`, up to `end`."""

    name: str
    start: int
    end: int | None
    columns: tuple[str, ...]
    appended: bool
    rows: int | None
    """How many rows it has by the log; None if the log does not say."""
    compare: str = ""
    """Why it is not the change feed but the difference of the two versions."""
    files: tuple[str, ...] | None = None
    """The files that difference can lie in; None for all."""
    rewritten: bool = False
    """Whether all rows went and came: then most of them cancel, and are netted first."""
    key: tuple[str, ...] = ()
    """The declared key of the source, if it has one and these columns have it."""
    wanted: str = ""
    """A condition that is true for all rows that can matter to the view; none if any can."""
    own: tuple[str, ...] = ()
    """The columns that the view itself uses: at an older version others may not be there yet."""


@dataclass(frozen=True, slots=True)
class Load:
    """Run the view's own text in full and put its rows in the place of all stored ones."""

    sql: str
    create: bool
    readings: Mapping[str, int] = field(default_factory=dict)
    """How often each source is read, by its name in lower case."""
    few_of: tuple[str, ...] = ()
    """The sources of which conditions of their own let few rows through; names in lower case."""
    from_stored: bool = False
    """Whether the new rows are made from the stored ones, after a change of the definition."""


@dataclass(frozen=True, slots=True)
class NearRead:
    """`symbol`: the rows of a source whose `column` has a value that some changes have.

    `found_in` are the symbols of these changes, and their columns.
    """

    symbol: str
    name: str
    column: str
    found_in: tuple[tuple[str, str], ...]
    exact: bool = False
    """Whether no other rows are to be read on, be they skipped or not."""
    keys_of: tuple[str, ...] = ()
    """The sources whose declared key the column is, or refers to: it holds no key that is gone."""
    wanted: str = ""
    """A condition that is true for all rows of the source that can matter to the view."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Compute `v@change`; unless it is empty, apply it in one commit."""

    change: str
    sql: str
    without_deletes: str | None
    method: str
    estimated_rows: int | None
    otherwise: Load | None = None
    """What to run if the change turns out to be too large, or not to be had."""
    near: tuple[NearRead, ...] = ()
    """What is read of sources near their changes only."""
    readings: Mapping[str, int] = field(default_factory=dict)
    """How often computing the change reads each relation, by its symbol."""
    kept: tuple[tuple[str, str], ...] = ()
    """Parts of a large change, each a symbol and its query, that are computed first, in order."""
    whole: bool = False
    """Whether the view is computed from its parts as a whole: then no change feed is read."""
    at_most: float | None = None
    """The largest share of a source that may have changed; known once its change is netted."""
    merge: Merge | None = None
    """What `sql` does, row by row, if it meets stored rows by their keys."""

    def reads(self, symbol: str) -> bool:
        """Say whether computing the change reads a relation, by its quoted symbol."""
        return any(symbol in query for query in (self.change, *(q for _, q in self.kept)))


@dataclass(frozen=True, slots=True)
class Kept:
    """A state of a view that may be shown: right rows, and what they reflect; or none yet."""

    version: int | None = None
    table_id: str = ""
    inputs: VersionVector = field(default_factory=dict)
    program: str = ""


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """What happens to one view."""

    name: str
    view_id: str
    folder: str
    executed: Executed
    reason: str
    sources: tuple[Pinned, ...]
    feeds: tuple[Feed, ...] = ()
    state_of: str = ""
    """The view this is the state table of; empty for a view of the user's."""
    state: Pinned | None = None
    """The state table its row is computed from; refreshed before it in the same plan."""
    parts: tuple[Pinned, ...] = ()
    """The tables that parts of it are kept in; refreshed before it in the same plan."""
    step: Load | Apply | None = None
    layout: Layout | None = None
    columns: tuple[tuple[str, str], ...] = ()
    """The view's own columns with their types."""
    cluster_by: tuple[str, ...] = ()
    comment: str = ""
    settings: Mapping[str, str] | None = None
    program: str = ""
    stored_version: int | None = None
    """The newest version of its table."""
    kept: Kept = field(default_factory=lambda: Kept())
    """What it shows if its rows stay."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """Everything one refresh will do, in order."""

    store_id: str
    epoch: int
    attempt: str
    strategy: str
    views: tuple[ViewPlan, ...]

    @property
    def idle(self) -> bool:
        """Whether no view has a step: nothing to run."""
        return all(view.step is None for view in self.views)

    def as_dict(self) -> dict[str, Any]:
        data = asdict(self)
        for view in data["views"]:
            view.pop("layout")
            if view["step"] is not None:
                view["step"].pop("merge", None)  # its text is there
        return data
