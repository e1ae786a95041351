"""A rule of Spark's optimiser that breaks a plan is left out, for that statement alone."""

from __future__ import annotations

from typing import Any

import pytest

from hybridview.engine.session import EXCLUDED_RULES, SparkPort, temp_view
from hybridview.engine.spark_errors import broken_rule, spark_errors
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.spark

QUERY = """SELECT q.k AS k FROM (SELECT u.k AS k, rank() OVER (ORDER BY u.k DESC) AS n FROM
(SELECT k FROM r UNION ALL SELECT k FROM s) AS u) AS q WHERE q.n <= 2"""


def test_a_statement_runs_without_the_rule_that_breaks_it(
    warehouse_of_two: Warehouse, spark: Any
) -> None:
    session = spark.newSession()
    for name in ("r", "s"):
        session.sql(temp_view(name, f"SELECT k FROM {warehouse_of_two.named(name)}"))
    try:
        session.sql(QUERY).collect()
        pytest.skip("this Spark plans it rightly")
    except spark_errors() as error:
        assert broken_rule(error).endswith(".RemoveRedundantAliases")
    assert sorted(SparkPort(session).run(QUERY)) == [(3,), (4,)]
    assert session.conf.get(EXCLUDED_RULES, None) is None
    session.conf.set(EXCLUDED_RULES, "org.example.Mine")
    assert sorted(SparkPort(session).run(QUERY)) == [(3,), (4,)]
    assert session.conf.get(EXCLUDED_RULES) == "org.example.Mine"


def test_the_first_rows_of_a_union_are_kept(warehouse_of_two: Warehouse) -> None:
    shop = warehouse_of_two
    shop.views({"both": "SELECT k FROM r UNION ALL SELECT k FROM s ORDER BY k DESC LIMIT 3"})
    assert shop.executed() == {"both": "initial"}
    shop.sql("INSERT INTO {r} VALUES (9)")
    assert shop.executed("incremental") == {"both": "incremental"}
    assert shop.rows("both") == [(3,), (4,), (9,)]


@pytest.fixture(scope="module")
def warehouse_of_two(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("broken") / "store", spark)
    shop.table("r", "k INT", "VALUES (1), (3)")
    shop.table("s", "k INT", "VALUES (2), (4)")
    return shop
