"""A statement or files that write a view -> one commit, and that it was ours that landed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hybridview.engine.faults import reach
from hybridview.engine.session import Session, quote, table_at
from hybridview.engine.settled import Places, Settled
from hybridview.engine.spark_errors import is_conflict, spark_errors
from hybridview.errors import RaceLostError, RefreshFailedError, run
from hybridview.plan.steps import Apply, RefreshPlan, ViewPlan
from hybridview.watermark import Watermark, stored_state

if TYPE_CHECKING:
    from hybridview.engine.direct import Outcome

TRANSACTION = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)
RETRIES, PAUSE = 5, 0.2
"""How often a statement is run that loses against OPTIMIZE and the like; seconds between."""

Written = tuple[int, str]
"""The version a commit gave a view's table, and the table's id."""


class Commits:
    """The commits of one session in one refresh, each marked as its own."""

    def __init__(self, plan: RefreshPlan, places: Places, session: Session) -> None:
        self.plan, self.places, self.session = plan, places, session
        self.written: dict[str, Written] = {}

    def of_statement(self, settled: Settled, sql: str) -> list[tuple[Any, ...]]:
        """Run the one statement that writes a view, and make sure that it was ours that landed.

        Delta skips a write whose transaction id it has seen, without a word; so the newest commit
        is read back and must carry this attempt's mark, on top of the version it was computed for.
        """
        self._reach_write()
        view = settled.view
        values = (view.view_id, str(self.plan.epoch), self._mark(settled))
        if sql.startswith(("MERGE", "INSERT")):
            symbol = quote(f"{view.name}@target")
            sql = sql.replace(symbol, table_at(self.places.path(view.name)), 1)
        self.session.set(dict(zip(TRANSACTION, values, strict=True)))
        try:
            rows = self._write(view, sql)
        finally:
            self.session.unset(TRANSACTION)
        self._check_landed(view)
        return rows

    def of_files(self, settled: Settled, found: Outcome) -> bool:
        """Write a small change without a statement; False if it is not to be had that way."""
        self._reach_write()
        view = settled.view
        reach("during_write")
        if not found.store(view.view_id, self.plan.epoch, self._mark(settled)):
            if is_overtaken(self.plan, view, self.places):
                raise race_lost(view)
            return False
        self._check_landed(view)
        return True

    def _reach_write(self) -> None:
        reach("before_write")
        if self.written:
            reach("between_tables")

    def _mark(self, settled: Settled) -> str:
        """Return what a commit says that the view reflects."""
        plan, view = self.plan, settled.view
        reads_stored = isinstance(view.step, Apply) or (view.step and view.step.from_stored)
        base = view.stored_version if reads_stored else None
        layout = view.layout.signature if view.layout is not None else ""
        return Watermark(
            plan.store_id, plan.attempt, plan.epoch, settled.inputs, view.program, base, layout
        ).to_json()

    def _check_landed(self, view: ViewPlan) -> None:
        reach("after_write")
        state = stored_state(self.places.log(view.name))
        if state is None or state.foreign or state.watermark.attempt != self.plan.attempt:
            raise race_lost(view)
        self.written[view.name] = (state.claimed_at, state.table_id)

    def _write(self, view: ViewPlan, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; again if it lost against a commit that moved files and no rows."""
        for number in range(RETRIES):
            try:
                reach("during_write")
                return self.session.run(sql)
            except spark_errors() as error:
                if not is_conflict(error) or number + 1 == RETRIES:
                    raise
            state = stored_state(self.places.log(view.name))
            if state is not None and state.claimed_at > _version(view):
                raise race_lost(view)
            if isinstance(view.step, Apply) and (state is None or state.foreign):
                raise RefreshFailedError(
                    f'view "{view.name}" was changed by hand while it was refreshed',
                    hint=run("refresh", view.name),
                )
            time.sleep(PAUSE * 2**number)
        raise AssertionError("unreachable")


def _version(view: ViewPlan) -> int:
    """Return the version a view's table had when the plan was made; it may have had none."""
    return -1 if view.stored_version is None else view.stored_version


def is_overtaken(plan: RefreshPlan, view: ViewPlan, places: Places) -> bool:
    """Say whether another process has written a view since this plan was made."""
    state = stored_state(places.log(view.name))
    if state is None or state.watermark.attempt == plan.attempt:
        return False
    return state.claimed_at > _version(view)


def race_lost(view: ViewPlan) -> RaceLostError:
    return RaceLostError(
        f'another process wrote view "{view.name}" at the same time',
        detail="Nothing is published by this process.",
        hint=run("refresh"),
    )


__all__ = ["Commits", "Written", "is_overtaken", "race_lost"]
