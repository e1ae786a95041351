"""Looking for trouble before it bites: Java, the folder, tables, feeds, stored views."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from importlib import metadata

from hybridview.catalog import FORMAT
from hybridview.engine.local import check_java
from hybridview.errors import HybridviewError, run
from hybridview.operations.context import VIEWS, Context
from hybridview.operations.duration import spoken
from hybridview.operations.engine import described, trouble
from hybridview.operations.orphans import orphans, unknown
from hybridview.operations.status import TableStatus, status
from hybridview.watermark import stored_state


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: fine, or what to do about it."""

    ok: bool
    what: str
    detail: str = ""
    hint: str = ""


def doctor(context: Context) -> tuple[Finding, ...]:
    """Check the machine and the store; starts no Spark."""
    findings = [_java(), _versions()]
    catalog = context.catalog()
    findings.append(
        Finding(True, "store", f"{context.root}, format {FORMAT}, epoch {catalog.epoch}")
    )
    findings.append(_writable(context))
    now = status(context)
    if now.engine is not None:
        what, hint = trouble(now.engine)
        findings.append(Finding(not what, "engine", what or described(now.engine), hint))
    for table in now.tables:
        fine = not table.detail
        hint = run("table", "add", table.name, "PATH", "--replace") if not fine else ""
        detail = table.detail or f"version {table.version}{_kept(table)}"
        findings.append(Finding(fine, f"table {table.name}", detail, hint))
    for view in now.views:
        record = catalog.views[view.name.lower()]
        state = stored_state(context.log(catalog, view.name))
        if state is not None and state.foreign is not None:
            detail = (
                f"commit {state.foreign.version} ({state.foreign.operation}, "
                f"{state.foreign.user}) changed rows behind hybridview's back"
            )
            hint = run("refresh", record.name)
            findings.append(Finding(False, f"view {view.name}", detail, hint))
            continue
        fine = view.state in ("fresh", "behind", "new") and not view.warning
        findings.append(
            Finding(
                fine,
                f"view {view.name}",
                view.warning or view.detail or view.state,
                "" if fine else run("refresh", view.name),
            )
        )
    findings += _orphans(context)
    return tuple(findings)


def _kept(table: TableStatus) -> str:
    """Say how long a table's changes stay readable, and who has not seen them all."""
    kept = f", changes kept {spoken(table.kept)}" if table.kept is not None else ""
    return kept + (f", needed by {', '.join(table.needed_by)}" if table.needed_by else "")


def _java() -> Finding:
    try:
        check_java()
    except HybridviewError as error:
        return Finding(False, "java", error.fact, error.hint)
    return Finding(True, "java", "17 or newer")


def _versions() -> Finding:
    names = ("pyspark", "delta-spark", "deltalake", "sqlglot")
    shown = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    return Finding(True, "packages", shown)


def _writable(context: Context) -> Finding:
    if os.access(context.root, os.W_OK):
        return Finding(True, "folder", "writable")
    return Finding(
        False,
        "folder",
        "not writable",
        f"Check who owns it: {shlex.join(('ls', '-ld', str(context.root)))}",
    )


def _orphans(context: Context) -> list[Finding]:
    ours = orphans(context)
    return [
        Finding(
            False,
            f"folder {VIEWS}/{path.name}",
            "no view uses it",
            run("maintain") if path.name in ours else f"Remove: rm -r {shlex.quote(str(path))}",
        )
        for path in unknown(context)
    ]
