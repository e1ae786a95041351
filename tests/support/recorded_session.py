"""Spark's answers about column types, kept in a file: views can be defined without a JVM."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridview.engine.session import Session

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}

Answers = dict[str, list[list[str]]]
"""The columns of a query with their types; by a short name of its text."""


def name_of(query: str) -> str:
    """Return a short name of a query that is another one if its words are others."""
    return hashlib.sha256(" ".join(query.split()).encode()).hexdigest()[:12]


def load(path: Path) -> Answers:
    found: Answers = json.loads(path.read_text(encoding="utf-8"))
    return found


def save(path: Path, answers: Answers) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(answers[name])}" for name in sorted(answers)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@dataclass
class RecordedSession:
    """Answers like Spark, as far as the definition of views asks."""

    answers: Answers
    spark: Session | None = None
    """Asked instead, if given; its answers are kept."""
    asked: Answers = field(default_factory=dict)
    """What was asked, with the answers."""

    def describe(self, query: str) -> list[tuple[str, str]]:
        name = name_of(query)
        if self.spark is not None:
            self.answers[name] = [list(pair) for pair in self.spark.describe(query)]
        if name not in self.answers:
            raise AssertionError(
                "no answer of Spark's is kept for this query; record them with\n"
                "HV_UPDATE_GOLDEN=1 pytest tests/spark/test_recorded_types.py\n\n" + query
            )
        self.asked[name] = self.answers[name]
        return [(column, kind) for column, kind in self.answers[name]]

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self.spark.run(sql) if self.spark is not None else []

    def set(self, settings: Mapping[str, str]) -> None:
        return None

    def unset(self, names: tuple[str, ...]) -> None:
        return None

    def setting(self, name: str) -> str:
        return SETTINGS.get(name, "true")

    def given(self, name: str) -> str:
        return SETTINGS.get(name, "")

    def settings(self) -> dict[str, str]:
        return dict(SETTINGS)

    def writer(self) -> RecordedSession:
        return self

    def stop(self) -> None:
        return None

    def frame(self, query: str) -> Any:
        raise AssertionError("only types are recorded, no rows")

    def register_feed(
        self, name: str, path: str, start: int, end: int, shared: bool = False
    ) -> None:
        raise AssertionError("only types are recorded, no rows")

    def cancel(self) -> None:
        return None

    def job_count(self) -> int:
        return 0
