"""Settings of the local session, each against the session as it is: a table of ratios."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hybridview.bench.cells import rotated
from hybridview.errors import UsageError

AS_IT_IS = "as it is"
JVM = "spark.driver.extraJavaOptions"

CHOICES: dict[str, dict[str, str]] = {
    AS_IT_IS: {},
    "Delta's own 50 partitions of a log": {"spark.databricks.delta.snapshotPartitions": "50"},
    "2 shuffle partitions": {"spark.sql.shuffle.partitions": "2"},
    "8 shuffle partitions": {"spark.sql.shuffle.partitions": "8"},
    "Spark's own 200 shuffle partitions": {"spark.sql.shuffle.partitions": "200"},
    "no adaptive execution": {"spark.sql.adaptive.enabled": "false"},
    "no generated code": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    "no checksum files": {"spark.databricks.delta.writeChecksumFile.enabled": "false"},
    "serial garbage collector": {JVM: "-XX:+UseSerialGC"},
    "parallel garbage collector": {JVM: "-XX:+UseParallelGC"},
    "quick JIT compiler only": {JVM: "-XX:TieredStopAtLevel=1"},
    "web interface": {"spark.ui.enabled": "true"},
    "temporary views by their plans": {"spark.sql.legacy.storeAnalyzedPlanForView": "true"},
}
"""What is tried; each choice overrides the settings of the local session."""

COLUMNS = ("start", "first", "small", "recompute")

Say = Callable[[str], None]


def measure_settings(repeats: int, say: Say, names: Sequence[str] = ()) -> list[str]:
    """Measure the choices in processes of their own, in turn; return the lines of a table."""
    unknown = [name for name in names if name not in CHOICES]
    if unknown:
        raise UsageError(
            f'"{unknown[0]}" is no choice of settings', hint=f"Choose of: {', '.join(CHOICES)}"
        )
    chosen = [AS_IT_IS, *(n for n in names or CHOICES if n != AS_IT_IS)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    for number in range(repeats):
        for name in rotated(chosen, number):
            found[name].append(_probe(CHOICES[name]))
            seconds = ", ".join(f"{c} {found[name][-1][c]:.2f}s" for c in COLUMNS)
            say(f"{number + 1}/{repeats} {name}: {seconds}")
    return table(found)


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return medians of the session as it is, in seconds, and those of the others as ratios."""
    middle = {
        name: {c: statistics.median(run[c] for run in runs) for c in COLUMNS}
        for name, runs in found.items()
    }
    base = middle[AS_IT_IS]
    lines = ["| | start | first refresh | small refresh | recompute |", "|---|---|---|---|---|"]
    for name, values in middle.items():
        if name == AS_IT_IS:
            cells = [f"{values[c]:.2f} s" for c in COLUMNS]
        else:
            cells = [f"{values[c] / base[c]:.2f}x" for c in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _probe(settings: Mapping[str, str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="hybridview-settings-") as folder:
        command = [sys.executable, "-m", "hybridview.bench.probe", json.dumps(settings)]
        done = subprocess.run(
            [*command, str(Path(folder))], capture_output=True, text=True, check=True
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
