"""Maintainers as processes: start them, read what they claim, kill them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hybridview.engine.faults import VARIABLE
from tests.faults import maintainer
from tests.faults.shop import TALLY

PROJECT = Path(__file__).parents[2]


class Maintainer:
    """A process that refreshes a store; it prints to a file, which its death does not take away."""

    def __init__(self, root: Path, strategies: str, output: Path, *words: str, fault: str = ""):
        self.output = output
        with output.open("wb") as file, output.with_suffix(".err").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, maintainer.__file__, str(root), strategies, *words],
                env={**os.environ, VARIABLE: fault, "PYTHONPATH": str(PROJECT)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has printed so far, without a line cut short by its death."""
        whole, _, _ = self.output.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.split("\n") if line]

    def wait_until_ready(self, patience: float = 120) -> None:
        end = time.monotonic() + patience
        while not self.lines():
            assert self.running and time.monotonic() < end, self.complaint()
            time.sleep(0.05)

    def claims(self) -> list[tuple[int, str]]:
        """Return the epochs it believes to have published, each with its attempt."""
        return [(line["epoch"], line["attempt"]) for line in self.lines() if line.get("epoch")]

    def wait_for_claims(self, number: int, patience: float = 180) -> None:
        """Return when it believes to have published so many epochs."""
        end = time.monotonic() + patience
        while len(self.claims()) < number:
            assert self.running and time.monotonic() < end, self.complaint()
            time.sleep(0.05)

    def errors(self) -> list[dict[str, Any]]:
        """Return the refreshes that ended with an error, or with a view that failed."""
        return [line for line in self.lines() if "error" in line or line.get("failed")]

    def wait_for_death(self, patience: float = 180) -> None:
        """Return as soon as the process has killed itself; its JVM may still be there."""
        self.process.wait(timeout=patience)
        assert self.process.returncode == -signal.SIGKILL, (self.lines(), self.complaint())
        TALLY.kills += 1

    def kill(self, group: bool = False) -> None:
        """Kill the process alone or with its group; no kill if it ended before."""
        if self.running:
            (os.killpg if group else os.kill)(self.process.pid, signal.SIGKILL)
            self.process.wait()
            TALLY.kills += 1

    def kill_java(self) -> None:
        """Kill the JVM that the process has started, and not the process."""
        listed = subprocess.run(
            ["ps", "-e", "-o", "pid=,pgid=,comm="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        ours = [str(self.process.pid), "java"]
        found = [int(pid) for pid, *rest in rows if rest == ours]
        assert found, listed.stdout
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        TALLY.kills += 1

    def end(self) -> None:
        """Clean up after a test, with all it started; no kill that counts."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def complaint(self) -> str:
        return self.output.with_suffix(".err").read_text()[-3000:]
