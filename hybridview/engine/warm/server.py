"""The server's process: one Spark with a Connect endpoint on the loopback, until nobody needs it.

Started by `hybridview up` with the folder of its files as its argument; what may be secret comes
through its standard input. It is a Python process with Spark behind it: should it be killed, the
JVM sees the end of its own input and goes too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hybridview.engine.connect import LOOPBACK, attach
from hybridview.engine.local import build_session
from hybridview.engine.session import table_at
from hybridview.engine.warm.place import Place, take
from hybridview.engine.warm.record import Record, birth, fingerprint, write
from hybridview.engine.warm.start import TAKEN

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Spark reads the token from here; a setting would show in the list of processes."""
_LOOK = 5.0
"""Seconds between two looks at who is attached, at most."""


def own_settings(port: int) -> dict[str, str]:
    """Return the settings that make a session a server; no user's settings win over them."""
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        # Spark's own ports too are for this machine alone.
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        # A statement whose command was killed is given up, before another one needs its table.
        "spark.connect.execute.manager.detachedTimeout": "30s",
    }


def main() -> int:
    """Serve until asked to end, or idle for too long; return the exit code."""
    place = Place(Path(sys.argv[1]))
    order = json.load(sys.stdin)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serving = take(place.serving, patience=2)
    if serving is None:
        return TAKEN
    place.record.unlink(missing_ok=True)
    port = _free_port()
    os.environ[TOKEN] = order["token"]
    spark = build_session({**order["settings"], **own_settings(port)})
    spark.sparkContext.setLogLevel("ERROR")
    place.used.touch(mode=0o600)
    os.utime(place.used)
    record = _record(order, port)
    write(place, record)
    threading.Thread(target=warm_up, args=(record.url,), daemon=True).start()
    try:
        _serve(place, spark, order["idle"], ending)
    finally:
        place.record.unlink(missing_ok=True)
        with contextlib.suppress(Exception):  # the JVM may be gone
            spark.stop()
    # What still runs in threads has nothing to finish.
    os._exit(0)


def _serve(place: Place, spark: Any, idle: float, ending: threading.Event) -> None:
    """Return when asked to, when the JVM died, or when nobody came for `idle` seconds."""
    jvm = spark.sparkContext._gateway.proc
    while not ending.wait(min(_LOOK, idle / 4)):
        if jvm.poll() is not None:
            print("Spark ended by itself", file=sys.stderr, flush=True)
            return
        if time.time() - place.used.stat().st_mtime < idle:
            continue
        # Held until the process ends: who comes now finds no engine, instead of half of one.
        if take(place.used) is not None:
            print("ended: nobody used it", file=sys.stderr, flush=True)
            return


def _record(order: Mapping[str, Any], port: int) -> Record:
    return Record(
        pid=os.getpid(),
        born=birth(os.getpid()),
        port=port,
        token=order["token"],
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        idle=order["idle"],
        store=order["store"],
        started_with=fingerprint(order["settings"], order["token"]),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def warm_up(url: str) -> None:
    """Run once what a refresh runs: the first MERGE of a JVM takes seconds, the second does not.

    As a client, so that the way there is warm too.
    """
    folder = tempfile.mkdtemp(prefix="hybridview-warm-")
    target = table_at(str(Path(folder) / "t"))
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    try:
        session = attach(url, near=True).writer()
        session.run(f"CREATE TABLE {target} USING delta {feed} AS SELECT 1 AS k, 1 AS x")
        session.run(f"INSERT INTO {target} VALUES (2, 2)")
        session.register_feed("warm", str(Path(folder) / "t"), 1, 1)
        session.run(
            f"MERGE INTO {target} t USING (SELECT k, sum(x) AS x FROM warm GROUP BY k) s "
            "ON t.k <=> s.k WHEN MATCHED THEN UPDATE SET x = t.x + s.x "
            "WHEN NOT MATCHED THEN INSERT (k, x) VALUES (s.k, s.x)"
        )
        session.stop()
    except Exception as error:  # a courtesy: the server is as good without it
        print(f"warming up failed: {error}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
