"""Start a local Spark session with Delta Lake: tuned for small refreshes, and quiet."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hybridview.engine import jars
from hybridview.engine.connect import REMOTE, attach, port_of
from hybridview.engine.session import SparkPort
from hybridview.errors import NoJavaError

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The default of 50 tasks per log replay costs seconds per commit on small tables.
    "spark.databricks.delta.snapshotPartitions": "1",
    # A table's log in memory takes 3 to 4 MB: the default of 10,000 would fill any heap.
    "spark.databricks.delta.delta.log.cacheSize": "200",
    # Each write of a view has some ten classes of its own; with the default of 100, a store of
    # fifty views would compile all of them in each refresh.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    # Plans of past statements are kept for a web page that nobody opens: 1,000 by default.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Defaults of the local session; settings from hybridview.toml win."""


def check_java() -> None:
    """Refuse early, in one line, when there is no Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = (
        "Run: apt-get install openjdk-17-jre-headless (Debian) or brew install openjdk@17 (macOS)"
    )
    if java is None or not Path(java).exists():
        raise NoJavaError("Spark needs Java 17 or newer, and there is none", hint=hint)
    found = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    words = found.stderr.split('"')
    version = words[1].split(".")[0] if len(words) > 1 else ""
    if version.isdigit() and int(version) < 17:
        raise NoJavaError(f"Spark needs Java 17 or newer, and this is Java {version}", hint=hint)


def start_local(settings: Mapping[str, str] | None = None) -> SparkPort:
    """Return a running local session; the first start downloads Delta's JARs.

    If the settings name a Spark Connect server, it is a session there.
    """
    wanted = settings or {}
    if REMOTE in wanted:
        _mute_python_loggers()
        return attach(wanted[REMOTE], wanted)
    check_java()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        _mute_python_loggers()
        return port_of(active)
    with _quiet():
        if "SPARK_ENV_LOADED" in os.environ:  # under spark-submit the master is given
            spark = SparkSession.builder.getOrCreate()
        else:
            spark = build_session(wanted)
        spark.sparkContext.setLogLevel("OFF")
    _mute_python_loggers()
    return SparkPort(spark, owned=True)


def build_session(settings: Mapping[str, str]) -> Any:
    """Return a new SparkSession with Delta Lake in this process."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("hybridview").master("local[*]")
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    own = not jars.asked_for_elsewhere(settings)
    packages = _packages(settings.get(jars.PACKAGES, ""))
    known = jars.found_before(packages) if own else ""
    if known:
        return builder.config(jars.JARS, known).getOrCreate()
    with _one_start_at_a_time():
        spark = builder.config(jars.PACKAGES, packages).getOrCreate()
    if own:
        jars.remember(packages, spark.sparkContext.getConf().get(jars.JARS, "").split(","))
    return spark


def _packages(others: str) -> str:
    """Return Delta Lake's package beside those that the user wants."""
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    asked: Any = SparkSession.Builder()
    configure_spark_with_delta_pip(asked, [n.strip() for n in others.split(",") if n.strip()])
    return str(asked._options[jars.PACKAGES])


def _mute_python_loggers() -> None:
    """Keep PySpark from logging each failed statement as a JSON object of many lines."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        try:
            from pyspark.logger import PySparkLogger

            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        except ImportError:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def noise_file() -> Path:
    """Return the file that takes what Spark would print."""
    return Path(tempfile.gettempdir()) / f"hybridview-spark-{os.getuid()}.log"


@contextlib.contextmanager
def _one_start_at_a_time() -> Iterator[None]:
    """Let processes start one after the other: the cache of JARs knows no lock of its own."""
    lock = _own_file(noise_file().with_suffix(".lock"), os.O_RDWR)
    try:
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _own_file(path: Path, flags: int) -> int | None:
    """Open a file of ours that anybody could have made before us; None if somebody did."""
    try:
        # Without waiting: a pipe would wait for somebody to read it.
        opened = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None
    about = os.fstat(opened)
    if stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid():
        return opened
    os.close(opened)
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send the JVM's own output to a file: it inherits the file descriptors at its start."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    log = _own_file(noise_file(), os.O_WRONLY | os.O_APPEND)
    if log is None:
        log = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (*saved, log):
            os.close(descriptor)
