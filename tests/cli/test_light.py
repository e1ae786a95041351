"""Commands that need no Spark do without its packages too: an import is most of their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plain_store import PlainStore

HEAVY = ("pyspark", "py4j", "delta", "grpc", "pandas", "pyarrow", "numpy")
PROGRAM = f"""
import json, sys
from hybridview.cli.app import app
try:
    app(sys.argv[1:], prog_name="hybridview")
except SystemExit as end:
    loaded = [name for name in {HEAVY} if name in sys.modules]
    print(json.dumps([end.code or 0, loaded]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one view, which is up to date."""
    plain = PlainStore(tmp_path_factory.mktemp("light") / "store")
    plain.table("orders")
    plain.view("copies", "orders")
    plain.refresh("copies")
    return plain.root


@pytest.mark.parametrize(
    "command",
    ["refresh", "refresh --dry-run", "status", "history", "explain copies", "doctor", "down"],
)
def test_nothing_heavy_is_imported(store: Path, command: str) -> None:
    words = [sys.executable, "-c", PROGRAM, *command.split(), "--store", str(store)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert not loaded
    assert code == 0 or command == "doctor", done.stdout + done.stderr
