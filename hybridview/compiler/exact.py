"""Arithmetic on stored partial sums that gives the digits Spark's own aggregate gives.

Spark widens a decimal sum to at most 38 digits, and then `+` takes a digit from the fraction to
make room for a carry: DECIMAL(38,18) + DECIMAL(38,18) is DECIMAL(38,17). The expressions here add,
negate and divide without losing that digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_DIGITS = 38
NEGATABLE_DIGITS = 34
"""Spark's unary minus rounds a decimal to this many digits."""

TOO_LARGE = "hybridview: a sum of more than 37 digits cannot be added to"
INTEGERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint", "byte", "short", "long"})
FLOATS = frozenset({"float", "double", "real"})


@dataclass(frozen=True, slots=True)
class Decimal:
    """DECIMAL(precision, scale)."""

    precision: int
    scale: int


def decimal(type_name: str) -> Decimal | None:
    """Read `decimal(p,s)`; None for any other type."""
    found = re.fullmatch(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", type_name.strip().lower())
    return Decimal(int(found[1]), int(found[2])) if found else None


def is_integer(type_name: str) -> bool:
    return type_name.lower() in INTEGERS


def is_float(type_name: str) -> bool:
    return type_name.lower() in FLOATS


def sum_type(argument: str) -> str | None:
    """Return the type of `sum(argument)`; None if a weighted sum of it is not known to be exact."""
    if is_integer(argument):
        return "bigint"
    if is_float(argument):
        return "double"
    found = decimal(argument)
    if found is None or found.scale > MAX_DIGITS - 8:
        return None
    return f"decimal({min(MAX_DIGITS, found.precision + 10)},{found.scale})"


def add(left: str, right: str, type_name: str) -> str:
    """Return SQL for `left + right`, both of `type_name`, as a value of that type."""
    if is_integer(type_name):
        # The change is a decimal: part of it may be too large where the whole is not.
        return f"CAST(CAST({left} AS DECIMAL(38,0)) + CAST({right} AS DECIMAL(38,0)) AS BIGINT)"
    found = decimal(type_name)
    if found is None:
        return f"{left} + {right}"
    if found.precision < MAX_DIGITS:
        return f"CAST({left} + {right} AS {type_name})"
    return _add_widest(left, right, found.scale)


def negate(value: str, type_name: str) -> str:
    """Return SQL for `-value`, of a decimal type that has room for it.

    0 - x of DECIMAL(37, s) is DECIMAL(38, s), exactly, where -x would round to 34 digits.
    """
    found = decimal(type_name)
    if found is None or found.precision <= NEGATABLE_DIGITS:
        return f"-{value}"
    narrow = f"DECIMAL({MAX_DIGITS - 1},{found.scale})"
    if found.precision < MAX_DIGITS:
        return f"CAST(0 AS {narrow}) - CAST({value} AS {narrow})"
    # A NULL is not beyond the bounds, and stays NULL.
    return (
        f"CASE WHEN NOT ({_fits(value, found.scale)}) THEN {_refusal(found.scale)} "
        f"ELSE CAST(0 AS {narrow}) - CAST({value} AS {narrow}) END"
    )


def _add_widest(left: str, right: str, scale: int) -> str:
    """Add two values of DECIMAL(38, scale).

    Values below 10^(37-scale) fit DECIMAL(37, scale), whose sum is DECIMAL(38, scale), exactly. The
    few beyond stop the refresh: no addition in Spark has room for both their ends.
    """
    narrow = f"DECIMAL({MAX_DIGITS - 1},{scale})"
    return (
        f"CASE WHEN {_fits(left, scale)} AND {_fits(right, scale)} "
        f"THEN CAST({left} AS {narrow}) + CAST({right} AS {narrow}) ELSE {_refusal(scale)} END"
    )


def _fits(value: str, scale: int) -> str:
    """Return SQL that says whether a value of DECIMAL(38, scale) fits DECIMAL(37, scale)."""
    bound = "1" + "0" * (MAX_DIGITS - 1 - scale)
    # Not abs(): it rounds to 34 digits.
    return f"{value} BETWEEN -{bound} + 1 AND {bound} - 1"


def _refusal(scale: int) -> str:
    return f"CAST(raise_error('{TOO_LARGE}') AS DECIMAL({MAX_DIGITS},{scale}))"


def averageable(argument: str) -> bool:
    """Say whether `average` gives the digits of Spark's avg() for this argument type."""
    found = decimal(argument)
    if found is not None:
        return found.scale >= 2 and found.precision <= 24
    return is_integer(argument) or is_float(argument)


def average(total: str, count: str, argument: str) -> str:
    """Return SQL for the average of `count` values that sum to `total`.

    Spark divides a decimal sum by the count and rounds once, to scale s + 4. The cast to
    DECIMAL(34, s) makes the quotient's type DECIMAL(38, s + 4): again one rounding, the same.
    """
    found = decimal(argument)
    if found is None:
        return f"CAST({total} AS DOUBLE) / {count}"
    result = f"DECIMAL({found.precision + 4},{found.scale + 4})"
    total = f"CAST({total} AS DECIMAL(34,{found.scale}))"
    return f"CAST({total} / CAST({count} AS DECIMAL(20,0)) AS {result})"
