"""A server of the warm engine without Spark: it locks, writes its record, and waits.

Run as a script with the folder of its files, like the true one. HV_FAKE says how it behaves:
`deaf` takes no notice of SIGTERM, `broken` dies at its start.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hybridview.engine.warm.place import Place, take
from hybridview.engine.warm.record import write
from hybridview.engine.warm.server import _record
from hybridview.engine.warm.start import TAKEN

LIFE = 30
"""Seconds after which a fake that nobody ended goes by itself."""


def use_fakes(patch: Any, state: Path) -> None:
    """Let `up` start fakes, which keep their files in a folder; `patch` is a monkeypatch."""
    patch.setenv("XDG_STATE_HOME", str(state.resolve()))
    patch.setattr("hybridview.engine.warm.start.SERVER", ("-P", __file__))
    patch.setattr("hybridview.engine.warm.start.check_java", lambda: None)


def main() -> None:
    behaviour = os.environ.get("HV_FAKE", "")
    order = json.load(sys.stdin)
    place = Place(Path(sys.argv[1]))
    if behaviour == "broken":
        print("java.lang.OutOfMemoryError: of the fake", file=sys.stderr)
        sys.exit(1)
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if take(place.serving, patience=2) is None:
        sys.exit(TAKEN)
    with (place.folder / "starts").open("a") as starts:
        starts.write("x")
    time.sleep(0.5)  # a start takes time: others come meanwhile
    place.used.touch(mode=0o600)
    write(place, _record(order, port=1))
    time.sleep(LIFE)


if __name__ == "__main__":
    main()
