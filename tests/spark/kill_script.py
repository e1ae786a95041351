"""Refresh a store in a process of its own, which a test kills: kill_script.py STORE STRATEGY."""

from __future__ import annotations

import sys

from hybridview import Store

# It runs once and dies: the optimising compiler would never pay.
SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def main(root: str, strategy: str) -> int:
    """Refresh all views; with HYBRIDVIEW_FAULT set this does not return."""
    store = Store.open(root, create=False, settings=SETTINGS)
    return 0 if store.refresh(strategy=strategy).ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
