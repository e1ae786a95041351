"""What is fetched of a query's rows, and what is too much to be fetched; without a JVM."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from hybridview.engine import inline

TEXT = [("s", "string")]
TOO_MUCH = PySparkException(
    "Total size of serialized results of 3 tasks (1.5 GiB) is bigger than "
    "spark.driver.maxResultSize 1024.0 MiB"
)


class Answers:
    """A session that answers with rows, or fails."""

    def __init__(self, answer: list[tuple[Any, ...]] | Exception) -> None:
        self.answer = answer
        self.statements: list[str] = []

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def fetch(answer: list[tuple[Any, ...]] | Exception) -> Any:
    session: Any = Answers(answer)
    return inline.fetch(session, "SELECT s FROM t", TEXT)


def test_rows_that_are_few_and_short() -> None:
    assert fetch([("a",), (None,)]) == [("a",), (None,)]


def test_what_is_too_much_for_the_driver_is_left_where_it_is() -> None:
    """It is no fault of the view: its change is kept in memory, or read where it is used."""
    assert fetch(TOO_MUCH) is None


def test_other_errors_are_errors() -> None:
    with pytest.raises(PySparkException, match="divided"):
        fetch(PySparkException("divided by zero"))


@pytest.mark.parametrize("kind", ["string", "binary", "string collate UNICODE"])
def test_wide_values_are_not_fetched(kind: str) -> None:
    """One of them stands for itself: rows with it are not literals, and need not be complete."""
    encoded = inline.encode("`c`", kind)
    assert encoded.startswith(f"IF(octet_length(`c`) > {inline.WIDEST}, '{inline.LOST}', ")
    assert fetch([("a",), (inline.LOST,)]) is None
