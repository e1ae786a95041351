"""The README tells the truth: its commands run, and print what it shows."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hybridview.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its lines."""

    language: str
    text: str


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.M | re.S)
    return [Block(language, text) for language, text in found]


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Split a console block into commands, each with the lines it printed."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def normal(line: str) -> str:
    """Return a line without what differs from run to run."""
    return re.sub(r"\s+\d+\.\ds\b", " #s", line).rstrip()


def matches(expected: list[str], printed: list[str]) -> bool:
    """Compare lines; `...` in the README stands for any lines, or for the end of one."""
    pattern = []
    for line in expected:
        if line.strip() == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(re.escape(normal(line)).replace(r"\.\.\.", ".*") + r"\n")
    text = "".join(normal(line) + "\n" for line in printed)
    return re.fullmatch("".join(pattern), text) is not None


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"(?:`|\$ )make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


def test_every_command_is_in_the_table() -> None:
    names = {c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands}
    for name in names | {"table add", "table rename", "table remove"}:
        assert f"`{name}`" in README, name


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in script if line.startswith("make ")] == ["make test"]
    assert "$ make test" in README


@pytest.mark.spark
@pytest.mark.long
def test_the_session_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    runner = CliRunner()
    for block in blocks():
        if block.language == "python":
            exec(compile(block.text, "README.md", "exec"), {})
        if block.language != "console":
            continue
        for command, expected in commands(block.text):
            words = shlex.split(command, comments=True)
            if words[0] != "hybridview":
                continue
            result = runner.invoke(app, words[1:])
            assert result.exit_code == 0, (command, result.output)
            printed = result.stdout.splitlines()
            assert matches(expected, printed), (command, "\n".join(printed))
    assert [p.name for p in tmp_path.iterdir()] == ["shop"]
