"""Job: refresh a store once. Run by spark-submit, by python, or as a Databricks Python task.

spark-submit jobs/refresh.py --store /data/warehouse --strategy hybrid
"""

from __future__ import annotations

import argparse
import sys

from hybridview import HybridviewError, Store, Strategy


def main(arguments: list[str] | None = None) -> int:
    """Refresh, print a line per view, and return the exit code."""
    parser = argparse.ArgumentParser(description="Bring views up to date and publish one epoch.")
    parser.add_argument("--store", required=True, help="folder of the store")
    parser.add_argument("--strategy", choices=[s.value for s in Strategy], help="how; else hybrid")
    parser.add_argument("views", nargs="*", help="views; all if none")
    options = parser.parse_args(arguments)
    try:
        with Store.open(options.store, create=False) as store:
            result = store.refresh(options.views, options.strategy)
    except HybridviewError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    for view in result.views:
        print(f"{view.name}  {view.executed}  {view.seconds:.1f}s  {view.reason}")
        if view.error:
            print(view.error, file=sys.stderr)
    print(f"epoch {result.epoch}" if result.epoch is not None else "nothing to publish")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
