"""One grouped view over a large table: a refresh against a hand-written MERGE and a recompute.

All three do the same change of the same table in the same session, in rotating order. The hand
writes what an expert would: one MERGE on the change feed. The figures are medians; ratios count.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hybridview.catalog import ViewRecord
from hybridview.deltalog import FolderLog
from hybridview.engine.session import Session, table_at
from hybridview.store import Store

VIEW = "SELECT k, sum(x) AS s, count(*) AS n FROM base GROUP BY k"
WARM_UP = 2


@dataclass
class Contender:
    """One way to keep the view up to date, and what its rounds cost."""

    name: str
    run: Callable[[], None]
    log: FolderLog
    seconds: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)

    def measure(self, session: Session, extra: FolderLog | None) -> None:
        """Run one round, and count its seconds, Spark jobs and commits."""
        logs = [self.log] + ([extra] if extra else [])
        before = sum(log.latest() for log in logs)
        jobs = session.job_count()
        started = time.perf_counter()
        self.run()
        self.seconds.append(time.perf_counter() - started)
        self.jobs.append(session.job_count() - jobs)
        self.commits.append(sum(log.latest() for log in logs) - before)


def run_bench(rows: int, changed: int, rounds: int) -> int:
    """Build the tables, run the rounds, print the table; 1 if a result is wrong."""
    root = Path(tempfile.mkdtemp(prefix="hybridview-bench-"))
    try:
        with Store.open(root / "one") as one, Store.open(root / "two", spark=_spark(one)) as two:
            return _measure(root, one, two, rows, changed, rounds)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _spark(store: Store) -> object:
    """Return the first store's session, so that all contenders share one."""
    return getattr(store.session(), "spark", None)


def _measure(root: Path, one: Store, two: Store, rows: int, changed: int, rounds: int) -> int:
    session = one.session()
    base = str(root / "base")
    hand = str(root / "hand")
    print(f"base table: {rows:,} rows; each round changes {changed:,} of them", flush=True)
    session.run(
        f"CREATE TABLE {table_at(base)} USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        f"SELECT id, id % 100000 AS k, CAST(id % 1000 AS DECIMAL(10,2)) AS x FROM range({rows})"
    )
    session.run(
        f"CREATE TABLE {table_at(hand)} USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        + VIEW.replace("base", table_at(base))
    )
    for store in (one, two):
        store.add_table("base", base)
        store.create_view("totals", VIEW)
        store.refresh()
    contenders = _contenders(root, session, one, two)
    for number in range(WARM_UP + rounds):
        _change(session, base, rows, changed, number)
        order = contenders[number % 3 :] + contenders[: number % 3]
        for contender in order:
            extra = FolderLog(contender.log.path.parent.parent / "_hybridview")
            contender.measure(session, extra if extra.exists() else None)
    return _report(contenders, one, session, hand)


def _contenders(root: Path, session: Session, one: Store, two: Store) -> list[Contender]:
    seen = {"version": FolderLog(root / "base").latest()}

    def by_hand() -> None:
        latest = FolderLog(root / "base").latest()
        session.register_feed("hand_feed", str(root / "base"), seen["version"] + 1, latest)
        session.run(_hand_merge(str(root / "hand")))
        seen["version"] = latest

    def by_refresh(store: Store, strategy: str) -> Callable[[], None]:
        def run() -> None:
            result = store.refresh(strategy=strategy)
            assert result.views[0].executed == strategy, result.views[0]

        return run

    return [
        Contender("hand-written MERGE", by_hand, FolderLog(root / "hand")),
        Contender("hybridview incremental", by_refresh(one, "incremental"), _log(one)),
        Contender("hybridview snapshot", by_refresh(two, "snapshot"), _log(two)),
    ]


def _log(store: Store) -> FolderLog:
    view: ViewRecord = store.views()[0]
    return FolderLog(store.root / "views" / view.folder)


def _hand_merge(target: str) -> str:
    """Return the MERGE an expert writes for this view."""
    sign = "_change_type IN ('insert', 'update_postimage')"
    return f"""
        MERGE INTO {table_at(target)} t USING (
          SELECT k, sum(CASE WHEN {sign} THEN x ELSE -x END) AS s,
                 sum(CASE WHEN {sign} THEN 1 ELSE -1 END) AS n
          FROM hand_feed GROUP BY k) d
        ON t.k <=> d.k
        WHEN MATCHED AND t.n + d.n = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET s = t.s + d.s, n = t.n + d.n
        WHEN NOT MATCHED THEN INSERT (k, s, n) VALUES (d.k, d.s, d.n)"""


def _change(session: Session, base: str, rows: int, changed: int, number: int) -> None:
    """Insert three quarters of a round's rows and delete one quarter, all over the keys."""
    inserted = changed * 3 // 4
    start = rows + number * inserted
    session.run(
        f"INSERT INTO {table_at(base)} SELECT id, (id * 37) % 100000, CAST(5.25 AS DECIMAL(10,2)) "
        f"FROM range({start}, {start + inserted})"
    )
    first = number * (changed - inserted)
    session.run(
        f"DELETE FROM {table_at(base)} WHERE id >= {first} AND id < {first + changed - inserted}"
    )


def _report(contenders: list[Contender], store: Store, session: Session, hand: str) -> int:
    base = statistics.median(contenders[0].seconds[WARM_UP:])
    print(f"\n{'':24}{'median':>9}{'min':>8}{'max':>8}{'ratio':>8}{'jobs':>6}{'commits':>9}")
    for c in contenders:
        measured = c.seconds[WARM_UP:]
        middle = statistics.median(measured)
        print(
            f"{c.name:24}{middle:8.2f}s{min(measured):7.2f}s{max(measured):7.2f}s"
            f"{middle / base:8.2f}{c.jobs[-1]:6}{c.commits[-1]:9}"
        )
    print("\nratio: to the hand-written MERGE. commits: with bookkeeping.")
    verdict = store.verify("totals")
    differs = session.run(
        f"SELECT count(*) FROM (SELECT k, s, n FROM {table_at(hand)} EXCEPT ALL "
        f"SELECT k, s, n FROM {table_at(str(_log(store).path))})"
    )[0][0]
    right = verdict.ok and not differs
    print(f"verified: the view equals its query{'' if right else ' - NO, IT DIFFERS'}")
    return 0 if right else 1
