"""Random views over one stream of changes, on Spark and Delta Lake, end to end."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hybridview.errors import HybridviewError
from tests.spark.warehouse import leave_to_spark
from tests.support.cases import Script, View
from tests.support.generator import random_script
from tests.support.streams import TABLES, random_stream
from tests.test_cases_spark import Bench

pytestmark = [pytest.mark.spark, pytest.mark.long]

SEED = int(os.environ.get("HV_SEED", "1"))
VIEWS = 30
BATCHES = 4


class OneCopy(Bench):
    """The views of a script once each, over the tables of one stream."""

    def _create_views(self) -> None:
        for view in self.script.views:
            try:
                self.store.create_view(view.name, view.sql)
            except HybridviewError as error:
                # Types that only Spark tells apart: the texts are written for DuckDB too.
                assert error.code.startswith("HV1"), (view.sql, error)


def test_random_views_equal_their_queries(tmp_path: Path, spark: Any) -> None:
    views = tuple(
        View(f"v{n}", random_script(SEED * 10_000 + n, 1).views[0].sql) for n in range(VIEWS)
    )
    read = {table.name for table in TABLES}
    script = Script("random", TABLES, views, random_stream(Random(SEED), BATCHES, read))
    bench = OneCopy(script, tmp_path / "store", spark)
    names = [view.name for view in bench.store.views()]
    assert len(names) > VIEWS * 0.8
    executed: list[str] = []
    for number, refresh in enumerate(script.refreshes):
        for change in refresh.changes:
            bench.change(change.table, change.rows)
        with pytest.MonkeyPatch.context() as patch:
            if number % 2:  # small changes are written without a MERGE, and by one
                leave_to_spark(patch)
            states = bench.store.refresh(strategy="incremental").views
        for state in states:
            assert not state.error or "HV301" in state.error, (state.name, state.error)
            executed.append(state.executed)
        assert bench.store.refresh().ok
        for name in names:
            verdict = bench.store.verify(name)
            view = next(v for v in views if v.name == name)
            assert verdict.ok, (number, view.sql, verdict)
    print(f"{len(executed)} cases: {Counter(executed)}")
    assert executed.count("incremental") >= 60
