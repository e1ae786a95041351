"""A process that refreshes a store, and may be killed: maintainer.py STORE STRATEGY [options].

Prints one JSON object per refresh: the epoch it published and its attempt, or the error's code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time

from hybridview import Store
from hybridview.errors import HybridviewError
from tests.conftest import SETTINGS as TESTING

SETTINGS = {
    **TESTING,
    "spark.driver.memory": "1g",
    # Most of these processes live for seconds: an optimising compiler would never pay. Without it,
    # Java sets aside so little room for compiled code that it fails once that is full.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    "-XX:ReservedCodeCacheSize=256m",
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("strategies", help="one, or several with commas: taken in turn")
    parser.add_argument("--remote", help="a Spark Connect server to use")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2, help="how many views at a time")
    parser.add_argument("--maintain", action="store_true", help="maintain instead, keep no epoch")
    parser.add_argument("--no-lock", action="store_true", help="do not wait for others")
    options = parser.parse_args()
    if options.no_lock:
        _without_lock()
    settings = {"spark.remote": options.remote} if options.remote else SETTINGS
    store = Store.open(options.store, create=False, settings=settings, parallel=options.parallel)
    store.session()  # starts Spark
    print(json.dumps({"ready": True}), flush=True)
    if options.maintain:
        works = store.maintain(keep="0 days").works
        print(json.dumps({"works": [w.verb for w in works]}), flush=True)
        options.rounds = 0
    strategies = options.strategies.split(",")
    for number in range(options.rounds):
        print(json.dumps(_refresh(store, strategies[number % len(strategies)])), flush=True)
    store.close()
    return 0


def _refresh(store: Store, strategy: str) -> dict[str, object]:
    try:
        result = store.refresh(strategy=strategy)
    except HybridviewError as error:
        time.sleep(0.05)
        return {"error": error.code, "text": str(error)}
    failed = [f"{v.name}: {v.error or v.reason}" for v in result.views if v.error]
    return {"epoch": result.epoch, "attempt": result.attempt, "ok": result.ok, "failed": failed}


def _without_lock() -> None:
    """Take the refresh slot away: what is left is the fence in the commits themselves."""
    from hybridview.operations import refresh

    refresh.slot = lambda *_, **__: contextlib.nullcontext()  # type: ignore[assignment]


if __name__ == "__main__":
    sys.exit(main())
