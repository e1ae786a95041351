"""Imports go one way; only engine/ knows Spark; the engine sends SQL text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "hybridview"

STAGES = (
    ("errors", "redact", "schema"),
    ("algebra",),
    ("sql",),
    ("compiler",),
    ("deltalog", "filestats", "inside", "opened", "tablefiles"),
    ("catalog", "records", "watermark"),
    ("strategy",),
    ("plan",),
    ("engine",),
    ("operations",),
    ("config", "store"),
    ("bench",),
    ("cli",),
)
"""Left to right: a module imports from its own stage and those before it."""

FORBIDDEN = re.compile(
    r"(?<!delta)\.write\b|DeltaTable\.forPath|DeltaTable\.forName|\.rdd\b|_jvm|_jsparkSession|createDataFrame"
)


def stage_of(module: str) -> int | None:
    """Return the number of the stage a module of hybridview belongs to."""
    parts = module.split(".")
    if parts[0] != "hybridview" or len(parts) < 2:
        return None
    for number, names in enumerate(STAGES):
        if parts[1] in names:
            return number
    raise AssertionError(f"{module} is in no stage; add it to STAGES")


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if "sample_data" not in p.parts)


def imports(path: Path) -> set[str]:
    """Return the modules a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module_name(path: Path) -> str:
    return ".".join(("hybridview", *path.relative_to(PACKAGE).with_suffix("").parts))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    name = module_name(path)
    if name == "hybridview.__init__":
        return
    own = stage_of(name)
    assert own is not None
    for imported in imports(path):
        theirs = stage_of(imported)
        assert theirs is None or theirs <= own, f"{name} imports {imported}, which comes later"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_engine_imports_spark(path: Path) -> None:
    if "engine" in path.parts:
        return
    spark = {i for i in imports(path) if i.split(".")[0] in ("pyspark", "delta", "py4j")}
    assert not spark, f"{module_name(path)} imports {sorted(spark)}"


def test_the_engine_sends_sql_text_only() -> None:
    for path in (PACKAGE / "engine").glob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            assert not FORBIDDEN.search(line), f"{path.name}:{number}: {line.strip()}"


def test_files_and_functions_stay_small() -> None:
    for path in modules():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 420, f"{path.name} is too long"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno
                assert length <= 60, f"{path.name}:{node.name} is too long ({length} lines)"


def test_importing_the_package_does_not_import_spark() -> None:
    import subprocess
    import sys

    code = "import hybridview, hybridview.cli.app, sys; print('pyspark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
