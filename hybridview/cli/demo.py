"""The demo: sample data in a temporary store, seven views, three days of changes, and a verdict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hybridview.cli import render
from hybridview.cli.output import Progress, say, width
from hybridview.engine.session import Session, literal, quote, table_at
from hybridview.errors import UsageError
from hybridview.store import Store

KEYS = {
    "customers": ("id",),
    "products": ("id",),
    "orders": ("id",),
    "order_items": ("order_id", "product_id"),
    "bids": ("id",),
    "asks": ("id",),
}
SHOWN = "price_range"


def sample_folder() -> Path:
    """Return where the sample data are: in the wheel, or beside the package in a checkout."""
    here = Path(__file__).resolve().parent.parent
    for folder in (here / "sample_data", here.parent / "sample_data"):
        if (folder / "views").is_dir():
            return folder
    raise UsageError("the sample data are missing", hint="Reinstall hybridview.")


def run_demo(keep: Path | None) -> int:
    """Run the whole story; returns 1 if a view differs from its query."""
    root = keep or Path(tempfile.mkdtemp(prefix="hybridview-demo-"))
    if (root / "_hybridview").exists():
        raise UsageError(f'there is a store in "{root}" already', hint="Choose a new folder.")
    try:
        with Store.open(root) as store:
            return _story(store, sample_folder())
    finally:
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)


def _story(store: Store, samples: Path) -> int:
    session = store.session()
    say([f"A store in {store.root}", ""])
    say(["$ hybridview table add ...   # six tables: a shop and an order book"])
    load_day0(store, session, samples)
    say([f"  {t.name}: {', '.join(c.name for c in t.columns)}" for t in store.tables()])
    say(["", "$ hybridview apply views"])
    actions = store.plan_apply(samples / "views")
    say([f"  {line}" for line in render.actions(actions, allow_drop=False)])
    store.apply(actions)
    _refresh(store)
    for day in (1, 2, 3):
        changed = apply_day(store, session, samples, day)
        say(["", f"Day {day}: {'; '.join(changed)}"])
        _refresh(store)
    say(["", f"$ hybridview show {SHOWN}"])
    frame = store.read(SHOWN)
    say([f"  {line}" for line in render.rows(frame.columns, frame.take(8), width() - 2)])
    say(["", "$ hybridview verify"])
    verdicts = [store.verify(view.name) for view in store.views()]
    names = max(len(v.view) for v in verdicts)
    for verdict in verdicts:
        say([f"  {line}" for line in render.verdict(verdict, names, width() - 2)])
    bad = sum(not v.ok for v in verdicts)
    say([f"  {len(verdicts) - bad} equal, {bad} different"])
    return 1 if bad else 0


def _refresh(store: Store) -> None:
    say(["", "$ hybridview refresh --strategy hybrid"])
    names = max(len(v.name) for v in store.views())
    with Progress(names) as progress:
        result = store.refresh(strategy="hybrid", listener=progress)
    say([render.refresh_summary(result)])


def load_day0(store: Store, session: Session, samples: Path) -> None:
    """Write the first day's tables as Delta tables inside the store, and register them."""
    for group in ("shop", "book"):
        for path in sorted((samples / group / "day0").glob("*.parquet")):
            target = table_at(str((store.root / "tables" / path.stem).resolve()))
            session.run(
                f"CREATE TABLE {target} USING delta "
                "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
                f"AS SELECT * FROM parquet.{quote(str(path))}"
            )
            key = KEYS[path.stem] if path.stem != "order_items" else ()
            store.add_table(path.stem, key=key)


def apply_day(store: Store, session: Session, samples: Path, day: int) -> list[str]:
    """Apply one day's inserts, updates and deletes; return a summary per table."""
    summary: list[str] = []
    for group in ("shop", "book"):
        for path in sorted((samples / group / f"day{day}").glob("*.parquet")):
            summary.append(_apply_changes(store, session, path))
    return summary


def _apply_changes(store: Store, session: Session, path: Path) -> str:
    target = table_at(str((store.root / "tables" / path.stem).resolve()))
    changes = f"parquet.{quote(str(path))}"
    columns = [name for name, _ in session.describe(f"SELECT * FROM {changes}") if name != "op"]
    counts = dict(session.run(f"SELECT op, count(*) FROM {changes} GROUP BY op"))
    keys = KEYS[path.stem]
    on = " AND ".join(f"t.{quote(k)} = d.{quote(k)}" for k in keys)
    sets = ", ".join(f"{quote(c)} = d.{quote(c)}" for c in columns)
    listed = ", ".join(quote(c) for c in columns)
    if counts.get("update") or counts.get("delete"):
        session.run(
            f"MERGE INTO {target} t USING (SELECT * FROM {changes} WHERE op <> 'insert') d ON {on} "
            f"WHEN MATCHED AND d.op = 'delete' THEN DELETE WHEN MATCHED THEN UPDATE SET {sets}"
        )
    if counts.get("insert"):
        session.run(
            f"INSERT INTO {target} ({listed}) "
            f"SELECT {listed} FROM {changes} WHERE op = {literal('insert')}"
        )
    parts = [f"+{counts.get('insert', 0)}", f"~{counts.get('update', 0)}"]
    return f"{path.stem} {' '.join(parts)} -{counts.get('delete', 0)}"
