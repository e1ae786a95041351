"""How large a change and its view's table are -> the settings that the write runs with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hybridview.engine.session import Session
from hybridview.filestats import Size

ADAPTIVE = "spark.sql.adaptive.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"

SMALL = 16 * 2**20
"""Bytes of a stored table that one task reads, joins and writes in no time."""


def write_settings(literals: bool, stored: Size) -> dict[str, str]:
    """Return the settings for writing a change, which may stand as literals in the statement."""
    if not (literals and stored.files) or stored.bytes > SMALL:
        return {}
    # A plan that is adapted while it runs takes a job for each of its stages. There is nothing to
    # adapt here, and one partition makes one file.
    return {ADAPTIVE: "false", PARTITIONS: "1"}


@contextmanager
def running_with(session: Session, settings: dict[str, str]) -> Iterator[None]:
    """Give a session some settings, and the former ones back."""
    before = {name: session.setting(name) for name in settings}
    session.set(settings)
    try:
        yield
    finally:
        session.set(before)
