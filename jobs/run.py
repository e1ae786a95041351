"""Job: refresh a store again and again, with a pause between two refreshes.

spark-submit jobs/run.py --store /data/warehouse --interval 60
"""

from __future__ import annotations

import argparse
import sys
import time

from hybridview import HybridviewError, Store, Strategy


def main(arguments: list[str] | None = None) -> int:
    """Loop until --times is reached or the job is stopped; a failed round does not end it."""
    parser = argparse.ArgumentParser(description="Keep views up to date.")
    parser.add_argument("--store", required=True, help="folder of the store")
    parser.add_argument("--strategy", choices=[s.value for s in Strategy], help="how; else hybrid")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between refreshes")
    parser.add_argument("--times", type=int, default=0, help="how often; 0 is for ever")
    options = parser.parse_args(arguments)
    rounds, ok = 0, True
    try:
        with Store.open(options.store, create=False) as store:
            while options.times == 0 or rounds < options.times:
                if rounds:
                    time.sleep(options.interval)
                rounds += 1
                ok = one_round(store, options.strategy)
                if not ok and store.spark_has_ended():
                    # No round of this process can succeed any more; its supervisor starts another.
                    print("Spark has ended: this job ends too", file=sys.stderr)
                    return 1
    except HybridviewError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped")
    return 0 if ok else 1


def one_round(store: Store, strategy: str | None) -> bool:
    """Refresh once and print what came of it."""
    try:
        result = store.refresh(strategy=strategy)
    except HybridviewError as error:
        print(error, file=sys.stderr)
        return False
    done = [f"{v.name} {v.executed}" for v in result.views if v.executed != "none"]
    print(f"epoch {result.epoch}: {', '.join(done)}" if done else "nothing changed", flush=True)
    return result.ok


if __name__ == "__main__":
    sys.exit(main())
