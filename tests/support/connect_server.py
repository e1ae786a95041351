"""A Spark Connect server with Delta Lake, as a process of its own on a free port."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from hybridview.engine.local import SETTINGS
from tests.conftest import SETTINGS as TESTING

RUNNING = "HV_CONNECT_SERVER"
"""Names a server to use instead, for those who run one test again and again."""

HOME = Path(pyspark.__file__).parent
MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


def _settings(port: int) -> dict[str, str]:
    packages = configure_spark_with_delta_pip(SparkSession.Builder())._options
    return {
        **SETTINGS,
        **TESTING,
        "spark.jars.packages": packages["spark.jars.packages"],
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        # Every store of a test leaves the snapshots of its tables behind, some MB for each.
        "spark.driver.memory": "3g",
        "spark.databricks.delta.delta.log.cacheSize": "60",
    }


def _die_with_parent() -> None:
    """Let the kernel end the server if the test run is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def connect_server(folder: Path, patience: float = 120) -> Iterator[str]:
    """Run a server while the block runs; yield its address. It prints to a file in `folder`."""
    if RUNNING in os.environ:
        yield os.environ[RUNNING]
        return
    port = free_port()
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[*]", "--class", MAIN]
    for name, value in _settings(port).items():
        command += ["--conf", f"{name}={value}"]
    output = folder / "server.log"
    with output.open("wb") as log:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(HOME)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    try:
        _await(server, port, patience, output)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _await(server: subprocess.Popen[bytes], port: int, patience: float, output: Path) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"the server did not start:\n{output.read_text()[-3000:]}")
