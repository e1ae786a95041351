"""Every error code, made by the command a user would type: its text is a golden file.

A golden holds all cases of its code. HV_UPDATE_GOLDEN=1 writes the files anew.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybridview import errors
from hybridview.catalog import FORMAT, FolderCatalog, RefreshRecord
from hybridview.deltalog import FolderLog
from hybridview.operations import lock
from tests.cli.terminal import (
    GOLDEN,
    STORE,
    check_golden,
    invoke,
    orders,
    records,
    transcript,
    versions,
    write_table,
)
from tests.support.fake_engine import use_fakes

Prepare = Callable[[pytest.MonkeyPatch, Any], None]
"""What happens before a command: gets a monkeypatch and the Spark session."""

ORDERS = Path(STORE, "tables", "orders")


@dataclass(frozen=True)
class Case:
    """One command that fails, and what happens before it."""

    command: str
    prepare: Prepare | None = None
    exit_code: int = 2
    unchanged: bool = True
    """Whether the store's records and tables stay as they are: a refresh records its failures."""


def add_order(_: pytest.MonkeyPatch, __: Any) -> None:
    write_table(ORDERS, orders([100]))


def price_of_zero(_: pytest.MonkeyPatch, __: Any) -> None:
    columns = {"sku": pa.array([9], pa.int32()), "price": pa.array([0], pa.int32())}
    write_table(Path(STORE, "tables", "prices"), columns)


def files(**texts: str) -> Prepare:
    """Write view files: files(a="SELECT ...") makes views/a.sql."""

    def prepare(_: pytest.MonkeyPatch, __: Any) -> None:
        shutil.rmtree("views", ignore_errors=True)
        Path("views").mkdir()
        for name, text in texts.items():
            Path("views", f"{name}.sql").write_text(text, encoding="utf-8")

    return prepare


def newer_format(_: pytest.MonkeyPatch, __: Any) -> None:
    path = str(Path(STORE, "_hybridview"))
    fields = [("kind", pa.string()), ("payload", pa.string()), ("format", pa.int32())]
    row = {"kind": "shape", "payload": "{}", "format": FORMAT + 98}
    write_deltalake(path, pa.Table.from_pylist([row], pa.schema(fields)), mode="append")


def regular_file(_: pytest.MonkeyPatch, __: Any) -> None:
    Path("notes.txt").write_text("not a folder", encoding="utf-8")


def other_tables(_: pytest.MonkeyPatch, __: Any) -> None:
    Path("data", "files").mkdir(parents=True)
    write_table(Path("data", "silent"), {"id": [1]}, feed=False)
    write_table(Path("data", "repeated"), {"id": [1, 1, 2], "day": [1, 1, 1]})


def table_gone(_: pytest.MonkeyPatch, __: Any) -> None:
    shutil.rmtree(ORDERS)


def table_replaced(_: pytest.MonkeyPatch, __: Any) -> None:
    shutil.rmtree(ORDERS)
    write_table(ORDERS, orders([1, 2, 3]))


def race(patch: pytest.MonkeyPatch, session: Any) -> None:
    """Let another process publish the same epoch a moment before this one."""

    def publish_first(point: str) -> None:
        if point == "before_publish":
            ledger = FolderCatalog(Path(STORE))
            known = ledger.read()
            record = RefreshRecord(known.epoch + 1, "another attempt", "hybrid", "", 0.0, ())
            ledger.publish(record, known.store_id)

    add_order(patch, session)
    patch.setattr("hybridview.operations.refresh.reach", publish_first)


def rows_lost(_: pytest.MonkeyPatch, session: Any) -> None:
    """Take rows from a view's table with a commit that carries our mark, then from its base."""
    folder = Path(STORE, "views", "lines").resolve()
    log = FolderLog(folder)
    forger = session.newSession()
    mark = log.commit(log.latest()).user_metadata
    forger.conf.set("spark.databricks.delta.commitInfo.userMetadata", mark)
    forger.sql(f"DELETE FROM delta.`{folder}` WHERE amount = 20")
    session.sql(f"DELETE FROM delta.`{ORDERS.resolve()}` WHERE id = 2")


def busy(patch: pytest.MonkeyPatch, _: Any) -> None:
    """Hold the refresh slot, as a process on another machine would; until the case is over."""
    holder = {"pid": 4711, "host": "worker-1", "since": "2026-01-01T00:00:00+00:00"}
    path = Path(STORE, lock.FILE)
    path.write_text(json.dumps(holder), encoding="utf-8")
    held = path.open("r+")
    fcntl.flock(held, fcntl.LOCK_EX)
    patch.setattr(lock, "HELD", held, raising=False)


def column_dropped(_: pytest.MonkeyPatch, __: Any) -> None:
    columns = {name: values for name, values in orders([1, 2]).items() if name != "amount"}
    write_deltalake(str(ORDERS), pa.table(columns), mode="overwrite", schema_mode="overwrite")


def no_java(patch: pytest.MonkeyPatch, _: Any) -> None:
    patch.setenv("PATH", "/nowhere")
    patch.delenv("JAVA_HOME", raising=False)


def configured(text: str) -> Prepare:
    """Write a hybridview.toml."""

    def prepare(_: pytest.MonkeyPatch, __: Any) -> None:
        Path("hybridview.toml").write_text(text, encoding="utf-8")

    return prepare


def view_not_loaded(_: pytest.MonkeyPatch, __: Any) -> None:
    assert invoke("create fresh 'SELECT id FROM orders'").exit_code == 0


def old_files_gone(_: pytest.MonkeyPatch, __: Any) -> None:
    """Refresh a view, and remove what only its older version needs, as VACUUM does."""
    folder = Path(STORE, "views", "totals")
    old = set(folder.glob("*.parquet"))
    write_table(ORDERS, orders([101, 102, 103]))
    assert invoke("refresh totals --strategy snapshot").exit_code == 0
    for file in old:
        file.unlink()


def table_of_no_view(_: pytest.MonkeyPatch, __: Any) -> None:
    write_table(Path(STORE, "tables", "spare"), {"id": [1]})
    assert invoke("table add spare").exit_code == 0


def view_is_a_link(_: pytest.MonkeyPatch, __: Any) -> None:
    Path(STORE, "views", "totals").rename("elsewhere")
    Path(STORE, "views", "totals").symlink_to(Path("elsewhere").resolve())


MISSPELT = """CREATE MATERIALIZED VIEW by_region
AS SELECT c.regoin, count(*) AS n
FROM orders o
JOIN customers c ON o.customer_id = c.id
GROUP BY c.regoin
"""
NO_SUCH_TABLE = """CREATE MATERIALIZED VIEW spent AS
SELECT sum(amount) AS total
FROM ordrs
"""


def engine_of_other_settings(patch: pytest.MonkeyPatch, _: Any) -> None:
    use_fakes(patch, Path("state"))
    assert invoke("up").exit_code == 0
    configured('[spark]\n"spark.driver.memory" = "9g"')(patch, _)


CASES: dict[str, tuple[Case, ...]] = {
    "HV101": (
        Case("create v 'SELECT id FROM orders WHERE'"),
        Case("create v 'SELECT id, FROM orders GROUP id'"),
        Case('''create v "SELECT 'north FROM orders"'''),
        Case("create --file views/v.sql", files(v="CREATE MATERIALIZED VIEW v\nSELECT 1 AS one")),
        Case("create --file views/v.sql", files(v="CREATE TABLE v AS SELECT 1 AS one")),
    ),
    "HV102": (
        Case("create --file views/spent.sql", files(spent=NO_SUCH_TABLE)),
        Case("create v 'SELECT * FROM invoices'"),
        Case("table remove ordrs"),
    ),
    "HV103": (
        Case("create --file views/by_region.sql", files(by_region=MISSPELT)),
        Case("table add orders --replace --key ident"),
        Case(
            "create --file views/v.sql",
            files(v="CREATE MATERIALIZED VIEW v CLUSTER BY (ident) AS SELECT id FROM orders"),
        ),
    ),
    "HV104": (
        Case("create totals 'SELECT id FROM orders'"),
        Case("create orders 'SELECT sku FROM prices'"),
        Case("table add orders"),
        Case("table add totals shop/tables/orders"),
        Case("table add again shop/tables/orders"),
        Case(
            "apply views",
            files(a="SELECT 1 AS one", b="CREATE MATERIALIZED VIEW A AS SELECT 2 AS two"),
        ),
    ),
    "HV105": (
        Case("create __hv_view 'SELECT id FROM orders'"),
        Case("create totals@old 'SELECT id FROM orders'"),
        Case("table add _change_type shop/tables/orders"),
        Case("create v 'SELECT id AS _commit_version FROM orders'"),
    ),
    "HV106": (
        Case("create v 'SELECT id FROM v'"),
        Case("create totals 'SELECT customer_id AS total FROM large' --replace"),
        Case("apply views", files(a="SELECT x FROM b", b="SELECT x FROM a")),
    ),
    "HV107": (
        Case("create v 'SELECT id, current_date() AS today FROM orders'"),
        Case("create v 'SELECT id FROM orders\nWHERE rand() < 0.1'"),
        Case("create v 'SELECT approx_count_distinct(id) AS n FROM orders'"),
    ),
    "HV108": (
        Case("create v 'SELECT id + array(1) AS x FROM orders'"),
        Case("create v 'SELECT customer_id, amount FROM orders GROUP BY customer_id'"),
        Case("sql 'SELECT nosuch FROM totals'"),
        Case("sql 'SELECT * FROM nosuch'"),
        Case("sql 'SELECT 1 +'"),
    ),
    "HV109": (
        Case("create v 'DELETE FROM orders'"),
        Case("create v 'SELECT 1 AS a; SELECT 2 AS b'"),
        Case("create v ''"),
    ),
    "HV110": (Case("create v 'SELECT o.id, p.sku AS id FROM orders o, prices p'"),),
    "HV111": (
        Case("create v 'SELECT id, NULL AS nothing FROM orders'"),
        Case("create v 'SELECT id, INTERVAL 1 DAY AS span FROM orders'"),
    ),
    "HV112": (
        Case("create v 'SELECT * FROM parquet.`/data/sales`'"),
        Case("create v 'SELECT * FROM main.sales.orders'"),
        Case("create v 'SELECT * FROM delta.`/data/sales`'"),
        Case("sql 'SELECT * FROM parquet.`/data/sales`'"),
    ),
    "HV113": (
        Case(
            "create --file views/v.sql",
            files(
                v="CREATE MATERIALIZED VIEW v TBLPROPERTIES ('hybridview.stratgy' = 'hybrid')\n"
                "AS SELECT id FROM orders"
            ),
        ),
        Case(
            "create --file views/v.sql",
            files(
                v="CREATE MATERIALIZED VIEW v TBLPROPERTIES ('hybridview.strategy' = 'fast')\n"
                "AS SELECT id FROM orders"
            ),
        ),
    ),
    "HV114": (
        Case("""create v "SELECT id, reflect('java.lang.System', 'exit', 0) AS x FROM orders\""""),
        Case("""sql "SELECT TRANSFORM(id) USING 'wc -l' AS (n) FROM orders\""""),
        Case("""sql "SELECT * FROM IDENTIFIER('orders')\""""),
        Case("""sql "SELECT * FROM table_changes_by_path('/data/orders', 0)\""""),
    ),
    "HV201": (Case("status --store nowhere"),),
    "HV202": (Case("status", newer_format, unchanged=False),),
    "HV203": (Case("init notes.txt/warehouse", regular_file),),
    "HV204": (
        Case("table add files data/files", other_tables),
        Case("table add files data/nowhere"),
        Case("table add files sales.orders"),
        Case("table add invoices"),
    ),
    "HV205": (Case("table add silent data/silent", other_tables),),
    "HV206": (Case("refresh totals", table_gone, exit_code=1, unchanged=False),),
    "HV207": (Case("refresh totals", table_replaced, exit_code=1, unchanged=False),),
    "HV208": (Case("table add repeated data/repeated --key id --key day", other_tables),),
    "HV209": (Case("table remove orders"), Case("drop totals")),
    "HV210": (Case("show total"), Case("explain nosuch"), Case("refresh orders")),
    "HV211": (Case("show fresh", view_not_loaded), Case("verify fresh", exit_code=1)),
    "HV212": (
        Case("show totals --epoch 1", old_files_gone),
        Case("sql 'SELECT * FROM totals' --epoch 1"),
        Case("sql 'SELECT * FROM spare' --epoch 1", table_of_no_view),
    ),
    "HV213": (
        Case("refresh totals", view_is_a_link),
        Case("drop totals --cascade"),
        Case("show totals"),
    ),
    "HV301": (
        Case("refresh newest --strategy incremental", add_order, exit_code=1, unchanged=False),
    ),
    "HV302": (Case("refresh totals", race, exit_code=1, unchanged=False),),
    "HV303": (Case("refresh shares", price_of_zero, exit_code=1, unchanged=False),),
    "HV304": (
        Case("refresh lines --strategy incremental", rows_lost, exit_code=1, unchanged=False),
    ),
    "HV305": (Case("refresh totals --wait 0", busy, exit_code=1),),
    "HV306": (Case("refresh totals", column_dropped, exit_code=1, unchanged=False),),
    "HV401": (Case("show totals", no_java),),
    "HV402": (
        Case("create v"),
        Case("create --file views/nosuch.sql"),
        Case("apply nowhere"),
        Case("show totals --epoch 9"),
        Case("sql 'SELECT * FROM totals' --epoch 1 --latest"),
        Case("init a%20b"),
        Case("status", configured('strategy = "fast"')),
        Case("status", configured('vews = "models"')),
        Case("status", configured("views = models")),
    ),
    "HV403": (
        Case("sql 'INSERT INTO orders VALUES (1, 2, 3)'"),
        Case("sql 'DROP TABLE orders'"),
        Case("sql 'WITH x AS (SELECT 1 AS id) INSERT INTO orders SELECT id, id, id FROM x'"),
        Case("sql 'SELECT 1; DELETE FROM orders'"),
        Case("sql 'SELECT 1 AS a; SELECT 2 AS b'"),
        Case("sql 'FROM prices INSERT INTO prices SELECT *'"),
    ),
    "HV404": (Case("up", engine_of_other_settings),),
}


def codes() -> dict[str, type[errors.HybridviewError]]:
    """Return every error of hybridview by its code."""
    found = [e for e in vars(errors).values() if isinstance(e, type)]
    return {
        e.code: e
        for e in found
        if issubclass(e, errors.HybridviewError) and e is not errors.HybridviewError
    }


def test_no_two_errors_share_a_code() -> None:
    classes = [e for e in vars(errors).values() if isinstance(e, type) and "code" in vars(e)]
    assert len({e.code for e in classes}) == len(classes)


@pytest.mark.spark
@pytest.mark.parametrize("code", CASES)
def test_error(shop: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    shown: list[str] = []
    results = []
    for case in CASES[code]:
        with monkeypatch.context() as patch:
            if case.prepare is not None:
                case.prepare(patch, spark)
            tables = versions(Path(STORE))
            before = records(Path(STORE)) if case.unchanged else []
            result = invoke(case.command)
        results.append((case, result))
        shown.append(transcript(case.command, result))
        if case.unchanged:
            assert records(Path(STORE)) == before, f"{case.command} changed the store"
            assert versions(Path(STORE)) == tables, f"{case.command} wrote a table"
    check_golden(f"errors/{code}.txt", "\n\n".join(shown))
    for case, result in results:
        assert f"error {code}: " in result.stderr, result.output
        assert result.exit_code == case.exit_code, result.output


def test_every_error_has_a_golden() -> None:
    assert set(codes()) == set(CASES)
    assert {path.stem for path in (GOLDEN / "errors").glob("*.txt")} == set(CASES)
