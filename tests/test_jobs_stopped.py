"""The jobs, when somebody stops them or their Spark ends; without a JVM."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hybridview.errors import RefreshFailedError
from hybridview.operations.refresh import Interrupted

JOBS = Path(__file__).resolve().parent.parent / "jobs"


class FakeStore:
    """A store whose refreshes and verifications end as they are told to."""

    def __init__(self, *ends: BaseException | bool, gone: bool = False) -> None:
        self.ends = list(ends)
        self.gone = gone

    def __enter__(self) -> FakeStore:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def refresh(self, *_: Any, **__: Any) -> Any:
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return SimpleNamespace(views=(), epoch=1, ok=end)

    def views(self) -> list[Any]:
        return [SimpleNamespace(name="v")]

    def verify(self, _: str) -> Any:
        return self.refresh()

    def spark_has_ended(self) -> bool:
        return self.gone


def job(name: str, store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a job's module, to which each store is this one."""
    spec = importlib.util.spec_from_file_location(f"job_{name}", JOBS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "Store", SimpleNamespace(open=lambda *_, **__: store))
    return module


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Interrupted(3, ("v",))])
@pytest.mark.parametrize("name", ["refresh", "verify"])
def test_a_job_that_is_stopped_says_so(
    name: str,
    stop: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert job(name, FakeStore(stop), monkeypatch).main(["--store", "s"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_a_loop_that_is_stopped_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C is how it is meant to end, in the middle of a refresh too."""
    run = job("run", FakeStore(True, Interrupted(3, ())), monkeypatch)
    assert run.main(["--store", "s", "--interval", "0"]) == 0
    assert "stopped" in capsys.readouterr().out


def test_a_failed_round_does_not_end_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = RefreshFailedError("it failed")
    run = job("run", FakeStore(False, failure, True), monkeypatch)
    assert run.main(["--store", "s", "--interval", "0", "--times", "3"]) == 0


def test_a_loop_without_spark_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It cannot start another one in this process; who supervises it can."""
    run = job("run", FakeStore(False, gone=True), monkeypatch)
    assert run.main(["--store", "s", "--interval", "0"]) == 1
    assert "Spark has ended" in capsys.readouterr().err
