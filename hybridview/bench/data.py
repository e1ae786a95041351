"""TPC-H's tables as Delta tables: generated once per scale, sorted by key, change feed on."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hybridview.bench.queries import TABLES
from hybridview.deltalog import FEED_PROPERTY, FolderLog
from hybridview.engine.session import Session, quote, table_at
from hybridview.engine.tuning import running_with
from hybridview.errors import UsageError

FILE_BYTES = 32_000_000
"""About the size of a file, so that a large table has many and a small change needs few."""
FEW_FILES = 4
"""The changing tables have so many files at least, even at a small scale."""
LARGE_BYTES = 10 * FILE_BYTES
"""A table of more bytes is not sorted again."""
DONE = "loaded.json"

KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}


@dataclass(frozen=True, slots=True)
class Data:
    """The base tables of one scale, in a folder of their own; nobody changes them."""

    scale: float
    folder: Path
    rows: dict[str, int]

    @property
    def base(self) -> Path:
        return self.folder / "base"

    def table(self, name: str) -> Path:
        return (self.base / name).resolve()


def load(session: Session, folder: Path, scale: float) -> Data:
    """Return the tables of a scale; generate and load them if that was not done before."""
    place = folder / f"sf{scale:g}"
    done = place / DONE
    if not done.exists():
        shutil.rmtree(place, ignore_errors=True)
        raw = place / "raw"
        generate(raw, scale)
        for name in TABLES:
            _load_table(session, raw / f"{name}.parquet", place / "base" / name, name)
        shutil.rmtree(raw)
        rows = {name: FolderLog(place / "base" / name).row_count(0) or 0 for name in TABLES}
        done.write_text(json.dumps(rows), encoding="utf-8")
    return Data(scale, place, json.loads(done.read_text(encoding="utf-8")))


def generator() -> Path:
    """Return the generator's program; refuse with what to type if there is none."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise UsageError(
            "the benchmark needs tpchgen-cli, and it is not installed",
            detail="It generates the tables of TPC-H.",
            hint="Run: pip install 'hybridview[bench]'",
        )
    return Path(found)


def generate(raw: Path, scale: float) -> None:
    """Write one Parquet file per table."""
    raw.mkdir(parents=True, exist_ok=True)
    command = [str(generator()), "parquet", "-s", f"{scale:g}", "--output-dir", str(raw)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(
            f"tpchgen-cli could not generate scale {scale:g}",
            detail=(done.stderr.strip().splitlines() or ["It gave no reason."])[-1],
            hint="Try a smaller --scale, or another --folder",
        )


def files_for(name: str, size: int) -> int:
    """Return in how many files a table of so many bytes is kept."""
    least = FEW_FILES if name in ("orders", "lineitem") else 1
    return max(least, math.ceil(size / FILE_BYTES))


def _load_table(session: Session, raw: Path, target: Path, name: str) -> None:
    """Load a table in the order of its keys.

    Generated rows are in this order already. In a large file they have many row groups: tasks then
    take some of them each, one after the other, and write a file of them. Nobody promises that, so
    it is looked at.
    """
    size = raw.stat().st_size
    if size > LARGE_BYTES:
        _create(session, raw, target, name, files_for(name, size), ordered=False)
        if in_order(FolderLog(target), KEYS[name].split(",")[0]):
            return
        shutil.rmtree(target)
    _create(session, raw, target, name, files_for(name, size), ordered=True)


def _create(
    session: Session, raw: Path, target: Path, name: str, files: int, ordered: bool
) -> None:
    settings = {
        "spark.sql.shuffle.partitions": str(files),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.files.maxPartitionBytes": str(math.ceil(raw.stat().st_size / files)),
    }
    with running_with(session, settings):
        session.run(
            f"CREATE TABLE {table_at(str(target.resolve()))} USING delta "
            f"TBLPROPERTIES ('{FEED_PROPERTY}' = 'true') AS "
            f"SELECT * FROM parquet.{quote(str(raw.resolve()))}"
            + (f" ORDER BY {KEYS[name]}" if ordered else "")
        )


def in_order(log: FolderLog, column: str) -> bool:
    """Say whether the files of a table share no values of a column, but for their ends."""
    files = log.bounds(log.latest(), column) or ()
    spans = sorted((file.low, file.high) for file in files)
    return len(spans) > 1 and all(low >= high for (_, high), (low, _) in itertools.pairwise(spans))
