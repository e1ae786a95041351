"""Scalar functions mean the same before and after their way through the parser."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlglot

from hybridview.sql.functions import SCALAR_SAMPLES, TYPED_SAMPLES
from hybridview.sql.parse import parse_text

pytestmark = pytest.mark.spark

SAMPLES = tuple(s.strip() for s in SCALAR_SAMPLES.split(";"))
TYPED = tuple(s.strip() for s in TYPED_SAMPLES.split(";"))
TYPED_ROWS = """
SELECT i, j, s, d, t, xs, ws, map('k', i, 'l', j) AS m, named_struct('x', i, 'y', s) AS p
FROM VALUES
  (1, 5, 'x', DATE '2024-02-29', TIMESTAMP '2024-03-31 02:30:59.123456',
   array(3, 1, 2, NULL), array('b', 'a')),
  (7, 2, ' axBx-x ', DATE '1999-12-31', TIMESTAMP '1970-01-01 00:00:00', array(2, 2), array('k')),
  (20, -3, '12', DATE '2000-01-01', CAST(NULL AS TIMESTAMP),
   CAST(array() AS ARRAY<INT>), CAST(array() AS ARRAY<STRING>)),
  (3, NULL, CAST(NULL AS STRING), CAST(NULL AS DATE), TIMESTAMP '2024-10-27 02:30:00',
   CAST(NULL AS ARRAY<INT>), CAST(NULL AS ARRAY<STRING>))
  AS r(i, j, s, d, t, xs, ws)
"""
"""Rows with the columns that the typed samples read."""

STRINGS = ("'x'", "' axBx-x '", "'-7'", "'12'", "NULL")
DATES = ("2024-02-29", "1999-12-31", "2000-01-01", "1582-10-15")
NUMBERS = {
    "INT": ((2024, 2, 29), (1, 12, 31), (7, 1, 1), (999, 6, 15)),
    "DECIMAL(10,3)": (("2.345", "-1.005", "0"), ("-0.125", "7", "3"), ("0", "0.5", "-9.995")),
    "DOUBLE": (("0.5", "-1.5", "2e10"), ("-0.0", "0.1", "1"), ("2.675", "3", "-7.25")),
}
INTEGERS_ONLY = ("make_date(a, b, c)",)
"""Samples whose arguments must be valid parts of a date."""

LOST = ("log10(a)",)
"""Calls whose last digits the parser changes: log10(a) becomes LOG(10, a)."""


def rows(kind: str) -> str:
    """Return a relation with the samples' columns; `w` holds dates as text, for to_date."""
    numbers = [*NUMBERS[kind], (None, None, None)]
    values = []
    for index, text in enumerate(STRINGS):
        a, b, c = numbers[index % len(numbers)]
        date = f"'{DATES[index]}'" if index < len(DATES) else "NULL"
        parts = [f"CAST({_value(n)} AS {kind})" for n in (a, b, c)]
        when = "TIMESTAMP '2024-03-31 02:30:59.123456'" if index % 2 else "CAST(NULL AS TIMESTAMP)"
        values.append(f"({', '.join(parts)}, {text}, CAST({date} AS DATE), {when}, {date})")
    return f"VALUES {', '.join(values)} AS r(a, b, c, s, d, t, w)"


def _value(number: object) -> str:
    return "NULL" if number is None else f"'{number}'"


@pytest.mark.parametrize(
    ("kind", "argument"), [("INT", "a"), ("DECIMAL(10,3)", "a"), ("DOUBLE", "a"), ("INT", "a - b")]
)
def test_samples_survive_the_parser(spark: Any, kind: str, argument: str) -> None:
    """Each sample gives the same values, of the same type, as written and as generated."""
    plain = kind == "INT" and argument == "a"
    samples = [s for s in SAMPLES if plain or s not in INTEGERS_ONLY]
    samples = [re.sub(r"\ba\b", argument, s) for s in samples]
    columns = []
    for index, sample in enumerate(samples):
        written = sample.replace("to_date(s)", "to_date(w)")
        again = sqlglot.parse_one(written, dialect="spark").sql(dialect="spark")
        columns += [f"{written} AS a{index}", f"{again} AS b{index}"]
    frame = spark.sql(f"SELECT {', '.join(columns)} FROM {rows(kind)}")
    found = frame.collect()
    assert len(found) == len(STRINGS)
    types = [field.dataType for field in frame.schema.fields]
    different = {}
    for index, sample in enumerate(samples):
        first, second = 2 * index, 2 * index + 1
        values = [(repr(row[first]), repr(row[second])) for row in found]
        if types[first] != types[second] or any(a != b for a, b in values):
            different[sample] = (types[first], types[second], values)
    assert different == {}


@pytest.mark.parametrize("sample", TYPED)
def test_typed_samples_survive_the_parser(spark: Any, sample: str) -> None:
    (tree,) = parse_text(f"SELECT {sample}")
    assert tree is not None
    again = tree.expressions[0].sql(dialect="spark")
    frame = spark.sql(f"SELECT {sample} AS a, {again} AS b FROM ({TYPED_ROWS})")
    written, generated = (field.dataType for field in frame.schema.fields)
    assert written == generated
    assert [row for row in frame.collect() if repr(row[0]) != repr(row[1])] == []


def test_samples_are_not_constant(spark: Any) -> None:
    """The rows above tell something: nearly every sample has several values over them."""
    columns = ", ".join(f"count(DISTINCT {s.replace('to_date(s)', 'to_date(w)')})" for s in SAMPLES)
    counts = spark.sql(f"SELECT {columns} FROM {rows('INT')}").collect()[0]
    constant = [s for s, n in zip(SAMPLES, counts, strict=True) if n < 2]
    known = [
        *("hour(t)", "minute(t)", "second(t)", "datediff(d, d)", "a LIKE 'x'", "a IN (1, 2)"),
        "sign(a)",  # make_date wants positive numbers
    ]
    assert [s for s in constant if s not in known] == []


@pytest.mark.parametrize("call", LOST)
def test_calls_the_parser_changes_are_no_samples(spark: Any, call: str) -> None:
    again = sqlglot.parse_one(call, dialect="spark").sql(dialect="spark")
    query = f"SELECT count_if(NOT {call} <=> {again}) FROM (SELECT id AS a FROM range(1, 100))"
    assert spark.sql(query).collect()[0][0] > 0
    assert call not in SAMPLES
