"""How large a change and its view's table are -> the settings that its statements run with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hybridview.engine.session import Session
from hybridview.filestats import Size

ADAPTIVE = "spark.sql.adaptive.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"

SMALL = 16 * 2**20
"""Bytes of a stored table that one task reads, joins and writes in no time."""


LITTLE = {ADAPTIVE: "false", PARTITIONS: "1"}
"""For statements of next to no rows. A plan that is adapted while it runs takes a job for each of
its stages; there is nothing to adapt here, and one partition makes one file."""


def write_settings(literals: bool, stored: Size) -> dict[str, str]:
    """Return the settings for writing a change, which may stand as literals in the statement."""
    return LITTLE if literals and stored.files and stored.bytes <= SMALL else {}


@contextmanager
def running_with(session: Session, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session some settings, and the former ones back.

    Merely unset, they would be Spark's own defaults, and not what the session was started with.
    """
    before = {name: session.given(name) for name in settings}
    session.set(settings)
    try:
        yield
    finally:
        session.set({name: value for name, value in before.items() if value})
        session.unset(tuple(name for name, value in before.items() if not value))
