"""Columns of structs, arrays and maps; positions of kept rows, counts of PIVOT: Spark alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.warehouse import Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.long]

COLUMNS = (
    "id INT, kind STRING, place STRUCT<city: STRING, at: STRUCT<x: INT, y: INT>>, "
    "items ARRAY<STRUCT<name: STRING, price: INT>>, tags MAP<STRING, INT>, words ARRAY<STRING>"
)
FIRST = """
SELECT 1, 'a', named_struct('city', 'Bonn', 'at', named_struct('x', 1, 'y', 2)),
  array(named_struct('name', 'pen', 'price', 3), named_struct('name', 'ink', 'price', 4)),
  map('p', 1, 'q', 2), array('u', 'v')
UNION ALL SELECT 2, 'b', named_struct('city', 'Kiel', 'at', NULL), array(), map(), array()
UNION ALL SELECT 3, NULL, NULL, NULL, NULL, array(NULL, 'w')
"""
VIEWS = {
    "fields": "SELECT id, place.city, orders.place.at.x, "
    "CASE WHEN cardinality(words) > 0 THEN words[0] END AS w, "
    "CASE WHEN cardinality(items) > 0 THEN items[0].name END AS name FROM orders",
    "by_city": "SELECT place.city, count(*) AS n, sum(place.at.x) AS x FROM orders "
    "GROUP BY place.city",
    "items": "SELECT id, item.name, item.price FROM orders LATERAL VIEW explode(items) e AS item",
    "placed": "SELECT id, p, w FROM orders LATERAL VIEW OUTER posexplode(words) e AS p, w",
    "pairs": "SELECT id, key, value FROM orders LATERAL VIEW explode(tags) e",
    "inlined": "SELECT id, inline(items) FROM orders",
    "stacked": "SELECT id, n, v FROM orders "
    "LATERAL VIEW stack(2, 'x', place.at.x, 'y', id) e AS n, v",
    "from_lateral": "SELECT o.id, e.w FROM orders AS o LEFT JOIN LATERAL explode(o.words) AS e(w)",
    "kept": "SELECT id, explode_outer(words) AS w FROM orders",
    "sums": "SELECT id, aggregate(items, 0, (total, item) -> total + item.price) AS total, "
    "transform(words, id -> upper(id)) AS upper FROM orders",
    "prices": "SELECT item.name, max(item.price) AS m FROM orders "
    "LATERAL VIEW explode(items) e AS item GROUP BY item.name",
    "counts": "SELECT * FROM (SELECT id % 2 AS odd, kind, place.at.x AS x FROM orders) "
    "PIVOT (count(x) AS n, max(x) AS m FOR kind IN ('a', 'b' AS bee))",
    "texts": "SELECT * FROM (SELECT id % 2 AS odd, kind, place.city AS city FROM orders) "
    "PIVOT (max(city) FOR kind IN ('a', 'b' AS bee))",
    "one_count": "SELECT * FROM (SELECT id % 2 AS odd, kind FROM orders) "
    "PIVOT (count(*) FOR kind IN ('a', 'b'))",
    "columns": "SELECT * FROM (SELECT id, place.at.x AS x, place.at.y AS y FROM orders) "
    "UNPIVOT (v FOR n IN (x, y AS why))",
    "listed": "SELECT o.id, v.name FROM orders AS o JOIN VALUES ('a', 'first'), ('b', NULL) "
    "AS v(kind, name) ON o.kind = v.kind",
}
CHANGES = (
    "INSERT INTO {orders} SELECT 4, 'a', named_struct('city', 'Bonn', 'at', NULL), "
    "array(named_struct('name', 'pen', 'price', 9)), map('p', NULL), array('u')",
    "UPDATE {orders} SET kind = 'b', words = array('z', NULL), "
    "place = named_struct('city', 'Trier', 'at', named_struct('x', 5, 'y', NULL)) WHERE id = 1",
    "DELETE FROM {orders} WHERE id IN (2, 4)",
)


def test_nested_columns_and_generators(tmp_path: Path, spark: Any) -> None:
    warehouse = Warehouse(tmp_path / "store", spark)
    warehouse.table("orders", COLUMNS, FIRST)
    warehouse.views(VIEWS)
    assert set(warehouse.executed().items()) == {(name, "initial") for name in VIEWS}
    for change in CHANGES:
        warehouse.sql(change)
        assert warehouse.executed("incremental") == dict.fromkeys(VIEWS, "incremental")
        assert {name: warehouse.store.verify(name).ok for name in VIEWS} == dict.fromkeys(
            VIEWS, True
        )
