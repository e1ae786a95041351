"""Where tables are, and a view's plan once all versions are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hybridview.deltalog import DeltaLog
from hybridview.plan.steps import Pinned, ViewPlan
from hybridview.schema import VersionVector


@dataclass(frozen=True, slots=True)
class Places:
    """Where tables are: the folder and the log of a base table or a view, by name."""

    path: Callable[[str], str]
    log: Callable[[str], DeltaLog]


@dataclass(frozen=True, slots=True)
class Settled:
    """A view's plan with all versions filled in that were open when it was made."""

    view: ViewPlan
    sources: tuple[Pinned, ...]
    """Its sources, then its parts."""
    state: Pinned | None
    inputs: VersionVector
    ends: dict[str, int]
    """The version that each source's change ends at, by name."""
