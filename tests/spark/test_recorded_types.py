"""The types that tests without a JVM take for Spark's are Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybridview.engine.session import SparkPort
from tests.cli.terminal import UPDATE
from tests.support.recorded_session import load, save
from tests.support.tpch_store import ANSWERS, define, open_store

pytestmark = pytest.mark.spark


def test_kept_answers_are_sparks(tmp_path: Path, spark: Any) -> None:
    """All of them, and no others; HV_UPDATE_GOLDEN=1 keeps them anew."""
    store, session = open_store(tmp_path, SparkPort(spark.newSession()))
    define(store)
    if UPDATE:
        save(ANSWERS, session.asked)
    assert session.asked == load(ANSWERS)
