"""One process, one choice of settings -> what a session with them costs: probe.py JSON FOLDER.

Prints one JSON object of seconds. A process of its own, because a JVM keeps what it was told.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

WARM = 12
"""How many small changes are applied; the first ones let the JVM compile what it runs."""


def main(settings: dict[str, str], folder: Path) -> dict[str, float]:
    from hybridview.bench.floors import TOTALS, Extent, Ground
    from hybridview.engine.local import start_local

    begun = time.perf_counter()
    port = start_local({**settings, "spark.sql.warehouse.dir": str(folder / "catalog")})
    port.run("SELECT 1")
    start = time.perf_counter() - begun
    ground = Ground(port, folder / "ground", Extent(rows=3_000_000))
    store = ground.store("one", {"totals": TOTALS})

    def refresh() -> None:
        (state,) = store.refresh(strategy="incremental").views
        assert state.executed == "incremental", state.error or state.reason

    def small() -> float:
        ground.change(ground.buckets)
        return _timed(refresh)

    first, *rest = [small() for _ in range(WARM)]

    def recompute() -> None:
        # A view that is named is recomputed, whether its tables changed or not.
        (state,) = store.refresh(["totals"], strategy="snapshot").views
        assert state.executed == "snapshot", state.error or state.reason

    recomputes = [_timed(recompute) for _ in range(3)]
    port.stop()
    return {
        "start": start,
        "first": first,
        "small": statistics.median(rest[len(rest) // 2 :]),
        "recompute": min(recomputes),
    }


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]), Path(sys.argv[2]))))
