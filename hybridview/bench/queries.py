"""The texts the benchmark runs: the 22 queries of TPC-H, and five programs written by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp

HERE = Path(__file__).parent
ALL = tuple(range(1, 23))
QUICK = (1, 3, 4, 5, 6, 12, 14, 18)
BY_HAND = (1, 3, 6, 12, 14)
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
CHANGING = ("orders", "lineitem")
"""The tables that the benchmark changes."""


@dataclass(frozen=True, slots=True)
class HandProgram:
    """What an expert writes for one query: its table, and one MERGE from the change feeds."""

    query: int
    create: str
    prepare: tuple[str, ...]
    merge: str

    @property
    def feeds(self) -> tuple[str, ...]:
        """The changing tables whose feeds it reads."""
        text = "\n".join((*self.prepare, self.merge))
        return tuple(t for t in CHANGING if re.search(rf"\bf_{t}\b", text))

    @property
    def tables(self) -> tuple[str, ...]:
        text = "\n".join((self.create, *self.prepare, self.merge))
        return tuple(t for t in TABLES if re.search(rf"\b{t}\b", text))


def query_text(number: int) -> str:
    return (HERE / "tpch" / f"q{number:02}.sql").read_text(encoding="utf-8")


def tables_of(number: int) -> tuple[str, ...]:
    """Return the tables a query reads."""
    named = {t.name for t in sqlglot.parse_one(query_text(number), "spark").find_all(exp.Table)}
    return tuple(t for t in TABLES if t in named)


def hand_program(number: int) -> HandProgram | None:
    """Return the program written by hand for a query, if there is one.

    Its file has sections: `-- create`, any number of `-- prepare`, and `-- merge`.
    """
    path = HERE / "hand" / f"q{number}.sql"
    if not path.exists():
        return None
    found: dict[str, list[str]] = {"create": [], "prepare": [], "merge": []}
    pieces = re.split(r"^-- (create|prepare|merge)\n", path.read_text(encoding="utf-8"), flags=re.M)
    for kind, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found[kind].append(text.strip())
    return HandProgram(number, found["create"][0], tuple(found["prepare"]), found["merge"][0])
