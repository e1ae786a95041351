"""Fixtures for all tests: one Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hybridview.engine.local import start_local

SETTINGS = {
    # Tests run many small statements once: the optimising compiler costs more than it gives.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local SparkSession with Delta Lake, its catalog in a temporary folder."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    port = start_local({**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)})
    yield port.spark
    port.stop()
