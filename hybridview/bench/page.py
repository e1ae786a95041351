"""Results -> a page in a folder: what was measured, the figures, the pictures, the raw results."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

PAGE = "speed.md"
HEAD = """# Speed

Measured by `hybridview bench`: TPC-H, all contenders side by side in one Spark session, in
rotating order, medians of at least 3 rounds; results are verified in the same run. Changes are
shares of all orders: new orders with their lineitems at the end of the key range, deletes and
updates scattered over it. The key of orders is declared, and that lineitem refers to it. Read the
ratios, not the seconds: those depend on the machine. The raw figures are in
[{results}]({results}).
"""
LEGEND = """
- *recompute*: Spark runs the query and overwrites a table. *hand*: a MERGE that an expert wrote.
  *snapshot*, *incremental*, *hybrid*: `hybridview refresh`, bookkeeping included. *duckdb*: DuckDB
  runs the query over the same files and writes nothing.
- *rec/hyb*: recompute / hybrid; *hyb/hand*: hybrid / MERGE by hand; *hyb/best*: hybrid / the best
  of the three strategies. *spread*: between the fastest and the slowest round, by the median.
- *MB read*: by Spark's tasks, and by `hybridview` itself: small changes, and logs. What Spark's
  driver reads of logs is not counted.
"""

SETTINGS = "session.md"
SETTINGS_HEAD = """# The local session

`hybridview` starts Spark with [settings](../hybridview/engine/local.py) of its own, for small
refreshes on one machine; those in `hybridview.toml` win. Each choice below was measured by
`hybridview bench --settings` in processes of its own, in turn, {repeats} each, medians, {when}:
how long Spark takes to start, the first refresh, a small refresh once the JVM is warm, and a
recompute of 3 million rows. The first line has seconds, the others the ratio to it.
"""


def write_page(folder: Path, lines: Sequence[str], results: Path, pictures: Sequence[Path]) -> Path:
    """Write the page of a report; notes on the page before it stay."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [picture for picture in pictures if picture.suffix == ".svg"]
    for file in (results, *drawn):
        shutil.copyfile(file, folder / file.name)
    shown = [f"![{p.stem}]({p.name})" for p in drawn]
    body = [HEAD.format(results=results.name), *shown, "", "```", *lines, "```", LEGEND]
    return _write(folder / PAGE, body)


def write_settings(folder: Path, lines: Sequence[str], repeats: int, when: str) -> Path:
    """Write the page of the local session's settings; notes on the page before it stay."""
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder / SETTINGS, [SETTINGS_HEAD.format(repeats=repeats, when=when), *lines])


def _write(page: Path, body: Sequence[str]) -> Path:
    """Write a page; what is below a line of dashes on it stays."""
    notes = ""
    if page.exists():
        _, cut, after = page.read_text(encoding="utf-8").partition("\n---\n")
        notes = cut + after
    page.write_text("\n".join(body).rstrip("\n") + "\n" + notes, encoding="utf-8")
    return page
