"""What `*` shows around USING, by Spark's own order of columns; values by Spark's own types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

VIEWS = {
    "ours": "SELECT l.* FROM l JOIN r USING (k)",
    "theirs": "SELECT r.* FROM l JOIN r USING (k)",
    "of_full": "SELECT l.* FROM l FULL JOIN r USING (k)",
    "kept": "SELECT * FROM l LEFT SEMI JOIN r USING (k)",
    "left_alone": "SELECT * FROM l LEFT ANTI JOIN r USING (k)",
    "renamed": "SELECT a, b, d, e, f, g FROM "
    "(SELECT * FROM l JOIN r USING (k) JOIN c ON c.z = l.x) AS q(a, b, d, e, f, g)",
    "twice": "SELECT a, b, d, e, f FROM "
    "(SELECT * FROM l JOIN r USING (k) JOIN c USING (k)) AS q(a, b, d, e, f)",
    "of_three": "SELECT r.* FROM l JOIN r USING (k) JOIN c USING (k)",
    "natural": "SELECT * FROM r NATURAL JOIN l",
    "thirds": "SELECT k, (SELECT sum(d) / 3 FROM r WHERE r.k = l.k) AS y, "
    "(SELECT round(sum(d), 1) FROM r WHERE r.k = l.k) AS o, "
    "(SELECT coalesce(sum(d), 0) / 3 FROM r WHERE r.k = l.k) AS z FROM l",
    "negated": "SELECT NOT (x > 15) AS g, max(k) AS m, count(x IN (10, 20)) AS n, "
    "count(NOT (k = 1)) AS o FROM l GROUP BY NOT (x > 15)",
    "absent": "SELECT x IS NULL AS g, max(k) AS m FROM l GROUP BY x IS NULL",
}


def test_columns_of_using_and_values_over_nothing(tmp_path: Path, spark: Any) -> None:
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("l", "x INT, k INT", "VALUES (10, 1), (20, 2), (30, NULL), (40, 4)")
    shop.table("r", "y INT, k INT, d DECIMAL(18,2)", "VALUES (100, 1, 300001.00)")
    shop.table("c", "k INT, z INT", "VALUES (7, 10), (1, 20)")
    shop.views(VIEWS)
    shop.refresh()
    for changes in (
        (
            "UPDATE {r} SET k = 2, y = 200 WHERE k = 1",
            "INSERT INTO {l} VALUES (NULL, 4), (15, 1)",
        ),
        (
            "INSERT INTO {r} VALUES (5, 1, 0.01), (6, 4, 9999999999999999.99), (7, NULL, 1)",
            "DELETE FROM {l} WHERE x = 10",
        ),
    ):
        for change in changes:
            shop.sql(change)
        done = shop.executed("incremental")
        assert set(done.values()) <= {"incremental", "none"}, done
        shop.assert_exact(*VIEWS)
