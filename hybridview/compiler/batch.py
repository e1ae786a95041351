"""What is known about a batch of changes before any of it is read."""

from __future__ import annotations

from dataclasses import dataclass

from hybridview.algebra.plan import (
    KEPT,
    Constant,
    Filter,
    Flatten,
    Join,
    Plan,
    Project,
    Scan,
    Union,
)
from hybridview.algebra.walk import tables, walk
from hybridview.compiler.links import Link


@dataclass(frozen=True, slots=True)
class Batch:
    """The tables that changed, those among them that only gained rows, and declared keys."""

    changed: frozenset[str]
    appended: frozenset[str] = frozenset()
    links: frozenset[Link] = frozenset()

    @property
    def growing_links(self) -> frozenset[tuple[Link, str]]:
        """The links to tables that only gained rows: no row that was there refers to a new one.

        Each with the part of that change that old rows may refer to: none of it.
        """
        return frozenset((link, "") for link in self.links if link.target in self.appended)

    @property
    def signed_links(self) -> frozenset[tuple[Link, str]]:
        """All links, each with the part of its target's change that old rows may refer to."""
        return frozenset(
            (link, "" if link.target in self.appended else KEPT) for link in self.links
        )


def touched(plan: Plan, batch: Batch) -> bool:
    """Say whether a plan reads a table that changed."""
    return any(table in batch.changed for table in tables(plan))


def only_grows(plan: Plan, batch: Batch) -> bool:
    """Say whether a plan's rows can only have become more.

    True when it is linear and every changed table it reads only gained rows: then no row of the
    old result is missing from the new one.
    """
    operators = Scan | Constant | Filter | Project | Flatten | Join | Union
    linear = all(isinstance(node, operators) for node in walk(plan))
    return linear and all(
        table in batch.appended for table in tables(plan) if table in batch.changed
    )
