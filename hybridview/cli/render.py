"""Results -> text for a terminal, or JSON. Nothing here decides anything."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from hybridview.catalog import RefreshRecord, ViewState
from hybridview.errors import run
from hybridview.operations.apply import Action
from hybridview.operations.doctor import Finding
from hybridview.operations.duration import spoken
from hybridview.operations.engine import described
from hybridview.operations.maintain import MaintainResult, Work
from hybridview.operations.prove import Proof
from hybridview.operations.refresh import RefreshResult
from hybridview.operations.status import StoreStatus
from hybridview.operations.verify import Verdict
from hybridview.plan.steps import Apply, Load, RefreshPlan, ViewPlan
from hybridview.redact import redact_all

SCHEMA = 1
"""Version of every JSON object printed by --json."""


EXACT = frozenset(
    {"rows", "missing_rows", "extra_rows", "columns", "name", "view", "view_id", "query", "sql"}
    | {"change", "apply", "without_deletes", "snapshot", "plan", "sources", "types"}
    | {"dropped", "missing", "stale"}
)
"""Keys under which users find their own names, rows and SQL again; all else is redacted."""


def as_json(kind: str, value: Any) -> str:
    """Return one JSON object: what it is, its schema number, its content."""
    plain = json.loads(json.dumps(value, default=_plain))
    return json.dumps({"schema": SCHEMA, "kind": kind, **redact_all(plain, EXACT)}, indent=2)


def json_safe(value: Any) -> dict[str, Any]:
    """Return a dataclass as a dictionary."""
    return dataclasses.asdict(value)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)


def table(rows: Sequence[Sequence[str]], width: int, header: Sequence[str] = ()) -> list[str]:
    """Align columns by two blanks; the last one wraps under itself."""
    every = [list(header), *map(list, rows)] if header else [list(r) for r in rows]
    if not every:
        return []
    widths = [max(len(row[i]) for row in every) for i in range(len(every[0]) - 1)]
    lines: list[str] = []
    for row in every:
        cells = [cell.ljust(w) for cell, w in zip(row, widths, strict=False)]
        lead = "".join(f"{cell}  " for cell in cells)
        room = max(20, width - len(lead))
        parts = textwrap.wrap(row[-1], room) or [""]
        lines.append((lead + parts[0]).rstrip())
        lines += [" " * len(lead) + part for part in parts[1:]]
    return lines


def number(count: int, what: str) -> str:
    """Return `1 row` or `1,200 rows`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def counts(state: ViewState) -> str:
    """Return `+12 ~88 -3`, or the number of rows after a full load."""
    rows = state.rows
    if "rows" in rows:
        return number(rows["rows"], "row")
    if rows:
        return f"+{rows['inserted']:,} ~{rows['updated']:,} -{rows['deleted']:,}"
    return ""


def read(state: ViewState) -> str:
    """Return `read 1.2 MB in 3 files`; nothing if nothing was read."""
    if not state.read:
        return ""
    return f"read {amount(state.read['bytes']):>7} in {number(state.read['files'], 'file')}"


def amount(size: int) -> str:
    """Return a number of bytes as people write it."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def refresh_line(number: int, total: int, state: ViewState, names: int, width: int) -> list[str]:
    """Return one view's line: what was done, to how many rows, how long, why."""
    lead = f"[{number}/{total}] "
    cells = (
        f"{state.name:<{names}}",
        f"{state.executed:<11}",
        f"{counts(state):<14}",
        f"{state.seconds:6.1f}s",
    )
    line = lead + "  ".join(cells)
    reason = state.reason
    if len(line) + 2 + len(reason) <= width:
        return [f"{line}  {reason}".rstrip()]
    indent = " " * len(lead)
    wrapped = textwrap.wrap(reason, width, initial_indent=indent, subsequent_indent=indent)
    return [line.rstrip(), *wrapped]


def refresh_summary(result: RefreshResult) -> str:
    """Return the closing line of a refresh."""
    failed = sum(v.executed == "failed" for v in result.views)
    stale = sum(v.executed == "stale" for v in result.views)
    blocked = sum(v.executed == "blocked" for v in result.views)
    skipped = sum(v.executed == "none" for v in result.views)
    done = len(result.views) - failed - stale - blocked - skipped
    parts = [f"{done} refreshed", f"{skipped} unchanged", f"{failed} failed"]
    if stale:
        parts.append(f"{stale} stale")
    if blocked:
        parts.append(f"{blocked} blocked")
    epoch = f"epoch {result.epoch}" if result.epoch is not None else "nothing to publish"
    return f"{', '.join(parts)}  {epoch}  {result.seconds:.1f}s"


def plan(plan: RefreshPlan, width: int) -> list[str]:
    """Return a refresh plan: for each view the decision, the versions and the SQL."""
    own = sum(not view.state_of for view in plan.views)
    lines = [f"epoch {plan.epoch}, strategy {plan.strategy}: {number(own, 'view')}"]
    for view in plan.views:
        lines += ["", *_view_plan(view, width)]
    return lines


def _view_plan(view: ViewPlan, width: int) -> list[str]:
    lines = [f"{view.name}: {view.executed.value}"]
    lines += textwrap.wrap(view.reason, width, initial_indent="  ", subsequent_indent="  ")
    starts = {feed.name: feed.start for feed in view.feeds}
    reads = []
    text_only = view.parts and isinstance(view.step, Apply)
    read = [s for s in view.sources if not text_only or s.name in starts]
    for source in (*read, *view.parts):
        version = "epoch" if source.version is None else str(source.version)
        if source.name in starts:
            reads.append(f"{source.name} {starts[source.name]} -> {version}")
        else:
            reads.append(f"{source.name} at {version}")
    if view.state is not None and isinstance(view.step, Apply):
        reads = [f"{view.state.name}, its state table"]
    if reads:
        lines.append(f"  reads {', '.join(reads)}")
    if isinstance(view.step, Apply):
        for symbol, query in view.step.kept:
            lines += [f"  {symbol} :=", *_block(query)]
        lines += [f"  {view.name}@change :=", *_block(view.step.change)]
        lines += [f"  then {view.step.method} it, unless it is empty:", *_block(view.step.sql)]
        if view.step.without_deletes:
            lines += ["  or, if no row goes away:", *_block(view.step.without_deletes)]
    elif isinstance(view.step, Load):
        lines += ["  create its table as" if view.step.create else "  run", *_block(view.step.sql)]
    return lines


def _block(sql: str) -> list[str]:
    return [f"    {line}" for line in sql.splitlines()]


def status(now: StoreStatus, width: int) -> list[str]:
    """Return tables and views of a store with their state."""
    lines = [f"store {now.root}, epoch {now.epoch}", ""]
    tables = [
        (
            t.name,
            "-" if t.version is None else str(t.version),
            "-" if t.kept is None else spoken(t.kept),
            t.detail or t.location,
        )
        for t in now.tables
    ]
    header: tuple[str, ...] = ("table", "version", "changes kept", "location")
    lines += table(tables, width, header) if tables else ["no tables yet"]
    lines.append("")
    views = [
        (
            v.name,
            v.state,
            v.executed or "-",
            "-" if v.rows is None else f"{v.rows:,}",
            str(v.behind),
            spoken(v.lag) if v.behind else "-",
            "-" if v.readable is None else spoken(v.readable),
            "; ".join(filter(None, (v.detail, v.warning))),
        )
        for v in now.views
    ]
    header = ("view", "state", "last", "rows", "behind", "lag", "changes left", "detail")
    lines += table(views, width, header) if views else ["no views yet"]
    if now.engine is not None:
        lines += ["", f"engine: {described(now.engine)}"]
        if now.engine.changed:
            lines.append(f"  commands do without it; changed: {', '.join(now.engine.changed)}")
    return lines


def history(records: Sequence[RefreshRecord], width: int) -> list[str]:
    """Return refreshes, newest first, each with its views."""
    if not records:
        return ["no refresh yet"]
    lines: list[str] = []
    for record in records:
        head = (
            f"epoch {record.epoch}  {record.started_at}  {record.strategy}  {record.seconds:.1f}s"
        )
        lines.append(f"{head}  expired" if record.expired else head)
        rows = [
            (f"  {v.name}", v.executed, counts(v), f"{v.seconds:.1f}s", read(v), v.reason)
            for v in record.views
            if v.epoch in (0, record.epoch) and not v.name.endswith("@state")
        ]
        lines += table(rows, width)
    return lines


def proof(found: Proof, names: int) -> list[str]:
    """Return the level that a view's epochs prove, and why it is not a higher one."""
    what = f"{number(found.epochs, 'state')}, {number(found.rows, 'row')} compared"
    lines = [f"{found.view:<{names}}  {found.level:<8}  {what}"]
    if not found.ok:
        lines[0] += f"; {found.wanted} is wanted"
    return lines + ([f"  {p}" for p in found.problems] if not found.ok else [])


def verdict(found: Verdict, names: int, width: int) -> list[str]:
    """Return `equal`, or what differs with sample rows; `names` is the width of view names."""
    if not found.missing and not found.extra:
        lines = [f"{found.view:<{names}}  equal  {number(found.rows, 'row')}"]
        return lines + [f"  but a declared key does not hold: {p}" for p in found.broken_keys]
    lines = [
        f"{found.view:<{names}}  DIFFERENT  {number(found.missing, 'row')} missing, "
        f"{found.extra:,} too many"
    ]
    rows = [("-", *map(cell, r)) for r in found.missing_rows]
    rows += [("+", *map(cell, r)) for r in found.extra_rows]
    lines += [f"  {line}" for line in table(rows, width - 2, ("", *found.columns))]
    lines.append("  - is missing from the stored view, + should not be there")
    lines += [f"  a declared key does not hold: {p}" for p in found.broken_keys]
    lines.append(f"  hint: {run('refresh', found.view, '--strategy', 'snapshot')}")
    return lines


def actions(found: Sequence[Action], allow_drop: bool) -> list[str]:
    """Return what `apply` does, one line each."""
    rows = []
    for action in found:
        note = action.reason
        if action.verb == "drop" and not allow_drop:
            note += "; kept, because --allow-drop is not given"
        rows.append((action.verb, action.view, note))
    return table(rows, 1000)


def work(done: Work, width: int) -> list[str]:
    """Return one thing that `maintain` does, and why it could not."""
    lines = table([(f"{done.verb:<7}", f"{done.target:<16}", done.reason)], width)
    return [*lines, f"         failed: {done.error}"] if done.error else lines


def maintain_summary(result: MaintainResult, dry_run: bool) -> str:
    """Return the closing line of `maintain`."""
    if not result.works:
        return "nothing to do"
    if dry_run:
        return f"{len(result.works)} to do"
    failed = sum(bool(w.error) for w in result.works)
    return f"{len(result.works) - failed} done, {failed} failed  {result.seconds:.1f}s"


def findings(found: Sequence[Finding], width: int) -> list[str]:
    """Return what `doctor` looked at."""
    rows = [("ok" if f.ok else "!!", f.what, f.detail) for f in found]
    lines = table(rows, width)
    for finding in found:
        if finding.hint:
            lines.append(f"hint for {finding.what}: {finding.hint}")
    bad = sum(not f.ok for f in found)
    lines.append(f"{len(found) - bad} fine, {bad} to look at")
    return lines


def cell(value: Any) -> str:
    """Return one value as a person reads it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | bytearray):
        return "0x" + bytes(value).hex()
    return visible(str(value))


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return a text of somebody else's in one line, without commands to the terminal."""
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


def rows(columns: Sequence[str], found: Iterable[Sequence[Any]], width: int) -> list[str]:
    """Return a result as aligned text; numbers to the right."""
    columns = [visible(name) for name in columns]
    data = [tuple(row) for row in found]
    shown = [[cell(v) for v in row] for row in data]
    widths = [max([len(c), *(len(r[i]) for r in shown)]) for i, c in enumerate(columns)]
    numeric = [
        bool(data) and all(v is None or _is_number(v) for v in (row[i] for row in data))
        for i in range(len(columns))
    ]
    lines = [_row(columns, widths, numeric), _row(["-" * w for w in widths], widths, numeric)]
    lines += [_row(r, widths, numeric) for r in shown]
    return [line[:width].rstrip() for line in lines]


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str | bytes | bytearray) and hasattr(value, "__add__")


def _row(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    return "  ".join(
        c.rjust(w) if right else c.ljust(w)
        for c, w, right in zip(cells, widths, numeric, strict=True)
    )
