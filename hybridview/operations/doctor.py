"""Looking for trouble before it bites: Java, the folder, tables, feeds, stored views."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import metadata

from hybridview.catalog import FORMAT
from hybridview.engine.local import check_java
from hybridview.errors import HybridviewError
from hybridview.operations.context import VIEWS, Context
from hybridview.operations.status import status
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
    for table in now.tables:
        fine = not table.detail
        hint = f"Run: hybridview table add {table.name} PATH --replace" if not fine else ""
        detail = table.detail or f"version {table.version}"
        findings.append(Finding(fine, f"table {table.name}", detail, hint))
    for view in now.views:
        record = catalog.views[view.name.lower()]
        state = stored_state(context.log(catalog, view.name))
        if state is not None and state.foreign is not None:
            detail = (
                f"commit {state.foreign.version} ({state.foreign.operation}, "
                f"{state.foreign.user}) changed rows behind hybridview's back"
            )
            hint = f"Run: hybridview refresh {record.name}"
            findings.append(Finding(False, f"view {view.name}", detail, hint))
            continue
        fine = view.state in ("fresh", "behind", "new")
        findings.append(
            Finding(
                fine,
                f"view {view.name}",
                view.detail or view.state,
                "" if fine else f"Run: hybridview refresh {view.name}",
            )
        )
    findings += _orphans(context, {r.folder for r in catalog.views.values()})
    return tuple(findings)


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
    return Finding(False, "folder", "not writable", f"Check who owns it: ls -ld {context.root}")


def _orphans(context: Context, known: set[str]) -> list[Finding]:
    folder = context.root / VIEWS
    if not folder.is_dir():
        return []
    return [
        Finding(False, f"folder views/{path.name}", "no view uses it", f"Remove: rm -r {path}")
        for path in sorted(folder.iterdir())
        if path.is_dir() and path.name not in known
    ]
