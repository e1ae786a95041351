"""What a run costs: seconds, Spark jobs, commits, bytes read; and the memory of the processes."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridview.bench.cells import Round
from hybridview.deltalog import FolderLog

Action = Callable[[], tuple[str, str]]
"""Does something; returns what hybridview executed, and why there is no result (both may be '')."""


@dataclass(frozen=True, slots=True)
class Meter:
    """Reads the counters of one Spark session in process."""

    spark: Any

    def jobs(self) -> int:
        """Return how many jobs were started so far."""
        return int(self._context().dagScheduler().numTotalJobs())

    def bytes_read(self) -> int:
        """Return how many bytes all of Spark's tasks, and this process itself, have read so far.

        Small changes are read here, and logs are; those that Spark's driver reads nobody counts.
        """
        self._context().listenerBus().waitUntilEmpty()
        executors = self._context().statusStore().executorList(True)
        tasks: int = sum(executors.apply(i).totalInputBytes() for i in range(executors.size()))
        return tasks + own_bytes_read()

    def memory(self) -> dict[str, int]:
        """Return the largest resident memory of both processes so far, in bytes."""
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = {"python": largest * (1 if sys.platform == "darwin" else 1024)}
        handle = self.spark.sparkContext._gateway.jvm.java.lang.ProcessHandle
        status = Path(f"/proc/{handle.current().pid()}/status")
        if status.exists():
            peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
            found["jvm"] = int(peak[1]) * 1024 if peak else 0
        return found

    def measure(self, action: Action, folder: Path) -> Round:
        """Run something that writes Delta tables below a folder."""
        commits, jobs, read = commits_below(folder), self.jobs(), self.bytes_read()
        started = time.perf_counter()
        executed, problem = action()
        seconds = time.perf_counter() - started
        return Round(
            round(seconds, 4),
            self.jobs() - jobs,
            commits_below(folder) - commits,
            self.bytes_read() - read,
            executed,
            problem,
        )

    def _context(self) -> Any:
        return self.spark.sparkContext._jsc.sc()


def own_bytes_read() -> int:
    """Return how many bytes this process has read from files; 0 where nobody counts them."""
    counts = Path("/proc/self/io")
    if not counts.exists():
        return 0
    found = re.search(r"rchar: (\d+)", counts.read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def tables_below(folder: Path) -> Iterable[Path]:
    """Return all Delta tables in a folder."""
    for place, folders, _ in os.walk(folder):
        if "_delta_log" in folders:
            folders.clear()  # nothing below a table is one
            yield Path(place)


def commits_below(folder: Path) -> int:
    """Return the number of commits of all Delta tables in a folder."""
    return sum(FolderLog(table).latest() + 1 for table in tables_below(folder))
