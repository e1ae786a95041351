"""A small store that is killed, raced and checked: made with Spark once, then copied as a folder.

Its base tables are changed and its epochs are checked without a JVM: changes are written by
delta-rs, and the plain side of every comparison is a view's own text, run by DuckDB over the base
tables at the versions that the epoch names.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from hybridview import Store
from hybridview.catalog import Catalog, RefreshRecord, ViewRecord, ViewState
from hybridview.deltalog import FolderLog
from hybridview.watermark import Watermark, read_watermark
from tests.support.duck import connect, to_duck

SCHEMAS = {
    "t": pa.schema([("id", pa.int32()), ("g", pa.int32()), ("x", pa.int32())]),
    "u": pa.schema([("g", pa.int32()), ("label", pa.string())]),
}

VIEWS = {
    "totals": "SELECT g, sum(x) AS total, count(*) AS n FROM t GROUP BY g",
    "ranges": "SELECT g, min(x) AS low, max(x) AS high FROM t GROUP BY g",
    "lines": "SELECT u.label, t.x FROM t JOIN u ON t.g = u.g",
    "kinds": "SELECT DISTINCT g, x % 2 AS odd FROM t",
    "overall": "SELECT min(x) AS low, count(*) AS n FROM t",
    "large": "SELECT g, total FROM totals WHERE total > 20",
    "best": "SELECT g, x FROM t ORDER BY x DESC LIMIT 3",
    "halves": "SELECT g / 2.0D AS half, count(*) AS n FROM t GROUP BY g / 2.0D",
}
"""Additive, affected keys, bag, DISTINCT, one row with a state table, a child, and a part. The last
has a key by which rows are only met by a MERGE; small changes of the others are written without."""

ODD = {"odd": "SELECT g AS `the group`, count(*) AS `the count` FROM t GROUP BY g"}
"""Its table is created with its change feed off, which is then switched on."""

INVARIANT = (
    "SELECT (SELECT sum(n) FROM totals), (SELECT n FROM overall), "
    "(SELECT sum(total) FROM totals WHERE total > 20), (SELECT sum(total) FROM large)"
)
"""Its first two and its last two columns are equal in every epoch, never across two."""

GROUPS = (None, 0, 1, 2, 3)
DAYS = "interval 30 days"


def _rows(table: pa.Table, columns: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.select(columns).to_pylist()]


def rows_of(table: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = SCHEMAS[table]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def _is_margin(view: ViewRecord, held: Counter[Any], plain: Counter[Any]) -> bool:
    """Say whether these are the first of all rows, and enough of them.

    By x, the largest first, then by g, where NULL comes first: so ties are closed.
    """
    names = [c.name for c in view.columns]
    x, g = names.index("x"), names.index("g")

    def order(row: Any) -> tuple[int, bool, int]:
        return -row[x], row[g] is not None, row[g] or 0

    left = plain - held
    last = max(map(order, held), default=None)
    first = all(last is not None and order(row) > last for row in left)
    return not held - plain and first and (not left or sum(held.values()) >= view.needed)


@dataclass
class Tally:
    """What a run of fault tests did; printed at its end."""

    kills: int = 0
    epochs: int = 0
    rows: int = 0
    mismatches: int = 0
    commits: int = 0
    reads: int = 0
    races: int = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.epochs} epochs, {self.rows} rows verified, "
            f"{self.mismatches} mismatches, {self.commits} base commits, {self.reads} reads, "
            f"{self.races} races lost"
        )


TALLY = Tally()


class Shop:
    """One store in a folder, and the next change to its base tables."""

    def __init__(self, root: Path, seed: int = 0, first_id: int = 1000) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.ids = itertools.count(first_id)

    @classmethod
    def make(cls, root: Path, spark: Any) -> Shop:
        """Make base tables and views, and load them: epoch 1."""
        store = Store.open(root, spark=spark)
        shop = cls(root)
        kept = {"configuration": {"delta.enableChangeDataFeed": "true"}}
        rows = [(i, GROUPS[i % 5], i % 11) for i in range(60)]
        write_deltalake(str(shop.table("t")), rows_of("t", rows), **kept)  # type: ignore[arg-type]
        labels = [(0, "a"), (1, "b"), (2, "a"), (None, "n"), (7, "z")]
        write_deltalake(str(shop.table("u")), rows_of("u", labels), **kept)  # type: ignore[arg-type]
        for name, query in VIEWS.items():
            store.create_view(name, query)
        assert store.refresh().ok
        return shop

    def copy(self, root: Path, seed: int = 0) -> Shop:
        shutil.copytree(self.root, root)
        return Shop(root, seed)

    def table(self, name: str) -> Path:
        return self.root / "tables" / name

    def catalog(self) -> Catalog:
        return Store.open(self.root, create=False)._context.catalog()

    # Changes of base tables

    def change(self) -> None:
        """Commit some changes: rows of t come, go and change; at times those of u do."""
        self.append()
        self.delete()
        self.update()
        if self.random.random() < 0.5:
            self.relabel()

    def reach_all(self, append_only: bool = False) -> None:
        """Commit changes that every view's rows follow."""
        new = next(self.ids)
        rows = [(new, new, 100), (next(self.ids), 0, 25), (next(self.ids), None, -9)]
        self._attempt(lambda t: write_deltalake(t, rows_of("t", rows), mode="append"))
        if not append_only:
            self._attempt(lambda t: t.delete("id = 7"))
            self._attempt(lambda t: t.update({"x": "x + 1", "g": "1"}, predicate="id = 8"))
            self.relabel()

    def append(self) -> None:
        pick = self.random
        rows = [
            (next(self.ids), pick.choice((*GROUPS, 7)), pick.randrange(-2, 30))
            for _ in range(pick.randrange(1, 5))
        ]
        # The table may have more columns than it began with.
        how = {"mode": "append", "schema_mode": "merge"}
        self._attempt(lambda t: write_deltalake(t, rows_of("t", rows), **how))

    def delete(self) -> None:
        self._attempt(lambda t: t.delete(f"id % 37 = {self.random.randrange(37)}"))

    def update(self) -> None:
        pick, group = self.random, self.random.choice((0, 1, 2, 3))
        where = f"id % 41 = {pick.randrange(41)}"
        self._attempt(lambda t: t.update({"x": "x + 1", "g": str(group)}, predicate=where))

    def relabel(self) -> None:
        label = self.random.choice("abcz")
        group = self.random.choice((0, 1, 2, 7))
        self._attempt(lambda t: t.update({"label": f"'{label}'"}, predicate=f"g = {group}"), "u")

    def optimize(self, path: Path) -> None:
        self._attempt(lambda t: t.optimize.compact(), path=path)

    def vacuum(self, path: Path) -> None:
        self._attempt(lambda t: t.vacuum(dry_run=False), path=path)

    def alter(self) -> None:
        """Add a column to t that no view reads, and set a property."""
        name = f"more_{next(self.ids)}"
        self._attempt(lambda t: t.alter.add_columns([Field(name, "integer")]))
        self._attempt(lambda t: t.alter.set_table_properties({"delta.logRetentionDuration": DAYS}))

    def tend(self) -> None:
        """Do what an administrator does to a table of his, or to one of ours."""
        catalog = self.catalog()
        paths = [self.table(t) for t in SCHEMAS]
        paths += [self.root / "views" / v.folder for v in catalog.views.values()]
        path = self.random.choice(paths)
        self.random.choice((self.optimize, self.vacuum))(path)

    def _attempt(self, act: Any, table: str = "t", path: Path | None = None) -> bool:
        """Commit with delta-rs; a commit that loses against another writer is not made."""
        try:
            act(DeltaTable(str(path or self.table(table))))
        except (CommitFailedError, DeltaError) as error:
            if not any(word in str(error).lower() for word in ("conflict", "commit", "concurrent")):
                raise
            return False
        TALLY.commits += 1
        return True

    # What the store says and holds

    def view_log(self, view: ViewRecord) -> FolderLog:
        return FolderLog(self.root / "views" / view.folder)

    def marks(self, view: ViewRecord) -> list[tuple[int, Watermark]]:
        """Return the claims in a view's log, oldest first, with their versions."""
        log = self.view_log(view)
        if not log.exists():
            return []
        found = [(v, read_watermark(log.commit(v))) for v in range(log.latest() + 1)]
        return [(v, mark) for v, mark in found if mark is not None]

    def check_epoch(self, epoch: int | None = None) -> None:
        """Compare every view in an epoch with its text over the base tables it names."""
        catalog = self.catalog()
        record = catalog.published(epoch)
        assert record is not None
        TALLY.epochs += 1
        names = {t.table_id: t.name for t in catalog.tables.values()}
        with_tables: dict[tuple[tuple[str, int], ...], Any] = {}
        for state in record.views:
            view = catalog.views[state.name.lower()]
            base = tuple(sorted(self._base(record, state, names).items()))
            if base not in with_tables:
                with_tables[base] = self._at(dict(base), catalog)
            self._compare(view, state, with_tables[base])
        for connection in with_tables.values():
            connection.close()

    def _base(
        self, record: RefreshRecord, state: ViewState, names: dict[str, str]
    ) -> dict[str, int]:
        """Return the versions of base tables that a view's rows reflect, through its parents."""
        found: dict[str, int] = {}
        parents = {s.table_id: s for s in record.views}
        for table_id, version in state.inputs.items():
            if table_id in names:
                found[names[table_id]] = version
                continue
            parent = parents[table_id]
            assert parent.version == version, f"{state.name} reads another {parent.name}"
            found |= self._base(record, parent, names)
        return found

    def _at(self, versions: dict[str, int], catalog: Catalog) -> Any:
        """Return a DuckDB with base tables at versions, and all views as plain views."""
        connection = connect()
        for name, version in versions.items():
            rows = DeltaTable(str(self.table(name)), version=version).to_pyarrow_table()
            connection.register(f"{name}_rows", rows)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM {name}_rows')
        for view in catalog.ordered():
            if {s.lower() for s in view.sources} <= {*versions, *catalog.views}:
                connection.execute(f'CREATE VIEW "{view.name}" AS {to_duck(view.text)}')
        return connection

    def _compare(self, view: ViewRecord, state: ViewState, connection: Any) -> None:
        assert state.version is not None and not state.error, state
        held = Counter(self._stored(view, state.version))
        plain = Counter(connection.execute(f'SELECT * FROM "{view.name}"').fetchall())
        TALLY.rows += sum(held.values())
        right = _is_margin(view, held, plain) if view.needed else held == plain
        TALLY.mismatches += not right
        assert right, f"{view.name} in epoch {state.epoch}: {held - plain}, {plain - held}"

    def _stored(self, view: ViewRecord, version: int) -> list[tuple[Any, ...]]:
        """Read a view's own columns; where names are mapped delta-rs would find NULLs."""
        table = DeltaTable(str(self.root / "views" / view.folder), version=version)
        fields = json.loads(table.schema().to_json())["fields"]
        key = "delta.columnMapping.physicalName"
        physical = {f["name"]: f["metadata"].get(key, f["name"]) for f in fields}
        columns = [physical[c.name] for c in view.columns]
        if all(name == written for name, written in physical.items()):
            return _rows(table.to_pyarrow_table(), columns)
        parts = [pq.read_table(uri.removeprefix("file://")) for uri in table.file_uris()]
        return [row for part in parts for row in _rows(part, columns)]

    def check_records(self) -> None:
        """Check that epochs and commits tell one story.

        Every epoch was published once, by one attempt, and later epochs have larger numbers. No
        view was written twice in an epoch, nor in the order of another one. What is published
        names inputs that the commit itself names, or newer ones that changed nothing.
        """
        catalog = self.catalog()
        epochs = [r.epoch for r in catalog.refreshes]
        assert epochs == sorted(set(epochs)), epochs
        assert len({r.attempt for r in catalog.refreshes}) == len(epochs)
        for view in catalog.views.values():
            marks = self.marks(view)
            written = [mark.epoch for _, mark in marks]
            assert written == sorted(set(written)), f"{view.name}: {written}"
            for record in catalog.refreshes:
                self._check_state(view, record, marks)

    def _check_state(
        self, view: ViewRecord, record: RefreshRecord, marks: list[tuple[int, Watermark]]
    ) -> None:
        state = record.view(view.name)
        if state is None or state.version is None:
            return
        claim = [mark for version, mark in marks if version <= state.version][-1]
        assert claim.epoch <= record.epoch
        if state.inputs.keys() == claim.inputs.keys():
            assert all(state.inputs[i] >= version for i, version in claim.inputs.items())
        if view.state_of:
            served = record.view(view.state_of)
            assert served is not None
            assert state.inputs.items() <= served.inputs.items(), f"{view.name} at other inputs"
