"""Fixtures of the fault tests, and the counts they end with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hybridview.engine.connect import attach
from tests.faults.shop import TALLY, Shop
from tests.support.connect_server import connect_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server that outlives its clients."""
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="session")
def spark(server: str) -> Iterator[Any]:
    """The test's own session; on the server, so that one JVM serves all but those that die."""
    port = attach(server)
    yield port.spark
    port.stop()


@pytest.fixture(scope="session")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A store at epoch 1; every test works on a copy."""
    return Shop.make(tmp_path_factory.mktemp("faults") / "store", spark)


@pytest.fixture
def shop(template: Shop, tmp_path: Path) -> Shop:
    return template.copy(tmp_path / "store")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a process that ran a part of the tests to the one that started it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["faults"] = asdict(TALLY)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, count in getattr(node, "workeroutput", {}).get("faults", {}).items():
        setattr(TALLY, name, getattr(TALLY, name) + count)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once: the run goes on for most of an hour."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not TALLY.epochs:
        return
    reports = [r for kind in ("passed", "failed", "error") for r in stats(terminalreporter, kind)]
    passed = sum(r.passed for r in reports)
    terminalreporter.write_line(f"faults: {passed} passed, {len(reports) - passed} failed; {TALLY}")


def stats(reporter: Any, kind: str) -> list[Any]:
    """Return the reports on the tests of this folder."""
    return [r for r in reporter.stats.get(kind, []) if r.nodeid.startswith("tests/faults/")]
