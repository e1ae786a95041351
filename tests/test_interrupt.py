"""Ctrl-C during a refresh: Spark's jobs end, and the user hears what was published."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import Store


@pytest.mark.spark
def test_interrupt_publishes_nothing_and_says_so(tmp_path: Path, spark: Any) -> None:
    root = tmp_path / "store"
    store = Store.open(root, spark=spark)
    write_deltalake(
        str(root / "tables" / "t"),
        pa.table({"k": list(range(3000))}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    store.create_view("quick", "SELECT k FROM t WHERE k < 3")
    # Never done within the test: 3000^4 pairs.
    store.create_view(
        "slow",
        "SELECT count(*) AS n FROM t a JOIN t b ON a.k <> b.k JOIN t c ON b.k <> c.k "
        "JOIN t d ON c.k <> d.k WHERE a.k + b.k * c.k - d.k = 7",
    )
    command = [sys.executable, "-m", "hybridview.cli.app", "refresh", "--store", str(root)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("[1/2] quick")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "nothing was published, the store is still at epoch 0" in errors
    assert "taken over by the next refresh: quick" in errors
    assert store.epoch == 0
    result = store.refresh(["quick"])
    assert result.epoch == 2, "the number of the interrupted attempt is not used again"
    assert store.verify("quick").ok
