"""Time commands of hybridview's from a shell: with Java, or with none that could be started."""

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
    runs = [run_command(words, {"JAVA_HOME": WITHOUT_JAVA}) for _ in range(rounds)]
    failed = next((problem for _, problem in runs if problem), "")
    note = f"FAILED: {failed}" if failed else "no JVM"
    seconds = statistics.median(seconds for seconds, _ in runs)
    return Floor(f"hybridview {name}", seconds, "s", bound, note)


def run_command(
    words: tuple[str, ...], environment: dict[str, str] | None = None
) -> tuple[float, str]:
    """Run a command in a process of its own; return its seconds, and why it failed, if it did."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "hybridview.cli.app", *words],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if not done.returncode:
        return seconds, ""
    return seconds, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0]
