"""Small changes are written without a MERGE: the same rows, the same feed; and who is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine import direct
from hybridview.tablefiles.change import Taken
from tests.spark.warehouse import Warehouse, record

pytestmark = pytest.mark.spark

COLUMNS = (
    "id INT, k STRING, n INT, big BIGINT, small SMALLINT, tiny TINYINT, d DOUBLE, "
    "p DECIMAL(38,6), q DECIMAL(9,2), flag BOOLEAN, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, "
    "raw BINARY"
)
KEYS = "k, big, small, tiny, p, q, flag, day, at, wall, raw"
VIEWS = {
    "added": f"SELECT {KEYS}, count(*) AS c, sum(n) AS s, avg(q) AS mean FROM base GROUP BY {KEYS}",
    "largest": f"SELECT {KEYS}, count(DISTINCT n) AS c, max(d) AS top FROM base GROUP BY {KEYS}",
    "listed": f"SELECT {KEYS}, n FROM base WHERE n > 0",
    "total": "SELECT count(*) AS c, sum(p) AS s, avg(n) AS mean, sum(q) / count(*) AS r FROM base",
    "above": "SELECT k, sum(c) AS c FROM added GROUP BY k",
}


def values(number: int, n: int) -> str:
    """Return one row; every value depends on the number."""
    return (
        f"({number}, concat('ü\\u2028\\'\\\\', {number % 3}), {n}, "
        f"{number % 2} - 9223372036854775807, "
        f"{-number % 7}, {number % 5}, {number} / 3e0, {number % 3}.000001, -{number % 4}.25, "
        f"{number % 2} = 0, DATE'1582-10-01' + {number % 3}, "
        f"TIMESTAMP'1883-11-18 12:03:57.000001 UTC' + INTERVAL {number % 3} SECOND, "
        f"TIMESTAMP_NTZ'2024-10-27 02:30:00.000001', unhex('00FF0{number % 3}'))"
    )


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    shop = Warehouse(tmp_path_factory.mktemp("direct") / "store", spark)
    shop.table("base", COLUMNS, "VALUES " + ", ".join(values(n, n) for n in range(30)))
    shop.sql("INSERT INTO {base} (id, n) VALUES (100, 1), (101, NULL)")
    shop.views(VIEWS)
    shop.refresh()
    return shop


CHANGES = (
    "INSERT INTO {base} VALUES " + ", ".join(values(n, 3 * n) for n in (2, 5, 40)),
    "DELETE FROM {base} WHERE id IN (3, 5, 100)",
    "UPDATE {base} SET n = n + 1 WHERE id % 4 = 0",
    "UPDATE {base} SET k = NULL, p = NULL, at = NULL, day = NULL WHERE id IN (7, 8)",
    "DELETE FROM {base} WHERE id < 100",
    "INSERT INTO {base} VALUES " + ", ".join(values(n, n) for n in range(3)),
)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(text, id=text[:45], marks=[pytest.mark.long] if number in (3, 5) else [])
        for number, text in enumerate(CHANGES)
    ],
)
def test_rows_of_all_types_change_without_a_merge(shop: Warehouse, statement: str) -> None:
    before = shop.versions()
    shop.sql(statement)
    statements = record(shop.store, shop.spark)
    shop.refresh("incremental")
    shop.assert_exact(*VIEWS)
    after = shop.versions()
    written = [name for name in VIEWS if after[name] > before[name]]
    assert {"added", "total"} <= set(written)
    users = {name: shop.newest_commit(name).user for name in written}
    assert users == dict.fromkeys(written, "hybridview")
    assert not any(s.startswith(("MERGE", "INSERT")) for s in statements)
    for name in written:
        assert_feed(shop, name, before[name], after[name])


def assert_feed(shop: Warehouse, view: str, before: int, after: int) -> None:
    """Spark's reading of the change feed leads from one version to the other."""
    path = str(shop.log(view).path)
    reader = shop.spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", before + 1).option("endingVersion", after).load(path)
    feed.createOrReplaceTempView("feed")
    columns = ", ".join(f"`{c}`" for c in feed.columns if not c.startswith("_c"))
    old, new = (
        f"SELECT {columns} FROM delta.`{path}` VERSION AS OF {version}"
        for version in (before, after)
    )
    came = f"SELECT {columns} FROM feed WHERE _change_type IN ('insert', 'update_postimage')"
    went = f"SELECT {columns} FROM feed WHERE _change_type IN ('delete', 'update_preimage')"
    for left, right in (
        (f"({old} UNION ALL {came})", f"({new} UNION ALL {went})"),
        (f"({new} UNION ALL {went})", f"({old} UNION ALL {came})"),
    ):
        assert shop.spark.sql(f"{left} EXCEPT ALL {right}").count() == 0


def test_files_are_found_by_their_statistics(shop: Warehouse) -> None:
    """Spark skips no file that has the row it looks for."""
    path = shop.log("added").path
    for row in shop.spark.sql(f"SELECT * FROM delta.`{path}`").collect():
        found = shop.spark.table(f"delta.`{path}`")
        for name in ("k", "big", "p", "day", "at", "wall", "mean"):
            if row[name] is not None:
                found = found.where(found[name] == row[name])
        assert found.count() >= 1


def test_spark_goes_on_from_a_checkpoint_that_is_written_here(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Warehouse(tmp_path_factory.mktemp("direct") / "store", spark)
    shop.table("base", "k INT, x INT", "VALUES (1, 1), (2, 5)")
    shop.views({"v": "SELECT k, sum(x) AS s FROM base GROUP BY k"})
    shop.refresh()
    for number in range(11):
        shop.sql(f"INSERT INTO {{base}} VALUES (1, {number})")
        shop.refresh("incremental")
    log = shop.log("v")
    assert log.latest() == 11
    assert [v for v in range(1, 12) if log.commit(v).user != "hybridview"] == []
    assert (log.folder / f"{10:020d}.checkpoint.parquet").exists()
    shop.assert_exact("v")
    assert_feed(shop, "v", 8, 11)
    assert len(list(log.path.glob("*.parquet"))) >= 10
    assert log.size(11).files == 1
    # A log that nobody has read yet, and that begins with the checkpoint.
    copied = shop.root.parent / "copied"
    shutil.copytree(log.path, copied)
    for version in range(11):
        (copied / "_delta_log" / f"{version:020d}.json").unlink()
        (copied / "_delta_log" / f"{version:020d}.crc").unlink(missing_ok=True)
    there, here = (f"SELECT * FROM delta.`{path}`" for path in (copied, log.path))
    assert sorted(spark.sql(there).collect()) == sorted(spark.sql(here).collect())
    detail = [
        spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0] for path in (copied, log.path)
    ]
    for name in ("id", "numFiles", "sizeInBytes", "properties", "minWriterVersion"):
        assert detail[0][name] == detail[1][name]
    # It knows the transactions as those of its own checkpoints.
    session = spark.newSession()
    taken = {"txnAppId": shop.store.views()[0].id, "txnVersion": "12"}
    for name, value in taken.items():
        session.conf.set(f"spark.databricks.delta.write.{name}", value)
    session.sql(f"INSERT INTO delta.`{copied}` SELECT * FROM delta.`{copied}` LIMIT 1")
    assert session.sql(there).count() == 2, "a transaction it has seen is skipped"


REFUSED = {
    "floats": "SELECT k, CAST(max(d) AS FLOAT) AS f, count(*) AS c FROM base GROUP BY k",
    "by_double": "SELECT d, count(*) AS c FROM base GROUP BY d",
    "parts": "SELECT array(k) AS a, count(*) AS c FROM base GROUP BY array(k)",
}


def test_what_text_or_equality_cannot_carry_is_merged(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Warehouse(tmp_path_factory.mktemp("direct") / "store", spark)
    shop.table("base", "k INT, d DOUBLE", "VALUES (1, 5e-1), (2, 0e0), (3, double('NaN'))")
    shop.views(REFUSED)
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (1, -1e0), (2, 5e-1), (3, double('NaN')), (4, 1e0)")
    assert set(shop.executed("incremental").values()) == {"incremental"}
    assert "hybridview" not in {shop.newest_commit(name).user for name in REFUSED}
    shop.assert_exact(*REFUSED)


def test_a_version_that_somebody_else_made_is_left_to_the_merge(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An OPTIMIZE that came between moved the files: the MERGE looks again."""
    shop = Warehouse(tmp_path_factory.mktemp("direct") / "store", spark)
    shop.table("base", "k INT, x INT", "VALUES (1, 1), (2, 2)")
    shop.views({"v": "SELECT k, sum(x) AS s FROM base GROUP BY k"})
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (1, 5), (3, 3)")
    plain = direct.commit
    lost: list[Taken] = []

    def late(*args: Any) -> int:
        shop.spark.sql(
            f"ALTER TABLE delta.`{shop.log('v').path}` SET TBLPROPERTIES ('a' = 'b')"
        ).collect()
        try:
            return plain(*args)
        except Taken as error:
            lost.append(error)
            raise

    monkeypatch.setattr(direct, "commit", late)
    assert shop.executed("incremental") == {"v": "incremental"}
    assert len(lost) == 1
    assert shop.newest_commit("v").user != "hybridview"
    shop.assert_exact("v")


def test_values_that_overflow_fail_as_a_merge_does(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Warehouse(tmp_path_factory.mktemp("direct") / "store", spark)
    shop.table("base", "k INT, x BIGINT", "VALUES (1, 9223372036854775807)")
    shop.views({"v": "SELECT k, sum(x) AS s FROM base GROUP BY k"})
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (1, 1)")
    state = shop.refresh("incremental")["v"]
    assert state.executed == "failed"
    assert shop.log("v").latest() == 0


def test_without_ansi_groups_are_merged(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """There, a value too large for its column would be NULL, where a MERGE fails."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    shop = Warehouse(tmp_path_factory.mktemp("direct") / "store", session)
    shop.table("base", "k INT, x INT", "VALUES (1, 1)")
    shop.views({"v": "SELECT k, count(*) AS c FROM base GROUP BY k"})
    shop.refresh()
    shop.sql("INSERT INTO {base} VALUES (1, 2)")
    assert shop.executed("incremental") == {"v": "incremental"}
    assert shop.newest_commit("v").user != "hybridview"
    shop.assert_exact("v")


def test_nan_is_found_and_bytes_that_are_no_text_stay_as_they_are(
    spark: Any, tmp_path: Path
) -> None:
    """Texts on their way through Python would lose such bytes: FF is not EF BF BD."""
    shop = Warehouse(tmp_path / "store", spark)
    shop.table("odd", "raw BINARY, n INT, x DOUBLE", "VALUES (unhex('FF'), 1, 2e0)")
    shop.views(
        {
            "groups": "SELECT string(raw) AS k, count(*) AS c, sum(n) AS s FROM odd GROUP BY 1",
            "copies": "SELECT string(raw) AS k, n FROM odd",
            "largest": "SELECT n, max(x) AS top FROM odd GROUP BY n",
            "large": "SELECT n FROM largest WHERE top > 5",
        }
    )
    shop.refresh()
    shop.sql(
        "INSERT INTO {odd} VALUES (unhex('FF'), 1, DOUBLE('NaN')), (unhex('FE'), 1, 3), "
        "(unhex('EFBFBD'), 1, 4)"
    )
    assert set(shop.executed("incremental").values()) == {"incremental"}
    keys = shop.store.sql("SELECT hex(k) AS h, c FROM groups ORDER BY 1").collect()
    assert [tuple(row) for row in keys] == [("EFBFBD", 1), ("FE", 1), ("FF", 2)]
    assert shop.newest_commit("largest").user == "hybridview"
    assert shop.rows("large") == [(1,)]
    assert shop.store.sql("SELECT n FROM largest WHERE top > 5").collect() == [(1,)]
    shop.sql("DELETE FROM {odd} WHERE raw = unhex('FE') OR x = 2")
    shop.refresh("incremental")
    left = shop.store.sql("SELECT hex(k) AS h FROM copies ORDER BY 1").collect()
    assert [row[0] for row in left] == ["EFBFBD", "FF"]
    shop.assert_verified()
