"""A command line -> what a user sees, as text that is the same on every machine."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from hybridview.catalog import FOLDER, rows_of
from hybridview.cli.app import app
from hybridview.deltalog import FolderLog
from hybridview.operations.context import Context

GOLDEN = Path(__file__).parent.parent / "golden"
UPDATE = os.environ.get("HV_UPDATE_GOLDEN") == "1"
STORE = "shop"
FEED = {"delta.enableChangeDataFeed": "true"}

UNSTABLE = (
    (r"process \d+", "process <number>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "<time>"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?", "<time>"),
    (r"\d+\.\d+\.\d+", "1.2.3"),
    (r"read +[\d.]+ (B|kB|MB) in", "read  <size> in"),
    (r"\d+ (bytes|kB|MB)", "<size>"),
    (r'"bytes": \d+', '"bytes": 1'),
)


def invoke(command: str) -> Result:
    """Run one command in this process, in a terminal of 100 columns."""
    environment = {"COLUMNS": "100", "HYBRIDVIEW_STORE": STORE}
    return CliRunner().invoke(app, shlex.split(command), env=environment, prog_name="hybridview")


def invoke_in_folder(command: str) -> Result:
    """Run one command that finds its store by hybridview.toml or by the working folder."""
    environment = {"COLUMNS": "100", "HYBRIDVIEW_STORE": None}
    return CliRunner().invoke(app, shlex.split(command), env=environment, prog_name="hybridview")


def transcript(command: str, result: Result) -> str:
    """Return a command and all it printed, as a terminal shows it."""
    lines = [f"$ hybridview {command}", *(line.rstrip() for line in result.output.splitlines())]
    if result.exit_code:
        lines.append(f"exit {result.exit_code}")
    return normalise("\n".join(lines))


def normalise(text: str) -> str:
    """Replace what differs from run to run: the working folder, uuids, times, versions."""
    text = text.replace(str(Path.cwd().resolve()), "<folder>")
    for pattern, name in UNSTABLE:
        text = re.sub(pattern, name, text)
    return text


def check_golden(name: str, text: str) -> None:
    """Compare a text with a golden file; HV_UPDATE_GOLDEN=1 writes the file instead."""
    path = GOLDEN / name
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert path.exists(), f"no golden file {path}; run with HV_UPDATE_GOLDEN=1 and look at it"
    assert text + "\n" == path.read_text(encoding="utf-8")


@contextlib.contextmanager
def without_spark() -> Iterator[None]:
    """Let every use of Spark fail."""

    def refuse(_: Context) -> None:
        raise AssertionError("this command must not start Spark")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "port", refuse)
        yield


@contextlib.contextmanager
def steady_clock() -> Iterator[None]:
    """Let every step of a refresh take 1.2 seconds, so that columns align on every machine.

    And let three hours pass before every status: it counts hours, however long a test takes.
    """
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) * 1.2, time=time.time)
    later = SimpleNamespace(time=lambda: time.time() + 3 * 3600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hybridview.engine.runner.time", clock)
        # Two views at a time would read it in another order each time.
        patch.setattr("hybridview.cli.options.PARALLEL", 1)
        patch.setattr("hybridview.operations.refresh.time", clock)
        patch.setattr("hybridview.operations.maintain.time", clock)
        patch.setattr("hybridview.operations.status.time", later)
        yield


@contextlib.contextmanager
def quiet_pyspark() -> Iterator[None]:
    """Keep PySpark's own log of failed queries out: it goes to the stderr of its first use."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def write_table(path: Path, columns: dict[str, Any], feed: bool = True) -> None:
    """Write a Delta table without Spark: a new one, or more rows of an old one."""
    configuration = FEED if feed else None
    write_deltalake(str(path), pa.table(columns), mode="append", configuration=configuration)


def records(root: Path) -> list[tuple[str, Any]]:
    """Return everything a store's bookkeeping table holds."""
    return list(rows_of(DeltaTable(str(root / FOLDER))))


def versions(root: Path) -> dict[str, int]:
    """Return the newest version of every Delta table of a store, by its folder."""
    logs = [FolderLog(path) for folder in ("tables", "views") for path in (root / folder).iterdir()]
    return {str(log.path): log.latest() for log in logs}


def orders(ids: list[int]) -> dict[str, Any]:
    """Return rows of the table "orders"."""
    return {
        "id": pa.array(ids, pa.int32()),
        "customer_id": pa.array([i % 3 for i in ids], pa.int32()),
        "amount": pa.array([10 * i for i in ids], pa.int64()),
    }
