"""The demo runs to its end, and shows what it promises."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import invoke


@pytest.mark.spark
def test_demo(spark: Any, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        result = invoke("demo --keep kept")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-1].strip() == "7 equal, 0 different"
    assert result.stdout.count("$ hybridview refresh --strategy hybrid") == 4
    for executed, reason in (("incremental", "rows of"), ("snapshot", "LIMIT|changed|recomputed")):
        places = [
            i for i, line in enumerate(lines) if re.match(rf"\[\d+/\d+\] \w+ +{executed} ", line)
        ]
        assert places, f"no {executed} line"
        assert any(re.search(reason, " ".join(lines[i : i + 2])) for i in places)
    assert (tmp_path / "kept" / "_hybridview").is_dir()
    with contextlib.chdir(tmp_path):
        again = invoke("demo --keep kept")
    assert again.exit_code == 2 and "HV402" in again.stderr
