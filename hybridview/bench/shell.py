"""Time a command of hybridview's from a shell in which there is no Java to start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from hybridview.bench.cells import Floor

WITHOUT_JAVA = "/nonexistent"
ROUNDS = 3


def time_command(
    name: str, words: tuple[str, ...], bound: float | None = None, rounds: int = ROUNDS
) -> Floor:
    """Return the median seconds of a command; its note says whether it wanted a JVM."""
    environment = {**os.environ, "JAVA_HOME": WITHOUT_JAVA}
    seconds: list[float] = []
    failed = ""
    for _ in range(rounds):
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "hybridview.cli.app", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds.append(time.perf_counter() - started)
        if done.returncode:
            failed = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0]
    note = f"FAILED: {failed}" if failed else "no JVM"
    return Floor(f"hybridview {name}", statistics.median(seconds), "s", bound, note)
