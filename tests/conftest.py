"""Fixtures for all tests: one Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine.local import start_local

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    # Each test makes tables of its own, and nobody asks for those of the tests before it.
    "spark.databricks.delta.delta.log.cacheSize": "40",
    # Programs of deeply nested views have very large plans, and many are run in one session.
    "spark.driver.memory": "6g",
    # Code that Spark generates, compiles and runs once, over a handful of rows, costs more than it
    # gives; the JVM's own optimising compiler does not.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


LONG = {
    "spark/test_connect.py": ("test_a_store_from_end_to_end",),
    "spark/test_exactness.py": (
        "test_numbers",
        "test_nested_types",
        "test_large_changes_one_after_the_other",
    ),
    "spark/test_identity.py": (
        "test_what_spark_takes_for_equal",
        "test_verify_tells_them_apart",
        "test_collated_columns_are_refused",
        "test_what_has_no_identity_says_so",
    ),
    "spark/test_keys.py": ("test_new_rows_of_a_referred_table_are_not_joined",),
    "spark/test_levels.py": ("test_a_complete_view_shows_every_state",),
    "spark/test_maintain.py": (
        "test_kept_epochs_stay_readable_and_a_child_behind_stays_incremental",
        "test_a_plain_vacuum_breaks_no_published_epoch",
        "test_compaction_leaves_refreshes_incremental",
        "test_changes_older_than_the_retention_are_read_while_they_are_there",
    ),
    "spark/test_margin.py": ("test_few_rows_of_a_large_table_are_kept",),
    "spark/test_relevant.py": (
        "test_what_became_of_a_key_is_seen_from_all_of_its_rows[False-70]",
        "test_what_is_near_several_changes_is_looked_for_once[12]",
    ),
    "spark/test_schema_change.py": (
        "test_added_columns_are_backfilled",
        "test_an_overwrite_is_netted",
        "test_renaming_views_and_tables",
    ),
    "spark/test_stars.py": ("test_columns_of_using_and_values_over_nothing",),
    "spark/test_traps.py": (
        "test_count_answers_after_vacuum",
        "test_deletion_vectors[false]",
        "test_several_source_rows_for_one_key",
        "test_null_keys_are_one_group",
        "test_float_sums_do_not_drift",
        "test_transaction_ids_stay_in_their_session",
        "test_expired_transaction_ids",
    ),
}
"""The slowest tests on Spark, which `make test` leaves to `make test-all`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        if item.name in LONG.get(file, ()):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local SparkSession with Delta Lake, its catalog in a temporary folder."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    port = start_local({**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)})
    yield port.spark
    port.stop()
