"""Where text goes: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable

import typer
from rich.console import Console

from hybridview.catalog import ViewState
from hybridview.cli import render
from hybridview.errors import HybridviewError
from hybridview.operations.refresh import Interrupted
from hybridview.plan.steps import ViewPlan
from hybridview.redact import redact


def width() -> int:
    """Return the terminal's width; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def say(lines: Iterable[str]) -> None:
    """Print to stdout, without credentials that a location or a reason may hold."""
    for line in lines:
        typer.echo(redact(line))


def say_rows(lines: Iterable[str]) -> None:
    """Print a user's own rows, as they are."""
    for line in lines:
        typer.echo(line)


def note(text: str) -> None:
    typer.echo(redact(text), err=True)


def guarded(action: Callable[[], int], json_output: bool = False) -> None:
    """Run a command's body; turn what goes wrong into a message and an exit code."""
    try:
        code = action()
    except HybridviewError as error:
        if json_output:
            typer.echo(render.as_json("error", {"error": error.as_dict()}))
        note(str(error))
        raise typer.Exit(error.exit_code) from None
    except Interrupted as stop:
        note(f"interrupted: nothing was published, the store is still at epoch {stop.epoch}")
        if stop.written:
            names = ", ".join(stop.written)
            note(f"already written and taken over by the next refresh: {names}")
        raise typer.Exit(130) from None
    except KeyboardInterrupt:
        note("interrupted")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # `| head` has seen enough. What is still buffered has nowhere to go, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except typer.Exit:
        raise
    except Exception as error:  # the edge of the program: a bug is reported, not thrown
        path = _report(traceback.format_exc())
        note("error HV999: this is a bug in hybridview")
        lines = str(error).strip().splitlines() or [""]
        note(f"detail: {type(error).__name__}: {lines[0]}")
        note(f"hint: Report it with the file {path}")
        raise typer.Exit(3) from None
    if code:
        raise typer.Exit(code)


def _report(text: str) -> str:
    """Write a bug's story to a new file that only its user can read; return the file's path."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="hybridview-bug-", suffix=".txt", delete=False
    ) as file:
        file.write(redact(text))
    return file.name


class Progress:
    """Prints a line per finished view; on a terminal, shows the one being worked on."""

    def __init__(self, names: int) -> None:
        self.names = names
        self.console = Console(stderr=True)
        self.status = self.console.status("starting Spark") if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        if self.status:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status:
            self.status.stop()

    def waiting(self, text: str) -> None:
        """Say once what a refresh waits for."""
        if self.status:
            self.status.update(f"{text} ...")
        else:
            note(text)

    def __call__(self, number: int, total: int, view: ViewPlan, state: ViewState | None) -> None:
        if state is None:
            if self.status:
                self.status.update(f"[{number}/{total}] {view.name}  {view.executed.value} ...")
            return
        say(render.refresh_line(number, total, state, self.names, width()))
        if state.error:
            note(state.error)
