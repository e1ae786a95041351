"""The jobs: run by python and by spark-submit, with exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import Store

ROOT = Path(__file__).resolve().parent.parent
JOBS = ROOT / "jobs"

pytestmark = [pytest.mark.spark, pytest.mark.long]


def append(store: Path, rows: list[tuple[int, int]]) -> None:
    """Add rows to the base table, without a JVM."""
    data = pa.table({"k": [k for k, _ in rows], "x": [x for _, x in rows]})
    write_deltalake(
        str(store / "tables" / "t"),
        data,
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
    )


@pytest.fixture
def store(tmp_path: Path, spark: Any) -> Path:
    """A store with one view that was never refreshed."""
    root = tmp_path / "store"
    opened = Store.open(root, spark=spark)
    append(root, [(1, 10), (2, 20)])
    opened.create_view("totals", "SELECT k, sum(x) AS s FROM t GROUP BY k")
    return root


def run(command: list[str], expected: int = 0) -> str:
    # As in an activated environment: spark-submit looks for the `python3` that has PySpark.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env=environment
    )
    assert found.returncode == expected, found.stdout + found.stderr
    return found.stdout


def test_by_python(store: Path) -> None:
    """One process each: a refresh, a loop of two rounds, a verification, a wrong store."""
    assert "totals  initial" in run(
        [sys.executable, str(JOBS / "refresh.py"), "--store", str(store)]
    )
    append(store, [(2, 5), (3, 7)])
    loop = [sys.executable, str(JOBS / "run.py"), "--store", str(store), "--interval", "0.1"]
    printed = run([*loop, "--times", "2", "--strategy", "incremental"])
    assert "epoch 2: totals incremental" in printed
    assert "nothing changed" in printed
    run([sys.executable, str(JOBS / "refresh.py"), "--store", str(store / "nowhere")], expected=2)


def test_by_spark_submit(store: Path) -> None:
    """The session is the one spark-submit made; Delta Lake comes with its --packages."""
    submit = Path(sys.executable).parent / "spark-submit"
    delta = [
        "--packages",
        "io.delta:delta-spark_2.13:4.4.0",
        "--conf",
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
        "--conf",
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "--conf",
        "spark.databricks.delta.snapshotPartitions=1",
    ]
    command = [str(submit), "--master", "local[2]", *delta]
    printed = run([*command, str(JOBS / "refresh.py"), "--store", str(store)])
    assert "totals  initial" in printed and "epoch 1" in printed
    assert "totals  equal" in run([*command, str(JOBS / "verify.py"), "--store", str(store)])
