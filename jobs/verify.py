"""Job: verify a store's views. Exit code 1 if one differs from its query.

spark-submit jobs/verify.py --store /data/warehouse
"""

from __future__ import annotations

import argparse
import sys

from hybridview import HybridviewError, Store


def main(arguments: list[str] | None = None) -> int:
    """Verify, print a line per view, and return the exit code."""
    parser = argparse.ArgumentParser(description="Recompute views and compare both ways.")
    parser.add_argument("--store", required=True, help="folder of the store")
    parser.add_argument("views", nargs="*", help="views; all if none")
    options = parser.parse_args(arguments)
    different = 0
    try:
        with Store.open(options.store, create=False) as store:
            for name in options.views or [v.name for v in store.views()]:
                verdict = store.verify(name)
                different += not verdict.ok
                found = "equal" if verdict.ok else "DIFFERENT"
                print(f"{name}  {found}  -{verdict.missing} +{verdict.extra}")
    except HybridviewError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
