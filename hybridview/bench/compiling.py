"""The queries of TPC-H as views of a store -> seconds of one core that compiling them takes.

No JVM has a part in that: Spark is only asked for the types, when the views are defined.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from hybridview.bench.cells import Floor
from hybridview.bench.data import load
from hybridview.bench.queries import ALL, TABLES, query_text
from hybridview.catalog import FolderCatalog
from hybridview.compiler.batch import Batch
from hybridview.compiler.render import text
from hybridview.compiler.view import delta_program
from hybridview.engine.session import SparkPort
from hybridview.plan.compiled import compile_anew
from hybridview.store import Store

SCALE = 0.001
ROUNDS = 5
BOUND = 2.0


def compiling(port: SparkPort, folder: Path, queries: tuple[int, ...] = ALL) -> Floor:
    """Measure how long the compiler takes for all queries together."""
    data = load(port.writer(), folder, SCALE)
    store = Store.open(folder / "compiled", spark=port.spark)
    for name in TABLES:
        store.add_table(name, data.table(name))
    for number in queries:
        store.create_view(f"q{number}", query_text(number))
    seconds = statistics.median(compile_all(folder / "compiled") for _ in range(ROUNDS))
    name = f"compiling {len(queries)} queries of TPC-H"
    return Floor(name, seconds, "s", BOUND, "seconds of one core, no JVM")


def compile_all(root: Path) -> float:
    """Compile all views and parts of a store from their records, to the SQL of their changes."""
    views = FolderCatalog(root).read().views.values()
    started = time.process_time()
    for view in views:
        compiled = compile_anew(view)
        assert compiled.view is not None, view.name
        changed = frozenset((*view.sources, *view.parts))
        text(delta_program(compiled.view, Batch(changed)).change)
    return time.process_time() - started
